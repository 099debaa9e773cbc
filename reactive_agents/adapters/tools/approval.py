"""Who decides whether a tool that needs approval may run."""

from __future__ import annotations

from typing import Protocol

import anyio
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.json_value import as_text
from reactive_agents.core.errors import ToolNotApproved
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition, ToolScope


class Approver(Protocol):
    """Asked before each call of a tool with ``requires_approval``."""

    async def approve(self, call: ToolCall, definition: ToolDefinition, scope: ToolScope) -> bool:
        """Whether the call may run. Anything but ``True``, an exception included, refuses it."""
        ...


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
    approved = False
    with anyio.move_on_after(patience_s) as patience:
        try:
            approved = await approver.approve(call, definition, scope)
        except Exception as error:  # noqa: BLE001 - an approver is arbitrary user code, and must not open the gate
            return _refused(call, f"asking for approval failed ({type(error).__name__}: {as_text(error)}).")
    if patience.cancelled_caught:
        return _refused(call, "nobody answered before the run's deadline.")
    return Success(None) if approved is True else _refused(call, "the request was declined.")


def _refused(call: ToolCall, reason: str) -> Failure[ToolNotApproved]:
    return Failure(ToolNotApproved(call.name, reason))
