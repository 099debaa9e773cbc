"""The tool service over MCP servers.

A connection belongs to the event loop that opened it, but an agent is used from many, one after the other or
at once. So a background loop in its own thread owns the connections, and calls are passed to it. Approval and
argument checks run on the caller's loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Collection, Container, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import anyio.to_thread
from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters import sqlite
from reactive_agents.adapters.background_loop import BackgroundLoop, LoopStopped
from reactive_agents.adapters.tools import call_checks
from reactive_agents.adapters.tools.mcp.connection import Connection, call_tool
from reactive_agents.adapters.tools.mcp.listed_tools import (
    CHECKS_ON_LOOP,
    InspectText,
    ListedTool,
    WithheldTool,
    define_tools,
)
from reactive_agents.adapters.tools.mcp.server import McpServer
from reactive_agents.core import errors
from reactive_agents.core.bases import PUBLISH
from reactive_agents.core.governance import made_with
from reactive_agents.core.json import JsonObject, copied_json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.tools import ToolDefinition, ToolResult, ToolScope, ToolWrapper
from reactive_agents.effects import attempt, effect, gather
from reactive_agents.ports import Approver, Clock

if TYPE_CHECKING:
    from mcp.types import Tool

_log = logging.getLogger("reactive_agents")


@frozen(eq=False)
class _Entry:
    tool: ListedTool
    connection: Connection
    notice: str = ""

    @property
    def definition(self) -> ToolDefinition:
        """The definition; with a notice its calls need approval."""
        own = self.tool.definition
        return evolve(own, requires_approval=True, notice=self.notice) if self.notice else own


class _Fleet:
    """The servers of an agent from start to end, on a background loop."""

    def __init__(
        self,
        servers: Sequence[McpServer],
        taken: Collection[str],
        inspect: InspectText,
        known_tools: sqlite.DatabasePath,
    ) -> None:
        self.loop = BackgroundLoop("reactive_agents MCP")
        self.loop.start()
        self.entries: dict[str, _Entry] = {}
        self.definitions: tuple[ToolDefinition, ...] = ()
        self.withheld: tuple[WithheldTool, ...] = ()
        self._servers = servers
        self._taken = taken
        self._inspect = inspect
        self._known_tools = known_tools
        self._connections: tuple[Connection, ...] = ()
        self._opening: anyio.Lock | None = None  # created on the background loop
        self._opened: Result[None, errors.ServiceFailed] | None = None

    async def open(self) -> Result[None, errors.ServiceFailed]:
        """Start or reach all servers and list their tools, once; on the background loop."""
        if self._opening is None:
            self._opening = anyio.Lock()
            self._connections = tuple(Connection(server, self.loop) for server in self._servers)
        async with self._opening:
            if self._opened is not None:
                return self._opened
            try:
                opened = await self._open()
            except BaseException:
                await self.close()
                raise
            if isinstance(opened, Failure):
                await self.close()
            self._opened = opened
            return opened

    async def close(self) -> None:
        """End all servers and wait until they are gone; on the background loop."""
        self.entries, self.definitions = {}, ()
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for connection in self._connections:
                    group.start_soon(connection.close)

    async def _open(self) -> Result[None, errors.ServiceFailed]:
        started = await gather([connection.open() for connection in self._connections])
        problems = [one.failure().message for one in started if isinstance(one, Failure)]
        if problems:
            return Failure(errors.ServiceFailed("\n".join(problems), "mcp", "open"))
        await self._define([one.unwrap().tools for one in started])
        return Success(None)

    async def _define(self, listings: Sequence[Sequence[Tool]]) -> None:
        by_name = {connection.server.name: connection for connection in self._connections}
        listings_of = tuple(zip(self._servers, listings, strict=True))
        withheld: list[WithheldTool] = []
        listed = define_tools(listings_of, self._taken, self._inspect, withheld)
        entries = {}
        for server in self._servers:
            tools = [tool for tool in listed if tool.server is server]
            for tool, notice in zip(tools, await self._notices(server, tools), strict=True):
                entry = _Entry(tool, by_name[server.name], notice)
                if notice:
                    _log.warning("The tool %s needs approval. %s", tool.definition.name, notice)
                    withheld.append(WithheldTool(server.name, tool.name, notice, needs_approval=True))
                entries[tool.definition.name] = entry
        self.withheld = tuple(withheld)
        self.entries = entries
        self.definitions = tuple(entries[tool.definition.name].definition for tool in listed)

    async def _notices(self, server: McpServer, tools: Sequence[ListedTool]) -> Sequence[str]:
        path = self._path(server)
        if path == sqlite.IN_PROCESS:
            return [""] * len(tools)
        async with aclosing(KnownTools(path)) as known:
            found = await attempt(known.changes(tools))
        if isinstance(found, Failure):
            message = found.failure().message
            _log.warning("Whether tools of the MCP server %r changed is not known: %s", server.name, message)
            # without a file nothing is stored; an unreadable one had the approved definitions
            unknown = _UNKNOWN if sqlite.place_of(path).exists() else ""
            return [unknown] * len(tools)
        return found.unwrap()

    async def approve(self, entry: _Entry) -> None:
        """Store the definition of an approved tool; on the background loop."""
        async with aclosing(KnownTools(self._path(entry.tool.server))) as known:
            kept = await attempt(known.approve(entry.tool))
        if isinstance(kept, Success):
            name = entry.tool.definition.name
            self.entries = {**self.entries, name: evolve(entry, notice="")}
            self.definitions = tuple(each.definition for each in self.entries.values())
            approved = entry.tool.server.name, entry.tool.name
            self.withheld = tuple(each for each in self.withheld if (each.server, each.tool) != approved)

    def _path(self, server: McpServer) -> str:
        return os.fspath(self._known_tools if server.known_tools is None else server.known_tools)


class McpTools:
    """Implements ``ToolService`` over MCP servers, from ``open`` to ``aclose``.

    Before ``open`` and after ``aclose`` there are no tools. The next call of one of its tools restarts a dead
    server, with its original names and schemas. Event loops of several threads may open, use and close the
    same tools concurrently.

    Args:
        servers: the servers, with unique names, in the order of their tools.
        taken: names of other tools of the agent, which a server's tool cannot have.
        inspect: checks the texts of a tool's definition; tools with a finding are left out.
        known_tools: the file of approved definitions, for servers without one; a changed tool needs approval
            again. ``:memory:`` for no file.
        wrappers: code around each call, the outermost first.
        redactor: learns the secrets that are sent to the servers, and tokens for them.

    Raises:
        ValueError: two servers share a name.
    """

    def __init__(
        self,
        servers: Sequence[McpServer],
        *,
        clock: Clock,
        taken: Collection[str] = (),
        inspect: InspectText = lambda _: "",
        known_tools: sqlite.DatabasePath = sqlite.IN_PROCESS,
        wrappers: Sequence[ToolWrapper] = (),
        redactor: Redactor | None = None,
    ) -> None:
        names = [server.name for server in servers]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"name: two MCP servers are named {name!r}.")
        self._servers = tuple(servers)
        if redactor is not None and hasattr(redactor, "learn"):  # a custom one may not
            for server in servers:
                server.sent.make_known_to(redactor)
        self._clock = clock
        self._taken = frozenset(taken)
        self._inspect = inspect
        self._known_tools = known_tools
        self._wrappers = tuple(wrappers)
        self._lock = threading.Lock()
        self._users: list[anyio.lowlevel.EventLoopToken] = []
        self._fleet: _Fleet | None = None

    async def open(self) -> Result[None, errors.ServiceFailed]:
        """Start or reach all servers and list their tools, unless they are open.

        The servers outlive the event loop that opened them. Fails with ``ServiceFailed`` if a server does not
        list its tools in time; then none of them runs.
        """
        if not self._servers:
            return Success(None)
        fleet = self._join()
        try:
            opened = await fleet.loop.run(fleet.open)
        except LoopStopped:
            return Failure(errors.ServiceFailed("The MCP servers were closed meanwhile.", "mcp", "open"))
        except BaseException:  # cancelled: other event loops may still be opening them
            await self.aclose()
            raise
        if isinstance(opened, Failure):
            await self._end(fleet)
        elif fleet.withheld:
            _publish(fleet.withheld)
        return opened

    async def aclose(self, *, leaving: bool = False) -> None:
        """End all servers, if any, and wait until they are gone.

        Of several running event loops that opened the tools, only the last ends the servers. A loop that did
        not open them ends them at once, unless it is ``leaving``.
        """
        token = anyio.lowlevel.current_token()
        with self._lock:
            fleet, others = self._fleet, [each for each in self._users if each != token and _is_alive(each)]
            if others and (leaving or token in self._users):
                self._users = others
                return
        if fleet is not None:
            await self._end(fleet)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return all tools, in the order of the servers and of their listings."""
        fleet = self._fleet
        return () if fleet is None else fleet.definitions

    def of_servers(self, servers: Container[str]) -> frozenset[str]:
        """Return the names of the tools of these servers."""
        fleet = self._fleet
        entries = {} if fleet is None else fleet.entries
        return frozenset(name for name, entry in entries.items() if entry.tool.server.name in servers)

    @effect
    async def execute(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None = None
    ) -> Result[ToolResult, errors.ToolErrors]:
        """Run a call and return its full result; fails as the port says.

        Checks in this order: the name, the form of the arguments, their JSON Schema, approval, time. A
        refused tool did not run. Waiting for approval and restarting a server do not count towards the
        timeout; both end at the deadline.
        """
        fleet = self._fleet
        entries = {} if fleet is None else fleet.entries
        entry = entries.get(call.name)
        if fleet is None or entry is None:
            return Failure(errors.ToolNotFound(call.name, tuple(entries)))
        if call.malformed:
            return Failure(call_checks.malformed_arguments(call.name, call.malformed))
        definition = entry.definition
        needs_approval = definition.requires_approval or scope.needs_approval
        if needs_approval:  # approved arguments must not be changed before the call
            call = evolve(call, arguments=copied_json(call.arguments))
        checked = await self._checked(entry.tool, call)
        fits_shown = call_checks.shown_check(call.name, scope.parameters)
        if isinstance(checked, Success):
            checked = fits_shown(call.arguments)
        if isinstance(checked, Failure):
            return Failure(checked.failure())
        edited: JsonObject | None = None
        if needs_approval:
            patience_s = self._remaining_s(scope)

            def check(given: JsonObject) -> Result[None, errors.InvalidToolArguments]:
                return entry.tool.check(call.name, given).bind(lambda _: fits_shown(given))

            approval = await call_checks.seek_approval(
                approver,
                call,
                definition,
                scope,
                rule=entry.tool.server.approval_rule,
                tool_name=entry.tool.name,
                check=check,
                patience_s=patience_s,
            )
            if isinstance(approval, Failure):
                return Failure(approval.failure())
            edited = approval.unwrap()
            if edited is not None:
                call = evolve(call, arguments=edited)
        try:
            if entry.notice:
                await fleet.loop.run(fleet.approve, entry)
        except LoopStopped:
            return made_with(edited, call, Failure(_closed(entry)))

        async def run(call: ToolCall) -> Result[ToolResult, errors.ToolErrors]:
            try:
                return await fleet.loop.run(self._run, entry, call, scope)
            except LoopStopped:
                return Failure(_closed(entry))

        if not self._wrappers:
            return made_with(edited, call, await run(call))
        from reactive_agents.adapters.tools.service import WrappedCall

        again = partial(self._checked, entry.tool)
        wrapped = WrappedCall(self._wrappers, call, scope, again, run, self._clock, approved=needs_approval)
        return made_with(edited, call, await wrapped.outcome())

    async def _checked(self, tool: ListedTool, call: ToolCall) -> Result[None, errors.InvalidToolArguments]:
        if tool.check.checks(call.arguments) <= CHECKS_ON_LOOP:
            return tool.check(call.name, call.arguments)
        return await anyio.to_thread.run_sync(tool.check, call.name, call.arguments)

    async def _run(
        self, entry: _Entry, call: ToolCall, scope: ToolScope
    ) -> Result[ToolResult, errors.ToolErrors]:
        for _ in range(2):
            made = await self._made(entry, call, scope)
            if made is not None:
                return made
        forgotten = f"the server {entry.tool.server.name!r} forgets its sessions at once"
        return Failure(errors.ToolFailed(call.name, forgotten))

    async def _made(
        self, entry: _Entry, call: ToolCall, scope: ToolScope
    ) -> Result[ToolResult, errors.ToolErrors] | None:
        """Make a call; ``None`` if the server has forgotten the session."""
        session = None
        with anyio.move_on_after(self._remaining_s(scope)):
            session = await attempt(entry.connection.session())
        if isinstance(session, Failure):
            return Failure(errors.ToolFailed(call.name, session.failure().message))
        begun, timeout_s = self._clock.monotonic(), entry.tool.definition.timeout_s
        if scope.deadline is not None:
            timeout_s = min(timeout_s, scope.deadline - begun)
        if session is None or timeout_s <= 0:
            return Failure(errors.ToolTimedOut(call.name, 0.0))
        called = await call_tool(
            entry.connection,
            session.unwrap(),
            entry.tool.name,
            call,
            timeout_s=timeout_s,
            report=scope.report,
        )
        if called is None:
            return None
        if isinstance(called, Failure):
            return Failure(called.failure())
        duration_ms = (self._clock.monotonic() - begun) * 1000
        value, parts = called.unwrap()
        return Success(ToolResult(call.id, call.name, value, duration_ms=duration_ms, parts=parts))

    def _remaining_s(self, scope: ToolScope) -> float | None:
        return None if scope.deadline is None else scope.deadline - self._clock.monotonic()

    def _join(self) -> _Fleet:
        """Return the fleet, created if needed, with this event loop as a user."""
        token = anyio.lowlevel.current_token()
        with self._lock:
            if self._fleet is None or not self._fleet.loop.alive:
                self._fleet, self._users = (
                    _Fleet(self._servers, self._taken, self._inspect, self._known_tools),
                    [],
                )
                weakref.finalize(self, self._fleet.loop.request_stop).atexit = False
            if token not in self._users:
                self._users.append(token)
            return self._fleet

    async def _end(self, fleet: _Fleet) -> None:
        with self._lock:
            if self._fleet is fleet:
                self._fleet, self._users = None, []
        with anyio.CancelScope(shield=True):
            try:
                await fleet.loop.run(fleet.close)
            except LoopStopped:
                return
            await anyio.to_thread.run_sync(fleet.loop.stop)


