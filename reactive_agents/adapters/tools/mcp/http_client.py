"""The HTTP client of MCP servers: limited responses, and authentication.

An exception would end the session, with all its other calls. So what is wrong with a response becomes an
error of its request, as the library reads it from the body of an error status.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

import anyio
import httpx2
from mcp.types import INTERNAL_ERROR

from reactive_agents.adapters.tools.json_value import as_text
from reactive_agents.adapters.tools.mcp.server import McpServer, shown
from reactive_agents.adapters.tools.mcp.stdio import LARGEST_MESSAGE, MOST_SIGNS, SignCount
from reactive_agents.core.texts import shortened
from reactive_agents.effects import call_function

_log = logging.getLogger("reactive_agents")

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n")
_SHOWN_CHARS = 500
_HEADERS_S = 10.0


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Cuts off a response with too many bytes or values; refuses a compressed one.

    Args:
        server: a function of it makes the headers of each request to it.
    """

    def __init__(self, server: McpServer) -> None:
        self._server = server
        # calls beyond the number of connections would wait, and end the session after 30 seconds
        super().__init__(limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; reading the body of its response is limited."""
        if callable(self._server.headers) and self._is_to_server(request.url):
            try:
                with anyio.fail_after(_HEADERS_S):  # until then, other messages of the session wait
                    headers = dict(await call_function(self._server.headers))
                request.headers.update(headers)
                self._server.sent.add_headers(headers)
            except Exception as error:  # noqa: BLE001 - a function of the program
                _log.warning(
                    "The function for the headers of the MCP server %r raised.",
                    self._server.name,
                    exc_info=error,
                )
                return _failure(f"the function for its headers raised {type(error).__name__}")
        response = await super().handle_async_request(request)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            await response.aclose()
            return _failure("the server sent a compressed body, which was not asked for")
        of_events = _is_of_events(response)
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = BoundedStream(response.stream, of_events=of_events)
        if of_events or request.method != "POST":
            return response
        try:
            await response.aread()
        except httpx2.StreamError as error:
            return _failure(str(error))
        except httpx2.TransportError as error:
            return _broken_off(error)
        finally:
            await response.aclose()
        return response

    def _is_to_server(self, url: httpx2.URL) -> bool:
        server = httpx2.URL(self._server.url or "")
        return (url.scheme, url.host, url.port) == (server.scheme, server.host, server.port)


class BoundedClient(httpx2.AsyncClient):
    """Authenticates requests, and bounds their responses.

    An error status without an error of the protocol is named, with the beginning of its text, as is what the
    authentication raises.
    """

    def __init__(self, server: McpServer, headers: Mapping[str, str], timeout: httpx2.Timeout) -> None:
        auth = None if server.auth is None else _NotedAuth(server)
        super().__init__(headers=headers, timeout=timeout, transport=BoundedTransport(server), auth=auth)
        self._server = server

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request; one that fails after the session has begun has a response too."""
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            if request.method != "POST" or "MCP-Protocol-Version" not in request.headers:
                raise
            return _with_request(_broken_off(error), request)
        except Exception as error:
            if self._server.auth is None:
                raise
            detail = shown(self._server, f"{type(error).__name__}: {as_text(error)}".rstrip(": "))
            return _with_request(_failure(f"the authentication failed: {detail}"), request)
        if request.method != "POST" or _is_of_events(response):
            return response
        body = await response.aread()
        if "Mcp-Session-Id" in request.headers and _is_unknown_session(response.status_code, body):
            return _with_request(httpx2.Response(404), request)  # as the library expects it
        if response.status_code < 400 or response.status_code == 404 or b'"jsonrpc"' in body:
            return response
        status = f"{response.status_code} {response.reason_phrase}".rstrip()
        text = shortened(" ".join(response.text.split()), _SHOWN_CHARS)
        return _with_request(_failure(f"the server answered {status}{': ' if text else ''}{text}"), request)


class _NotedAuth(httpx2.Auth):
    """The authentication of a server; notes the tokens that it sends and receives."""

    def __init__(self, server: McpServer) -> None:
        self._flow, self._sent = server.auth, server.sent

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Run the flow of the authentication."""
        flow = self._flow(request)
        try:
            sent = await anext(flow)
            while True:
                self._sent.add_headers({"Authorization": sent.headers.get("Authorization", "")})
                is_of_flow = sent is not request
                if is_of_flow:
                    with suppress(httpx2.StreamError, UnicodeDecodeError):
                        self._sent.add_fields(parse_qsl(sent.content.decode()))
                response = yield sent
                if is_of_flow:
                    with suppress(httpx2.StreamError, ValueError, AttributeError):
                        self._sent.add_fields(response.json().items())
                sent = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


def _is_of_events(response: httpx2.Response) -> bool:
    return bool(response.headers.get("Content-Type", "").startswith("text/event-stream"))


def _with_request(response: httpx2.Response, request: httpx2.Request) -> httpx2.Response:
    response.request = request
    return response


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
