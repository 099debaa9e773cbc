"""The figures of a run, read once from clock, meter and kernel."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from reactive_agents.core.errors import (
    ExecutionError,
    GuardrailViolationError,
    HookError,
    IllegalAgentState,
    MaxIterationsError,
    RunCancelled,
    RuntimeErrors,
    TaskError,
    VerificationFailed,
)
from reactive_agents.core.governance import SpendingRecord
from reactive_agents.core.reasoning import ReasoningResult
from reactive_agents.core.steps import ReasoningStep
from reactive_agents.core.tasks import TaskResultMetadata
from reactive_agents.core.values import replaced
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices, RunHandle
from reactive_agents.kernel import KernelState
from reactive_agents.kernel.acting import call_key
from reactive_agents.kernel.turn import record_actions


def steps_taken(context: ExecutionContext, services: EngineServices) -> tuple[ReasoningStep, ...]:
    """The steps of the result, or of all kernels when there is none.

    A tool call that was under way when the run was cancelled is one of them: it may have taken effect.
    """
    if context.reasoning is not None:
        return context.reasoning.steps
    handle, now = services.handle, services.ports.clock.now()
    return tuple(
        step
        for state in handle.kernel_states.values()
        for step in (_with_calls_under_way(state, handle, now) if state.pending else state.steps)
    )


def _with_calls_under_way(state: KernelState, handle: RunHandle, now: datetime) -> tuple[ReasoningStep, ...]:
    pending = enumerate(state.pending)
    begun = tuple(call for index, call in pending if call_key(state, index) in handle.cut_off)
    return record_actions(replaced(state, pending=begun), now)


def run_metadata(context: ExecutionContext, services: EngineServices) -> TaskResultMetadata:
    """The figures of the run up to now."""
    spending = services.llm.spending
    reasoning = context.reasoning
    verification = context.verification
    metadata = reasoning.metadata if reasoning is not None else None
    confidence = metadata.confidence if metadata is not None else None
    return TaskResultMetadata(
        duration_ms=(services.ports.clock.monotonic() - services.handle.started) * 1000,
        cost_usd=spending.cost_usd,
        tokens_used=spending.usage.total_tokens,
        steps_count=len(steps_taken(context, services)),
        strategy_used=reasoning.strategy if reasoning is not None else context.selected_strategy or "",
        model=spending.model or context.selected_model or services.llm.model,
        terminated_by=_ended_by(context.error, metadata.terminated_by if metadata is not None else ""),
        iterations=_iterations(reasoning, services.handle.kernel_states.values()),
        model_calls=spending.calls,
        unpriced_calls=spending.unpriced_calls,
        usage=spending.usage,
        confidence=confidence if verification is None else verification.confidence,
        selected_strategy=metadata.selected_strategy if metadata is not None else None,
        models=services.llm.models,
    )


def _iterations(reasoning: ReasoningResult | None, states: Iterable[KernelState]) -> int:
    """The turns of all kernel runs."""
    if reasoning is not None:
        return reasoning.metadata.iterations
    return sum(state.iteration for state in states)


def _ended_by(error: RuntimeErrors | None, reasoning: str) -> str:
    """What ended the run: an error after the reasoning goes before what ended that."""
    match error:
        case None:
            return reasoning
        case RunCancelled():
            return "cancelled"
        case GuardrailViolationError():
            return "guardrail"
        case VerificationFailed():
            return "verification"
        case HookError():
            return "hook"
        case MaxIterationsError():
            return "iteration_limit"
        case ExecutionError() | TaskError() | IllegalAgentState():
            return "error"


def spending_record(context: ExecutionContext, services: EngineServices) -> SpendingRecord:
    """What the cost tracker keeps of the run."""
    return SpendingRecord(
        run_id=context.run_id,
        task_id=context.task_id,
        agent_id=context.agent_id,
        models=services.llm.models,
        at=services.ports.clock.now(),
    )
