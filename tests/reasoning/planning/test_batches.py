"""Which steps of a plan run beside each other while calls of a tool are limited."""

from __future__ import annotations

import pytest
from attrs import evolve

from reactive_agents.reasoning.planning.executor import next_batch
from tests.support.memories import a_plan


@pytest.mark.parametrize(
    ("hints", "batch"),
    [
        (((), ()), ["s1"]),
        ((("look",), ()), ["s1"]),
        ((("look",), ("look",)), ["s1"]),
        ((("look",), ("find",)), ["s1", "s2"]),
        ((("find",), ("find",)), ["s1", "s2"]),
    ],
)
def test_steps_that_may_call_the_same_limited_tool_wait_for_each_other(
    hints: tuple[tuple[str, ...], ...], batch: list[str]
) -> None:
    """One without hints may call any tool."""
    plan = a_plan(steps=2)
    steps = tuple(
        evolve(step, type="composite", tool_name=None, tool_args={}, tool_hints=names)
        for step, names in zip(plan.steps, hints, strict=True)
    )
    plan = evolve(plan, mode="dag", steps=steps)
    assert [step.id for step in next_batch(plan, {"look": 1}, attempts=1, parallel=True)] == batch
