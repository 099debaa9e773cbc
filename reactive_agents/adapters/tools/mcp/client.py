"""A client of the MCP library, connected to one server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from reactive_agents.adapters.tools.mcp.server import McpServer
from reactive_agents.adapters.tools.mcp.stdio import ServerOutput, stdio_streams

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import TransportStreams

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
