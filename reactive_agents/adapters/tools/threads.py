"""Threads for plain functions, as many at once as the event loop has; who waits for one has not begun."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

_Limiters = tuple[anyio.CapacityLimiter, anyio.CapacityLimiter]
_LIMITERS: RunVar[_Limiters] = RunVar("reactive_agents_tool_threads")


class Thread:
    """One of the threads that may run at once, from :func:`take_thread` until it is left or has run."""

    def __init__(self, places: anyio.CapacityLimiter, uncounted: anyio.CapacityLimiter) -> None:
        self._places: anyio.CapacityLimiter | None = places
        self._uncounted = uncounted  # the thread is counted already, by its place

    async def run(self, function: Callable[[], Any]) -> Any:
        """What the function gives. When that is cancelled, it goes on by itself, and its place is free."""
        try:
            return await anyio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=self._uncounted)
        finally:
            self.leave()

    def leave(self) -> None:
        """Free the place; harmless when that was done already."""
        places, self._places = self._places, None
        if places is not None:
            places.release_on_behalf_of(self)


async def take_thread(patience_s: float | None) -> Thread | None:
    """A thread, as soon as one is free; ``None`` when there is none in time.

    Args:
        patience_s: seconds to wait for it; ``None`` waits for ever.
    """
    limiters = _LIMITERS.get(None)
    if limiters is None:
        limiters = anyio.to_thread.current_default_thread_limiter(), anyio.CapacityLimiter(inf)
        _LIMITERS.set(limiters)
    places, _ = limiters
    thread = Thread(*limiters)
    try:
        places.acquire_on_behalf_of_nowait(thread)
    except anyio.WouldBlock:
        with anyio.move_on_after(patience_s):
            await places.acquire_on_behalf_of(thread)
            return thread
        return None
    return thread
