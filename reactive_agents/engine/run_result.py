"""The metadata of a run, its partial result, and its final one (phase 10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, results
from reactive_agents.core.conversation import messages_of_run, without_instructions
from reactive_agents.core.events import TaskFailed
from reactive_agents.core.settings import BudgetConfig
from reactive_agents.core.tasks import TaskResult, TaskResultMetadata
from reactive_agents.core.texts import counted
from reactive_agents.core.usage import RunUsage, total_usage
from reactive_agents.core.values import replaced
from reactive_agents.engine.context import ExecutionContext, sub_run_of
from reactive_agents.engine.memory import success_of
from reactive_agents.engine.services import EnginePorts, EngineServices, RunHandle
from reactive_agents.kernel import KernelState
from reactive_agents.kernel.context_window.tool_results import tool_results
from reactive_agents.kernel.reducers import new_step, record_actions
from reactive_agents.kernel.termination import last_words
from reactive_agents.kernel.tool_execution import CUT_OFF_WITH_RUN, call_key
from reactive_agents.reasoning.confidence import RunCourse, confidence_in

if TYPE_CHECKING:
    from reactive_agents.core.governance import SpendingRecord
    from reactive_agents.kernel.context import UsageAccount


def steps_taken(context: ExecutionContext, services: EngineServices) -> tuple[results.ReasoningStep, ...]:
    """Return the steps of the outcome, or of all kernels when there is none.

    A tool call that was cancelled with the run is among them; it is in doubt if it may have taken effect. So
    is a call of an earlier attempt that was left in doubt.
    """
    if context.reasoning is not None:
        return context.reasoning.steps
    handle, now = services.handle, services.ports.clock.now()
    steps = (
        step
        for state in handle.kernel_states.values()
        for step in (_with_calls_under_way(state, handle, now) if state.pending else state.steps)
    )
    return *steps, *handle.left_in_doubt


def _with_calls_under_way(
    state: KernelState, handle: RunHandle, now: datetime
) -> Sequence[results.ReasoningStep]:
    known = (handle.interrupted_calls.get(call_key(state, index)) for index in range(len(state.pending)))
    begun = [each for each in known if each is not None]
    steps = record_actions(replaced(state, pending=tuple(call for call, _ in begun)), now)
    doubts = (
        results.StepMetadata(call.name, call.id, success=False, origin="in_doubt")
        for call, is_in_doubt in begun
        if is_in_doubt
    )
    return steps.extended(
        new_step(state, offset, "observation", CUT_OFF_WITH_RUN, now, doubt)
        for offset, doubt in enumerate(doubts, len(begun))
    )


def run_metadata(context: ExecutionContext, services: EngineServices) -> TaskResultMetadata:
    """Return duration, usage and the other figures of the run until now."""
    reasoning = context.reasoning
    verification = context.verification
    metadata = reasoning.metadata if reasoning is not None else None
    confidence = metadata.confidence if metadata is not None else None
    return figures_in(
        services.llm.account,
        _duration_ms(services),
        services.llm.answered_by or context.selected_model or services.llm.model,
        steps_count=len(steps_taken(context, services)),
        strategy_used=reasoning.strategy if reasoning is not None else context.selected_strategy or "",
        terminated_by=_terminated_by(context.error, metadata.terminated_by if metadata is not None else ""),
        iterations=sum([each.iteration for each in services.handle.kernel_states.values()])
        if metadata is None
        else metadata.iterations,
        confidence=confidence if verification is None else verification.confidence,
        effectiveness=None
        if metadata is None
        else metadata.effectiveness_with(success_of(context, services)),
        selected_strategy=metadata.selected_strategy if metadata is not None else None,
        requests=_requests(services),
        tags=context.task.tags,
        given=context.task.metadata,
    )


def figures_of(services: EngineServices) -> TaskResultMetadata:
    """Return what the run has taken until now, by its account alone."""
    model = services.llm.answered_by or services.llm.model
    return figures_in(services.llm.account, _duration_ms(services), model)


def _duration_ms(services: EngineServices) -> float:
    return (services.ports.clock.monotonic() - services.handle.started) * 1000


def figures_in(
    account: UsageAccount,
    duration_ms: float = 0.0,
    model: str | None = None,
    *,
    steps_count: int = 0,
    strategy_used: str = "",
    terminated_by: str = "error",
    **known: Any,
) -> TaskResultMetadata:
    """Return what the account of a run has of it, by default with its last model.

    Args:
        known: further figures, which the account has not.
    """
    spending, models = account.total, account.models
    return TaskResultMetadata(
        duration_ms=duration_ms,
        cost_usd=spending.cost_usd,
        tokens_used=spending.usage.total_tokens,
        steps_count=steps_count,
        strategy_used=strategy_used,
        model=(models[-1].model if models else "") if model is None else model,
        terminated_by=terminated_by,
        model_calls=spending.calls,
        unpriced_calls=spending.unpriced_calls,
        usage=spending.usage,
        models=models,
        tool_calls=account.tool_calls,
        **known,
    )


def _requests(services: EngineServices) -> int:
    """Return the number of requests to people, with those of the runs below it."""
    handle, journal = services.handle, services.journal
    run_id = handle.context.run_id
    own = (each.metadata.requests for each in handle.sub_runs if each.parent_run_id == run_id)
    return handle.requests + sum(own) + (0 if journal is None else journal.requests)


def _terminated_by(error: errors.RuntimeErrors | None, reasoning: str) -> str:
    match error:
        case None:
            return reasoning
        case errors.RunCancelled():
            return "cancelled"
        case errors.GuardrailViolationError():
            return "guardrail"
        case errors.VerificationFailed():
            return "verification"
        case errors.HookError():
            return "hook"
        case errors.MaxIterationsError():
            return "iteration_limit"
        case errors.RunInterrupted():
            return "interrupted"
        case errors.ExecutionError() | errors.TaskError() | errors.IllegalAgentState() | errors.RunRefused():
            return "error"


def spending_record(context: ExecutionContext, services: EngineServices) -> SpendingRecord:
    """Return the record of the run for the cost tracker."""
    from reactive_agents.core.governance import SpendingRecord  # of agents with such

    return SpendingRecord(
        run_id=context.run_id,
        task_id=context.task_id,
        agent_id=context.agent_id,
        models=_unrecorded(services),
        at=services.ports.clock.now(),
        user=services.handle.user,
    )


def _unrecorded(services: EngineServices) -> tuple[RunUsage, ...]:
    """Return the usage that no run below it has recorded in the same place."""
    recorded = services.handle.recorded.get(place_of_records(services.ports), ())
    if not recorded:
        return services.llm.models
    left = []
    for each in services.llm.models:
        total = total_usage(part for part in recorded if part.model == each.model)
        rest = evolve(each.since(total), model=each.model)
        if rest.calls > 0 or rest.cost_usd > 0 or rest.unreported_calls > 0:
            left.append(rest)
    return tuple(left)


def place_of_records(ports: EnginePorts) -> object:
    """Return the place of a cost tracker's records: its file, or else the object."""
    tracker = ports.cost_tracker.value_or(None)
    return getattr(tracker, "place", "") or tracker


