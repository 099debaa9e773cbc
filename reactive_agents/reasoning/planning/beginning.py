"""The plan that a run begins with: a new one, or a stored one that goes on."""

from __future__ import annotations

from returns.maybe import Some
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ReasoningError
from reactive_agents.core.ids import PlanId
from reactive_agents.core.plans import Plan
from reactive_agents.effects import attempt
from reactive_agents.reasoning.strategy import StrategyServices


async def stored_plan(plan_id: PlanId, services: StrategyServices) -> Result[Plan, ReasoningError]:
    """The plan of that id. Fails with ``ReasoningError`` when it cannot be had, with the reason."""
    store = services.plans.value_or(None)
    if store is None:
        return _unavailable(plan_id, "this agent keeps no plans: give it a memory")
    found = await attempt(store.get(plan_id))
    if isinstance(found, Failure):
        return _unavailable(plan_id, found.failure().message)
    match found.unwrap():
        case Some(plan):
            return Success(plan)
        case _:
            return _unavailable(plan_id, "there is no such plan")


def _unavailable(plan_id: PlanId, reason: str) -> Failure[ReasoningError]:
    return Failure(ReasoningError(f"The plan {plan_id!r} cannot be resumed: {reason.rstrip('.')}."))
