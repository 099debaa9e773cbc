"""Approvals by people: a handler decides, or someone elsewhere in the program does."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
import anyio.to_thread
from attrs import define, field
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ApprovalNotPending, ServiceFailed
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest
from reactive_agents.core.ids import ApprovalId, RunId
from reactive_agents.effects import effect

Answer: TypeAlias = bool | ApprovalDecision
ApprovalHandler: TypeAlias = Callable[[ApprovalRequest], Answer | Awaitable[Answer]]
"""Decides on a request; a plain function runs in a worker thread, so that it may ask on a terminal."""

DEFAULT_TIMEOUT_S = 300.0


@define(eq=False)
class _Pending:
    request: ApprovalRequest
    decision: ApprovalDecision | None = None
    decided: anyio.Event = field(factory=anyio.Event)

    def decide(self, decision: ApprovalDecision) -> None:
        if self.decision is None:
            self.decision = decision
            self.decided.set()


class ApprovalDesk:
    """Implements ``Approver``: each request waits for its handler, or for :meth:`approve` or :meth:`deny`.

    A request that nobody decides in time is denied, and so is one whose handler raises or answers anything
    but a clear yes.

    Args:
        handler: asked about each request; without one, requests wait for a decision from elsewhere.
        timeout_s: seconds that a request waits, above 0.
    """

    def __init__(
        self, handler: ApprovalHandler | None = None, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self._handler = handler
        self._timeout_s = timeout_s
        self._pending: dict[tuple[RunId, ApprovalId], _Pending] = {}

    @effect
    async def decide(self, request: ApprovalRequest) -> Result[ApprovalDecision, ServiceFailed]:
        """The decision. Fails with ``ServiceFailed`` when one on the same request is pending already."""
        key = (request.run_id, request.approval_id)
        if key in self._pending:
            message = f"Approval {request.approval_id!r} is pending already."
            return Failure(ServiceFailed(message, "approvals", "decide"))
        pending = self._pending[key] = _Pending(request)
        try:
            with anyio.move_on_after(self._timeout_s):
                async with anyio.create_task_group() as group:
                    if self._handler is not None:
                        group.start_soon(_consult, self._handler, pending)
                    await pending.decided.wait()
                    group.cancel_scope.cancel()
        finally:
            del self._pending[key]
        late = ApprovalDecision(False, f"nobody decided within {self._timeout_s:g} seconds.")
        return Success(pending.decision or late)

    def pending(self) -> tuple[ApprovalRequest, ...]:
        """The requests that wait for a decision, oldest first."""
        return tuple(each.request for each in self._pending.values())

    def approve(self, run_id: RunId, approval_id: ApprovalId) -> Result[None, ApprovalNotPending]:
        """Let a call run. Call it on the event loop of the run."""
        return self._settle(run_id, approval_id, ApprovalDecision(True))

    def deny(
        self, run_id: RunId, approval_id: ApprovalId, reason: str = ""
    ) -> Result[None, ApprovalNotPending]:
        """Refuse a call; the model is told the reason. Call it on the event loop of the run."""
        return self._settle(run_id, approval_id, ApprovalDecision(False, reason))

    def _settle(
        self, run_id: RunId, approval_id: ApprovalId, decision: ApprovalDecision
    ) -> Result[None, ApprovalNotPending]:
        pending = self._pending.get((run_id, approval_id))
        if pending is None or pending.decision is not None:
            return Failure(ApprovalNotPending(run_id, approval_id))
        pending.decide(decision)
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
    if isinstance(answer, ApprovalDecision):
        pending.decide(answer)
    else:
        pending.decide(ApprovalDecision(answer is True))
