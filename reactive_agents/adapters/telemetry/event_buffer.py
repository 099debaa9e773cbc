"""The events of one run on their way to a reader, who may be slow.

Publishing an event neither waits nor fails, so the run waits elsewhere: before its next step, and after each
delta of a stream, as long as too many events have not been read. The runs beside it go on. Events may come
from other threads, and the runs that wait may be on other event loops than the reader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

import anyio

from reactive_agents.core.event_redaction import ValueRedactor
from reactive_agents.core.ids import RunId
from reactive_agents.core.redaction import Redactor
from reactive_agents.effects import calls_on_this_loop

if TYPE_CHECKING:
    from reactive_agents.core.events import AgentEvent

MOST_WAITING = 256
"""Events that wait for the reader before the run waits too; those of one more step may join them."""


class EventBuffer:
    """Holds the events that have not been read, in order.

    Args:
        run_id: the run that is read. The events of others, which its tools began, are redacted here once
            more, since their agents may know of fewer secrets.
        redactor: of the agent that is read.
        most: number of events from which on the run waits, 1 or more.
    """

    def __init__(self, run_id: RunId, redactor: Redactor | None = None, *, most: int = MOST_WAITING) -> None:
        self._run_id = run_id
        self._redacted = None if redactor is None else ValueRedactor(redactor).redacted
        self._most = most
        self._events: deque[AgentEvent] = deque()
        self._changing = Lock()
        self._closed = False
        self._wake_reader: Callable[[], object] | None = None
        self._wake_runs: list[Callable[[], object]] = []

    @property
    def is_behind(self) -> bool:
        """Whether so many events wait that the run has to."""
        return len(self._events) >= self._most and not self._closed

    def show(self, event: AgentEvent) -> None:
        """Take an event, from any thread; after the end of the reader none."""
        if self._redacted is not None and event.run_id != self._run_id:
            event = self._redacted(event)
        with self._changing:
            if self._closed:
                return
            self._events.append(event)
            wake, self._wake_reader = self._wake_reader, None
        if wake is not None:
            wake()

    async def ready(self) -> None:
        """Wait until half of what waits was read, or the reader has left."""
        while self.is_behind:
            read, call_soon = anyio.Event(), calls_on_this_loop()
            with self._changing:
                if not self.is_behind:
                    return
                self._wake_runs.append(_setter(call_soon, read))
            await read.wait()

    async def get(self) -> AgentEvent | None:
        """Return the next event, as soon as there is one; ``None`` after the last."""
        while True:
            with self._changing:
                if self._events:
                    event = self._events.popleft()
                    waiting = self._take_waiting() if 2 * len(self._events) <= self._most else ()
                    break
                if self._closed:
                    return None
                arrived, call_soon = anyio.Event(), calls_on_this_loop()
                self._wake_reader = _setter(call_soon, arrived)
            await arrived.wait()
        for wake in waiting:
            wake()
        return event

    def close(self) -> None:
        """Take no more events; those that wait can still be read."""
        with self._changing:
            self._closed = True
            waiting = self._take_waiting()
            reader, self._wake_reader = self._wake_reader, None
        for wake in waiting if reader is None else (*waiting, reader):
            wake()

    def _take_waiting(self) -> tuple[Callable[[], object], ...]:
        waiting, self._wake_runs = tuple(self._wake_runs), []
        return waiting


def _setter(call_soon: Callable[[Callable[[], object]], object], event: anyio.Event) -> Callable[[], object]:
    return lambda: call_soon(event.set)
