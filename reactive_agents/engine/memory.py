"""Phases 1 and 7, recall and memory flush, and learning from outcomes."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import anyio
from attrs import evolve
from returns.maybe import Some
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, events
from reactive_agents.core.conversation import owner_of
from reactive_agents.core.events import ExecutionPhaseFailed
from reactive_agents.core.ids import SessionId
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.tasks import Task
from reactive_agents.core.values import replaced
from reactive_agents.effects import attempt_foreign
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices
from reactive_agents.kernel import MeteredLLM
from reactive_agents.kernel.policies.limits import budget_reached_by_run
from reactive_agents.kernel.service_calls import call_outside_record, call_service, is_built_in, once
from reactive_agents.ports import MemoryService

if TYPE_CHECKING:
    from reactive_agents.core.memory import FlushReport, SessionSnapshot
    from reactive_agents.core.results import ReasoningResult

_log = logging.getLogger("reactive_agents")


def _owned_task(services: EngineServices) -> Task:
    """Return the task of the run, as memory knows it: with its owner and author."""
    user, session = services.handle.owner
    task = services.handle.context.task
    return evolve(task, user=user, session=session, is_relayed=services.is_relayed)


async def bootstrap(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, errors.RuntimeErrors]:
    """Recall memories for the task. Fails with ``ExecutionError``."""
    memory = services.ports.memory.value_or(None)
    if memory is None:
        return Success(context)
    from reactive_agents.core.memory import MemoryContext  # of agents with memory

    recalled = await call_service(
        "memory", memory, MemoryService.bootstrap, MemoryContext, context.agent_id, _owned_task(services)
    )
    if not isinstance(recalled, Success):
        return Failure(context.failure_of("bootstrap")(recalled.failure()))
    memory_context = recalled.unwrap()
    services.events.publish(
        events.MemoryBootstrapped, context.agent_id, memory_context.tier, memory_context.problem
    )
    return Success(replaced(context, memory_context=memory_context))


# --- Phase 7: memory flush ---


async def memory_flush(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, errors.RuntimeErrors]:
    """Store the run in memory. Fails with ``ExecutionError``."""
    memory = services.ports.memory.unwrap()
    stopped_early = services.handle.control.stopped is not None and not services.handle.kernel_states
    if context.reasoning is None or stopped_early:
        return Success(context)  # nothing was done, and the input was perhaps not checked
    journal, llm = services.journal, _model_to_spare(services)
    flush = partial(_flush, memory, _owned_task(services), context.reasoning, llm, context.selected_model)
    # what a fork shares with its origin is also the task, by which memory knows a run
    continued = journal is not None and journal.run.attempt > 1 and journal.run.origin is None
    flushed = await once("memory.flush", partial(flush, is_again=continued))
    if not isinstance(flushed, Success):
        await _owe(context, services, flushed=False)
        return Failure(context.failure_of("memory-flush")(flushed.failure()))
    report = flushed.unwrap()
    if report.skipped:
        return Success(context)
    services.events.publish(
        events.MemoryFlushed, context.agent_id, report.kept, report.dropped, report.problem
    )
    saved = await call_service("memory", memory, MemoryService.snapshot, None, _snapshot(context, services))
    if not isinstance(saved, Success):
        await _owe(context, services, flushed=True)
        return Failure(context.failure_of("memory-flush")(saved.failure()))
    services.events.publish(events.MemorySnapshotSaved, context.agent_id, context.session_id)
    return Success(context)


async def _flush(
    memory: MemoryService,
    task: Task,
    result: ReasoningResult,
    llm: MeteredLLM | None = None,
    model: str | None = None,
    *,
    is_again: bool,
) -> Result[FlushReport, errors.MemoryErrors | errors.ServiceFailed]:
    """Store a run in memory, but not a second time after a crash if memory can tell.

    Args:
        is_again: whether it may have been stored before.
    """
    from reactive_agents.core.memory import FlushReport  # of agents with memory

    holds = getattr(memory, "holds", None) if is_again else None
    known = None if holds is None else await attempt_foreign(holds, bool, task)
    if isinstance(known, Success) and known.unwrap():
        return Success(FlushReport(0, 0))
    return await call_outside_record(
        "memory", memory, MemoryService.flush, FlushReport, task, result, llm=llm, model=model
    )


async def _owe(context: ExecutionContext, services: EngineServices, *, flushed: bool) -> None:
    """Record what memory could not store, so that it is stored later."""
    if services.journal is not None:
        result = None if flushed else context.reasoning
        task, snapshot = _owned_task(services), _snapshot(context, services)
        await services.journal.owe("memory", task=task, result=result, snapshot=snapshot)


async def store_owed(
    memory: MemoryService,
    task: Task,
    result: ReasoningResult | None,
    snapshot: SessionSnapshot,
    *,
    is_fork: bool,
) -> Result[object, errors.MemoryErrors | errors.ServiceFailed]:
    """Store a run that memory could not store as it ended; rules choose its memories.

    Args:
        result: ``None`` if only the snapshot of the run is missing.
        is_fork: whether memory may have the run that it was forked from, which has the same task.
    """
    if result is not None:
        flushed = await _flush(memory, task, result, is_again=not is_fork)
        if isinstance(flushed, Failure) or flushed.unwrap().skipped:
            return flushed
    return await call_outside_record("memory", memory, MemoryService.snapshot, None, snapshot)


def _model_to_spare(services: EngineServices) -> MeteredLLM | None:
    """Return the run's model, if the run has time and budget left."""
    late = services.seconds_left() <= 0
    spent = budget_reached_by_run(services.settings.budget, services.llm.account)
    stopped = services.handle.control.stopped is not None
    return None if late or spent or stopped else services.llm