def partial_result(
    terminated_by: str, reason: str, context: ExecutionContext, services: EngineServices
) -> results.ReasoningResult:
    """Return a partial outcome from the kernels' states, with the model's last text.

    If an answer was being streamed, that is the text so far.
    """
    context = evolve(context, reasoning=None)
    states = tuple(services.handle.kernel_states.values())
    figures = run_metadata(context, services)
    steps = steps_taken(context, services)
    return results.ReasoningResult(
        strategy=figures.strategy_used,
        steps=steps,
        output=services.events.text_so_far or next(filter(None, map(last_words, reversed(states))), None),
        metadata=results.ReasoningMetadata(
            duration=figures.duration_ms,
            cost=figures.cost_usd,
            tokens_used=figures.tokens_used,
            steps_count=len(steps),
            confidence=confidence_in("partial", RunCourse(failed_calls=len(results.failures_in(steps)))),
            iterations=figures.iterations,
            terminated_by=terminated_by,
            reason=reason,
        ),
        status="partial",
        tool_results={
            key: result for state in states for key, result in tool_results(state.scratchpad).items()
        },
    )


def with_reason(reasoning: results.ReasoningResult, reason: str) -> results.ReasoningResult:
    """Return the outcome with another reason."""
    return evolve(reasoning, metadata=evolve(reasoning.metadata, reason=reason))


