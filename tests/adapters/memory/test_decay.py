"""Memories decay with time and are renewed by being seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from reactive_agents.adapters.memory.store import (
    FORGOTTEN_BELOW,
    HALF_LIFE,
    fades_at,
    microseconds,
    moment_of,
    reinforced,
    strength,
)
from reactive_agents.testing.core import START
from tests.support.memories import an_entry


def test_strength_halves_with_every_half_life() -> None:
    entry = an_entry("m", "Fact", importance=0.8)
    lives = [strength(entry, START + HALF_LIFE["semantic"] * number) for number in range(4)]
    assert lives == pytest.approx([0.8, 0.4, 0.2, 0.1])
    assert strength(entry, START - timedelta(days=1)) == 0.8


def test_what_the_user_said_lasts_longer() -> None:
    entry = an_entry("m", "Fact", importance=0.8, origin="user")
    assert strength(entry, START + HALF_LIFE["semantic"] * 4) == pytest.approx(0.4)


@pytest.mark.parametrize("importance", [0.051, 0.3, 1.0])
def test_it_fades_when_its_strength_is_at_the_limit(importance: float) -> None:
    entry = an_entry("m", "Fact", importance=importance)
    assert strength(entry, moment_of(fades_at(entry))) == pytest.approx(FORGOTTEN_BELOW)


def test_what_never_mattered_fades_at_once() -> None:
    assert fades_at(an_entry("m", "Fact", importance=0.0)) == microseconds(START)


def test_seeing_it_again_makes_it_matter_more_up_to_a_limit() -> None:
    assert 0.5 < reinforced(0.5, 0.3) < reinforced(0.5, 0.8) < 1.0
    assert reinforced(1.0, 1.0) == 1.0


def test_moments_survive_the_way_to_the_table_exactly() -> None:
    for moment in (START, datetime(2026, 7, 1, 1, 2, 3, 999_999, timezone(timedelta(hours=5)))):
        assert moment_of(microseconds(moment)) == moment
    assert moment_of(microseconds(datetime(1969, 1, 1))) == datetime(1969, 1, 1, tzinfo=UTC)
