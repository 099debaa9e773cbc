"""The port to tools."""

from __future__ import annotations

from typing import Protocol

from reactive_agents.core.errors import ToolErrors
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition, ToolResult, ToolScope
from reactive_agents.effects import Effect
from reactive_agents.ports.governance import Approver


class ToolService(Protocol):
    """Runs tools: the one place that validates, approves and limits a call."""

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return all tools in a stable order, each name once."""
        ...

    def execute(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None = None
    ) -> Effect[ToolResult, ToolErrors]:
        """Run one call and return its full result.

        It needs approval where its tool or the scope says so.
        A result with an error is a call that failed after it had used tokens or money.

        Fails with ``ToolNotFound``; ``InvalidToolArguments`` (the tool did not run); ``ToolNotApproved`` (it
        needs approval that was not given; it did not run); ``ToolTimedOut`` after the tool's own timeout in
        seconds or at the scope's deadline, whichever is first; ``ToolFailed`` when it raised; or an error
        that the tool itself returned, such as ``WorkspaceViolation``.
        """
        ...
