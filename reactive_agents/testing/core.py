"""Fakes of the clock, the source of ids and the event bus, and an event recorder."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from returns.result import Failure, Result

from reactive_agents.core.events import AgentEvent, Event, ExecutionPhaseEntered
from reactive_agents.core.ids import RunId
from reactive_agents.effects import Effect, effect
from reactive_agents.ports import EventHandler

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """Implements ``Clock``.

    Time passes by :meth:`advance`, and by ``step_s`` with each reading.

    Args:
        start: the time of day at the first reading, with its time zone.
        step_s: seconds that pass after each reading, 0 or more; the monotonic time starts at 0.

    Raises:
        ValueError: ``start`` has no time zone, or ``step_s`` is negative.
    """

    def __init__(self, start: datetime = START, step_s: float = 0.0) -> None:
        if start.tzinfo is None:
            raise ValueError("FakeClock: start needs a time zone.")
        if step_s < 0:
            raise ValueError(f"FakeClock: step_s: got {step_s}, expected 0 or more.")
        self._start = start.astimezone(UTC)
        self._step = step_s
        self._passed = 0.0

    def now(self) -> datetime:
        """Return the time of day in UTC."""
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        passed = self._passed
        self._passed += self._step
        return passed

    def advance(self, seconds: float) -> None:
        """Move the clock forward.

        Raises:
            ValueError: ``seconds`` is negative; a clock never goes back.
        """
        if seconds < 0:
            raise ValueError(f"FakeClock: advance: got {seconds}, expected 0 or more seconds.")
        self._passed += seconds


class SequentialIds:
    """Implements ``IdSource``: ``id-0001``, ``id-0002``, ….

    Like live ids, they sort by time.
    """

    def __init__(self, prefix: str = "id-") -> None:
        self._prefix = prefix
        self._count = 0

    def new(self) -> str:
        """Return the next id."""
        self._count += 1
        return f"{self._prefix}{self._count:04}"


# --- Events ----------------------------------------------------------------------------------------------


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


# --- Effects of fakes, which fail as the fake's ``fails_with`` says --------------------------------------


_A = TypeVar("_A")
_E = TypeVar("_E")
_P = ParamSpec("_P")


def fake_effect(body: Callable[_P, Coroutine[Any, Any, Result[_A, _E]]]) -> Callable[_P, Effect[_A, _E]]:
    """Make a method of a fake an effect, which fails while ``fails_with`` is set."""

    @effect
    @wraps(body)
    async def build(*args: _P.args, **kwargs: _P.kwargs) -> Result[_A, _E]:
        error = cast(Any, args[0]).fails_with
        return await body(*args, **kwargs) if error is None else Failure(error)

    return build
