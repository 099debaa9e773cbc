"""Phase 6: is the answer supported by what the run saw, and what is done when it is not?"""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import RuntimeErrors, VerificationFailed
from reactive_agents.core.events import ResultVerified, VerificationActed
from reactive_agents.core.governance import VerificationReport
from reactive_agents.core.reasoning import ReasoningResult
from reactive_agents.core.service_config import VerificationAction
from reactive_agents.core.values import replaced
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.phases.second_try import Answer, better_of, try_again, why_not_again
from reactive_agents.engine.phases.spending_limit import SpendingLimit
from reactive_agents.engine.services import EngineServices

_TOLD_FINDINGS = 3


@effect
async def verify(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context with the verifier's report, and with what the configured action made of the answer.

    Fails with ``ExecutionError`` when the verifier does, and with ``VerificationFailed`` when the answer is
    not verified and the action is ``fail``.
    """
    reasoning = context.reasoning
    if not services.ports.verifier or reasoning is None:
        return Success(context)
    checked = await _check(reasoning, context, services)
    if not isinstance(checked, Success):
        return Failure(checked.failure())
    report = checked.unwrap()
    context = _with_answer(context, Answer(reasoning, report))
    services.handle.context = context  # what is left should this phase fail, or its time be up
    if report.verified:
        return Success(context)
    match services.config.verification_action:
        case "annotate":
            _tell("annotate", _verdict(context, report).message, services)
            return Success(context)
        case "fail":
            _tell("fail", _verdict(context, report).message, services)
            return Failure(_verdict(context, report))
        case "retry":
            return await _retried(context, Answer(reasoning, report), services)


async def _retried(
    context: ExecutionContext, first: Answer, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context with the better of two answers; with the first when there is no other."""
    obstacle = why_not_again(context, services)
    if obstacle:
        _tell("annotate", obstacle, services)
        return Success(context)
    _tell("retry", _verdict(context, first.report).message, services)
    tried = await try_again(context, first, services)
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


async def _check(
    reasoning: ReasoningResult, context: ExecutionContext, services: EngineServices
) -> Result[VerificationReport, RuntimeErrors]:
    verifier = services.ports.verifier.unwrap()
    llm = SpendingLimit(services.llm, services.config.budget)
    pending = verifier.verify(context.task, reasoning, llm=llm, model=context.selected_model)
    verified = await attempt(pending)
    if not isinstance(verified, Success):
        return Failure(context.failure_of("verify")(verified.failure()))
    report, events = verified.unwrap(), services.events
    events.publish(ResultVerified(*events.stamp(), report.confidence, report.verified))
    return verified


def _with_answer(context: ExecutionContext, answer: Answer) -> ExecutionContext:
    """The context with an answer and its report; the reason says so when it is not verified."""
    reasoning, report = answer.reasoning, answer.report
    if not report.verified:
        metadata = reasoning.metadata
        reason = f"{metadata.reason} {_verdict(context, report).message}".lstrip()
        reasoning = evolve(reasoning, metadata=evolve(metadata, reason=reason))
    return replaced(context, reasoning=reasoning, verification=report)


def _verdict(context: ExecutionContext, report: VerificationReport) -> VerificationFailed:
    return VerificationFailed(context.task_id, report.confidence, report.findings[:_TOLD_FINDINGS])


def _tell(action: VerificationAction, detail: str, services: EngineServices) -> None:
    events = services.events
    events.publish(VerificationActed(*events.stamp(), action=action, detail=detail))
