"""Limits on the size of HTTP responses of MCP servers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from reactive_agents.adapters.tools.mcp.stdio import LARGEST_MESSAGE, MOST_SIGNS, SignCount

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n")


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Cuts off a response with too many bytes or values; refuses a compressed one."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; reading the body of its response is limited."""
        response = await super().handle_async_request(request)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.DecodingError("the server sent a compressed body, which was not asked for")
        of_events = response.headers.get("Content-Type", "").startswith("text/event-stream")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = BoundedStream(response.stream, of_events=of_events)
        return response


class BoundedStream(httpx2.AsyncByteStream):
    """A limited body, or a stream of limited events."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, of_events: bool) -> None:
        self._stream = stream
        self._of_events = of_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, signs = 0, SignCount()
        async for chunk in self._stream:
            end = max(chunk.rfind(sign) for sign in _EVENT_ENDS) if self._of_events else -1
            size = len(chunk) - end if end >= 0 else size + len(chunk)
            if size > LARGEST_MESSAGE:
                raise httpx2.ReadError("the server sent more than 8 MB in one response")
            signs = SignCount() if end >= 0 else signs
            if signs.add(chunk[max(end, 0) :]) > MOST_SIGNS:
                raise httpx2.ReadError("the server sent a response with too many values")
            yield chunk

    async def aclose(self) -> None:
        """Close the body."""
        await self._stream.aclose()
