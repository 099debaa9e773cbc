"""Approvals within a run: asking for one pauses the agent, and says so."""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.events import ApprovalDecided, ApprovalRequested
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.auditing import enter, shown_arguments
from reactive_agents.engine.services import EngineServices
from reactive_agents.ports import Approver


class RunApprover:
    """Implements ``Approver`` for one run, over the engine's own."""

    def __init__(self, approver: Approver, services: EngineServices) -> None:
        self._approver = approver
        self._services = services

    @effect
    async def decide(self, request: ApprovalRequest) -> Result[ApprovalDecision, ServiceFailed]:
        """The decision of the engine's approver; the agent is paused while it is awaited.

        An approval that cannot be entered into the audit log is a failure, and so the call does not run.
        """
        events, handle = self._services.events, self._services.handle
        approval_id, call_id, tool_name = request.approval_id, request.call_id, request.tool_name
        events.publish(
            ApprovalRequested(
                *events.stamp(),
                approval_id=approval_id,
                call_id=call_id,
                tool_name=tool_name,
                arguments=request.arguments,
                risk=request.risk,
            )
        )
        handle.waiting += 1
        approved, reason = False, "the run was cut off before the call could be approved."
        try:
            decided = await attempt(self._approver.decide(request))
            if isinstance(decided, Success) and decided.unwrap().approved is True:
                decided = (await self._entered(request)).bind(lambda _: decided)
            if isinstance(decided, Failure):
                reason = decided.failure().message
            else:
                approved, reason = decided.unwrap().approved, decided.unwrap().reason
        finally:  # also when the wait is cut off or cancelled: who saw the request learns how it ended
            handle.waiting -= 1
            events.publish(
                ApprovalDecided(
                    *events.stamp(),
                    approval_id=approval_id,
                    call_id=call_id,
                    tool_name=tool_name,
                    approved=approved,
                    reason=reason,
                )
            )
        return decided

    async def _entered(self, request: ApprovalRequest) -> Result[None, ServiceFailed]:
        arguments = shown_arguments(request.arguments, self._services)
        entered = await enter(
            "approval",
            self._services,
            subject=request.tool_name,
            detail=f"Approved. The arguments: {arguments}",
            call_id=request.call_id,
        )
        return entered.alt(
            lambda failed: evolve(failed, message=f"The approval cannot be audited. {failed.message}")
        )
