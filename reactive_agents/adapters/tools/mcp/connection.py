"""One MCP server: starting, restarting after a crash, and ending.

All of this happens on the background loop of the tools (``service``), since a session of the MCP library
lives on one loop, and must be entered and left in one task.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import cache, partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import attrs
from returns.result import Failure, Result, Success

from reactive_agents.adapters.background_loop import BackgroundLoop
from reactive_agents.adapters.tools.json_value import as_text, to_json_value
from reactive_agents.adapters.tools.mcp import stdio
from reactive_agents.adapters.tools.mcp.listed_tools import ListingFilter
from reactive_agents.adapters.tools.mcp.server import McpServer, place, redact, shown
from reactive_agents.core.content import Audio, Content, Image, part_of_file
from reactive_agents.core.errors import ServiceFailed, ToolFailed, ToolTimedOut
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.run_context import ProgressReport
from reactive_agents.core.texts import shortened
from reactive_agents.effects import attempt, effect

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage
    from mcp.types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        ResourceContents,
        TextResourceContents,
        Tool,
    )

_log = logging.getLogger("reactive_agents")
_REFUSED = ("sampling/createMessage", "elicitation/create", "roots/list")
_ENDS_BY_ITSELF_S = 5.0
_EXIT_CODE_S = 3.0
_PROBE_S = 5.0
_MOST_PAGES = 100
_SHOWN_CHARS = 1_000
_SESSION_FORGOTTEN = "Session terminated"  # the library's message for an HTTP server that was restarted
_CLOSED = "Connection closed"  # its message for a session that has ended; servers use its code for much else


@attrs.define(eq=False)
class Session:
    """A connection to a server, from its start to its end; never restarted.

    Attributes:
        ending: set when it must end, or when the server is gone.
        settled: set when it is ready for calls, or has failed to start.
        ended: set when it has ended completely.
        client: the client while calls can be made.
        is_silent: whether nothing has been heard since a call timed out.
    """

    output: stdio.ServerOutput = attrs.field(factory=stdio.ServerOutput)
    ending: anyio.Event = attrs.field(factory=anyio.Event)
    settled: anyio.Event = attrs.field(factory=anyio.Event)
    ended: anyio.Event = attrs.field(factory=anyio.Event)
    scope: anyio.CancelScope = attrs.field(factory=anyio.CancelScope)
    client: Client | None = None
    tools: tuple[Tool, ...] = ()
    problem: str = ""
    is_silent: bool = False

    @property
    def usable(self) -> bool:
        """Whether calls can be made."""
        return self.client is not None and not self.ending.is_set()


class Connection:
    """A server that is started on demand, between ``open`` and ``close``.

    Args:
        loop: the background loop, on which all methods are called.
    """

    def __init__(self, server: McpServer, loop: BackgroundLoop) -> None:
        self.server = server
        self._loop = loop
        self._open = False
        self._session: Session | None = None
        self._starting: anyio.Lock = anyio.Lock()

    @effect
    async def open(self) -> Result[Session, ServiceFailed]:
        """Start the server; otherwise like :meth:`session`."""
        self._open = True
        return await attempt(self.session())

    @effect
    async def session(self) -> Result[Session, ServiceFailed]:
        """Return the session with the server, starting the server if it is not running.

        After a call has timed out, a program that does not answer a listing either is started again.

        Fails with ``ServiceFailed`` if it does not list its tools within ``start_timeout_s`` seconds, or is
        closed.
        """
        async with self._starting:
            if self._session is not None and self._session.usable and await _answers(self._session):
                return Success(self._session)
            await self._end()
            if not self._open:
                return Failure(
                    ServiceFailed(f"The MCP server {self.server.name!r} is closed.", "mcp", "call")
                )
            return await self._begin()

    async def close(self) -> None:
        """End the server, if it runs, and wait at most 15 seconds for it."""
        self._open = False
        await self._end()

    async def _begin(self) -> Result[Session, ServiceFailed]:
        session = self._session = Session()
        self._loop.start_soon(_live, self.server, session)
        try:
            with anyio.move_on_after(self.server.start_timeout_s):
                await session.settled.wait()
        finally:
            if not session.usable:
                await self._end()
        return Success(session) if session.usable else Failure(self._not_started(session))

    async def _end(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        with anyio.CancelScope(shield=True):
            if session.settled.is_set():
                session.ending.set()
                with anyio.move_on_after(_ENDS_BY_ITSELF_S):
                    await session.ended.wait()
            session.scope.cancel()
            await session.ended.wait()

    async def discard(self, session: Session) -> str:
        """End a session that broke during a call, and return a description.

        The next ``session`` makes a new one.
        """
        session.ending.set()
        with anyio.move_on_after(_EXIT_CODE_S):  # until the process, if any, has its exit code
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
                session.tools = await list_tools(server, client)
                session.client = client
                session.settled.set()
                await session.ending.wait()
    except Exception as error:  # noqa: BLE001 - a server is arbitrary code; the library raises whatever it breaks
        session.problem = _reason(server, error)
    finally:
        session.client = None
        for event in (session.ending, session.settled, session.ended):
            event.set()


async def _answers(session: Session) -> bool:
    if not session.is_silent or session.client is None:
        return True
    with anyio.move_on_after(_PROBE_S) as probe:
        with suppress(Exception):  # a refusal is an answer too
            await session.client.list_tools()
        session.is_silent = False
    return not probe.cancelled_caught


async def list_tools(server: McpServer, client: Client) -> tuple[Tool, ...]:
    """Return the tools of all pages, up to 8 MB together."""
    if client.server_capabilities.tools is None:
        return ()
    tools: list[Tool] = []
    cursor: str | None = None
    size = 0
    for _ in range(_MOST_PAGES):  # an endless listing must not prevent the agent from starting
        page = await client.list_tools(cursor=cursor)
        size += sum(len(tool.model_dump_json(by_alias=True)) for tool in page.tools)
        if size > stdio.LARGEST_MESSAGE:
            _log.warning(
                "The MCP server %r lists more than 8 MB of tools; the rest is left out.", server.name
            )
            break
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(tools)


def _reason(server: McpServer, error: BaseException) -> str:
    error = _innermost(error)
    if is_lost(error):
        return "it ended before it had listed its tools"
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        split = error.filename == server.command and len((server.command or "").split()) > 1
        hint = "; what follows the program belongs in args" if split and not server.args else ""
        return shown(server, f"{error.strerror.lower()}{where}{hint}")
    return shown(server, f"{type(error).__name__}: {as_text(error)}".rstrip(": ."))


def _exit(session: Session) -> str:
    code = session.output.exit_code
    return "" if code is None else f" (exit code {code})"


def is_lost(error: BaseException) -> bool:
    """Return whether the session has ended, not just a request failed."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED

    if not isinstance(error, MCPError):
        return False
    return error.message == _SESSION_FORGOTTEN or (
        error.code == CONNECTION_CLOSED and error.message == _CLOSED
    )


