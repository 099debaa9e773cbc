"""Event loops whose clock does not run: it jumps to the next timer whenever nothing else is left to do.

A test waits for hours in no time with them, and what comes first does not depend on the machine. They are for
what waits for timers and for other tasks alone: a jump does not wait for a thread, a process or a socket.
"""

from __future__ import annotations

import asyncio
import selectors
from datetime import datetime, timedelta
from typing import Any

import anyio
import pytest

from reactive_agents.adapters.system import SystemClock
from reactive_agents.testing.core import START

Backend = tuple[str, dict[str, Any]]


def virtual_time(backend: str = "asyncio") -> Backend:
    """Return the value of the fixture ``anyio_backend`` for tests in virtual time on that backend."""
    if backend == "trio":
        from trio.testing import MockClock

        return "trio", {"clock": MockClock(autojump_threshold=0)}
    return "asyncio", {"loop_factory": VirtualTimeLoop}


class LoopClock:
    """A clock that shows the time of the event loop, so that it agrees with the loop's timers."""

    def now(self) -> datetime:
        return START + timedelta(seconds=anyio.current_time())

    def monotonic(self) -> float:
        return anyio.current_time()


class SettableClock(SystemClock):
    """A clock that a test sets; the time that passes is that of the machine."""

    time = START

    def now(self) -> datetime:
        return self.time


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio loop in virtual time."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        """Move the clock forward."""
        self._now += seconds


class _Jumping(selectors.DefaultSelector):
    """A selector that moves the clock of its loop forward in place of waiting for it."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if not timeout:
            return super().select(timeout)
        if not (events := super().select(0)):
            self._loop.jump(timeout)
        return events


in_virtual_time = pytest.mark.parametrize("anyio_backend", [virtual_time()], ids=["virtual time"])
"""Marks one test of a file whose others run in real time."""
