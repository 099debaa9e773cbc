"""Plain event handlers: called where an event happens, as long as they are quick.

A handler that blocks holds up its run, and every other run of the event loop, with their time limits. Whether
one blocks is not known before it is called; most are quick, and are expected to have seen an event when the
next one happens. So the first slow call costs what it takes, and is the last one on that thread.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from reactive_agents.adapters.telemetry.async_handler import report_failed_handler
from reactive_agents.ports import EventHandler

if TYPE_CHECKING:
    from reactive_agents.core.events import AgentEvent

_log = logging.getLogger("reactive_agents")

SLOW_S: Final = 1.0
"""Seconds of one call from which on a handler is called in its own thread."""


class PlainHandler:
    """Calls a handler at once, and after a slow call in its own thread, in order.

    Args:
        monotonic: tells seconds.
    """

    def __init__(self, handler: EventHandler, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.__qualname__ = getattr(handler, "__qualname__", type(handler).__qualname__)
        self._handler = handler
        self._monotonic = monotonic
        self._changing = Lock()
        self._waiting: deque[AgentEvent] | None = None
        self._idle = Event()
        self._idle.set()

    def __call__(self, event: AgentEvent) -> None:
        """Have the event handled, now or soon."""
        if self._waiting is not None:
            self._hand_over(event)
            return
        started = self._monotonic()
        try:
            self._handler(event)
        finally:
            took_s = self._monotonic() - started
            if took_s >= SLOW_S:
                self._become_slow(took_s)

    def discard(self) -> None:
        """Forget the events that wait."""
        if self._waiting is not None:
            self._waiting.clear()

    async def drain(self) -> None:
        """Wait until every event is handled."""
        if not self._idle.is_set():
            await anyio.to_thread.run_sync(self._idle.wait, abandon_on_cancel=True)

    def _become_slow(self, took_s: float) -> None:
        with self._changing:
            if self._waiting is not None:
                return
            self._waiting = deque()
        _log.warning(
            "The event handler %s took %.1f seconds and held up every run of its event loop. It is called in "
            "its own thread from now on; an async handler would not hold up any.",
            self.__qualname__,
            took_s,
        )

    def _hand_over(self, event: AgentEvent) -> None:
        with self._changing:
            assert self._waiting is not None
            self._waiting.append(event)
            if not self._idle.is_set():
                return
            self._idle.clear()
        Thread(target=self._work, name=f"reactive_agents {self.__qualname__}", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._changing:
                if not self._waiting:
                    self._idle.set()
                    return
                event = self._waiting.popleft()
            try:
                self._handler(event)
            except Exception:  # noqa: BLE001 - a handler is arbitrary user code, and an event cannot fail
                report_failed_handler(self._handler, event)