# --- the client of the MCP library --------------------------------------------------------------------------

_CONNECT_S = 30.0
_SILENCE_S = 300.0
_AUTH_LOGGER = "mcp.client.auth.oauth2"
_LIBRARY_LOGGERS = ("client", "mcp.client.streamable_http", "mcp.shared.jsonrpc_dispatcher", _AUTH_LOGGER)
_MOST_RECORDS = 10


class _Sparing(logging.Filter):
    """Limits what the library logs, so that no server fills a disk with it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._minute = self._count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Let through the first of a minute, those to debug, and other programs'."""
        if record.levelno <= logging.DEBUG or not record.pathname.startswith(self.name):
            return True
        if record.name == _AUTH_LOGGER:
            record.exc_info = None  # may quote tokens; the failure is reported without them
        minute = int(record.created) // 60
        self._count = self._count + 1 if minute == self._minute else 1
        self._minute = minute
        more = " (further records of this minute are left out)" if self._count == _MOST_RECORDS else ""
        record.msg, record.args = shortened(record.getMessage(), _SHOWN_CHARS) + more, ()
        return self._count <= _MOST_RECORDS


@cache
def _limit_log() -> None:
    import mcp

    for name in _LIBRARY_LOGGERS:  # each has its own, so that a flood hides no failure of another kind
        logging.getLogger(name).addFilter(_Sparing(str(Path(mcp.__file__).parent)))


