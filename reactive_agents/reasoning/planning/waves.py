"""The order in which the steps of a plan run."""

from __future__ import annotations

from collections.abc import Collection

from reactive_agents.core.plans import Plan, PlanStep


def compute_waves(plan: Plan) -> tuple[tuple[PlanStep, ...], ...]:
    """The pending steps as waves, each of steps that may run at the same time; pure.

    A linear plan has one step a wave, in order. In a dag a step comes after all pending steps that it depends
    on; steps that depend on each other in a circle are in no wave. Steps that are completed, or ended
    otherwise, never come again.
    """
    pending = [step for step in plan.steps if step.status == "pending"]
    if plan.mode == "linear":
        return tuple((step,) for step in pending)
    waves: list[tuple[PlanStep, ...]] = []
    while pending:
        waiting = {step.id for step in pending}
        wave = tuple(step for step in pending if waiting.isdisjoint(step.depends_on))
        if not wave:
            break
        waves.append(wave)
        pending = [step for step in pending if step not in wave]
    return tuple(waves)


def blocked_by(step: PlanStep, plan: Plan) -> str | None:
    """Why a step cannot run: something that it depends on is not completed. ``None`` when it can."""
    statuses = {each.id: each.status for each in plan.steps}
    for needed in step.depends_on:
        status = statuses.get(needed)
        if status is None:
            return f"it depends on {needed}, which does not exist"
        if status != "completed":
            return f"it depends on {needed}, which is {status.replace('_', ' ')}"
    return None


def next_batch(plan: Plan, limited: Collection[str], *, parallel: bool) -> tuple[PlanStep, ...]:
    """The steps to run next at the same time; empty when no step is left.

    Args:
        limited: tools that may be called only so often. Of the steps that may call one, only one runs at a
            time, as none would know of the other's calls.
        parallel: whether steps may run at the same time at all.
    """
    wave = next(iter(compute_waves(plan)), ())
    if not parallel:
        return wave[:1]
    batch: list[PlanStep] = []
    taken = False
    for step in wave:
        calls_limited = _may_call(step, limited)
        if not (calls_limited and taken):
            batch.append(step)
        taken = taken or calls_limited
    return tuple(batch)


def _may_call(step: PlanStep, names: Collection[str]) -> bool:
    if step.type == "tool_call":
        return step.tool_name in names
    return step.type == "composite" and bool(names) and (not step.tool_hints or _share(step, names))


def _share(step: PlanStep, names: Collection[str]) -> bool:
    return any(name in names for name in step.tool_hints)
