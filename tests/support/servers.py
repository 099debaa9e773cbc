"""Applications of the server package, asked in the process or over a socket of 127.0.0.1."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette

from reactive_agents.server import ApiKeys, KeyLimits
from reactive_agents.server.process import bound_socket
from tests.support.waiting import until


@asynccontextmanager
async def asking(app: Starlette, headers: Mapping[str, str] = {}) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application in this process, which is opened and closed."""
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client,
    ):
        yield client


@asynccontextmanager
async def listening(app: Any, *, on: socket.socket | None = None, **options: Any) -> AsyncIterator[str]:
    """The address of a server of the application on 127.0.0.1, until the block ends."""
    with on or bound_socket("127.0.0.1", 0) as bound:
        server = _Server(uvicorn.Config(app, log_level="error", **options))
        serving = asyncio.create_task(server.serve([bound]))
        try:
            await until(lambda: server.started or serving.done())
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.ends.set()
            await serving


class _Server(uvicorn.Server):
    """A server that ends at once, where that of uvicorn looks every 0.1 s whether it is to."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ends = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.ends.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for _ in range(5):  # a connection that was accepted is known after a few turns of the event loop
            await asyncio.sleep(0)
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await until(lambda: not self.server_state.connections and not self.server_state.tasks)
        await self.lifespan.shutdown()


def bearer(keys: ApiKeys, name: str, **scope: Any) -> dict[str, str]:
    """The header of a new key."""
    key, _ = keys.create(name, **scope)
    return {"authorization": f"Bearer {key}"}


def keys_in(folder: Path) -> ApiKeys:
    """The keys of a new file."""
    return ApiKeys(folder / "keys.json")


NARROW = KeyLimits(requests_per_minute=1_000, runs=2, streams=2, body_bytes=2_000, body_s=0.2)


def events_of(text: str) -> list[dict[str, str]]:
    """The fields of each server-sent event, as a browser reads them; comments are left out."""
    found = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields: dict[str, str] = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            if name:
                fields[name] = fields.get(name, "") + value.removeprefix(" ")
        if fields:
            found.append(fields)
    return found
