"""Event handlers: plain ones, and async ones that wait.

Publishing an event neither waits nor fails, so nothing can be awaited where an event happens. A handler that
waits, for a socket or a database, is therefore called later: one event after the other, in order, on the
event loop on which it was subscribed. A run on any loop or thread goes on meanwhile.

A plain handler is called where an event happens, as long as it is quick. One that blocks holds up its run,
and every other run of the event loop, with their time limits. Whether one blocks is not known before it is
called; most are quick, and are expected to have seen an event when the next one happens. So the first slow
call costs what it takes, and is the last one on that thread.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
import anyio.to_thread
from typing_extensions import TypeIs

from reactive_agents.effects import schedule_on_this_loop, spawn_on_this_loop
from reactive_agents.ports import EventHandler

if TYPE_CHECKING:
    from reactive_agents.core.events import AgentEvent

_log = logging.getLogger("reactive_agents")

AsyncEventHandler: TypeAlias = "Callable[[AgentEvent], Awaitable[None]]"


def is_async(handler: object) -> TypeIs[AsyncEventHandler]:
    """Whether a handler has to be awaited."""
    return any(map(inspect.iscoroutinefunction, (handler, getattr(type(handler), "__call__", None))))  # noqa: B004


class QueuedHandler:
    """A plain handler over an async one.

    Made on the event loop that is to run it, callable from any thread.

    Raises:
        RuntimeError: no event loop is running.
    """

    def __init__(self, handler: AsyncEventHandler) -> None:
        self._handler = handler
        self._schedule = schedule_on_this_loop()
        self._waiting: deque[AgentEvent] = deque()
        self._at_work = False
        self._changing = Lock()
        self._idle: anyio.Event | None = None

    def __call__(self, event: AgentEvent) -> None:
        """Have the event handled soon."""
        with self._changing:
            self._waiting.append(event)
            if self._at_work:
                return
            self._at_work = True
        try:
            self._schedule(self._begin)
        except RuntimeError:  # the loop has ended, and the handler with it
            self.discard()

    def discard(self) -> None:
        """Forget the events that wait."""
        self._waiting.clear()

    async def drain(self) -> None:
        """Wait, on the handler's event loop, until every event is handled.

        Elsewhere return at once.
        """
        if schedule_on_this_loop() != self._schedule or not self._at_work:
            return
        self._idle = self._idle or anyio.Event()
        await self._idle.wait()

    def _begin(self) -> None:
        spawn_on_this_loop(self._work)

    async def _work(self) -> None:
        while True:
            with self._changing:
                if not self._waiting:
                    self._at_work = False
                    break
                event = self._waiting.popleft()
            try:
                await self._handler(event)
            except Exception:  # noqa: BLE001 - a handler is arbitrary user code, and an event cannot fail
                report_failed_handler(self._handler, event)
        if self._idle is not None:
            self._idle.set()
            self._idle = None


def report_failed_handler(handler: object, event: AgentEvent) -> None:
    """Log that a handler raised, with the traceback of what it raised."""
    name = getattr(handler, "__qualname__", type(handler).__qualname__)
    kind = type(event).__name__
    _log.warning("The event handler %s failed on %s of run %s.", name, kind, event.run_id, exc_info=True)


# --- Plain handlers --------------------------------------------------------------------------------------


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
