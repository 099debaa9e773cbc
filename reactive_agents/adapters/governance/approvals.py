"""Approval of tool calls by a handler or by another part of the program."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from threading import Lock
from typing import TypeAlias

import anyio
import anyio.to_thread
from attrs import define, field
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ApprovalNotPending, ServiceFailed
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest
from reactive_agents.core.ids import ApprovalId, RunId
from reactive_agents.effects import Effect, calls_on_this_loop, effect

Answer: TypeAlias = bool | ApprovalDecision
ApprovalHandler: TypeAlias = Callable[[ApprovalRequest], Answer | Awaitable[Answer]]
"""Decide on a request; a plain function runs in a worker thread, so that it may ask on a terminal."""

DEFAULT_TIMEOUT_S = 300.0


@define(eq=False)
class _Pending:
    """A request, and its first decision, which may come from any thread.

    Attributes:
        interrupted: why there is none: its handler ends the process.
    """

    request: ApprovalRequest
    decision: ApprovalDecision | None = None
    interrupted: BaseException | None = None
    _wake: Callable[[], object] | None = None
    _lock: Lock = field(factory=Lock)

    def decide(self, decision: ApprovalDecision) -> bool:
        """Settle the request; ``False`` when it was settled before."""
        with self._lock:
            if self.decision is not None:
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


class ApprovalDesk:
    """Implements ``Approver`` by a handler, or by :meth:`approve` and :meth:`deny`.

    A request without a decision in time is denied, and so is one whose handler raises or returns anything but
    a clear yes. Runs may be on any event loop, and decisions may come from any thread.

    Args:
        handler: decides on each request; without one, requests wait for :meth:`approve` or :meth:`deny`.
        timeout_s: seconds that a request waits, above 0.
    """

    def __init__(
        self, handler: ApprovalHandler | None = None, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self._handler = handler
        self._timeout_s = timeout_s
        self._pending: dict[tuple[RunId, ApprovalId], _Pending] = {}

    def decide(self, request: ApprovalRequest) -> Effect[ApprovalDecision, ServiceFailed]:
        """Return the decision; fails with ``ServiceFailed`` for a request already pending.

        The request is pending from this call on, before the effect is awaited, so that it can be decided at
        once.
        """
        key = (request.run_id, request.approval_id)
        pending = _Pending(request)
        if self._pending.setdefault(key, pending) is not pending:
            message = f"Approval {request.approval_id!r} is pending already."
            return FutureResult.from_failure(ServiceFailed(message, "approvals", "decide"))
        return self._decision(key, pending)

    @effect
    async def _decision(
        self, key: tuple[RunId, ApprovalId], pending: _Pending
    ) -> Result[ApprovalDecision, ServiceFailed]:
        try:
            with anyio.move_on_after(self._timeout_s):
                async with anyio.create_task_group() as group:
                    if self._handler is not None:
                        group.start_soon(_consult, self._handler, pending)
                    await pending.wait()
                    group.cancel_scope.cancel()
        finally:
            del self._pending[key]
        if pending.interrupted is not None:
            raise pending.interrupted
        late = ApprovalDecision(False, f"no decision came within {self._timeout_s:g} seconds.")
        pending.decide(late)  # unless a decision came at the same moment
        return Success(pending.decision or late)

    def pending(self) -> tuple[ApprovalRequest, ...]:
        """Return the requests that wait for a decision, oldest first."""
        return tuple(each.request for each in tuple(self._pending.values()))

    def approve(self, run_id: RunId, approval_id: ApprovalId) -> Result[None, ApprovalNotPending]:
        """Let a call run; from any thread, at once."""
        return self._settle(run_id, approval_id, ApprovalDecision(True))

    def deny(
        self, run_id: RunId, approval_id: ApprovalId, reason: str = ""
    ) -> Result[None, ApprovalNotPending]:
        """Refuse a call, from any thread, at once; the model is shown the reason."""
        return self._settle(run_id, approval_id, ApprovalDecision(False, reason))

    def _settle(
        self, run_id: RunId, approval_id: ApprovalId, decision: ApprovalDecision
    ) -> Result[None, ApprovalNotPending]:
        pending = self._pending.get((run_id, approval_id))
        if pending is None or not pending.decide(decision):
            return Failure(ApprovalNotPending(run_id, approval_id))
        return Success(None)


async def _consult(handler: ApprovalHandler, pending: _Pending) -> None:
    try:
        if inspect.iscoroutinefunction(handler):
            answer = await handler(pending.request)
        else:
            # in a tuple, since trio refuses a plain function that returns something to await
            (answer,) = await anyio.to_thread.run_sync(
                lambda: (handler(pending.request),),
                abandon_on_cancel=True,
                limiter=anyio.CapacityLimiter(1),  # people take their time: no tool waits for their threads
            )
            if inspect.isawaitable(answer):
                answer = await answer
    except Exception as error:  # noqa: BLE001 - a handler is arbitrary user code, and must not open the gate
        reason = f"asking for approval failed ({type(error).__name__}: {error})."
        pending.decide(ApprovalDecision(False, reason))
        return
    except anyio.get_cancelled_exc_class():
        raise
    except BaseException as error:  # noqa: BLE001 - such as sys.exit(): raised by the effect, not in a group
        pending.interrupted = error
        pending.decide(ApprovalDecision(False, "asking for approval was interrupted."))
        return
    if isinstance(answer, ApprovalDecision):
        pending.decide(answer)
    else:
        pending.decide(ApprovalDecision(answer is True))
