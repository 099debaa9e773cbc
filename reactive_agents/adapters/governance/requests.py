"""Requests to people: approvals, questions, and external calls.

One desk handles all three, since the same must hold: a request is pending before it is awaited, so that it
can be settled at once, from any thread; only the first reply counts; a request is no longer pending when its
run ends or its time is over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from threading import Lock
from typing import Any, Generic, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from attrs import define, field
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.governance import (
    ApprovalDecision,
    ApprovalRequest,
    DecisionErrors,
    ExternalCallRequest,
    PersonRequest,
    QuestionRequest,
    Reply,
)
from reactive_agents.core.ids import ApprovalId, RequestId, RunId
from reactive_agents.core.json import Json
from reactive_agents.effects import Effect, call_function, effect
from reactive_agents.event_loop import calls_on_this_loop, end_of_this_loop

Answer: TypeAlias = bool | ApprovalDecision
ApprovalHandler: TypeAlias = Callable[[ApprovalRequest], Answer | Awaitable[Answer]]
"""Decide on a request; a sync function runs in a worker thread, so that it may ask on a terminal."""
CallHandler: TypeAlias = Callable[[ExternalCallRequest], Json]
"""Return the result of an external call, ``None`` for none."""
QuestionHandler: TypeAlias = Callable[[QuestionRequest], str | Awaitable[str | None] | None]
"""Answer a question; ``None`` or a blank text means no answer.

