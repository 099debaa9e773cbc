"""Phase 1: recall what bears on the task."""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import RuntimeErrors
from reactive_agents.core.events import MemoryBootstrapped
from reactive_agents.core.values import replaced
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices


@effect
async def bootstrap(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context with the memory service's, if there is one. Fails with ``ExecutionError``."""
    memory = services.ports.memory.value_or(None)
    if memory is None:
        return Success(context)
    pending = memory.bootstrap(context.agent_id, context.task)
    recalled = await attempt(pending)
    if not isinstance(recalled, Success):
        return Failure(context.failure_of("bootstrap")(recalled.failure()))
    memory_context = recalled.unwrap()
    events = services.events
    events.publish(
        MemoryBootstrapped(*events.stamp(), context.agent_id, memory_context.tier, memory_context.problem)
    )
    return Success(replaced(context, memory_context=memory_context))
