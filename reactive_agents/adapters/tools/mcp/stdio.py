"""The MCP protocol over standard streams of a process: one JSON message per line.

``docs/decisions/mcp-transport.md`` explains why this replaces the transport of the MCP library. The output of
a server is limited, lines that are no messages are kept for error messages, the end of a server is noticed
even if a child holds its pipes, and its children are ended with it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import AsyncResource, ObjectReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from reactive_agents.adapters.tools.json_value import to_json_value
from reactive_agents.adapters.tools.mcp.server import McpServer
from reactive_agents.adapters.tools.process_tree import ProcessTree, start_process

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared._stream_protocols import ReadStream
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCMessage

LARGEST_MESSAGE = 8 * 1024 * 1024
"""Bytes of a server's message: a line, a body, or one server-sent event."""
MOST_SIGNS = 300_000
"""Texts, commas and opening brackets in a message: a value of two bytes takes hundreds in memory."""
_SIGN = re.compile(rb'[{\[,]|"[^"\\]*+(?:\\.[^"\\]*+)*+("|\\?\Z)', re.DOTALL)
"""Structural characters and texts in JSON; a text may be open at the end."""
_KEPT_BYTES = 8_192
_WAITING_MESSAGES = 64
_WATCH_S = 0.5
_LAST_WORDS_S = 0.2
_PATIENCE_S = 2.0
_POLL_S = 0.01
_LAST_WAIT_S = 0.5
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class MessageStream(ObjectReceiveStream["SessionMessage | Exception"]):
    """The messages of another stream, changed by :meth:`receive`."""

    def __init__(self, source: ReadStream[SessionMessage | Exception]) -> None:
        self._source = source

    @property
    def last_context(self) -> Any:
        """The context of the latest message, if the transport has one."""
        return getattr(self._source, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        return await self._source.receive()

    async def aclose(self) -> None:
        """Stop receiving messages."""
        await self._source.aclose()


class ServerOutput:
    """Text that a server wrote outside of the protocol; only its end is kept.

    Attributes:
        exit_code: the exit code of its process; ``None`` while it runs, and without a process.
    """

    def __init__(self) -> None:
        self._end = b""
        self.exit_code: int | None = None

    def add(self, data: bytes) -> None:
        """Add bytes; the oldest are dropped if there are too many."""
        self._end = (self._end + data)[-_KEPT_BYTES:]

    def text(self) -> str:
        """Return the end as text without blank lines."""
        lines = (line.rstrip() for line in self._end.decode(errors="replace").splitlines())
        return "\n".join(line for line in lines if line)


class SignCount:
    """Counts the structural characters, outside of texts, in chunks of JSON.

    >>> SignCount().add(b'{"a": [1, "b, [c"]}')
    5
    """

    def __init__(self) -> None:
        self._signs = 0
        self._open = b""

    def add(self, data: bytes) -> int:
        """Return the count so far; counting ends at too many."""
        signs, text = self._signs, self._open
        self._open = b""
        for found in _SIGN.finditer(text + data):
            signs += 1
            if found[1] is not None and found[1] != b'"':
                self._open, signs = b'"' + found[1], signs - 1
            if signs > MOST_SIGNS:
                break
        self._signs = signs
        return signs + bool(self._open)


@asynccontextmanager
async def stdio_streams(
    server: McpServer, output: ServerOutput, on_end: Callable[[], None]
) -> AsyncIterator[TransportStreams]:
    """Start the server's command and yield its streams.

    Leaving ends the process and all that it started.

    Lines that are no messages, and what it writes to its standard error, go to ``output``.

    Args:
        on_end: called when nothing more can come from the process, maybe more than once.

    Raises:
        OSError: the command cannot be started.
    """
    process, tree = await start_server(server)
    # no await from here to the task group: a cancellation in between would leave the process running
    to_session, from_server = anyio.create_memory_object_stream[Any](0)
    # a server that does not read its input must not delay the cancellation of a call
    to_server, from_session = anyio.create_memory_object_stream[Any](_WAITING_MESSAGES)
    drained = anyio.Event()

    def end_session() -> None:
        to_session.close()
        on_end()

    async with anyio.create_task_group() as group:
        group.start_soon(_read_messages, process, to_session, output, end_session)
        group.start_soon(_write_messages, process, from_session, end_session)
        group.start_soon(_keep_errors, process, output, drained)
        group.start_soon(_watch, process, end_session)
        try:
            yield from_server, to_server
        finally:
            try:
                with anyio.CancelScope(shield=True):
                    await end_server(process, tree)
                    with anyio.move_on_after(_LAST_WORDS_S):
                        await drained.wait()
                    await close_pipes(process)
            finally:  # the shutdown of the event loop ignores the shield
                output.exit_code = process.returncode
                release_pipes(process)
                for stream in (to_session, from_server, to_server, from_session):
                    stream.close()
                group.cancel_scope.cancel()


async def _read_messages(
    process: Process,
    to_session: MemoryObjectSendStream[SessionMessage],
    output: ServerOutput,
    end_session: Callable[[], None],
) -> None:
    from mcp.shared.message import SessionMessage

    assert process.stdout is not None
    lines, listening = BufferedByteReceiveStream(process.stdout), True
    try:
        while True:
            line = (await lines.receive_until(b"\n", LARGEST_MESSAGE + 1)).rstrip(b"\r")
            if not line:
                continue
            if SignCount().add(line) > MOST_SIGNS:
                output.add(b"It wrote a message with too many values.\n")
                return
            message = _parse(line)
            if message is None:
                output.add(line + b"\n")
            elif listening:  # reads even without a session: a process that cannot write cannot end
                listening = await _delivered(to_session, SessionMessage(message))
    except anyio.DelimiterNotFound:
        output.add(b"It wrote a line that is too long for a message.\n")
    except (*_GONE, anyio.IncompleteRead):
        pass
    finally:
        end_session()


def _parse(line: bytes) -> JSONRPCMessage | None:
    from mcp.types import jsonrpc_message_adapter

    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:  # perhaps a lone surrogate, which the strict parser rejects
        try:
            data = to_json_value(json.loads(line.decode(errors="replace")))
            return jsonrpc_message_adapter.validate_python(data, by_name=False)
        except (ValueError, RecursionError):
            return None


async def _delivered(to_session: MemoryObjectSendStream[SessionMessage], message: SessionMessage) -> bool:
    try:
        await to_session.send(message)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return False
    return True


async def _write_messages(
    process: Process, from_session: MemoryObjectReceiveStream[SessionMessage], end_session: Callable[[], None]
) -> None:
    assert process.stdin is not None
    try:
        async for item in from_session:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send(text.encode() + b"\n")
    except _GONE:
        end_session()


async def _keep_errors(process: Process, output: ServerOutput, drained: anyio.Event) -> None:
    assert process.stderr is not None
    try:
        while True:
            output.add(await process.stderr.receive())
    except _GONE:
        drained.set()


async def _watch(process: Process, end_session: Callable[[], None]) -> None:
    """End the session of an exited process whose child holds its output open."""
    while process.returncode is None:  # noqa: ASYNC110 - the event of its exit waits for that child as well
        await anyio.sleep(_WATCH_S)
    await anyio.sleep(_LAST_WORDS_S)
    end_session()


# --- the process of a server -----------------------------------------------------------------------------


async def start_server(server: McpServer) -> tuple[Process, ProcessTree]:
    """Start the command of a server, with the few variables that are safe to inherit.

    Raises:
        OSError: it cannot be started.
    """
    from mcp.client.stdio import get_default_environment

    return await start_process(
        [server.command or "", *server.args],
        environment={**get_default_environment(), **server.env},
        directory=server.cwd,
    )


async def end_server(process: Process, tree: ProcessTree, *, patience_s: float = _PATIENCE_S) -> None:
    """Close its input and wait for its exit, then end it with all its children.

    Does not return before the operating system has removed the process.

    Args:
        patience_s: seconds for each step: to exit by itself, to end on ``SIGTERM``, to be killed.
    """
    try:
        if process.stdin is not None:
            await _close(process.stdin)
        await _exits_within(process, patience_s)
        await tree.end(grace_s=patience_s)
    finally:  # even if the event loop shuts down meanwhile
        tree.kill()
    await _exits_within(process, patience_s)


async def close_pipes(process: Process) -> None:
    """Close the pipes that the process wrote to."""
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            await _close(pipe)


def release_pipes(process: Process) -> None:
    """Close pipes that a process may hold open because it could not be ended.

    asyncio would keep them open until the garbage collector warns; they have no public interface.
    """
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        popen = transport.get_extra_info("subprocess")
        if process.returncode is None and popen is not None:  # a loop that shuts down cannot report the end
            with suppress(subprocess.TimeoutExpired):
                popen.wait(_LAST_WAIT_S)
        with suppress(PermissionError):  # a program that changed its user cannot be killed
            transport.close()


async def _close(pipe: AsyncResource) -> None:
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await pipe.aclose()


async def _exits_within(process: Process, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 - the event of an exit waits for children as well
            await anyio.sleep(_POLL_S)
