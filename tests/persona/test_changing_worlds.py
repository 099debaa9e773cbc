"""Learning in a world whose rules change: it pays, is unlearned, and pays again."""

from __future__ import annotations

import pytest
from attrs import evolve

from tests.benchmarks.persona_learning import shares
from tests.support.changing_rules import SUPPORT, play

pytestmark = pytest.mark.anyio


@pytest.mark.system
async def test_what_was_learned_is_unlearned_when_the_rules_change() -> None:
    world = evolve(SUPPORT, troubles=SUPPORT.troubles[:6], change_at=100, events=200)
    before, first, last = shares(world, await play(world, seed=1))
    assert before >= 0.75
    assert first >= 0.45
    assert last >= 0.7
