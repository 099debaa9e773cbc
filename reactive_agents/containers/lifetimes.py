"""What is opened before an agent's first run, and closed with the agent.

Async resource providers would do this on asyncio alone; here each service that holds something open says so
when it is made, on whatever event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
import anyio.lowlevel
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ServiceFailed
from reactive_agents.effects import effect

Open: TypeAlias = Callable[[], Awaitable[Result[None, ServiceFailed]]]
Close: TypeAlias = Callable[[], Awaitable[None]]


class Lifetimes:
    """Opens services in the order of their making, closes them in the reverse order, and does so again."""

    def __init__(self) -> None:
        self._opens: list[Open] = []
        self._closes: list[Close] = []
        self._opening: dict[object, anyio.Event] = {}  # for each event loop, as events belong to one

    def add(self, close: Close, open: Open | None = None) -> None:
        """Manage a service.

        Args:
            close: called whenever the agent is closed; it must be harmless to call it twice.
            open: called before each run; harmless when the service is open.
        """
        self._closes.append(close)
        if open is not None:
            self._opens.append(open)

    @effect
    async def open(self) -> Result[None, ServiceFailed]:
        """Open what is not open. Fails as the first service does that cannot be opened."""
        if not self._opens:
            return Success(None)
        loop = anyio.lowlevel.current_token()
        while (under_way := self._opening.get(loop)) is not None:  # several first runs open nothing twice
            await under_way.wait()
        self._opening[loop] = anyio.Event()
        try:
            for open_service in self._opens:
                opened = await open_service()
                if isinstance(opened, Failure):
                    return opened
            return Success(None)
        finally:
            self._opening.pop(loop).set()

    async def aclose(self) -> None:
        """Close everything.

        Raises:
            ExceptionGroup: what went wrong; every service was asked to close nevertheless.
        """
        problems: list[Exception] = []
        for close in reversed(self._closes):
            try:
                await close()
            except Exception as error:  # noqa: BLE001 - one service must not keep the others open
                problems.append(error)
        if problems:
            raise ExceptionGroup("Not everything could be closed.", problems)
