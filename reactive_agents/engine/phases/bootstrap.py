"""Phase 1: recall what bears on the task."""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import RuntimeErrors
from reactive_agents.core.events import MemoryBootstrapped, event_maker
from reactive_agents.core.replacing import replacer
from reactive_agents.effects import attempt, effect, success
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices

_bootstrapped = event_maker(MemoryBootstrapped)
_with_memory = replacer(ExecutionContext, "memory_context")


@effect
async def bootstrap(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context with the memory service's, if there is one. Fails with ``ExecutionError``."""
    memory = services.ports.memory.value_or(None)
    if memory is None:
        return success(context)
    pending = memory.bootstrap(context.agent_id, context.task)
    recalled = await attempt(pending)
    if not isinstance(recalled, Success):
        return Failure(context.failure_of("bootstrap")(recalled.failure()))
    memory_context = recalled.unwrap()
    events = services.events
    events.publish(
        _bootstrapped(events.stamp(), context.agent_id, memory_context.tier, memory_context.problem)
    )
    return success(_with_memory(context, memory_context))
