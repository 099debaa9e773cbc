"""The process of a server: uvicorn with a graceful shutdown of runs.

On SIGTERM, uvicorn alone would close its sockets at once. This server waits for runs first: while they end,
their streams, answers and approvals still work, and ``/readyz`` tells a proxy that no new runs are accepted.
A second signal ends the wait. After the time limit durable runs are interrupted, so that another process
continues them, and other runs are cancelled.
"""

from __future__ import annotations

import asyncio
import socket
from types import FrameType
from typing import Any

import h11
import uvicorn
from sse_starlette.sse import AppStatus
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from reactive_agents.server.runs import AgentService

REQUEST_S = 10.0
"""Seconds in which the headers of a request must arrive."""
READ_S = 60.0
"""Seconds in which a client must read sent data."""
MOST_CONNECTIONS = 10_000
_LAST_ANSWERS_S = 5
_LAST_TEXTS_S = 1.0
"""Seconds in which what runs have just returned is sent before streams that never end are ended."""


class TimedProtocol(H11Protocol):
    """The protocol of a connection, which ends if its client is too slow.

    Attributes:
        request_s: seconds in which the headers of a request must arrive.
        read_s: seconds in which the client must read sent data.
    """

    request_s = REQUEST_S
    read_s = READ_S
    _waiting: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin a connection."""
        super().connection_made(transport)
        self._time_next_request()

    def data_received(self, data: bytes) -> None:
        """Receive bytes from the client."""
        super().data_received(data)
        self._time_next_request()

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request; what the application answers to it is dropped."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # the application has begun its answer
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""
        super().connection_lost(exc)
        for timer in (self._waiting, self._unread):
            if timer is not None:
                timer.cancel()

    def pause_writing(self) -> None:
        """Pause sending, since the client does not read."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.read_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Resume sending, since the client has read."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def _time_next_request(self) -> None:
        if not self._awaits_request():
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self.request_s, self._give_up)

    def _awaits_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _give_up(self) -> None:
        self._waiting = None
        if self._awaits_request():
            self.transport.close()


class DrainingServer(uvicorn.Server):
    """A server that lets runs end before it closes its connections.

    Args:
        service: the service of the runs to wait for; ``None`` for none.
        drain_s: seconds to wait.
    """

    def __init__(
        self, app: ASGIApp, *, service: AgentService | None = None, drain_s: float = 30.0, **options: Any
    ) -> None:
        given: dict[str, Any] = {
            "http": TimedProtocol,
            "ws": "none",
            "log_level": "warning",
            "access_log": False,
            "proxy_headers": False,
            "server_header": False,
            "limit_concurrency": MOST_CONNECTIONS,
            "timeout_graceful_shutdown": _LAST_ANSWERS_S,
        }
        super().__init__(uvicorn.Config(app, **given | options))
        self._service = service
        self._drain_s = drain_s
        self._second_signal = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal: the first begins the shutdown, the second skips the wait."""
        self.hurry() if self.should_exit else super().handle_exit(sig, frame)

    def hurry(self) -> None:
        """End the wait for runs."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._second_signal.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the application and its sockets."""
        self._loop = asyncio.get_running_loop()
        AppStatus.enable_automatic_graceful_drain = False  # would end streams of A2A and MCP at the signal
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for the runs, then close the connections and the application."""
        if self._service is not None:
            had_runs = self._service.runs_under_way > 0
            draining = asyncio.create_task(self._service.drain(self._drain_s))
            hurrying = asyncio.create_task(self._second_signal.wait())
            await asyncio.wait({draining, hurrying}, return_when=asyncio.FIRST_COMPLETED)
            for each in (draining, hurrying):
                each.cancel()
            await asyncio.wait({draining, hurrying})
            await self._service.drain(0)
            if had_runs and (answering := set(self.server_state.tasks)):
                await asyncio.wait(answering, timeout=_LAST_TEXTS_S)
        AppStatus.should_exit = True  # process-wide: streams that never end by themselves
        try:
            await super().shutdown(sockets)
        finally:
            AppStatus.should_exit = False


def address_of(listening: socket.socket, host: str) -> str:
    """Return the URL of a server."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address.

    Raises:
        OSError: the address is in use, or not one of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, for asyncio's TCP_NODELAY
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(2_048)
    except OSError:
        bound.close()
        raise
    return bound