@asynccontextmanager
async def connected_client(
    server: McpServer, output: stdio.ServerOutput, on_end: Callable[[], None]
) -> AsyncIterator[Client]:
    """A client that has negotiated a protocol version with the server.

    Enter and leave it in one task.

    Args:
        output: receives text that the server writes outside of the protocol.
        on_end: called when its process can write no more.

    Raises:
        Exception: any exception of the library if the server cannot be started, reached or understood.
    """
    from mcp import Client

    _limit_log()
    streams = (
        stdio.stdio_streams(server, output, on_end)
        if server.url is None
        else _http_streams(server, server.url)
    )
    async with Client(_filtered(server, streams), cache=None) as client:
        yield client


@asynccontextmanager
async def _filtered(
    server: McpServer, streams: AbstractAsyncContextManager[TransportStreams]
) -> AsyncIterator[TransportStreams]:
    async with streams as (from_server, to_server):
        yield _FilteredStream(from_server, ListingFilter(server), server.name), to_server


class _FilteredStream(stdio.MessageStream):
    """The messages of a server, without tools that would fail a whole listing.

    The library refuses requests of the server (sampling, elicitation, roots), since no such capability is
    declared; they are logged here.
    """

    def __init__(
        self, source: ReadStream[SessionMessage | Exception], filter: ListingFilter, name: str
    ) -> None:
        super().__init__(source)
        self._filter = filter
        self._name = name

    async def receive(self) -> SessionMessage | Exception:
        return self._changed(await super().receive())

    def _changed(self, message: SessionMessage | Exception) -> SessionMessage | Exception:
        if not isinstance(message, Exception):
            result = getattr(message.message, "result", None)
            self._filter(result)
            asked = [getattr(message.message, "method", None)]
            if isinstance(result, dict) and isinstance(result.get("inputRequests"), dict):
                asked += (
                    each.get("method") for each in result["inputRequests"].values() if isinstance(each, dict)
                )
            for method in asked:
                if method in _REFUSED:
                    _log.warning("The MCP server %r asked for %s, which is refused.", self._name, method)
        return message


@asynccontextmanager
async def _http_streams(server: McpServer, url: str) -> AsyncIterator[TransportStreams]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from reactive_agents.adapters.tools.mcp.http_client import BoundedClient

    silence_s = max(_SILENCE_S, server.timeout_s)  # a long call may be silent until its end
    timeout = httpx2.Timeout(_CONNECT_S, read=silence_s)
    given: Any = {} if callable(server.headers) else server.headers
    headers = {**given, "Accept-Encoding": "identity"}  # a small body can decompress to a large one
    async with (
        BoundedClient(server, headers, timeout) as http,
        streamable_http_client(url, http_client=http, max_sse_event_size=stdio.LARGEST_MESSAGE) as streams,
    ):
        yield streams


# --- one call of a tool over an open session, with all its outcomes -------------------------------------


async def call_tool(
    connection: Connection,
    session: Session,
    name: str,
    call: ToolCall,
    *,
    timeout_s: float,
    report: ProgressReport | None = None,
) -> Result[tuple[Json, tuple[Content, ...]], ToolFailed | ToolTimedOut] | None:
    """Return the tool's value as JSON, and the images, audio and documents in it.

    Returns ``None`` if the server has forgotten the session, and did not run the call. A call that is
    cancelled or times out is cancelled at the server too.

    Args:
        name: the server's name of the tool; failures have the name in the call.
        timeout_s: seconds until ``ToolTimedOut``, above 0.
        report: receives progress notifications of the server; ``None`` requests none.
    """
    from mcp import MCPError

    server = connection.server
    client = session.client
    if client is None:
        return Failure(ToolFailed(call.name, await connection.discard(session)))
    arguments: Any = to_json_value(call.arguments)  # a model may send text that is not encodable as UTF-8
    answer: CallToolResult | None = None
    try:
        with anyio.move_on_after(timeout_s):
            told: Any = None if report is None else partial(_take_progress, server, report)
            answer = await client.call_tool(name, arguments, progress_callback=told)
    except MCPError as error:
        if is_lost(error):
            gone = await connection.discard(session)
            is_forgotten = server.url is not None and error.message == _SESSION_FORGOTTEN
            return None if is_forgotten else Failure(ToolFailed(call.name, gone))
        return Failure(ToolFailed(call.name, shown(server, error), type(error).__name__))
    except Exception as error:  # noqa: BLE001 - a server is arbitrary code; the library raises whatever it breaks
        cause = _innermost(error)
        told = shown(server, as_text(cause) or type(cause).__name__)
        return Failure(ToolFailed(call.name, told, type(error).__name__))
    if answer is None:
        session.is_silent = server.url is None  # over HTTP calls do not wait for each other
        return Failure(ToolTimedOut(call.name, timeout_s))
    if answer.is_error:
        said = shown(server, result_text(answer)) or "the server did not say why"
        return Failure(ToolFailed(call.name, said))
    return Success((result_value(answer), tuple(part for block in answer.content for part in _parts(block))))


