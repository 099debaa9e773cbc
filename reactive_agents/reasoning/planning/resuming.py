"""A stored plan that goes on in another run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from attrs import evolve

from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.reasoning.progress import Progress


def resumed_plan(plan: Plan, definitions: Sequence[ToolDefinition], now: datetime) -> Plan:
    """The plan as it can go on: completed steps keep their results, pending ones are still to be run; pure.

    A step that was under way when its run was killed may have taken effect. It is run again if that does no
    harm: if it called no tool, or only tools that are idempotent. Otherwise it counts as failed, with the
    reason.
    """
    idempotent = {definition.name for definition in definitions if definition.idempotent}
    steps = tuple(_resumed(step, idempotent) for step in plan.steps)
    return evolve(plan, steps=steps, status="active", version=plan.version + 1, updated_at=now)


def earlier_progress(plan: Plan, progress: Progress) -> Progress:
    """The progress with the results and calls of completed steps; pure.

    Calls that it has already, as those of an earlier try of the same run, do not count twice.
    """
    called = [(step, step.tool_name) for step in plan.steps if _is_completed_call(step) and step.tool_name]
    results = {f"{step.id}.{name}-1": step.result or "" for step, name in called}
    made = Counter(name for _, name in called)
    return evolve(
        progress,
        tool_results={**results, **progress.tool_results},
        attempts=dict(Counter(progress.attempts) | made),
        succeeded=dict(Counter(progress.succeeded) | made),
    )


def _is_completed_call(step: PlanStep) -> bool:
    return step.type == "tool_call" and step.status == "completed"


def _resumed(step: PlanStep, idempotent: set[str]) -> PlanStep:
    if step.status != "in_progress":
        return step
    tools = (step.tool_name or "",) if step.type == "tool_call" else step.tool_hints
    harmless = step.type == "analysis" or (bool(tools) and idempotent.issuperset(tools))
    if harmless:
        return evolve(step, status="pending", started_at=None)
    said = f"tool {tools[0]} is" if len(tools) == 1 else "tools are"
    reason = (
        "An earlier run was ended in the middle of this step, which may have taken effect; "
        f"it is not run again, since its {said} not idempotent."
    )
    return evolve(step, status="failed", error=reason)
