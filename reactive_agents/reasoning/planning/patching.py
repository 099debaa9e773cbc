"""Changes of a plan while it runs. Pure, and none of them touches a step that is completed."""

from __future__ import annotations

from datetime import datetime

from attrs import evolve

from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.reasoning.planning.hydrating import (
    hydrate_step,
    hydrate_steps,
    next_number,
    next_position,
)
from reactive_agents.reasoning.planning.output import LLMPlanOutput, LLMPlanStep


def apply_patch(plan: Plan, failed_id: str, replacement: LLMPlanStep, now: datetime) -> Plan:
    """The plan with one step written anew, pending again under its id, so that others can still refer to it.

    A plan without that step, and one in which it is completed, stays as it is.
    """
    changed = tuple(
        hydrate_step(replacement, step_id=step.id, seq=step.seq)
        if step.id == failed_id and step.status != "completed"
        else step
        for step in plan.steps
    )
    return plan if changed == plan.steps else _changed(plan, changed, now)


def replace_remaining(plan: Plan, output: LLMPlanOutput, now: datetime) -> Plan:
    """The plan with its completed steps, and after them new ones in place of all that remained.

    The new steps get ids that the plan did not have before.
    """
    kept = tuple(step for step in plan.steps if step.status == "completed")
    return _changed(plan, kept + _added(plan, output), now)


def apply_augment(plan: Plan, output: LLMPlanOutput, now: datetime) -> Plan:
    """The plan with supplementary steps after those that it has."""
    return _changed(plan, plan.steps + _added(plan, output), now)


def _added(plan: Plan, output: LLMPlanOutput) -> tuple[PlanStep, ...]:
    first, position = next_number(plan.steps), next_position(plan.steps)
    return hydrate_steps(output.steps, first=first, position=position)


def _changed(plan: Plan, steps: tuple[PlanStep, ...], now: datetime) -> Plan:
    return evolve(plan, steps=steps, version=plan.version + 1, updated_at=now)
