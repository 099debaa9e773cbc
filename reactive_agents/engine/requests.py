"""Requests of one run to people: approvals, questions, and external calls.

Every wait for people is in :func:`_awaited`. A request is published only when it is already pending, so that
a handler of the event can settle it at once. While it waits, the agent is paused, and the time of the tools
around the run stands still. Every request is ended by an event, even when the run is cancelled meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, events
from reactive_agents.core.governance import (
    MOST_REASON,
    ApprovalDecision,
    ApprovalRequest,
    AuditAction,
    ExternalCallRequest,
    PersonRequest,
    QuestionRequest,
    Reply,
)
from reactive_agents.core.ids import RequestId
from reactive_agents.core.json import copied_json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.results import ModelRetry
from reactive_agents.core.tools import ASK_USER, ToolResult, ToolScope
from reactive_agents.effects import BrokenContract, Effect, attempt_foreign, effect
from reactive_agents.engine.context import CALLER
from reactive_agents.engine.run_records import append_entry, append_or_report, redacted_arguments
from reactive_agents.engine.services import EngineServices
from reactive_agents.event_loop import TIMEOUTS
from reactive_agents.kernel.service_calls import broken_service
from reactive_agents.ports import Approver, RequestDesk

if TYPE_CHECKING:
    from reactive_agents.engine.run_journal import RunJournal

_A = TypeVar("_A")
_R = TypeVar("_R")
_S = TypeVar("_S")

NOBODY = "no one can answer here. Go on without it, or say what is missing."
_AT_THE_DEADLINE = "no answer came before the run's deadline."
_UNRECORDED = errors.ServiceFailed("The request cannot be audited.", "audit", "append")
_INTERRUPTED = "the run was interrupted before there was an answer."


class RunApprover:
    """Implements ``Approver`` for one run, with events and audit entries."""

    def __init__(self, approver: Approver, services: EngineServices) -> None:
        self._approver = approver
        self._services = services

    @effect
    async def decide(self, request: ApprovalRequest) -> Result[ApprovalDecision, errors.ServiceFailed]:
        """Return the decision of the engine's approver; the agent is paused meanwhile.

        An approval that cannot be entered into the audit log is a failure, and so the call does not run.
        """
        services = self._services
        user, parent = services.handle.context.task.user, services.events.parent_run_id
        request = evolve(request, user=user, parent_run_id=parent)
        own = evolve(request)  # a copy: the handler keeps the other one
        arguments = redacted_arguments(own.arguments, services)
        asked = f"Approval requested. The arguments: {arguments}"
        await append_or_report("request", services, subject=own.tool_name, detail=asked, call_id=own.call_id)
        if services.handle.failure is not None:  # auditing is required, and no one is asked off the record
            return Failure(_UNRECORDED)
        take, publish = partial(_taken, own), partial(_publish_approval, own, services)
        decided = _settled(
            "approval",
            self._approver,
            Approver.decide,
            request,
            ApprovalDecision,
            publish,
            services.journal,
            take,
        )
        audit = partial(_audited_decision, own, arguments, services)
        return await _awaited(services, decided, audit, partial(_publish_decision, own, services))


def _publish_approval(request: ApprovalRequest, services: EngineServices) -> None:
    services.events.publish(
        events.ApprovalRequested,
        request.approval_id,
        request.call_id,
        request.tool_name,
        arguments=copied_json(request.arguments),
        risk=request.risk,
        copied=request.copied,
        notice=request.notice,
    )


def _taken(request: ApprovalRequest, decision: ApprovalDecision) -> ApprovalDecision:
    """Return a decision as it holds for a request; denied if it cannot be taken."""
    taken = request.taken(decision)
    if isinstance(taken, Failure):
        refused = f"the decision could not be taken. {taken.failure().message}"
        return ApprovalDecision(False, refused, by=f"{decision.by}"[:MOST_REASON])
    made: ApprovalDecision = taken.unwrap()
    return made


async def _audited_decision(
    request: ApprovalRequest, arguments: str, services: EngineServices, given: ApprovalDecision
) -> Result[ApprovalDecision, errors.ServiceFailed]:
    """Enter an approval into the audit log, and return the decision as it holds."""
    decision = _taken(request, given)  # it may come from another process
    if decision.approved is not True:
        return Success(decision)
    because = f": {decision.signed.rstrip('.')}" if decision.signed else ""
    made_with = f"The arguments: {arguments}"
    if decision.arguments is not None:
        made_with = f"The arguments were changed to: {redacted_arguments(decision.arguments, services)}"
    entered = await append_entry(
        "approval",
        services,
        subject=request.tool_name,
        detail=f"Approved{because}. {made_with}",
        call_id=request.call_id,
    )
    cannot = "The approval cannot be audited."
    return entered.map(lambda _: decision).alt(
        lambda failed: evolve(failed, message=f"{cannot} {failed.message}")
    )


def _publish_decision(
    request: ApprovalRequest,
    services: EngineServices,
    decided: Result[ApprovalDecision, errors.ServiceFailed] | None,
) -> None:
    decision = ApprovalDecision(False, "the run was interrupted before the call could be approved.")
    if decided is not None:
        decision = decided.lash(lambda failed: Success(ApprovalDecision(False, failed.message))).unwrap()
    services.events.publish(
        events.ApprovalDecided,
        request.approval_id,
        request.call_id,
        request.tool_name,
        approved=decision.approved,
        reason=decision.reason,
        arguments=copied_json(decision.arguments),
        by=decision.by,
    )


async def request_reply(
    call: ToolCall, scope: ToolScope, timeout_s: float, services: EngineServices
) -> Result[ToolResult, errors.ToolErrors]:
    """Return the result of a checked call that another program answers or executes.

    Fails with ``ToolNotAnswered`` when there is no one to ask or no reply comes in time, and with
    ``ToolFailed`` when the reply says that the call failed.
    """
    clock = services.ports.clock
    started, request = clock.monotonic(), _request(call, scope, timeout_s)
    reply = await _reply(request, call, scope.deadline, services)
    if reply.missing:
        return Failure(errors.ToolNotAnswered(call.name, reply.missing))
    if reply.error:
        return Failure(errors.ToolFailed(call.name, reply.error))
    try:
        json.dumps(reply.value)
    except (TypeError, ValueError) as error:
        return Failure(errors.ToolFailed(call.name, f"The delivered result is not JSON data: {error}"))
    took_ms = (clock.monotonic() - started) * 1000
    return Success(ToolResult(call.id, call.name, reply.value, duration_ms=took_ms))


async def request_answer(
    call: ToolCall, request_id: RequestId, text: str, options: tuple[str, ...], services: EngineServices
) -> str:
    """Return a person's answer to a question in the middle of a call.

    Raises:
        ModelRetry: there is no one to ask, or no answer comes in time.
    """
    context = services.handle.context
    whose = (context.run_id, context.task_id, context.agent_id, request_id, call.id)
    request = QuestionRequest(*whose, text, options, services.settings.timeouts.answer_s)
    asked = evolve(call, arguments={"question": text, "options": [*options]})
    reply = await _reply(request, asked, context.deadline, services)
    if reply.missing or not isinstance(reply.value, str):
        raise ModelRetry(f"Its question was not answered: {reply.missing or reply.error}")
    return reply.value


async def _reply(
    request: PersonRequest, call: ToolCall, deadline: float | None, services: EngineServices
) -> Reply:
    """Return the reply to a request, or what the model reads of why there is none."""
    clock, caller = services.ports.clock, CALLER.get()
    desk = None if caller is None else caller.desk(request)
    if desk is None:
        return Reply(missing=NOBODY)
    publish = partial(_publish_request, request, call, services)

    async def reply_in_time() -> Result[Reply, errors.ServiceFailed]:
        left_s = None if deadline is None else deadline - clock.monotonic()
        with anyio.move_on_after(left_s):
            return await _settled(
                "requests", desk, RequestDesk.reply, request, Reply, publish, services.journal
            )
        return Success(Reply(missing=_AT_THE_DEADLINE))

    is_question = isinstance(request, QuestionRequest)
    kind = "Question asked" if is_question else "External call requested"
    detail = f"{kind}. The arguments: {redacted_arguments(call.arguments, services)}"
    await append_or_report("request", services, subject=call.name, detail=detail, call_id=call.id)
    if services.handle.failure is not None:
        return Reply(missing=_UNRECORDED.message)
    audit = partial(_audited_reply, request, call, services)
    end = partial(_publish_reply, request, call, services)
    reply = _reply_in(await _awaited(services, reply_in_time(), audit, end))
    if reply.missing and is_question:
        return Reply(missing=f"{reply.missing} Go on without it, or say what is missing.")
    return reply


def _publish_request(request: PersonRequest, call: ToolCall, services: EngineServices) -> None:
    if isinstance(request, QuestionRequest):
        services.events.publish(
            events.QuestionAsked, request.question_id, call.id, request.text, request.options
        )
    else:
        arguments = copied_json(request.arguments)
        services.events.publish(
            events.ExternalCallRequested, request.tool_call_id, call.id, call.name, arguments
        )


def _publish_reply(
    request: PersonRequest,
    call: ToolCall,
    services: EngineServices,
    replied: Result[Reply, errors.ServiceFailed] | None,
) -> None:
    reply = Reply(missing=_INTERRUPTED) if replied is None else _reply_in(replied)
    is_given, reason = not reply.missing, reply.missing
    if isinstance(request, QuestionRequest):
        answer = reply.value if is_given and isinstance(reply.value, str) else ""
        services.events.publish(
            events.QuestionAnswered, request.request_id, call.id, is_given, answer, reason
        )
    else:
        services.events.publish(
            events.ExternalCallDelivered, request.request_id, call.id, call.name, is_given, reason
        )


async def _audited_reply(
    request: PersonRequest, call: ToolCall, services: EngineServices, reply: Reply
) -> Result[Reply, errors.ServiceFailed]:
    """Enter the reply into the audit log, and return it."""
    if reply.missing:
        detail = f"Not answered: {reply.missing}"
    elif isinstance(request, QuestionRequest):
        detail = f"Answered: {redacted_arguments({'answer': reply.value}, services)}"
    else:
        detail = f"Failed: {reply.error}" if reply.error else "Delivered."
    action: AuditAction = "denial" if reply.missing else "answer"
    await append_or_report(action, services, subject=call.name, detail=detail, call_id=call.id)
    return Success(reply)


def _reply_in(replied: Result[Reply, errors.ServiceFailed]) -> Reply:
    return replied.lash(lambda failed: Success(Reply(missing=failed.message))).unwrap()


def _request(call: ToolCall, scope: ToolScope, timeout_s: float) -> PersonRequest:
    # not the call's id, which is unique within one kernel only: steps of a plan run side by side
    whose = (scope.run_id, scope.task_id, scope.agent_id, RequestId(scope.call_key), call.id)
    if call.name != ASK_USER:
        return ExternalCallRequest(*whose, call.name, call.arguments, timeout_s)
    text, options = call.arguments.get("question"), call.arguments.get("options")
    shown = options if isinstance(options, list) else []
    return QuestionRequest(*whose, str(text), tuple(str(each) for each in shown), timeout_s)


async def _awaited(
    services: EngineServices,
    wait: Coroutine[Any, Any, Result[_A, errors.ServiceFailed]],
    settle: Callable[[_A], Awaitable[Result[_A, errors.ServiceFailed]]],
    end: Callable[[Result[_A, errors.ServiceFailed] | None], None],
) -> Result[_A, errors.ServiceFailed]:
    """Return the outcome of a request, while the agent is paused.

    Args:
        wait: makes the request, and waits until it is settled.
        settle: enters the outcome into the audit log, and may change it.
        end: publishes the outcome; ``None`` if the run was interrupted.
    """
    handle, timeouts = services.handle, TIMEOUTS.get()
    settled: Result[_A, errors.ServiceFailed] | None = None
    handle.waiting += 1
    handle.requests += 1
    for timeout in timeouts:
        timeout.stop()
    try:
        outcome = await wait
        if isinstance(outcome, Success):
            outcome = await settle(outcome.unwrap())
        settled = outcome
    finally:  # also when the wait is cancelled: every request has an end
        handle.waiting -= 1
        for timeout in timeouts:
            timeout.go_on()
        end(settled)
    return outcome


async def _settled(
    name: str,
    service: _S,
    method: Callable[[_S, _R], Effect[_A, errors.ServiceFailed]],
    request: _R,
    expected: type[_A],
    publish: Callable[[], None],
    journal: RunJournal | None,
    take: Callable[[_A], _A] | None = None,
) -> Result[_A, errors.ServiceFailed]:
    """Make a request, publish it once it is pending, and return its outcome.

    In a durable run the outcome may come from another process, even before this one was started.

    Args:
        take: returns an outcome of this process as it is recorded.
    """

    def pending() -> object:
        try:
            return getattr(service, method.__name__)(request)
        finally:
            publish()

    async def asked() -> Result[_A, errors.ServiceFailed]:
        outcome = await attempt_foreign(pending, expected)
        if isinstance(outcome, BrokenContract):
            return Failure(broken_service(name, service, method.__name__, outcome.problem))
        return outcome if take is None else outcome.map(take)

    return await asked() if journal is None else await journal.ask(request, expected, asked, publish)
