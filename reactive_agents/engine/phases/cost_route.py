"""Phase 3: which model is worth its price for this task?"""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import RuntimeErrors
from reactive_agents.core.events import ModelRouted
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices


@effect
async def cost_route(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context with the router's model selected. Fails with ``ExecutionError``."""
    router = services.ports.cost_router.value_or(None)
    if router is None:
        return Success(context)
    routed = (await attempt(router.select_model(context.task))).alt(context.failure_of("cost-route"))
    if isinstance(routed, Failure):
        return routed
    route = routed.unwrap()
    events = services.events
    events.publish(ModelRouted(*events.stamp(), model=route.model, reason=route.reason))
    return Success(evolve(context, selected_model=route.model))
