"""The settings that follow from the findings of a probe."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reactive_agents.core.codec import from_json, to_json
from reactive_agents.core.config import ContextTier
from reactive_agents.core.model_profiles import (
    PROBE_SUBJECTS,
    ModelProfile,
    ProbeFinding,
    ProbeOutcome,
    ProbeSubject,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)


def profile(
    calls: str = "native", window: int = 32_768, *, ends: bool = False, no: tuple[ProbeSubject, ...] = ()
) -> ModelProfile:
    findings = []
    for subject in PROBE_SUBJECTS:
        outcome: ProbeOutcome = "no" if subject in no or (subject == "context window" and ends) else "yes"
        value = {"tool calls": calls, "context window": str(window)}.get(subject, "")
        findings.append(ProbeFinding(subject, outcome, "", AT, value))
    return ModelProfile("openai/m", "", tuple(findings))


@pytest.mark.parametrize(
    ("named", "found", "tier"),
    [
        ("local", profile(), "mid"),
        ("frontier", profile(), "frontier"),
        ("local", profile(window=8_192), "local"),
        ("frontier", profile(no=("numbers",)), "mid"),
        ("frontier", profile("text"), "mid"),
        ("local", profile("prompt"), "local"),
        ("frontier", profile(no=("numbers", "restraint")), "local"),
        ("mid", profile(window=4_096, ends=True), "local"),
        ("mid", profile(window=20_000, ends=True), "mid"),
    ],
)
def test_the_tier_follows_what_the_model_can_do(
    named: ContextTier, found: ModelProfile, tier: ContextTier
) -> None:
    assert found.tier(named) == tier


def test_a_window_counts_where_it_ends_and_else_where_it_is_more_than_presumed() -> None:
    assert profile(window=3_000, ends=True).window("local") == 3_000
    assert profile(window=32_768).window("local") == 32_768
    assert profile(window=32_768).window("mid") is None


def test_refused_parameters_are_not_sent_and_unknown_ones_are() -> None:
    assert profile(no=("temperature", "numbers")).refused_parameters == {"temperature"}


def test_a_profile_can_be_written_and_read_back() -> None:
    found = profile(no=("numbers",))
    assert from_json(to_json(found), ModelProfile).unwrap() == found
