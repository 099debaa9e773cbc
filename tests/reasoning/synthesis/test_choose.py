"""Whether a transcript is put in short, and how, by its signals."""

from __future__ import annotations

from typing import Any

import pytest

from reactive_agents.core.config import SynthesisMode
from reactive_agents.reasoning.synthesis.settings import SynthesisSignals, choose


def signals(
    characters: int, *, tier: Any = "mid", tokens: int | None = None, **fields: int
) -> SynthesisSignals:
    """Signals for a window of 1000 tokens."""
    known = {"shortened_to": 0, "history": characters, **fields}
    return SynthesisSignals(
        3,
        characters,
        tokens if tokens is not None else characters // 4,
        characters // 4,
        window_tokens=1_000,
        tier=tier,
        **known,
    )


def method(mode: SynthesisMode, figures: SynthesisSignals) -> str | None:
    """What is chosen."""
    choice = choose(mode, figures)
    return None if choice is None else choice.method


@pytest.mark.parametrize("tier", ["local", "mid", "large", "frontier"])
def test_auto_leaves_a_small_transcript_alone(tier: str) -> None:
    assert method("auto", signals(1_999, tier=tier)) is None
    assert method("auto", signals(2_000, tier=tier)) == "fast"


@pytest.mark.parametrize(
    ("tier", "expected"), [("local", "fast"), ("mid", "fast"), ("large", "deep"), ("frontier", "deep")]
)
def test_auto_asks_a_model_for_long_runs_of_large_models_only(tier: str, expected: str) -> None:
    assert method("auto", signals(3_000, tier=tier)) == expected
    assert method("auto", signals(2_000, tier=tier, history=3_000)) == expected
    assert method("auto", signals(2_000, tier=tier, history=2_999)) == "fast"


def test_what_the_provider_counted_goes_before_the_characters() -> None:
    assert method("auto", signals(1_000, tokens=500)) == "fast"
    assert method("auto", signals(999, tokens=900)) is None, "little of it is the transcript"


@pytest.mark.parametrize("mode", ["fast", "deep", "custom"])
def test_a_named_mode_begins_at_a_quarter_of_the_window(mode: SynthesisMode) -> None:
    assert method(mode, signals(999)) is None
    assert method(mode, signals(1_000)) == mode


@pytest.mark.parametrize("mode", ["auto", "fast", "deep", "custom"])
def test_not_again_before_the_transcript_has_grown_by_half(mode: SynthesisMode) -> None:
    assert method(mode, signals(2_399, shortened_to=1_600)) is None
    assert method(mode, signals(2_400, shortened_to=1_600)) is not None
    assert method(mode, signals(2_999, shortened_to=2_000)) is None
    assert method(mode, signals(3_000, shortened_to=2_000)) is not None


@pytest.mark.parametrize("mode", ["auto", "fast", "deep", "custom"])
def test_sooner_when_it_would_have_to_be_compacted(mode: SynthesisMode) -> None:
    assert method(mode, signals(3_000, shortened_to=2_700)) is not None
    assert method(mode, signals(3_000, shortened_to=2_800)) is None


def test_off_is_never() -> None:
    assert method("off", signals(1_000_000)) is None


def test_the_reason_names_the_share() -> None:
    choice = choose("fast", signals(1_200))
    assert choice is not None
    assert choice.reason == "The transcript takes 30% of the window, and fast is configured."
