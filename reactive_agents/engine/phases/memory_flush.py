"""Phase 7: keep what is worth keeping of the run."""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import RuntimeErrors
from reactive_agents.core.events import MemoryFlushed, MemorySnapshotSaved
from reactive_agents.core.memory import SessionSnapshot
from reactive_agents.core.messages import UserMessage
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices


@effect
async def memory_flush(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context unchanged, the run stored in memory. Fails with ``ExecutionError``."""
    memory = services.ports.memory.value_or(None)
    if memory is None or context.reasoning is None:
        return Success(context)
    events = services.events
    pending = memory.flush(context.task, context.reasoning)
    flushed = (await attempt(pending)).alt(context.failure_of("memory-flush"))
    if isinstance(flushed, Failure):
        return flushed
    events.publish(MemoryFlushed(*events.stamp(), agent_id=context.agent_id))
    pending = memory.snapshot(_snapshot(context, services))
    saved = (await attempt(pending)).alt(context.failure_of("memory-flush"))
    if isinstance(saved, Failure):
        return saved
    events.publish(
        MemorySnapshotSaved(*events.stamp(), agent_id=context.agent_id, session_id=context.session_id)
    )
    return Success(context)


def _snapshot(context: ExecutionContext, services: EngineServices) -> SessionSnapshot:
    spending = services.llm.spending
    reasoning = context.reasoning
    return SessionSnapshot(
        id=context.session_id,
        agent_id=context.agent_id,
        messages=(UserMessage(context.task.input), *context.messages),
        summary=(reasoning.output if reasoning is not None else None) or "",
        key_decisions=(),
        task_ids=(context.task_id,),
        started_at=context.started_at,
        ended_at=services.ports.clock.now(),
        total_cost=spending.cost_usd,
        total_tokens=spending.usage.total_tokens,
    )
