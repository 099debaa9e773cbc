"""The plans that a run has stored, brought in line with what the guardrail took away of its answer."""

from __future__ import annotations

from collections.abc import Callable

from returns.result import Failure

from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.events import ExecutionPhaseFailed
from reactive_agents.core.plans import PlanStep
from reactive_agents.effects import attempt
from reactive_agents.engine.services import EngineServices

PLAN_ID = "plan_id"
"""The detail of a task that names a stored plan to go on with."""


async def rewrite_stored_plans(rewritten: Callable[[PlanStep], PlanStep], services: EngineServices) -> None:
    """Change the steps of the run's plans where they are kept; that it could not be done is an event."""
    store = services.ports.plans.value_or(None)
    if store is None:
        return
    task = services.handle.context.task
    listed = await attempt(store.list_plans(task.agent_id))
    if isinstance(listed, Failure):
        _tell(listed.failure(), services)
        return
    for plan in listed.unwrap():
        if plan.task_id == task.id or plan.id == task.details.get(PLAN_ID):
            changed = await attempt(store.rewrite_steps(plan.id, rewritten))
            if isinstance(changed, Failure):
                _tell(changed.failure(), services)


def _tell(problem: MemoryErrors, services: EngineServices) -> None:
    events, phase = services.events, services.handle.phase
    error = services.handle.context.failure_of(phase)(problem)
    events.publish(ExecutionPhaseFailed(*events.stamp(), phase=phase, error=error, fatal=False))
