"""The event bus of one process: delivery by plain calls in order.

An event is a fact that has happened, so publishing it must neither wait nor fail: handlers are called at
once, on the thread that publishes, and one that raises is logged. A handler that blocks therefore holds up
its run and the event loop with it; one that has to wait is an ``async`` function, see ``handlers.py``.
What handlers rely on is the order: each sees events in the order of their publishing, also those that
handlers publish.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from threading import Lock, get_ident
from typing import TYPE_CHECKING

from reactive_agents.adapters.telemetry.handlers import report_failed_handler
from reactive_agents.core.event_redaction import OF_FIXED_NAMES, ValueRedactor
from reactive_agents.core.ids import RunId
from reactive_agents.core.redaction import Redactor
from reactive_agents.ports import EventHandler

if TYPE_CHECKING:
    from reactive_agents.core.events import AgentEvent


class _Subscription:
    """One subscribed handler."""

    __slots__ = ("handler",)

    def __init__(self, handler: EventHandler) -> None:
        self.handler: EventHandler | None = handler


class LocalEventBus:
    """Calls handlers directly: first those of all runs, then those of the run.

    Every handler sees events in the order of their publishing. An event that a handler publishes is therefore
    delivered after the one it is handling, by ``publish`` of the outer event; the inner ``publish`` returns
    before that. A subscription receives the events published while it lasts: none from before, and none after
    it was unsubscribed, not even one that is being delivered.

    Args:
        redactor: removes the secrets from every delivered event.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redacted = None if redactor is None else ValueRedactor(redactor).redacted
        # tuples that are replaced, never changed, so that a delivery under way keeps its handlers
        self._of_all: tuple[_Subscription, ...] = ()
        self._of_runs: dict[RunId, tuple[_Subscription, ...]] = {}
        self._changing = Lock()
        self._delivering: list[int] = []
        """The threads that deliver an event."""
        self._waiting: dict[int, list[tuple[AgentEvent, tuple[_Subscription, ...]]]] = {}
        """For each of them, what its handlers have published meanwhile."""

    def has_subscribers(self, run_id: RunId) -> bool:
        """Return whether any handler receives the events of the run."""
        return bool(self._of_all) or run_id in self._of_runs

    @property
    def wants_requests(self) -> bool:
        """Whether a handler of all runs reads the requests to models."""
        return any(getattr(each.handler, "wants_requests", False) for each in self._of_all)

    def publish(self, event: AgentEvent) -> None:
        """Call every handler with the event; one that raises is logged."""
        wanted = self._of_all
        if self._of_runs:
            wanted += self._of_runs.get(event.run_id, ())
        if not wanted:
            return
        redacted = self._redacted
        if redacted is not None and type(event) not in OF_FIXED_NAMES:
            event = redacted(event)
        thread = get_ident()
        delivering = self._delivering
        if delivering and thread in delivering:
            self._waiting.setdefault(thread, []).append((event, wanted))
            return
        delivering.append(thread)
        try:
            while True:
                for subscription in wanted:
                    handler = subscription.handler
                    if handler is not None:
                        try:
                            handler(event)
                        except Exception:  # noqa: BLE001 - a handler is arbitrary user code, and an event cannot fail
                            report_failed_handler(handler, event)
                if not self._waiting or not self._waiting.get(thread):
                    return
                event, wanted = self._waiting[thread].pop(0)
        finally:  # an interrupt out of a handler must not leave the thread unable to deliver
            delivering.remove(thread)
            if self._waiting:
                self._waiting.pop(thread, None)

    def subscribe(self, handler: EventHandler, *, run_id: RunId | None = None) -> Callable[[], None]:
        """Call a handler with later events, or with those of one run.

        Returns a function that unsubscribes it; both are allowed at any time, also inside of a handler, and
        unsubscribing twice is harmless.
        """
        subscription = _Subscription(handler)
        with self._changing:
            self._set(run_id, (*self._get(run_id), subscription))

        def end() -> None:
            with self._changing:
                subscription.handler = None
                self._set(run_id, tuple(each for each in self._get(run_id) if each.handler is not None))

        return end

    def _get(self, run_id: RunId | None) -> tuple[_Subscription, ...]:
        return self._of_all if run_id is None else self._of_runs.get(run_id, ())

    def _set(self, run_id: RunId | None, subscriptions: tuple[_Subscription, ...]) -> None:
        if run_id is None:
            self._of_all = subscriptions
        elif subscriptions:
            self._of_runs[run_id] = subscriptions
        else:
            self._of_runs.pop(run_id, None)


# --- redaction of the package's log ---------------------------------------------------------------------

_log = logging.getLogger("reactive_agents")
_formatter = logging.Formatter()


class RedactingFilter(logging.Filter):
    """Redacts the records of a logger, tracebacks included, while its redactor exists."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = weakref.ref(redactor)

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, without its secrets."""
        redactor = self._redactor()
        if redactor is None:
            return True
        said = record.getMessage()
        shown = redactor.redact(said)
        if shown != said:
            record.msg, record.args = shown, ()
        if record.exc_info and not record.exc_text:
            traceback = _formatter.formatException(record.exc_info)
            shown = redactor.redact(traceback)
            if shown != traceback:  # a handler that writes the exception by itself would show the secret
                record.exc_info, record.exc_text = None, shown
        elif record.exc_text:
            record.exc_text = redactor.redact(record.exc_text)
        return True


def redact_log(redactor: Redactor) -> None:
    """Redact the log ``reactive_agents`` as long as the redactor exists."""
    added = RedactingFilter(redactor)
    _log.addFilter(added)
    weakref.finalize(redactor, _log.removeFilter, added)
