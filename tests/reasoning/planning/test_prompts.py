"""Prompts of planning: what a step is shown of its task, and what is shown of each step."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from reactive_agents.core.config import ContextProfile, ResultCompressionConfig
from reactive_agents.core.plans import PlanStep
from reactive_agents.reasoning.planning.prompts import clipped_error, shown_results, step_content
from tests.support.memories import a_plan

PROFILE = ContextProfile()
STEP = evolve(
    a_plan().steps[0],
    title="Look",
    instruction="Look around.",
    type="analysis",
    tool_name=None,
    tool_hints=(),
)


def shown(*steps: PlanStep) -> str:
    return shown_results(evolve(a_plan(), steps=steps), PROFILE, ResultCompressionConfig())


def step(number: int, **fields: Any) -> PlanStep:
    return evolve(STEP, id=f"s{number}", seq=number, **fields)


def test_a_step_that_is_not_completed_shows_its_instruction_and_one_that_is_its_result() -> None:
    text = shown(
        step(1, status="completed", result="a desk"),
        step(2, status="failed", error="too dark", depends_on=("s1",)),
        step(3, status="pending"),
    )
    first, second, third = text.split("\n\n", 1)[1].split("\n\n")
    assert first.startswith("s1 (analysis), completed: Look\n")
    assert "Look around." not in first
    assert "a desk" in first
    assert second.startswith("s2 (analysis, after s1), failed: Look\n")
    assert "Look around." in second
    assert "too dark" in second
    assert third.startswith("s3 (analysis), pending: Look\n")
    assert "Look around." in third


def test_an_attempt_is_shown_what_the_one_before_came_to() -> None:
    failed = evolve(STEP, error="too dark", result="a desk")
    again = step_content(failed, "Look around.", "Find the keys.", "look gave: a lamp")
    assert "Find the keys." in again
    assert "'Look'" in again
    assert "The attempt before failed" in again
    assert "too dark" in again
    assert "Its partial result" in again
    assert "a desk" in again
    assert "Look up only the rest:\n<found>\nlook gave: a lamp\n</found>" in again


def test_a_first_attempt_at_the_whole_task_is_its_instruction_alone() -> None:
    assert step_content(STEP, "Look around.", " Look around.\n", "") == "Look around."


def test_long_errors_are_cut_and_say_so() -> None:
    whole = clipped_error("x" * 10_000)
    assert whole.endswith("…")
    assert clipped_error(whole) == whole
    assert clipped_error("x" * len(whole)) == "x" * len(whole)