A sync function runs in a worker thread.
"""

DEFAULT_TIMEOUT_S = 300.0

_Request = TypeVar("_Request", bound=ApprovalRequest | PersonRequest)
_Decision = TypeVar("_Decision", ApprovalDecision, Reply)


@define(eq=False)
class _Pending(Generic[_Request, _Decision]):
    """A request, and its first decision, which may come from any thread.

    Attributes:
        missing: creates the decision of a request without an answer from the reason.
        asking: the words before the reason why a handler has no answer.
        interrupted: the exception of a handler that ends the process, instead of a decision.
    """

    request: _Request
    missing: Callable[[str], _Decision]
    asking: str
    decision: _Decision | None = None
    interrupted: BaseException | None = None
    _wake: Callable[[], object] | None = None
    _lock: Lock = field(factory=Lock)
    _is_lost: Callable[[], bool] = field(factory=end_of_this_loop)

    @property
    def waits(self) -> bool:
        """Whether a decision is taken now."""
        return self.decision is None and not self._is_lost()

    def decide(self, decision: _Decision) -> bool:
        """Settle the request; ``False`` if it was settled before, or its loop ended."""
        with self._lock:
            if not self.waits:
                return False
            self.decision = decision
            wake = self._wake
        if wake is not None:
            wake()
        return True

    async def wait(self) -> None:
        """Wait, on the event loop of the run, until there is a decision."""
        decided, call_soon = anyio.Event(), calls_on_this_loop()
        with self._lock:
            if self.decision is not None:
                return
            self._wake = lambda: call_soon(decided.set)
        await decided.wait()


_Desk: TypeAlias = dict[tuple[RunId, str], _Pending[_Request, _Decision]]


@define(eq=False, repr=False, slots=False)
class LocalRequestDesk:
    """Implements ``Approver`` and ``RequestDesk``, by handlers or other methods.

    An approval is denied without a decision in time, or if its handler raises or returns no clear yes. Runs
    may be on any event loop, and decisions may come from any thread.

    Args:
        handler: decides on each approval; without one, they wait for :meth:`approve` or :meth:`deny`.
        timeout_s: seconds that an approval waits, above 0; other requests have their own time limits.
        answer: answers each question; without one, they wait for :meth:`answer`.
        execute: returns the result of each external call; without one, they wait for :meth:`deliver`.
    """

    _handler: ApprovalHandler | None = field(default=None, alias="handler")
    _timeout_s: float = field(default=DEFAULT_TIMEOUT_S, kw_only=True, alias="timeout_s")
    _answer: QuestionHandler | None = field(default=None, kw_only=True, alias="answer")
    _execute: CallHandler | None = field(default=None, kw_only=True, alias="execute")
    _approvals: _Desk[ApprovalRequest, ApprovalDecision] = field(factory=dict, init=False)
    _others: _Desk[Any, Reply] = field(factory=dict, init=False)

    @property
    def has_no_handler(self) -> bool:
        """Whether approvals wait for another part of the program."""
        return self._handler is None

    def decide(self, request: ApprovalRequest) -> Effect[ApprovalDecision, errors.ServiceFailed]:
        """Return the decision; fails with ``ServiceFailed`` for a request already pending.

        The request is pending from this call on, even before the effect is awaited.
        """
        seconds = self._timeout_s
        key, late = (request.run_id, request.approval_id), f"no decision came within {seconds:g} seconds."
        pending = _Pending(request, partial(ApprovalDecision, False), "asking for approval")
        return _take(self._approvals, key, pending, self._handler, _decision_of, seconds, late)

    def reply(self, request: PersonRequest) -> Effect[Reply, errors.ServiceFailed]:
        """Return the reply to a question or an external call, as :meth:`decide` does."""
        seconds, is_question = request.timeout_s, isinstance(request, QuestionRequest)
        handler: Callable[[Any], Any] | None = self._answer if is_question else self._execute
        decision_of = _answer_of if is_question else _result_of
        late = f"no {'answer' if is_question else 'result'} came within {seconds:g} seconds."
        pending: _Pending[Any, Reply] = _Pending(request, lambda reason: Reply(missing=reason), "asking")
        key = (request.run_id, request.request_id)
        return _take(self._others, key, pending, handler, decision_of, seconds, late)

    def ask_here(self, decide: ApprovalHandler, answer: QuestionHandler, execute: CallHandler) -> None:
        """Take handlers for the kinds of requests that have none."""
        self._handler = self._handler or decide
        self._answer = self._answer or answer
        self._execute = self._execute or execute

    def handles(self, request: PersonRequest) -> bool:
        """Return whether the desk has a handler for the request."""
        return (self._answer if isinstance(request, QuestionRequest) else self._execute) is not None

    def pending(self) -> tuple[ApprovalRequest, ...]:
        """Return the approvals that wait for a decision, oldest first."""
        return _waiting(self._approvals)

    def questions(self) -> tuple[QuestionRequest, ...]:
        """Return the questions that wait for an answer, oldest first."""
        return tuple(each for each in _waiting(self._others) if isinstance(each, QuestionRequest))

    def calls(self) -> tuple[ExternalCallRequest, ...]:
        """Return the external calls that wait for their result, oldest first."""
        return tuple(each for each in _waiting(self._others) if isinstance(each, ExternalCallRequest))

    # --- settling it, from any thread, at once --------------------------------------------------------------

    def approve(
        self,
        run_id: RunId,
        approval_id: ApprovalId,
        reason: str = "",
        *,
        arguments: Mapping[str, Any] | None = None,
        by: str = "",
    ) -> Result[None, errors.ApprovalNotPending | DecisionErrors]:
        """Let a call run; it waits on if the decision cannot be taken.

        Args:
            reason: for the audit log, as ``by``, the name of who decides.
            arguments: all arguments of the call, in place of those of the model.
        """
        return self._decide(run_id, approval_id, ApprovalDecision(True, reason, arguments, by))

    def deny(
        self, run_id: RunId, approval_id: ApprovalId, reason: str = "", *, by: str = ""
    ) -> Result[None, errors.ApprovalNotPending | DecisionErrors]:
        """Refuse a call; the model is shown the reason, and not the name."""
        return self._decide(run_id, approval_id, ApprovalDecision(False, reason, by=by))

    def answer(
        self, run_id: RunId, question_id: RequestId, text: str
    ) -> Result[None, errors.RequestNotPending]:
        """Answer a question."""
        return self._settle(run_id, question_id, QuestionRequest, Reply(text))

    def deliver(
        self, run_id: RunId, tool_call_id: RequestId, result: Json = None, *, error: str = ""
    ) -> Result[None, errors.RequestNotPending]:
        """Deliver the result of an external call, or the error that it failed with."""
        return self._settle(run_id, tool_call_id, ExternalCallRequest, Reply(result, error))

    def _decide(
        self, run_id: RunId, approval_id: ApprovalId, decision: ApprovalDecision
    ) -> Result[None, errors.ApprovalNotPending | DecisionErrors]:
        pending = self._approvals.get((run_id, approval_id))
        if pending is None or not pending.waits:
            return Failure(errors.ApprovalNotPending(run_id, approval_id))
        taken = pending.request.taken(decision)
        if isinstance(taken, Failure):
            return taken
        if not pending.decide(taken.unwrap()):
            return Failure(errors.ApprovalNotPending(run_id, approval_id))
        return Success(None)

    def _settle(
        self, run_id: RunId, request_id: RequestId, kind: type, reply: Reply
    ) -> Result[None, errors.RequestNotPending]:
        pending = self._others.get((run_id, request_id))
        if pending is None or not isinstance(pending.request, kind) or not pending.decide(reply):
            return Failure(errors.RequestNotPending(run_id, request_id))
        return Success(None)


def _waiting(desk: _Desk[_Request, _Decision]) -> tuple[_Request, ...]:
    """Return the requests that are not settled now."""
    return tuple(each.request for each in tuple(desk.values()) if each.waits)


def _take(
    desk: _Desk[_Request, _Decision],
    key: tuple[RunId, str],
    pending: _Pending[_Request, _Decision],
    handler: Callable[[Any], Any] | None,
    decision_of: Callable[[Any], _Decision],
    timeout_s: float,
    late: str,
) -> Effect[_Decision, errors.ServiceFailed]:
    """Add a request, and return the effect that awaits its decision."""
    if desk.setdefault(key, pending) is not pending:
        return FutureResult.from_failure(
            errors.ServiceFailed(f"The request {key[1]!r} is pending already.", "requests", "decide")
        )

    @effect
    async def decision() -> Result[_Decision, errors.ServiceFailed]:
        try:
            with anyio.move_on_after(timeout_s):
                async with anyio.create_task_group() as group:
                    if handler is not None:
                        group.start_soon(_handle, handler, decision_of, pending)
                    await pending.wait()
                    group.cancel_scope.cancel()
        finally:
            del desk[key]
        if pending.interrupted is not None:
            raise pending.interrupted
        missing = pending.missing(late)
        pending.decide(missing)  # unless a decision came at the same moment
        return Success(pending.decision or missing)

    return decision()


def _decision_of(answer: Any) -> ApprovalDecision:
    return answer if isinstance(answer, ApprovalDecision) else ApprovalDecision(answer is True)


def _answer_of(text: Any) -> Reply:
    said = isinstance(text, str) and text.strip()
    return Reply(text) if said else Reply(missing="no one answers.")


def _result_of(result: Any) -> Reply:
    return Reply(missing="no one gave its result.") if result is None else Reply(result)


async def _handle(
    handler: Callable[[Any], Any], decision_of: Callable[[Any], Any], pending: _Pending[Any, Any]
) -> None:
    """Settle a request by the result or exception of a handler."""
    try:
        # people are slow, so their threads use a separate limit
        answer = await call_function(handler, pending.request, limiter=anyio.CapacityLimiter(1))
    except Exception as error:  # noqa: BLE001 - a handler is arbitrary user code, and must not open the gate
        why = f"{pending.asking} failed ({type(error).__name__}: {error})."
        pending.decide(pending.missing(why))
    except anyio.get_cancelled_exc_class():
        raise
    except BaseException as error:  # noqa: BLE001 - such as sys.exit(): raised by the effect, not in a group
        pending.interrupted = error
        pending.decide(pending.missing(f"{pending.asking} was interrupted."))
    else:
        pending.decide(decision_of(answer))
