"""From the content that a model gave to steps with ids, positions and statuses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from reactive_agents.core.ids import AgentId, PlanId, TaskId
from reactive_agents.core.plans import Plan, PlanMode, PlanStep
from reactive_agents.reasoning.planning.output import LLMPlanOutput, LLMPlanStep
from reactive_agents.reasoning.planning.references import references_in


def hydrate_plan(
    output: LLMPlanOutput,
    *,
    plan_id: PlanId,
    task_id: TaskId,
    agent_id: AgentId,
    goal: str,
    mode: PlanMode,
    now: datetime,
) -> Plan:
    """The plan with its steps ``s1``, ``s2``, …, all pending. Pure: id and time are given."""
    steps = hydrate_steps(output.steps, first=1)
    return Plan(plan_id, task_id, agent_id, goal, mode, steps, "active", 1, now, now)


def hydrate_steps(steps: Sequence[LLMPlanStep], *, first: int, position: int = 1) -> tuple[PlanStep, ...]:
    """The steps under ids in their order, all pending.

    A step depends on what it says, and on the steps that it refers to.

    Args:
        first: the number of the first id.
        position: of the first step in its plan, from 1.
    """
    return tuple(
        hydrate_step(step, step_id=f"s{first + offset}", seq=position + offset)
        for offset, step in enumerate(steps)
    )


def hydrate_step(step: LLMPlanStep, *, step_id: str, seq: int) -> PlanStep:
    """One pending step."""
    named = (*step.depends_on, *references_in([step.instruction, step.tool_args]))
    return PlanStep(
        id=step_id,
        seq=seq,
        title=step.title,
        instruction=step.instruction,
        type=step.type,
        tool_name=step.tool_name if step.type == "tool_call" else None,
        tool_args=step.tool_args if step.type == "tool_call" else {},
        tool_hints=step.tool_hints if step.type == "composite" else (),
        depends_on=tuple(dict.fromkeys(named)),
    )


def next_number(steps: Sequence[PlanStep]) -> int:
    """The number of the next id, above that of every step."""
    numbers = (int(step.id[1:]) for step in steps if step.id[1:].isdecimal())
    return max(numbers, default=0) + 1


def next_position(steps: Sequence[PlanStep]) -> int:
    """The position after that of every step."""
    return max((step.seq for step in steps), default=0) + 1
