"""One server: started, called, found dead and started again, ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import attrs
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.json_value import as_text
from reactive_agents.adapters.tools.mcp.server import McpServer, place, redact, shown
from reactive_agents.adapters.tools.mcp.stdio import ServerOutput, stdio_streams
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.effects import attempt, effect

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import TransportStreams
    from mcp.types import Tool

_ENDS_BY_ITSELF_S = 5.0
_EXIT_CODE_S = 3.0
_MOST_PAGES = 100
_SHOWN_CHARS = 1_000
_SESSION_FORGOTTEN = "Session terminated"  # the library's words for an HTTP server that was started again


@attrs.define(eq=False)
class Session:
    """A connection to a server, from its start to its end; ended once, never revived.

    Attributes:
        loop: the event loop that it lives on.
        ending: set when it is to end, or when the server has gone.
        settled: set when it is ready for calls, or has failed to become so.
        ended: set when nothing of it is left.
        client: there while calls can be made.
    """

    loop: object
    output: ServerOutput = attrs.field(factory=ServerOutput)
    ending: anyio.Event = attrs.field(factory=anyio.Event)
    settled: anyio.Event = attrs.field(factory=anyio.Event)
    ended: anyio.Event = attrs.field(factory=anyio.Event)
    scope: anyio.CancelScope = attrs.field(factory=anyio.CancelScope)
    client: Client | None = None
    tools: tuple[Tool, ...] = ()
    problem: str = ""
    task: object = None

    @property
    def usable(self) -> bool:
        """Whether calls can be made on the event loop that is running."""
        return self.client is not None and not self.ending.is_set() and self.loop is current_loop()


class Connection:
    """A server that is there when it is needed, between ``open`` and ``close``.

    All of its methods are for one event loop at a time. A session that was on another is not used again,
    since that loop has ended it.
    """

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self._open = False
        self._session: Session | None = None
        self._loop: object = None
        self._starting: anyio.Lock = anyio.Lock()

    @effect
    async def open(self) -> Result[Session, ServiceFailed]:
        """Start the server; as :meth:`session` otherwise."""
        self._open = True
        return await attempt(self.session())

    @effect
    async def session(self) -> Result[Session, ServiceFailed]:
        """The session with the server, which is started when it is not there or has died.

        Fails with ``ServiceFailed`` when it does not list its tools within its ``start_timeout_s`` seconds,
        or is closed.
        """
        if self._loop is not current_loop():
            self._loop, self._starting = current_loop(), anyio.Lock()
        async with self._starting:
            if self._session is not None and self._session.usable:
                return Success(self._session)
            await self._end()
            if not self._open:
                return Failure(
                    ServiceFailed(f"The MCP server {self.server.name!r} is closed.", "mcp", "call")
                )
            return await self._begin()

    async def close(self) -> None:
        """End the server and wait until it is gone, 15 seconds at most; harmless when it is not there."""
        self._open = False
        await self._end()

    async def _begin(self) -> Result[Session, ServiceFailed]:
        session = self._session = Session(current_loop())
        session.task = start_task(lambda: _live(self.server, session), f"MCP server {self.server.name}")
        try:
            with anyio.move_on_after(self.server.start_timeout_s):
                await session.settled.wait()
        finally:
            if not session.usable:
                await self._end()
        return Success(session) if session.usable else Failure(self._not_started(session))

    async def _end(self) -> None:
        session, self._session = self._session, None
        if session is None or session.loop is not current_loop():
            return
        with anyio.CancelScope(shield=True):
            if session.settled.is_set():
                session.ending.set()
                with anyio.move_on_after(_ENDS_BY_ITSELF_S):
                    await session.ended.wait()
            session.scope.cancel()
            await session.ended.wait()

    async def bury(self, session: Session) -> str:
        """What became of a session that broke under a call, as text; the next ``session`` makes a new one."""
        session.ending.set()
        with anyio.move_on_after(_EXIT_CODE_S):  # until the process, if there was one, has its exit code
            await session.ended.wait()
        hope = "; the next call tries it again" if self._open else ""
        return f"the server {self.server.name!r} is gone{_exit(session)}{hope}"

    def _not_started(self, session: Session) -> ServiceFailed:
        late = f"it did not list its tools within {self.server.start_timeout_s:g} seconds"
        reason = session.problem or (late if self._open else "it was closed meanwhile")
        reason += _exit(session)
        message = f"The MCP server {self.server.name!r} ({place(self.server)}) did not start: {reason}."
        said = redact(self.server, session.output.text())[-_SHOWN_CHARS:]
        if said:
            message += f" The end of what it wrote:\n{said}"
        return ServiceFailed(message, "mcp", "open")


async def _live(server: McpServer, session: Session) -> None:
    try:
        with session.scope:
            async with connected_client(server, session.output, session.ending.set) as client:
                session.tools = await _list_tools(client)
                session.client = client
                session.settled.set()
                await session.ending.wait()
    except Exception as error:  # noqa: BLE001 - a server is arbitrary code; the library raises whatever it breaks
        session.problem = _reason(server, error)
    finally:
        session.client = None
        for event in (session.ending, session.settled, session.ended):
            event.set()


async def _list_tools(client: Client) -> tuple[Tool, ...]:
    if client.server_capabilities.tools is None:
        return ()
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):  # a listing without an end must not keep the agent from starting
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(tools)


def _reason(server: McpServer, error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if is_lost(error):
        return "it ended before it had listed its tools"
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return shown(server, f"{error.strerror.lower()}{where}")
    return shown(server, f"{type(error).__name__}: {as_text(error)}".rstrip(": ."))


def _exit(session: Session) -> str:
    code = session.output.exit_code
    return "" if code is None else f" (exit code {code})"


def is_lost(error: BaseException) -> bool:
    """Whether the error means that the session is over, and not just that a request was refused."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED

    return isinstance(error, MCPError) and (
        error.code == CONNECTION_CLOSED or error.message == _SESSION_FORGOTTEN
    )


# --- A client of the MCP library, connected to one server ---


_CONNECT_S = 30.0
_SILENCE_S = 300.0


@asynccontextmanager
async def connected_client(
    server: McpServer, output: ServerOutput, on_end: Callable[[], None]
) -> AsyncIterator[Client]:
    """A client that has agreed on a version of the protocol with the server; entered and left in one task.

    Args:
        output: receives what the server says outside of the protocol.
        on_end: called when its process can say nothing more.

    Raises:
        Exception: whatever the library makes of a server that cannot be started, reached or understood.
    """
    from mcp import Client

    streams = (
        stdio_streams(server, output, on_end) if server.url is None else _http_streams(server, server.url)
    )
    async with Client(streams, cache=None) as client:
        yield client


@asynccontextmanager
async def _http_streams(server: McpServer, url: str) -> AsyncIterator[TransportStreams]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    silence_s = max(_SILENCE_S, server.timeout_s)  # a long call may say nothing until its end
    timeout = httpx2.Timeout(_CONNECT_S, read=silence_s)
    async with (
        httpx2.AsyncClient(headers=dict(server.headers), timeout=timeout) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


# --- Tasks that outlive the call that starts them, on asyncio and on trio ---


def current_loop() -> object:
    """What identifies the running event loop."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        import trio

        return trio.lowlevel.current_trio_token()


def start_task(body: Callable[[], Coroutine[Any, Any, None]], name: str) -> object:
    """Run ``body``, which lets no exception but cancellation out; the event loop cancels it when it ends.

    The caller keeps the value that is returned for as long as the task is to run.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        import trio

        return trio.lowlevel.spawn_system_task(body, name=name)
    return loop.create_task(body(), name=name)
