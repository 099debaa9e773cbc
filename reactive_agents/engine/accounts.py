"""The figures of a run, read once from clock, meter and kernel."""

from __future__ import annotations

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
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices
from reactive_agents.kernel import KernelState


def steps_taken(context: ExecutionContext, services: EngineServices) -> tuple[ReasoningStep, ...]:
    """The steps of the result, or of the kernel that ran last when there is none."""
    if context.reasoning is not None:
        return context.reasoning.steps
    state = services.handle.kernel_state
    return state.steps if state is not None else ()


def run_metadata(context: ExecutionContext, services: EngineServices) -> TaskResultMetadata:
    """The figures of the run up to now."""
    spending = services.llm.spending
    reasoning = context.reasoning
    verification = context.verification
    metadata = reasoning.metadata if reasoning is not None else None
    state = services.handle.kernel_state
    confidence = metadata.confidence if metadata is not None else None
    return TaskResultMetadata(
        duration_ms=(services.ports.clock.monotonic() - services.handle.started) * 1000,
        cost_usd=spending.cost_usd,
        tokens_used=spending.usage.total_tokens,
        steps_count=len(steps_taken(context, services)),
        strategy_used=reasoning.strategy if reasoning is not None else context.selected_strategy or "",
        model=spending.model or context.selected_model or services.llm.model,
        terminated_by=_ended_by(context.error, metadata.terminated_by if metadata is not None else ""),
        iterations=_iterations(reasoning, state),
        model_calls=spending.calls,
        unpriced_calls=spending.unpriced_calls,
        usage=spending.usage,
        confidence=confidence if verification is None else verification.confidence,
        selected_strategy=metadata.selected_strategy if metadata is not None else None,
        models=services.llm.models,
    )


def _iterations(reasoning: ReasoningResult | None, state: KernelState | None) -> int:
    """The turns of all kernel runs; before there is a result, those of the one that ran last."""
    if reasoning is not None:
        return reasoning.metadata.iterations
    return state.iteration if state is not None else 0


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
