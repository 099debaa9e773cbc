"""HTTP responses of MCP servers, with a limit of their size."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

LARGEST_BODY = 32 * 1024 * 1024
"""Bytes of a body, or of one event of a stream of events."""
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n")


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Cuts off a response that is too large, and refuses a compressed one."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; the body of its response is bounded while it is read."""
        response = await super().handle_async_request(request)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.DecodingError("the server sent a compressed body, which was not asked for")
        of_events = response.headers.get("Content-Type", "").startswith("text/event-stream")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _BoundedStream(response.stream, of_events=of_events)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, *, of_events: bool) -> None:
        self._stream = stream
        self._of_events = of_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            end = max(chunk.rfind(sign) for sign in _EVENT_ENDS) if self._of_events else -1
            size = len(chunk) - end if end >= 0 else size + len(chunk)
            if size > LARGEST_BODY:
                raise httpx2.ReadError("the server sent more than 32 MB in one response")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
