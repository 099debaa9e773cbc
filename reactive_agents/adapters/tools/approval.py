"""Whether a tool that needs approval may run: only when someone clearly says yes."""

from __future__ import annotations

import anyio
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ToolNotApproved
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest
from reactive_agents.core.ids import ApprovalId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition, ToolScope
from reactive_agents.effects import attempt
from reactive_agents.ports import Approver


async def seek_approval(
    approver: Approver | None,
    call: ToolCall,
    definition: ToolDefinition,
    scope: ToolScope,
    *,
    patience_s: float | None,
) -> Result[None, ToolNotApproved]:
    """Ask the approver; fails with ``ToolNotApproved`` unless it clearly says yes.

    Args:
        patience_s: seconds to wait for the answer; ``None`` waits for ever.
    """
    if approver is None:
        return _refused(call, "it needs approval, and nobody is there to give it.")
    decision = ApprovalDecision(False, "nobody answered before the run's deadline.")
    with anyio.move_on_after(patience_s):
        decided = await attempt(approver.decide(_request(call, definition, scope)))
        if isinstance(decided, Failure):
            return _refused(call, f"asking for approval failed: {decided.failure().message}")
        decision = decided.unwrap()
    if decision.approved is True:
        return Success(None)
    return _refused(call, decision.reason or "the request was declined.")


def _request(call: ToolCall, definition: ToolDefinition, scope: ToolScope) -> ApprovalRequest:
    return ApprovalRequest(
        run_id=scope.run_id,
        task_id=scope.task_id,
        agent_id=scope.agent_id,
        # not the call's id, which is unique within one kernel only: steps of a plan run side by side
        approval_id=ApprovalId(scope.call_key),
        call_id=call.id,
        tool_name=call.name,
        arguments=call.arguments,
        risk=definition.risk,
    )


def _refused(call: ToolCall, reason: str) -> Failure[ToolNotApproved]:
    return Failure(ToolNotApproved(call.name, reason))
