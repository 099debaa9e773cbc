"""The ports to the clock and to randomness: what pure code may never reach for by itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol, TypeAlias

from reactive_agents.core.events import AgentEvent
from reactive_agents.core.ids import RunId


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """The time of day in UTC, with its time zone."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back. For durations and deadlines."""
        ...


class IdSource(Protocol):
    """Makes identifiers."""

    def new(self) -> str:
        """A new identifier, unique; in the live service a ULID, so that ids sort by time."""
        ...


# --- The port that events go through ---


EventHandler: TypeAlias = Callable[[AgentEvent], None]


class EventBus(Protocol):
    """Hands events to whoever asked for them, in the order of publishing.

    An event is a fact that has happened: publishing neither waits nor fails. A bus may have a method
    ``has_subscribers(run_id: RunId) -> bool`` besides: events that nobody gets are numbered then, not made.
    """

    def publish(self, event: AgentEvent) -> None:
        """Call every handler with the event. A handler that raises is logged and does not stop the others."""
        ...

    def subscribe(self, handler: EventHandler, *, run_id: RunId | None = None) -> Callable[[], None]:
        """Call ``handler`` with every later event, or with those of one run; returns what ends it."""
        ...
