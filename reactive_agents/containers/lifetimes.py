"""Opening services before an agent's runs, and closing them with the agent.

Async resource providers would do this on asyncio alone; here each service that holds something open is added
when it is made, on whatever event loop. An agent may be used from several event loops at once, as when
threads call ``run_sync``, so nothing here belongs to one of them, and a service that does keeps its own
account of its loops.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ServiceFailed
from reactive_agents.effects import effect

Open: TypeAlias = Callable[[], Awaitable[Result[None, ServiceFailed]]]
Close: TypeAlias = Callable[[], Awaitable[None]]


class Lifetimes:
    """Opens services in the order of creation, and closes them in reverse, repeatedly."""

    def __init__(self) -> None:
        self._opens: list[Open] = []
        self._closes: list[Close] = []

    def add(self, close: Close, open: Open | None = None) -> None:
        """Manage a service.

        Args:
            close: called whenever the agent is closed; it must be harmless to call it twice.
            open: called before each run, by several runs and from several event loops at once; harmless when
                the service is open, and opens it once.
        """
        self._closes.append(close)
        if open is not None:
            self._opens.append(open)

    @effect
    async def open(self) -> Result[None, ServiceFailed]:
        """Open every closed service; fails with the first that cannot be opened."""
        for open_service in tuple(self._opens):
            opened = await open_service()
            if isinstance(opened, Failure):
                return opened
        return Success(None)

    async def aclose(self) -> None:
        """Close everything, for the event loop that is running.

        Raises:
            ExceptionGroup: the failures; every service was asked to close nevertheless.
        """
        problems: list[Exception] = []
        for close in reversed(tuple(self._closes)):
            try:
                await close()
            except Exception as error:  # noqa: BLE001 - one service must not keep the others open
                problems.append(error)
        if problems:
            raise ExceptionGroup("Not everything could be closed.", problems)