async def _take_progress(
    server: McpServer, report: ProgressReport, done: float, total: float | None, message: str | None
) -> None:
    known = total is not None and isfinite(total) and total > 0 and isfinite(done)
    report(done / total if known and total is not None else None, shown(server, message or ""))


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


# --- the content of a result ----------------------------------------------------------------------------


def result_value(result: CallToolResult) -> Json:
    """Return the structured content, or else the text.

    Images, sounds and binary resources are shown by their labels. With structured content,
    the value is ``{"result": structured content, "attachments": [labels]}``.
    """
    structured = result.structured_content
    if structured is None:
        return result_text(result)
    attachments: list[Json] = [_describe(block) for block in result.content if block.type != "text"]
    value = to_json_value(structured)
    return {"result": value, "attachments": attachments} if attachments else value


def result_text(result: CallToolResult) -> str:
    """Return all content blocks as text, one after the other."""
    return "\n".join(_describe(block) for block in result.content)


def _describe(block: ContentBlock) -> str:
    match block.type:
        case "text":
            return as_text(block.text)
        case "image" | "audio":
            (part,) = _parts(block) or (None,)
            described = f"[{block.type}: {as_text(block.mime_type)}, not valid base64]"
            return described if part is None else part.label
        case "resource_link":
            size = "unknown size" if block.size is None else f"{block.size} bytes"
            return f"[resource: {as_text(block.uri)}, {as_text(block.mime_type or 'unknown type')}, {size}]"
        case "resource":
            return _describe_resource(block.resource)


def _describe_resource(resource: TextResourceContents | BlobResourceContents) -> str:
    from mcp.types import BlobResourceContents

    if isinstance(resource, BlobResourceContents):
        size = len(resource.blob) * 3 // 4 - resource.blob[-2:].count("=")
        heading = _heading(resource, "unknown type", size)
        return "\n".join((heading, *(part.label for part in _resource_parts(resource))))
    text = as_text(resource.text)
    return f"{_heading(resource, 'text/plain', len(text.encode()))}\n{text}"


def _parts(block: ContentBlock) -> tuple[Content, ...]:
    """Return the image, sound or document of a block, by its bytes; else none."""
    match block.type:
        case "image":
            return _made(Image.from_bytes, block.data)
        case "audio":
            return _made(Audio.from_bytes, block.data)
        case "resource":
            return _resource_parts(block.resource)
        case _:
            return ()


def _resource_parts(resource: ResourceContents) -> tuple[Content, ...]:
    from mcp.types import BlobResourceContents

    if not isinstance(resource, BlobResourceContents):
        return ()
    return _made(partial(part_of_file, as_text(resource.uri).rpartition("/")[2]), resource.blob)


def _made(make: Callable[[bytes], Content | None], encoded: str) -> tuple[Content, ...]:
    try:
        part = make(base64.b64decode(encoded, validate=True))
    except ValueError:
        return ()
    return () if part is None else (part,)


def _heading(resource: ResourceContents, kind: str, size: int) -> str:
    return f"[resource: {as_text(resource.uri)}, {as_text(resource.mime_type or kind)}, {size} bytes]"
