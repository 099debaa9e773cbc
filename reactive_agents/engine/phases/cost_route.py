"""Phase 3: which model is worth its price for this task?"""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import RuntimeErrors
from reactive_agents.core.events import ModelRouted
from reactive_agents.core.governance import RouteNeeds
from reactive_agents.core.values import replaced
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices
from reactive_agents.kernel import KernelInput
from reactive_agents.kernel.assemble import stable_prefix
from reactive_agents.kernel.extent import fixed_size


@effect
async def cost_route(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context with the router's model selected. Fails with ``ExecutionError``."""
    router = services.ports.cost_router.value_or(None)
    if router is None:
        return Success(context)
    pending = router.select_model(context.task, route_needs(context, services))
    routed = await attempt(pending)
    if not isinstance(routed, Success):
        return Failure(context.failure_of("cost-route")(routed.failure()))
    route = routed.unwrap()
    events = services.events
    events.publish(ModelRouted(*events.stamp(), route.model, route.reason))
    return Success(replaced(context, selected_model=route.model))


def route_needs(context: ExecutionContext, services: EngineServices) -> RouteNeeds:
    """The size of what every request of the run begins with, and whether it has tools."""
    tools = services.ports.tools.map(lambda service: service.definitions()).value_or(())
    prefix = stable_prefix(
        KernelInput(
            context.task.input,
            context.run_id,
            context.task_id,
            context.agent_id,
            context.session_id,
            system_prompt=services.config.system_prompt,
            memory=context.memory_context,
        )
    )
    return RouteNeeds(fixed_size(prefix, tools), frozenset({"tools"} if tools else ()))