def _closed(entry: _Entry) -> errors.ToolFailed:
    return errors.ToolFailed(entry.definition.name, f"the server {entry.tool.server.name!r} was closed")


def _publish(withheld: Sequence[WithheldTool]) -> None:
    """Publish in the current run, if any, why tools are missing."""
    publish = PUBLISH.get()
    if publish is None:
        return
    from reactive_agents.core.events import ToolWithheld

    for each in withheld:
        publish(ToolWithheld, each.server, each.tool, each.reason, each.needs_approval)


def _is_alive(token: anyio.lowlevel.EventLoopToken) -> bool:
    """Return whether an event loop that was running has not ended since."""
    loop: Any = token.native_token
    if isinstance(loop, asyncio.AbstractEventLoop):
        return not loop.is_closed()
    try:
        loop.run_sync_soon(lambda: None)
    except RuntimeError:  # trio's run has finished
        return False
    return True


# --- The definitions of MCP tools as they were approved, across processes ---


_SERVICE: Final = "mcp-tools"
_failed = sqlite.failure_of(_SERVICE)
KNOWN_TOOLS = sqlite.Store(
    _SERVICE,
    (
        (
            "CREATE TABLE IF NOT EXISTS mcp_tools (server TEXT NOT NULL, tool TEXT NOT NULL,"
            " description TEXT NOT NULL, parameters TEXT NOT NULL, PRIMARY KEY (server, tool)) WITHOUT ROWID",
        ),
        ("ALTER TABLE mcp_tools ADD COLUMN hints TEXT",),  # NULL where they were not looked at
    ),
)
"""Descriptions, schemas and hints by tool and server (a hash of its name and place)."""

