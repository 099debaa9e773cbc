"""Phase 6: verify the answer, and try again when it is not supported."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, events
from reactive_agents.core.config import VerificationAction
from reactive_agents.core.messages import AssistantMessage
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse
from reactive_agents.core.results import ReasoningResult, VerificationReport
from reactive_agents.core.settings import BudgetConfig
from reactive_agents.core.tools import TRIED
from reactive_agents.core.values import Value, replaced
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.agent_loop import agent_loop
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.run_result import without_declined
from reactive_agents.engine.services import EngineServices
from reactive_agents.kernel import EarlierAttempt, MeteredLLM
from reactive_agents.kernel.ledger import NO_CALLS, CallLedger
from reactive_agents.kernel.policies.limits import budget_reached_by_run
from reactive_agents.kernel.service_calls import call_service
from reactive_agents.ports import Verifier


@frozen(eq=False, repr=False)
class Answer(Value):
    """An outcome of the loop with its verification report."""

    reasoning: ReasoningResult
    report: VerificationReport


def better_of(first: Answer, second: Answer, *, typed: bool) -> Answer:
    """Return the answer with more confidence, with the steps and figures of both.

    Of two equal answers it is the completed one, or else the second.

    Args:
        second: the second answer, with the steps, results and figures of both attempts.
        typed: whether the output is structured; a completed answer is then better than a partial one.
    """
    if _rank(second, typed) >= _rank(first, typed):
        return second
    both = second.reasoning
    figures = evolve(
        first.reasoning.metadata,
        duration=both.metadata.duration,
        cost=both.metadata.cost,
        tokens_used=both.metadata.tokens_used,
        steps_count=both.metadata.steps_count,
        iterations=both.metadata.iterations,
    )
    kept = evolve(first.reasoning, steps=both.steps, tool_results=both.tool_results, metadata=figures)
    return Answer(kept, first.report)


def _rank(answer: Answer, typed: bool) -> tuple[bool, float, bool]:
    complete = answer.reasoning.status == "completed"
    return typed and complete, answer.report.confidence, complete


def retry_obstacle(context: ExecutionContext, services: EngineServices) -> str:
    """Return why there is no second attempt, in a sentence; empty if there may be one."""
    if services.handle.handoff is not None:
        return "There is no second try, as another agent has answered."
    limit = services.settings.explicit_limit(context.max_iterations)
    if limit is not None and context.iteration >= limit:
        return "There is no second try, as the turns of the run are used up."
    used_up = budget_reached_by_run(services.settings.budget, services.llm.account)
    if used_up is not None or services.llm.refusal is not None:
        return "There is no second try, as the budget of the run is used up."
    if services.seconds_left() <= 0:
        return "There is no second try, as the time of the run is up."
    return ""


async def retry_loop(
    context: ExecutionContext, first: Answer, services: EngineServices
) -> Result[ExecutionContext | None, errors.RuntimeErrors]:
    """Run the loop again, and return the context with both attempts.

    The model is shown the first answer and its problems. Calls, turns and budgets continue to count. Return
    ``None`` when the second attempt fails. Fails with ``HookError`` if the attempt failed with that.
    """
    handle = services.handle
    limit = services.settings.explicit_limit(context.max_iterations)
    handle.context = evolve(
        context,
        max_iterations=context.max_iterations if limit is None else limit - context.iteration,
        earlier=_earlier(first, services),
    )
    try:
        outcome = await agent_loop(handle.context, services)
    finally:  # also when it is cancelled: the first answer is kept
        handle.context, handle.phase = context, "verify"
    if not isinstance(outcome, Success):
        error = outcome.failure()
        return Failure(error) if isinstance(error, errors.HookError) else Success(None)
    again = outcome.unwrap()
    reasoning = again.reasoning
    return Success(
        evolve(
            again,
            max_iterations=context.max_iterations,
            iteration=context.iteration + again.iteration,
            earlier=None,
            reasoning=reasoning and _with_both_attempts(first.reasoning, reasoning),
        )
    )


def _earlier(first: Answer, services: EngineServices) -> EarlierAttempt:
    state = services.handle.kernel_state
    ran = [result for result in services.handle.tool_results if result.origin in TRIED]
    made = NO_CALLS.with_calls(
        ((result.tool_name, result.success) for result in ran),
        declined=[result.tool_name for result in ran if result.origin == "declined"],
    )
    effects = state.ledger.counted.effects if state is not None else {}
    ledger = evolve(
        state.ledger if state is not None else CallLedger(),
        calls=NO_CALLS,
        earlier=evolve(made, failed_in_a_row={}, effects=effects),  # it begins with a clean slate
        idle_turns=0,
        repeated=False,
        said=frozenset(),
        told={},
    )
    return EarlierAttempt(
        first.reasoning.output or "", first.report.findings, first.reasoning.tool_results, ledger
    )


def _with_both_attempts(first: ReasoningResult, second: ReasoningResult) -> ReasoningResult:
    earlier, later = first.metadata, second.metadata
    steps = first.steps + second.steps
    figures = evolve(
        later,
        duration=earlier.duration + later.duration,
        cost=earlier.cost + later.cost,
        tokens_used=earlier.tokens_used + later.tokens_used,
        steps_count=len(steps),
        iterations=earlier.iterations + later.iterations,
    )
    results = {**first.tool_results, **second.tool_results}
    return without_declined(evolve(second, steps=steps, tool_results=results, metadata=figures))


# --- Phase 6: verification ---


_SHOWN_FINDINGS = 3


async def verify(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, errors.RuntimeErrors]:
    """Verify the answer, and apply the configured action when it is not verified.

    A run that abstained has no answer to verify. Fails with ``ExecutionError`` when the verifier fails, and
    with ``VerificationFailed`` when the answer is not verified and the action is ``fail``.
    """
    reasoning = context.reasoning
    if reasoning is None or reasoning.status == "abstained":
        return Success(context)
    checked = await _check(reasoning, context, services)
    if not isinstance(checked, Success):
        return Failure(checked.failure())
    report = checked.unwrap()
    context = _with_answer(context, Answer(reasoning, report))
    services.handle.context = context  # kept when this phase fails or is cancelled
    if report.verified:
        return Success(context)
    action, verdict = services.settings.verification_action, _verdict(context, report)
    if action == "retry":
        return await _second_attempt(context, Answer(reasoning, report), services)
    _publish_action(action, verdict.message, services)
    return Failure(verdict) if action == "fail" else Success(context)


async def _second_attempt(
    context: ExecutionContext, first: Answer, services: EngineServices
) -> Result[ExecutionContext, errors.RuntimeErrors]:
    """Return the context with the better of two answers, or with the first."""
    obstacle = retry_obstacle(context, services)
    if obstacle:
        _publish_action("annotate", obstacle, services)
        return Success(context)
    _publish_action("retry", _verdict(context, first.report).message, services)
    tried = await retry_loop(context, first, services)
    if not isinstance(tried, Success):
        return Failure(tried.failure())
    again = tried.unwrap()
    if again is None:
        return Success(context)
    reasoning = again.reasoning
    assert reasoning is not None, "a second try that ends well has an outcome"
    checked = await _check(reasoning, context, services)
    if not isinstance(checked, Success):
        return Failure(checked.failure())
    second = Answer(reasoning, checked.unwrap())
    kept = better_of(first, second, typed=bool(services.ports.output_shape))
    if kept is not second:
        again = replaced(again, messages=context.messages)
    return Success(_with_answer(again, kept))


class _SpendingLimit:
    """A model service that fails once the run's budget is used up.

    Within the loop a policy enforces the budget and ends the run.
    """

    def __init__(self, llm: MeteredLLM, limits: BudgetConfig) -> None:
        self._llm = llm
        self._limits = limits

    @property
    def model(self) -> str:
        """Return the model of a request that names none."""
        return self._llm.model

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, errors.LLMErrors]:
        """Ask the model, unless the budget is used up."""
        refusal = self._refusal(request)
        return await attempt(self._llm.complete(request)) if refusal is None else Failure(refusal)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, errors.LLMErrors]]:
        """Ask the model, unless the budget is used up."""
        refusal = self._refusal(request)
        if refusal is not None:
            yield Failure(refusal)
            return
        async with aclosing(self._llm.stream(request)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk

    def _refusal(self, request: ModelRequest) -> errors.BudgetUnavailable | None:
        used_up = budget_reached_by_run(self._limits, self._llm.account)
        return None if used_up is None else errors.BudgetUnavailable(used_up, request.model or self.model)


async def _check(
    reasoning: ReasoningResult, context: ExecutionContext, services: EngineServices
) -> Result[VerificationReport, errors.RuntimeErrors]:
    verifier = services.ports.verifier.unwrap()
    llm = _SpendingLimit(services.llm, services.settings.budget)
    model = context.selected_model
    verified = await call_service(
        "verification",
        verifier,
        Verifier.verify,
        VerificationReport,
        context.task,
        evolve(reasoning, tool_results={**_shown_from_outside(context), **reasoning.tool_results}),
        llm=llm,
        model=model,
    )
    if not isinstance(verified, Success):
        return Failure(context.failure_of("verify")(verified.failure()))
    report = verified.unwrap()
    services.events.publish(events.ResultVerified, report.confidence, report.verified)
    return verified


def _shown_from_outside(context: ExecutionContext) -> Mapping[str, str]:
    """Return the recalled notes and the earlier messages that the model did not write.

    Earlier answers of the model are not evidence for a later one.
    """
    notes = context.memory_context.text if context.memory_context is not None else ""
    said = [each.content for each in context.history.messages if not isinstance(each, AssistantMessage)]
    shown = {"recalled-notes": notes, "conversation": "\n".join(said)}
    return {key: text for key, text in shown.items() if text}


def _with_answer(context: ExecutionContext, answer: Answer) -> ExecutionContext:
    reasoning, report = answer.reasoning, answer.report
    if not report.verified:
        metadata = reasoning.metadata
        reason = f"{metadata.reason} {_verdict(context, report).message}".lstrip()
        reasoning = evolve(reasoning, metadata=evolve(metadata, reason=reason))
    return replaced(context, reasoning=reasoning, verification=report)


def _verdict(context: ExecutionContext, report: VerificationReport) -> errors.VerificationFailed:
    return errors.VerificationFailed(context.task_id, report.confidence, report.findings[:_SHOWN_FINDINGS])


def _publish_action(action: VerificationAction, detail: str, services: EngineServices) -> None:
    services.events.publish(events.VerificationActed, action=action, detail=detail)