def _snapshot(context: ExecutionContext, services: EngineServices) -> SessionSnapshot:
    from reactive_agents.core.memory import SessionSnapshot

    spending = services.llm.usage
    reasoning = context.reasoning
    return SessionSnapshot(
        id=SessionId(context.run_id),
        agent_id=context.agent_id,
        messages=(UserMessage(context.task.input), *context.messages),
        summary=(reasoning.output if reasoning is not None else None) or "",
        key_decisions=(),
        task_ids=(context.task_id,),
        started_at=context.started_at,
        ended_at=services.ports.clock.now(),
        total_cost=spending.cost_usd,
        total_tokens=spending.usage.total_tokens,
        owner=owner_of(*services.handle.owner),
    )


def success_of(context: ExecutionContext, services: EngineServices) -> bool | None:
    """Return whether the run is a success of its strategy.

    ``None`` if the run is no evidence about the strategy: an abstention is about the task, and a budget or a
    user may have cut the run off.
    """
    result = context.reasoning
    if result is None or result.status == "abstained" or services.handle.control.stopped is not None:
        return None
    if services.llm.refusal is not None and result.status == "partial":
        return None
    verified = context.verification is None or context.verification.verified
    return result.status == "completed" and verified


def learns_from(context: ExecutionContext, services: EngineServices) -> bool:
    """Return whether the outcome of the strategy may have to be recorded."""
    reasoning, result = services.ports.reasoning.value_or(None), context.reasoning
    if reasoning is None or result is None:
        return False
    return not is_built_in(reasoning) or reasoning.learns_from(result)


async def learn_from(context: ExecutionContext, services: EngineServices) -> None:
    """Record the outcome of the strategy for later selections, however the run ended.

    The outcome of a run that a budget or a user stopped is not recorded, since it is no evidence about the
    strategy. A failure to record is an event and does not change the run.
    """
    reasoning, result = services.ports.reasoning.value_or(None), context.reasoning
    if reasoning is None or result is None:
        return
    try:
        success = success_of(context, services) if reasoning.learns_from(result) else None
        if success is None:
            return
        with anyio.move_on_after(services.settings.timeouts.grace_s, shield=True):
            await reasoning.learn(
                context.task.input,
                context.task.type,
                result,
                success=success,
                task_id=context.task_id,
                events=Some(services.events),
            )
    except Exception as error:  # noqa: BLE001 - the run has its outcome nevertheless
        _log.warning("Learning from a run raised.", exc_info=True)
        message = f"Learning from the run raised {type(error).__name__}: {error}"
        failed = errors.ExecutionError(message, context.task_id, "memory-flush")
        services.events.publish(ExecutionPhaseFailed, phase="memory-flush", error=failed, fatal=False)
