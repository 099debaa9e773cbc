"""The order in which the steps of a plan run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from reactive_agents.core.plans import Plan, PlanStep


def compute_waves(plan: Plan) -> tuple[tuple[PlanStep, ...], ...]:
    """Return the pending steps as waves of steps that may run concurrently; pure.

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
    """Return why a step cannot run, such as a failed dependency; ``None`` when it can."""
    statuses = {each.id: each.status for each in plan.steps}
    for needed in step.depends_on:
        status = statuses.get(needed)
        if status is None:
            return f"it depends on {needed}, which does not exist"
        if status != "completed":
            return f"it depends on {needed}, which is {status.replace('_', ' ')}"
    return None


def next_batch(plan: Plan, left: Mapping[str, int], *, attempts: int, parallel: bool) -> tuple[PlanStep, ...]:
    """Return the steps to run next, concurrently; empty when no step is left; pure.

    Steps do not know of the calls that are made beside them. So each has the most calls that it may make set
    aside, and runs when the remaining calls of its tools cover that, or when no step beside it may call them;
    else it waits, and then has what the others left over. So no limit is exceeded, and no call goes unused,
    as it would if the calls were divided between the steps.

    Args:
        left: how often each tool with a limit may still be called, 0 or more.
        attempts: how often a step is tried at most, 1 or more.
        parallel: whether steps may run at the same time at all.
    """
    wave = next(iter(compute_waves(plan)), ())
    if not parallel:
        return wave[:1]
    batch: list[PlanStep] = []
    aside: Counter[str] = Counter()
    for step in wave:
        most = _most_calls(step, left, attempts)
        if all(name not in aside or aside[name] + calls <= left[name] for name, calls in most.items()):
            batch.append(step)
            aside.update(most)
    return tuple(batch)


def _most_calls(step: PlanStep, left: Mapping[str, int], attempts: int) -> Mapping[str, int]:
    """Return how often a step may call each limited tool at most."""
    if step.type == "tool_call":
        return {name: attempts for name in left if name == step.tool_name}
    if step.type == "composite":
        return {name: calls for name, calls in left.items() if not step.tool_hints or name in step.tool_hints}
    return {}
