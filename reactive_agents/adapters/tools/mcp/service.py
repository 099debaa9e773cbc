"""The tool service over MCP servers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import anyio
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.call_checks import malformed_arguments, seek_approval
from reactive_agents.adapters.tools.mcp.calls import call_tool
from reactive_agents.adapters.tools.mcp.connection import Connection, current_loop
from reactive_agents.adapters.tools.mcp.listed_tools import ArgumentCheck, ListedTool, define_tools
from reactive_agents.adapters.tools.mcp.server import McpServer
from reactive_agents.core.errors import ServiceFailed, ToolErrors, ToolFailed, ToolNotFound, ToolTimedOut
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition, ToolResult, ToolScope
from reactive_agents.effects import attempt, effect, gather
from reactive_agents.ports import Approver, Clock

if TYPE_CHECKING:
    from mcp.types import Tool


@frozen(eq=False)
class _Entry:
    tool: ListedTool
    check: ArgumentCheck
    connection: Connection


class McpTools:
    """Implements ``ToolService`` over the tools of MCP servers, which run between ``open`` and ``aclose``.

    Before ``open`` and after ``aclose`` there are no tools. A server that dies is started again by the next
    call of one of its tools, under the names and schemas that it had at first.

    Args:
        servers: in the order in which the model sees their tools, each name once.
        clock: measures durations and deadlines.
        taken: names that other tools of the agent have; a tool of a server gives way to them.

    Raises:
        ValueError: two servers share a name.
    """

    def __init__(
        self,
        servers: Sequence[McpServer],
        *,
        clock: Clock,
        taken: Collection[str] = (),
    ) -> None:
        names = [server.name for server in servers]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"name: two MCP servers are named {name!r}.")
        self._connections = tuple(Connection(server) for server in servers)
        self._clock = clock
        self._taken = frozenset(taken)
        self._loop: object = None
        self._entries: dict[str, _Entry] = {}
        self._definitions: tuple[ToolDefinition, ...] = ()

    async def open(self) -> Result[None, ServiceFailed]:
        """Start or reach all servers at once, and list their tools; harmless when that was done already.

        The servers belong to the event loop that runs now, and end with it at the latest. Fails with
        ``ServiceFailed`` when a server does not list its tools in time; none of them runs then.
        """
        if self._loop is current_loop():
            return Success(None)
        opened = False
        try:
            started = await gather([connection.open() for connection in self._connections])
            problems = [one.failure().message for one in started if isinstance(one, Failure)]
            if problems:
                return Failure(ServiceFailed("\n".join(problems), "mcp", "open"))
            self._define([one.unwrap().tools for one in started])
            opened = True
        finally:
            if not opened:
                await self.aclose()
        return Success(None)

    async def aclose(self) -> None:
        """End all servers and wait until they are gone; harmless when they are. On the loop of ``open``."""
        self._loop, self._entries, self._definitions = None, {}, ()
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for connection in self._connections:
                    group.start_soon(connection.close)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """All tools, in the order of the servers and of their listings."""
        return self._definitions

    @effect
    async def execute(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None = None
    ) -> Result[ToolResult, ToolErrors]:
        """Run one call and return its full result; fails as the port says.

        Checked in this order: the name, the form of the arguments, their JSON Schema, approval, time. A tool
        that was refused at any of these did not run. Neither waiting for approval nor starting a dead server
        again counts towards the timeout; both end at the deadline.
        """
        entry = self._entries.get(call.name)
        if entry is None:
            return Failure(ToolNotFound(call.name, tuple(self._entries)))
        if call.malformed:
            return Failure(malformed_arguments(call.name, call.malformed))
        checked = entry.check(call.name, call.arguments)
        if isinstance(checked, Failure):
            return Failure(checked.failure())
        definition = entry.tool.definition
        if definition.requires_approval:
            approval = await seek_approval(
                approver, call, definition, scope, patience_s=self._remaining_s(scope)
            )
            if isinstance(approval, Failure):
                return Failure(approval.failure())
        return await self._run(entry, call, scope)

    async def _run(self, entry: _Entry, call: ToolCall, scope: ToolScope) -> Result[ToolResult, ToolErrors]:
        session = None
        with anyio.move_on_after(self._remaining_s(scope)):
            session = await attempt(entry.connection.session())
        if isinstance(session, Failure):
            return Failure(ToolFailed(call.name, session.failure().message))
        begun, timeout_s = self._clock.monotonic(), entry.tool.definition.timeout_s
        if scope.deadline is not None:
            timeout_s = min(timeout_s, scope.deadline - begun)
        if session is None or timeout_s <= 0:
            return Failure(ToolTimedOut(call.name, 0.0))
        called = await call_tool(
            entry.connection, session.unwrap(), entry.tool.name, call, timeout_s=timeout_s
        )
        if isinstance(called, Failure):
            return Failure(called.failure())
        duration_ms = (self._clock.monotonic() - begun) * 1000
        return Success(ToolResult(call.id, call.name, called.unwrap(), duration_ms=duration_ms))

    def _remaining_s(self, scope: ToolScope) -> float | None:
        return None if scope.deadline is None else scope.deadline - self._clock.monotonic()

    def _define(self, listings: Sequence[Sequence[Tool]]) -> None:
        by_name = {connection.server.name: connection for connection in self._connections}
        servers = [connection.server for connection in self._connections]
        listed = define_tools(tuple(zip(servers, listings, strict=True)), self._taken)
        self._entries = {
            tool.definition.name: _Entry(
                tool, ArgumentCheck(tool.definition.parameters), by_name[tool.server.name]
            )
            for tool in listed
        }
        self._definitions = tuple(tool.definition for tool in listed)
        self._loop = current_loop()
