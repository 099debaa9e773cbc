"""Stored plans that go on: which interrupted steps run again, and which results may be referred to."""

from __future__ import annotations

from typing import Any

import pytest
from returns.result import Failure, Success

from reactive_agents.core.ids import AgentId, PlanId, TaskId
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.reasoning.planning.context import resumed_plan
from reactive_agents.reasoning.planning.schemas import interpolate
from reactive_agents.testing.core import START

LOOK = ToolDefinition("look", "Look.", {"type": "object"}, idempotent=True)
SEND = ToolDefinition("send", "Send.", {"type": "object"})


def step(**fields: Any) -> PlanStep:
    known = {"id": "s1", "seq": 1, "title": "A step", "instruction": "Do it.", "type": "analysis", **fields}
    return PlanStep(**known)


def resumed(interrupted: PlanStep) -> PlanStep:
    plan = Plan(
        PlanId("p"), TaskId("t"), AgentId("a"), "goal", "linear", (interrupted,), "active", 1, START, START
    )
    (found,) = resumed_plan(plan, (LOOK, SEND), START).steps
    return found


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "analysis"},
        {"type": "tool_call", "tool_name": "look"},
        {"type": "composite", "tool_hints": ("look",)},
    ],
)
def test_an_interrupted_step_without_lasting_effects_runs_again(fields: dict[str, Any]) -> None:
    found = resumed(step(status="in_progress", started_at=START, **fields))
    assert (found.status, found.started_at, found.error) == ("pending", None, None)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"type": "tool_call", "tool_name": "send"}, "since its tool send is not idempotent."),
        ({"type": "tool_call", "tool_name": None}, "since its tool  is not idempotent."),
        ({"type": "composite", "tool_hints": ("look", "send")}, "since its tools are not idempotent."),
        ({"type": "composite", "tool_hints": ()}, "since its tools are not idempotent."),
    ],
)
def test_one_that_may_have_taken_effect_does_not(fields: dict[str, Any], reason: str) -> None:
    """A composite step without hints may have called any tool."""
    found = resumed(step(status="in_progress", started_at=START, **fields))
    assert found.status == "failed"
    assert (found.error or "").endswith(reason)


@pytest.mark.parametrize("status", ["pending", "completed", "failed", "skipped"])
def test_other_steps_stay_as_they_are(status: Any) -> None:
    other = step(type="composite", status=status)
    assert resumed(other) == other


@pytest.mark.parametrize("status", ["pending", "in_progress", "failed", "skipped"])
def test_the_partial_result_of_a_step_that_did_not_complete_cannot_be_referred_to(status: Any) -> None:
    source, user = step(status=status, result="Half of it."), step(id="s2", seq=2)
    found = interpolate("Use {{from_step:s1}}", user, (source, user))
    assert isinstance(found, Failure)
    assert found.failure() == (
        f"{{{{from_step:s1}}}} refers to a step that is not completed (s1 is {status.replace('_', ' ')})"
    )


def test_only_a_completed_result_can_and_an_empty_one_too() -> None:
    for result in ("All of it.", ""):
        source, user = step(status="completed", result=result), step(id="s2", seq=2)
        assert interpolate("Use {{from_step:s1}}", user, (source, user)) == Success(f"Use {result}")
    source, user = step(status="completed"), step(id="s2", seq=2)
    assert isinstance(interpolate("{{from_step:s1}}", user, (source, user)), Failure)
