"""Limits on the size of HTTP responses of MCP servers.

An exception would end the session, with all its other calls. So what is wrong with a response becomes an
error of its request, as the library reads it from the body of an error status.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator

import anyio
import httpx2
from mcp.types import INTERNAL_ERROR

from reactive_agents.adapters.tools.mcp.server import McpServer
from reactive_agents.adapters.tools.mcp.stdio import LARGEST_MESSAGE, MOST_SIGNS, SignCount
from reactive_agents.core.texts import shortened
from reactive_agents.effects import call_function

_log = logging.getLogger("reactive_agents")

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n")
_SHOWN_CHARS = 500
_HEADERS_S = 10.0


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Cuts off a response with too many bytes or values; refuses a compressed one.

    An error status without an error of the protocol is named, with the beginning of its text.

    Args:
        server: a function of it makes the headers of each request.
    """

    def __init__(self, server: McpServer) -> None:
        self._server = server
        # calls beyond the number of connections would wait, and end the session after 30 seconds
        super().__init__(limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; reading the body of its response is limited."""
        if callable(self._server.headers):
            try:
                with anyio.fail_after(_HEADERS_S):  # until then, other messages of the session wait
                    headers = dict(await call_function(self._server.headers))
                request.headers.update(headers)
                self._server.sent_headers.update(headers)
            except Exception as error:  # noqa: BLE001 - a function of the program
                _log.warning(
                    "The function for the headers of the MCP server %r raised.",
                    self._server.name,
                    exc_info=error,
                )
                return _failure(f"the function for its headers raised {type(error).__name__}")
        is_opened = request.method == "POST" and "MCP-Protocol-Version" in request.headers
        try:
            response = await super().handle_async_request(request)
        except httpx2.TransportError as error:
            if not is_opened:
                raise
            return _broken_off(error)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            await response.aclose()
            return _failure("the server sent a compressed body, which was not asked for")
        of_events = response.headers.get("Content-Type", "").startswith("text/event-stream")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = BoundedStream(response.stream, of_events=of_events)
        if of_events or request.method != "POST":
            return response
        try:
            body = await response.aread()
        except httpx2.StreamError as error:
            return _failure(str(error))
        except httpx2.TransportError as error:
            return _broken_off(error)
        finally:
            await response.aclose()
        if "Mcp-Session-Id" in request.headers and _is_unknown_session(response.status_code, body):
            return httpx2.Response(404)  # as the library expects it
        if response.status_code < 400 or response.status_code == 404 or b'"jsonrpc"' in body:
            return response
        status = f"{response.status_code} {response.reason_phrase}".rstrip()
        text = shortened(" ".join(response.text.split()), _SHOWN_CHARS)
        return _failure(f"the server answered {status}{': ' if text else ''}{text}")


def _is_unknown_session(status: int, body: bytes) -> bool:
    """Return whether a server refused a request since it does not know the session."""
    return status == 404 or (status == 400 and b"session id" in body.lower())


def _broken_off(error: httpx2.TransportError) -> httpx2.Response:
    return _failure(f"the connection failed ({type(error).__name__}): {error}".rstrip(": "))


def _failure(message: str) -> httpx2.Response:
    error = {"code": INTERNAL_ERROR, "message": message}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    return httpx2.Response(502, headers={"Content-Type": "application/json"}, content=body)


class BoundedStream(httpx2.AsyncByteStream):
    """A limited body, or a stream of limited events."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, of_events: bool) -> None:
        self._stream = stream
        self._of_events = of_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, signs = 0, SignCount()
        failed = httpx2.SSEError if self._of_events else httpx2.StreamError
        async for chunk in self._stream:
            end = max(chunk.rfind(sign) for sign in _EVENT_ENDS) if self._of_events else -1
            size = len(chunk) - end if end >= 0 else size + len(chunk)
            if size > LARGEST_MESSAGE:
                raise failed("the server sent more than 8 MB in one response")
            signs = SignCount() if end >= 0 else signs
            if signs.add(chunk[max(end, 0) :]) > MOST_SIGNS:
                raise failed("the server sent a response with too many values")
            yield chunk

    async def aclose(self) -> None:
        """Close the body."""
        await self._stream.aclose()
