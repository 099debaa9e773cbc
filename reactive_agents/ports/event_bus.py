"""The port that events go through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from reactive_agents.core.events import AgentEvent
from reactive_agents.core.ids import RunId

EventHandler: TypeAlias = Callable[[AgentEvent], None]


class EventBus(Protocol):
    """Hands events to whoever asked for them, in the order of publishing.

    An event is a fact that has happened: publishing neither waits nor fails, and costs next to nothing when
    nobody listens.
    """

    def publish(self, event: AgentEvent) -> None:
        """Call every handler with the event. A handler that raises is logged and does not stop the others."""
        ...

    def subscribe(self, handler: EventHandler, *, run_id: RunId | None = None) -> Callable[[], None]:
        """Call ``handler`` with every later event, or with those of one run; returns what ends it."""
        ...