FILE_NAME = "mcp-tools.db"
_SHOWN_CHARS = 600
_SELECT = "SELECT description, parameters, hints FROM mcp_tools WHERE server = ? AND tool = ?"
_KNOWN = "SELECT 1 FROM mcp_tools WHERE server = ? LIMIT 1"
_KEEP = "INSERT OR REPLACE INTO mcp_tools VALUES (?, ?, ?, ?, ?)"
_UNKNOWN = "Whether the tool changed is not known: the file of approved definitions cannot be read."
_NEW = "The tool is new: its server did not list it when it was first seen."


def _key(tool: ListedTool) -> tuple[str, str]:
    server = tool.server
    place = json.dumps([server.name, server.command, server.args, server.url])
    return hashlib.sha256(place.encode(errors="replace")).hexdigest(), sqlite.storable(tool.name)


def _texts(tool: ListedTool) -> tuple[str, str, str]:
    schema = json.dumps(tool.definition.parameters, sort_keys=True)
    return sqlite.storable(tool.definition.description), schema, tool.hints


class KnownTools:
    """Tools as they were first seen or last approved, in a private SQLite file.

    Any number of processes may use it.
    """

    def __init__(self, path: sqlite.DatabasePath) -> None:
        self._file = sqlite.shared_file(path, KNOWN_TOOLS, _failed)

    @effect
    async def changes(self, tools: Sequence[ListedTool]) -> Result[tuple[str, ...], errors.ServiceFailed]:
        """Return the change of each tool as text; empty for none.

        Compares with the definition that was seen first, or approved last. The tools of a new server are
        stored, and those that its configuration names. Any other new tool of a known server is a change,
        since it may be an earlier one under a new name.
        """

        def work(connection: sqlite3.Connection) -> tuple[str, ...]:
            servers = {_key(tool)[0] for tool in tools}
            seen = {server for server in servers if connection.execute(_KNOWN, (server,)).fetchone()}
            found = []
            for tool in tools:
                key, texts = _key(tool), _texts(tool)
                known = connection.execute(_SELECT, key).fetchone()
                is_new = known is None and key[0] in seen and tool.server.only is None
                change = _NEW if is_new else "" if known is None else _change(known, texts)
                if not change and known != texts:
                    connection.execute(_KEEP, (*key, *texts))
                found.append(change)
            return tuple(found)

        return await self._file.write("compare", work)

    @effect
    async def approve(self, tool: ListedTool) -> Result[None, errors.ServiceFailed]:
        """Store the definition of a tool, replacing an earlier one."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_KEEP, (*_key(tool), *_texts(tool)))

        return await self._file.write("approve", work)

    async def aclose(self) -> None:
        """Close the file."""
        await self._file.aclose()


def _change(before: tuple[str, str, str | None], now: tuple[str, str, str]) -> str:
    parts = [
        f"The {name} changed since the tool was approved, from {_shown(old, new)} to {_shown(new, old)}."
        for name, old, new in zip(("description", "schema", "list of hints"), before, now, strict=True)
        if old is not None and old != new
    ]
    return " ".join(parts)


def _shown(text: str, other: str) -> str:
    """Return a text from shortly before its first difference."""
    same = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), len(other))
    start = max(0, same - _SHOWN_CHARS // 4)
    part = text[start : start + _SHOWN_CHARS]
    return f"{'…' if start else ''}{part!r}{'…' if start + _SHOWN_CHARS < len(text) else ''}"
