"""Ports of the clock, of ids and of events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias

from reactive_agents.core.ids import RunId

if TYPE_CHECKING:
    from reactive_agents.core.events import AgentEvent


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the time of day in UTC, with its time zone."""
        ...

    def monotonic(self) -> float:
        """Return seconds since a fixed time, for durations and deadlines; never decreases."""
        ...


class IdSource(Protocol):
    """Makes identifiers."""

    def new(self) -> str:
        """Return a new unique identifier; the live service returns sortable ULIDs."""
        ...


# --- The port that events go through ---


EventHandler: TypeAlias = "Callable[[AgentEvent], None]"
"""Called where the event happens: it must neither block nor take long."""


class EventBus(Protocol):
    """Delivers events to subscribers in the order of publishing.

    An event is a fact that has happened: publishing neither waits nor fails. A bus may have a method
    ``has_subscribers(run_id: RunId) -> bool`` besides: events without a subscriber are then only numbered.
    """

    def publish(self, event: AgentEvent) -> None:
        """Call every handler with the event; one that raises is logged."""
        ...

    def subscribe(self, handler: EventHandler, *, run_id: RunId | None = None) -> Callable[[], None]:
        """Call a handler with later events, or with those of one run.

        Returns a function that unsubscribes it."""
        ...