def without_declined(result: results.ReasoningResult) -> results.ReasoningResult:
    """Return the outcome, which is partial where a call was declined or is in doubt.

    What the answer says of it does not matter. The reason of any partial one names what is in doubt.
    """
    declined, reason = results.declined_end(result.status, result.steps), result.metadata.reason
    if declined is None:
        doubt = results.doubt_in(result.steps) if result.status == "partial" else ""
        if not doubt or doubt in reason:
            return result
        return evolve(result, metadata=evolve(result.metadata, reason=f"{reason} {doubt}"))
    ended_by, reason = declined
    course = RunCourse(failed_calls=len(results.failures_in(result.steps)))
    confidence = min(result.metadata.confidence, confidence_in("partial", course))
    metadata = evolve(result.metadata, terminated_by=ended_by, reason=reason, confidence=confidence)
    return evolve(result, status="partial", metadata=metadata)


# --- Phase 10: the result ---


async def complete(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, errors.RuntimeErrors]:
    """Complete the run with its result, or fail where it has no outcome."""
    reasoning = context.reasoning
    if reasoning is None:
        return Failure(errors.ExecutionError("The agent loop has no outcome.", context.task_id, "complete"))
    return Success(replaced(context, result=task_result(reasoning, context, services)))


def _with_losses(reason: str, services: EngineServices) -> str:
    """Return the reason, with what was not read whole, or not counted."""
    lost = [state.transcript.lost for state in services.handle.kernel_states.values()]
    uncounted = _uncounted(services.settings.budget, services.llm.usage)
    return " ".join(filter(None, dict.fromkeys((reason, *lost, uncounted))))


def _uncounted(limits: BudgetConfig, used: RunUsage) -> str:
    """Return which limit the run may have exceeded unnoticed; empty if none."""
    if limits.cost_usd is not None and used.unpriced_calls:
        unknown = f"{counted(used.unpriced_calls, 'request')} whose price is not known"
        return f"The limit of ${limits.cost_usd:.4g} does not count {unknown}."
    if limits.tokens is not None and used.unreported_calls:
        unknown = f"{counted(used.unreported_calls, 'request')} whose tokens were not reported"
        return f"The limit of {limits.tokens} tokens does not count {unknown}."
    return ""


def task_result(
    reasoning: results.ReasoningResult, context: ExecutionContext, services: EngineServices
) -> TaskResult:
    """Return the result of the run with this outcome."""
    journal = services.journal
    return TaskResult(
        task_id=context.task_id,
        run_id=context.run_id,
        agent_id=context.agent_id,
        output=reasoning.output,
        success=reasoning.status == "completed",
        status=reasoning.status,
        reason=_with_losses(reasoning.metadata.reason, services),
        steps=reasoning.steps,
        metadata=run_metadata(context, services),
        completed_at=services.ports.clock.now(),
        tool_results=_own_results(reasoning, context),
        verification=context.verification,
        tree=reasoning.tree,
        deliverables=results.deliverables_of(reasoning.steps),
        new_messages=messages_of_run(
            context.task.input,
            reasoning.messages if journal is None else journal.with_messages(reasoning.messages),
            reasoning.output,
            context.task.parts,
        ),
        history=without_instructions(context.task.history) or context.history.messages,
        sub_runs=tuple(services.handle.sub_runs),
        handoffs=services.handle.handoffs,
        agent=services.handle.answered_by or services.settings.name,
        state=services.handle.state.snapshot(),
    )


def record_sub_run(ended: TaskResult | TaskFailed, services: EngineServices) -> None:
    """Add the ended run to the sub-runs of the run whose tool began it."""
    caller, context = services.handle.caller, services.handle.context
    if caller is None:
        return
    own = sub_run_of(ended, caller.run_id, services.settings.name, context.task.input)
    recorded = dict(services.handle.recorded)
    if services.handle.reached.get("cost-track") == "done" and services.ports.cost_tracker:
        recorded[place_of_records(services.ports)] = services.llm.models
    caller.take_in((*services.handle.sub_runs, own), recorded)


def _own_results(reasoning: results.ReasoningResult, context: ExecutionContext) -> Mapping[str, str]:
    """Return the tool results without those of earlier runs of the conversation."""
    earlier = context.history.results
    if not earlier:
        return reasoning.tool_results
    return {key: text for key, text in reasoning.tool_results.items() if key not in earlier}
