"""What has to be closed when an agent is.

Async resource providers would do this on asyncio alone, and only for what was initialised beforehand; here
each service that holds something open says so when it is made, on whatever event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class Closing:
    """Closes services in the reverse order of their making, each of which may be used, and closed, again."""

    def __init__(self) -> None:
        self._closers: list[Callable[[], Awaitable[None]]] = []

    def add(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call ``close`` whenever the agent is closed; it must be harmless to call it twice."""
        self._closers.append(close)

    async def aclose(self) -> None:
        """Close everything.

        Raises:
            ExceptionGroup: what went wrong; every service was asked to close nevertheless.
        """
        problems: list[Exception] = []
        for close in reversed(self._closers):
            try:
                await close()
            except Exception as error:  # noqa: BLE001 - one service must not keep the others open
                problems.append(error)
        if problems:
            raise ExceptionGroup("Not everything could be closed.", problems)
