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
from reactive_agents.kernel import MeteredLLM
from reactive_agents.kernel.policies.spending import spent_by_run


@effect
async def memory_flush(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context unchanged, the run stored in memory. Fails with ``ExecutionError``."""
    memory = services.ports.memory.value_or(None)
    if memory is None or context.reasoning is None:
        return Success(context)
    events = services.events
    flushing = memory.flush(
        context.task,
        context.reasoning,
        llm=_model_to_spare(context, services),
        model=context.selected_model,
    )
    flushed = await attempt(flushing)
    if not isinstance(flushed, Success):
        return Failure(context.failure_of("memory-flush")(flushed.failure()))
    report = flushed.unwrap()
    events.publish(
        MemoryFlushed(*events.stamp(), context.agent_id, report.kept, report.dropped, report.problem)
    )
    saving = memory.snapshot(_snapshot(context, services))
    saved = await attempt(saving)
    if not isinstance(saved, Success):
        return Failure(context.failure_of("memory-flush")(saved.failure()))
    events.publish(MemorySnapshotSaved(*events.stamp(), context.agent_id, context.session_id))
    return Success(context)


def _model_to_spare(context: ExecutionContext, services: EngineServices) -> MeteredLLM | None:
    """The run's model, as long as the run has time and budget left."""
    late = context.deadline is not None and services.ports.clock.monotonic() >= context.deadline
    spent = spent_by_run(services.config.budget, services.llm.account)
    return None if late or spent else services.llm


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
