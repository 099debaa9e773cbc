"""The HTTP clients of each adapter, so that each closes its own.

litellm keeps its clients in one cache for the whole process, keyed by the address of the event loop in
memory: closing them for one user closes them for all, and a second loop may get the clients of a closed one.
Its cache is therefore replaced (``completion.scope_clients``) by one with separate clients for each adapter.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import weakref
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from attrs import frozen

_current: Final[ContextVar[dict[str, Any] | None]] = ContextVar(
    "clients of the adapter that calls", default=None
)


def on_asyncio() -> bool:
    """Return whether litellm works on the running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Connections:
    """The clients of one adapter, one set for each event loop that it is used in.

    A set is closed by :meth:`aclose`, or else when its loop shuts down its async generators, as
    ``asyncio.run`` and ``anyio.run`` do at their end, or soon after this object is deleted.
    """

    def __init__(self) -> None:
        self._sets: dict[asyncio.AbstractEventLoop, _ClientSet] = {}
        self._lock = threading.Lock()  # loops of several threads add and remove their sets at once

    async def clients(self) -> dict[str, Any]:
        """Return the clients for the running loop, by litellm's keys, created on demand."""
        loop = asyncio.get_running_loop()
        known = self._sets.get(loop)
        if known is not None:
            return known.clients
        clients: dict[str, Any] = {}
        keeper = _keep(clients)
        # held by the finalizer: a set deleted with its owner could not be closed in order
        retire = weakref.finalize(self, _retire, loop, keeper)
        retire.atexit = False
        with self._lock:
            for ended in [each for each in self._sets if each.is_closed()]:
                del self._sets[ended]
            self._sets[loop] = _ClientSet(clients, keeper, retire)
        await anext(keeper)
        return clients

    async def aclose(self) -> None:
        """Close the clients of the running loop. The next call opens new ones."""
        if not on_asyncio():
            return  # where nothing could be opened
        with self._lock:
            closing = self._sets.pop(asyncio.get_running_loop(), None)
        if closing is not None:
            closing.retire.detach()
            await closing.keeper.aclose()


@frozen
class _ClientSet:
    clients: dict[str, Any]
    keeper: AsyncGenerator[None]
    retire: weakref.finalize[..., Any]


def _retire(loop: asyncio.AbstractEventLoop, keeper: AsyncGenerator[None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(lambda: loop.create_task(keeper.aclose()))


async def _keep(clients: dict[str, Any]) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        while clients:
            _, client = clients.popitem()
            await _close(client)


async def _close(client: Any) -> None:
    close = getattr(client, "aclose", None) or getattr(client, "close", None)
    if close is None:
        return
    try:
        closing = close()
        if inspect.isawaitable(closing):
            await closing
    except (OSError, RuntimeError):
        # the connection is closed already
        return


@contextmanager
def used_by_litellm(clients: dict[str, Any]) -> Iterator[None]:
    """Let litellm use and store its clients here; do not yield within the context."""
    token = _current.set(clients)
    try:
        yield
    finally:
        _current.reset(token)


def clients_in_use() -> dict[str, Any] | None:
    """The clients of :func:`used_by_litellm`; ``None`` outside of it."""
    return _current.get()
