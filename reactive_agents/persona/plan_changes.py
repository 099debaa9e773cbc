"""Pure changes of a plan's steps; none is lost, completed ones stay completed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve

from reactive_agents.core.personas import (
    Contingency,
    ErrorKind,
    Expansion,
    PersonaPlan,
    Recovery,
    StepOutcome,
)
from reactive_agents.core.plans import PlanStatus, PlanStep

RECOVERY_OUTCOME = "Recovery from the failure."


def new_steps(actions: Sequence[tuple[str, str]], *, after: Sequence[PlanStep] = ()) -> tuple[PlanStep, ...]:
    """Return pending steps for actions, with ids after the existing ones.

    Args:
        actions: instruction and expected outcome of each step.
    """
    used = [int(step.id[1:]) for step in after if step.id[:1] == "s" and step.id[1:].isdecimal()]
    first = max(used, default=0) + 1
    return tuple(
        PlanStep(f"s{number}", number, _title(action), action, "composite", expected_outcome=expected)
        for number, (action, expected) in enumerate(actions, first)
    )


def begin_step(plan: PersonaPlan, step_id: str, now: datetime) -> PersonaPlan:
    """Return the plan with the step in progress.

    A step that was in progress before counts one retry.
    """
    step = step_of(plan, step_id)
    again = step.retries + 1 if step.status == "in_progress" else step.retries
    return _with_step(plan, evolve(step, status="in_progress", started_at=now, retries=again), now)


def complete_step(plan: PersonaPlan, outcome: StepOutcome) -> PersonaPlan:
    """Return the plan with the step completed."""
    step = step_of(plan, outcome.step_id)
    completed = evolve(
        step, status="completed", result=outcome.output, tokens_used=outcome.tokens, completed_at=outcome.at
    )
    return _with_usage(_with_step(plan, completed, outcome.at), outcome)


def fail_step(plan: PersonaPlan, outcome: StepOutcome) -> PersonaPlan:
    """Return the plan with the step failed.

    It is not retried: other steps replace it, or the plan ends.
    """
    step = step_of(plan, outcome.step_id)
    error = outcome.error.message if outcome.error is not None else outcome.detail
    failed = evolve(
        step,
        status="failed",
        result=outcome.output or None,
        error=error,
        tokens_used=outcome.tokens,
        completed_at=outcome.at,
    )
    return _with_usage(_with_step(plan, failed, outcome.at), outcome)


def usable_contingency(plan: PersonaPlan, step_id: str, kind: ErrorKind) -> Contingency | None:
    """Return the contingency for a failed step.

    ``None`` when there is none, or when the step is part of that contingency itself.
    """
    if kind in _kinds_tried(plan, step_id):
        return None
    return next((each for each in plan.contingencies if each.kind == kind and each.actions), None)


def insert_contingency(
    plan: PersonaPlan, step_id: str, contingency: Contingency, now: datetime
) -> PersonaPlan:
    """Return the plan with the steps of a contingency inserted after the failed step."""
    actions = [(action, RECOVERY_OUTCOME) for action in contingency.actions]
    added = new_steps(actions, after=plan.plan.steps)
    place = next(index for index, step in enumerate(plan.plan.steps) if step.id == step_id) + 1
    steps = (*plan.plan.steps[:place], *added, *plan.plan.steps[place:])
    recovery = Recovery(step_id, contingency.kind, tuple(step.id for step in added))
    return evolve(_with_steps(plan, steps, now), recoveries=(*plan.recoveries, recovery))


def replace_open_steps(plan: PersonaPlan, actions: Sequence[tuple[str, str]], now: datetime) -> PersonaPlan:
    """Return the plan with its open steps skipped and new steps at its end.

    Counts one more attempt.
    """
    kept = tuple(
        evolve(step, status="skipped") if step.status in ("pending", "in_progress") else step
        for step in plan.plan.steps
    )
    steps = (*kept, *new_steps(actions, after=kept))
    return evolve(_with_steps(plan, steps, now), attempts=plan.attempts + 1)


def expand_step(
    plan: PersonaPlan, step_id: str, actions: Sequence[tuple[str, str]], now: datetime
) -> PersonaPlan:
    """Return the plan with a step replaced by new ones.

    The step itself counts as completed.
    """
    added = new_steps(actions, after=plan.plan.steps)
    place = next(index for index, step in enumerate(plan.plan.steps) if step.id == step_id)
    replaced = evolve(plan.plan.steps[place], status="completed", completed_at=now)
    steps = (*plan.plan.steps[:place], replaced, *added, *plan.plan.steps[place + 1 :])
    expansion = Expansion(step_id, tuple(step.id for step in added))
    return evolve(_with_steps(plan, steps, now), expansions=(*plan.expansions, expansion))


def depth_of(plan: PersonaPlan, step_id: str) -> int:
    """Return the nesting level of a step; the plan's own steps are at 1."""
    for expansion in plan.expansions:
        if step_id in expansion.steps:
            return depth_of(plan, expansion.step_id) + 1
    return 1


def end_plan(plan: PersonaPlan, status: PlanStatus, now: datetime) -> PersonaPlan:
    """Return the ended plan; steps that were not reached are skipped."""
    steps = tuple(
        evolve(step, status="skipped") if step.status in ("pending", "in_progress") else step
        for step in plan.plan.steps
    )
    return _with_steps(plan, steps, now).with_plan(status=status)


def answer_of(plan: PersonaPlan) -> str:
    """Return the plan's answer: the result of its last completed step.

    Empty when there is none.
    """
    done = [step for step in plan.plan.steps if step.status == "completed"]
    return done[-1].result or "" if done else ""


def step_of(plan: PersonaPlan, step_id: str) -> PlanStep:
    """Return the step with the id.

    Raises:
        KeyError: the plan has no such step.
    """
    for step in plan.plan.steps:
        if step.id == step_id:
            return step
    raise KeyError(step_id)


def _kinds_tried(plan: PersonaPlan, step_id: str) -> frozenset[ErrorKind]:
    """Return the kinds of error whose contingencies led to the step."""
    for recovery in plan.recoveries:
        if step_id in recovery.steps:
            earlier = _kinds_tried(plan, recovery.failed_step)
            return earlier.union((recovery.kind,))
    return frozenset()


def _with_step(plan: PersonaPlan, changed: PlanStep, now: datetime) -> PersonaPlan:
    steps = tuple(changed if step.id == changed.id else step for step in plan.plan.steps)
    return plan.with_plan(steps=steps, updated_at=now)


def _with_usage(plan: PersonaPlan, outcome: StepOutcome) -> PersonaPlan:
    tokens, cost_usd = plan.plan.total_tokens + outcome.tokens, plan.plan.total_cost + outcome.cost_usd
    return plan.with_plan(total_tokens=tokens, total_cost=cost_usd)


def _with_steps(plan: PersonaPlan, steps: Sequence[PlanStep], now: datetime) -> PersonaPlan:
    numbered = tuple(evolve(step, seq=number) for number, step in enumerate(steps, 1))
    return plan.with_plan(steps=numbered, version=plan.plan.version + 1, updated_at=now)


def _title(action: str) -> str:
    line = " ".join(action.split())
    return line if len(line) <= 80 else line[:79].rstrip() + "…"
