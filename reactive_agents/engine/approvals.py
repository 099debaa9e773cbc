"""Approvals within a run: asking for one pauses the agent, and says so."""

from __future__ import annotations

from returns.result import Failure, Result

from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.events import ApprovalDecided, ApprovalRequested
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.services import RunHandle
from reactive_agents.kernel import RunEvents
from reactive_agents.ports import Approver


class RunApprover:
    """Implements ``Approver`` for one run, over the engine's own."""

    def __init__(self, approver: Approver, handle: RunHandle, events: RunEvents) -> None:
        self._approver = approver
        self._handle = handle
        self._events = events

    @effect
    async def decide(self, request: ApprovalRequest) -> Result[ApprovalDecision, ServiceFailed]:
        """The decision of the engine's approver; the agent is paused until it is made."""
        events, handle = self._events, self._handle
        call_id, tool_name = request.call_id, request.tool_name
        events.publish(
            ApprovalRequested(
                *events.stamp(),
                call_id=call_id,
                tool_name=tool_name,
                arguments=request.arguments,
                risk=request.risk,
            )
        )
        handle.waiting += 1
        try:
            decided = await attempt(self._approver.decide(request))
        finally:
            handle.waiting -= 1
        if isinstance(decided, Failure):
            approved, reason = False, decided.failure().message
        else:
            approved, reason = decided.unwrap().approved, decided.unwrap().reason
        events.publish(
            ApprovalDecided(
                *events.stamp(), call_id=call_id, tool_name=tool_name, approved=approved, reason=reason
            )
        )
        return decided
