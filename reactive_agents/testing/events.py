"""An event recorder and a fake of the event bus."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reactive_agents.core.events import AgentEvent, Event, ExecutionPhaseEntered
from reactive_agents.core.ids import RunId
from reactive_agents.ports import EventHandler

_Kind = TypeVar("_Kind", bound=Event)


class EventRecorder:
    """An event handler that records every event: ``bus.subscribe(recorder)``."""

    def __init__(self) -> None:
        self.events: list[AgentEvent] = []

    def __call__(self, event: AgentEvent) -> None:
        """Record the event."""
        self.events.append(event)

    def of(self, kind: type[_Kind]) -> list[_Kind]:
        """Return the events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def tags(self) -> list[str]:
        """Return the class name of each event."""
        return [type(event).__name__ for event in self.events]

    def phases(self) -> list[str]:
        """Return the lifecycle phases that were entered."""
        return [event.phase for event in self.of(ExecutionPhaseEntered)]


class InMemoryEventBus:
    """Implements ``EventBus`` by plain calls, without logging.

    Attributes:
        raised: the exceptions of handlers, so that a test can assert that there are none.
    """

    def __init__(self) -> None:
        self.raised: list[Exception] = []
        self._handlers: list[tuple[EventHandler, RunId | None]] = []

    def has_subscribers(self, run_id: RunId) -> bool:
        """Return whether any handler receives the events of the run."""
        return any(wanted is None or wanted == run_id for _, wanted in self._handlers)

    def publish(self, event: AgentEvent) -> None:
        """Call every handler that wants the event.

        A handler that raises does not stop the others.
        """
        for handler, run_id in tuple(self._handlers):
            if run_id is None or run_id == event.run_id:
                try:
                    handler(event)
                except Exception as error:  # noqa: BLE001 - a handler is arbitrary user code
                    self.raised.append(error)

    def subscribe(self, handler: EventHandler, *, run_id: RunId | None = None) -> Callable[[], None]:
        """Call a handler with every later event, or with those of one run.

        Returns a function that unsubscribes it.
        """
        entry = (handler, run_id)
        self._handlers.append(entry)

        def unsubscribe() -> None:
            self._handlers = [other for other in self._handlers if other is not entry]

        return unsubscribe
