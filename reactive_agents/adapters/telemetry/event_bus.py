"""The event bus of one process: delivery by plain calls in order.

An event is a fact, so publishing it must neither wait nor fail: handlers are called at once, on the
publishing thread, and a handler that raises is logged. A blocking handler therefore blocks its run and the
event loop; a handler that waits should be ``async``. Each handler sees events in the order of publishing,
including events that handlers publish.
"""

from __future__ import annotations

import inspect
import logging
import time
from asyncio import CancelledError
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from threading import Event, Lock, Thread, get_ident
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
from typing_extensions import TypeIs

from reactive_agents.core import errors, events
from reactive_agents.core.event_redaction import OF_FIXED_NAMES, ValueRedactor
from reactive_agents.core.ids import RunId
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.tasks import TaskResultMetadata
from reactive_agents.core.texts import printable
from reactive_agents.core.values import lazy_pattern
from reactive_agents.effects import outcome_of
from reactive_agents.event_loop import calls_on_this_loop, schedule_on_this_loop, spawn_on_this_loop
from reactive_agents.ports import EventHandler

if TYPE_CHECKING:
    from reactive_agents.core.events import AgentEvent


class _Subscription:
    __slots__ = ("failures", "handler")

    def __init__(self, handler: EventHandler) -> None:
        self.handler: EventHandler | None = handler
        self.failures = Counter[str]()


class LocalEventBus:
    """Calls handlers directly: first those of all runs, then those of the run.

    Every handler sees events in the order of publishing. An event that a handler publishes is therefore
    delivered after the current one, by the outer ``publish``; the inner ``publish`` returns before that. A
    subscription receives only events that are published during it: none from before, and none after
    unsubscribing, not even one that is being delivered.

    Args:
        redactor: removes the secrets from every delivered event; its lists and dictionaries are then copies,
            so that a handler that changes them changes no run.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redacted = None if redactor is None else ValueRedactor(redactor, copies=True).redacted
        # tuples are replaced, never changed, so that a running delivery keeps its handlers
        self._of_all: tuple[_Subscription, ...] = ()
        self._of_runs: dict[RunId, tuple[_Subscription, ...]] = {}
        self._changing = Lock()
        self._delivering: list[int] = []
        """The threads that deliver an event."""
        self._waiting: dict[int, list[tuple[AgentEvent, tuple[_Subscription, ...]]]] = {}
        """For each thread, the events that its handlers have published meanwhile."""

    def has_subscribers(self, run_id: RunId) -> bool:
        """Return whether any handler receives the events of the run."""
        return True if self._of_all else run_id in self._of_runs

    @property
    def wants_requests(self) -> bool:
        """Whether a handler of all runs reads the requests to models."""
        every = self._of_all
        return bool(every) and any(getattr(each.handler, "wants_requests", False) for each in every)

    def publish(self, event: AgentEvent) -> None:
        """Call every handler with the event; log handlers that raise."""
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
                        except (Exception, CancelledError) as error:  # noqa: BLE001 - a handler is arbitrary user code, and an event cannot fail
                            report_failed_handler(handler, event, error, subscription.failures)
                if not self._waiting or not self._waiting.get(thread):
                    return
                event, wanted = self._waiting[thread].pop(0)
        finally:  # an interrupt in a handler must not disable delivery on the thread
            delivering.remove(thread)
            if self._waiting:
                self._waiting.pop(thread, None)

    async def flush(self) -> None:
        """Wait for the handlers of all runs that have a method ``flush``."""
        for each in self._of_all:
            flush = getattr(each.handler, "flush", None)
            if inspect.iscoroutinefunction(flush):
                await flush()

    def subscribe(self, handler: EventHandler, *, run_id: RunId | None = None) -> Callable[[], None]:
        """Call a handler with later events, or with those of one run.

        Returns a function that unsubscribes it, and may be called twice. Both are allowed at any time, also
        in a handler.
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


_redactors: WeakValueDictionary[int, Redactor] = WeakValueDictionary()
"""The redactors of the log, by their ids."""


def redact_log(redactor: Redactor) -> None:
    """Redact the log ``reactive_agents`` while the redactor exists."""
    _redactors[id(redactor)] = redactor
    _log.addFilter(_redact_record)


def _redact_record(record: logging.LogRecord) -> bool:
    """Redact a record of the log, with its traceback, and let it pass.

    Control characters are left out and further lines of a record are indented, so that a text from outside
    cannot forge a record or steer a terminal.
    """
    redactors = [each for reference in _redactors.valuerefs() if (each := reference()) is not None]
    if not redactors:
        return True
    said = record.getMessage()
    shown = _indented(printable(_redacted(said, redactors)))
    if shown != said:
        record.msg, record.args = shown, ()
    if record.exc_info and not record.exc_text:
        traceback = _formatter.formatException(record.exc_info)
        shown = printable(traceback)
        record.exc_text = f"  {_indented(shown)}"
        if shown != traceback:
            record.exc_info = None
    if record.exc_text:  # the filter of another logger may have formatted it
        shown = _redacted(record.exc_text, redactors)
        if shown != record.exc_text:  # a handler that formats the exception itself would show the secret
            record.exc_info, record.exc_text = None, shown
    return True


def _redacted(text: str, redactors: Iterable[Redactor]) -> str:
    for each in redactors:
        text = each.redact(text)
    return text


def _indented(text: str) -> str:
    return _NEXT_LINE.sub("\n  ", text)


_NEXT_LINE = lazy_pattern(r"\n(?=\S)")


# --- Event handlers: plain ones, and async ones that wait ---
# Publishing an event neither waits nor fails. An async handler, which may wait for a socket or a database, is
# therefore called later: one event after the other, in order, on the event loop on which it was subscribed.
# Runs on any loop or thread continue meanwhile.
#
# A sync handler is called at once while it is fast, as most are, and has then seen an event before the next
# one. A slow one would block all runs of the event loop, with their time limits. So after its first slow call
# it is called in its own thread.


AsyncEventHandler: TypeAlias = "Callable[[AgentEvent], Awaitable[None]]"


def is_async(handler: object) -> TypeIs[AsyncEventHandler]:
    """Return whether a handler must be awaited."""
    return any(map(inspect.iscoroutinefunction, (handler, getattr(type(handler), "__call__", None))))  # noqa: B004


MOST_UNHANDLED: Final = 50_000
"""Events that wait for a slow handler; beyond them the oldest are lost, with a warning."""


def _shed(handler: object, waiting: deque[AgentEvent], lost: int) -> int:
    """Discard the oldest event if too many wait; return how many the handler has lost."""
    if len(waiting) <= MOST_UNHANDLED:
        return lost
    waiting.popleft()
    if not lost % MOST_UNHANDLED:
        said = "The event handler %s is too slow: %d events wait for it, and the oldest are lost."
        _log.warning(said, getattr(handler, "__qualname__", type(handler).__qualname__), MOST_UNHANDLED)
    return lost + 1


class QueuedHandler:
    """A sync handler that calls an async one.

    Create it on the event loop that runs the async handler; it can be called from any thread.

    Raises:
        RuntimeError: no event loop is running.
    """

    def __init__(self, handler: AsyncEventHandler) -> None:
        self._handler = handler
        self._schedule = schedule_on_this_loop()
        self._waiting: deque[AgentEvent] = deque()
        self._lost, self._failures = 0, Counter[str]()
        self._at_work = False
        self._changing = Lock()
        self._idle: anyio.Event | None = None

    def __call__(self, event: AgentEvent) -> None:
        with self._changing:
            self._waiting.append(event)
            self._lost = _shed(self._handler, self._waiting, self._lost)
            is_at_work, self._at_work = self._at_work, True
            if is_at_work and len(self._waiting) % MOST_WAITING:
                return
        try:
            begin = partial(spawn_on_this_loop, self._work)
            self._schedule(bool if is_at_work else begin)  # or check whether the loop still exists
        except RuntimeError:  # the loop has ended, and the handler with it
            self._leave_work()

    def discard(self) -> None:
        """Discard the waiting events."""
        with self._changing:
            self._waiting.clear()

    def _leave_work(self) -> None:
        with self._changing:
            self._waiting.clear()
            self._at_work = False

    async def drain(self) -> None:
        """Wait on the handler's loop until every event is handled; elsewhere return."""
        if schedule_on_this_loop() != self._schedule or not self._at_work:
            return
        self._idle = self._idle or anyio.Event()
        await self._idle.wait()

    async def _work(self) -> None:
        try:
            while True:
                with self._changing:
                    if not self._waiting:
                        self._at_work = False
                        break
                    event = self._waiting.popleft()
                try:
                    await outcome_of(self._handler(event))
                except Exception as error:  # noqa: BLE001 - a handler is arbitrary user code, and an event cannot fail
                    report_failed_handler(self._handler, event, error, self._failures)
        except BaseException:  # the loop is being ended
            self._leave_work()
            raise
        finally:
            if self._idle is not None:
                self._idle.set()
                self._idle = None


def report_failed_handler(
    handler: object, event: AgentEvent, error: BaseException, failures: Counter[str]
) -> None:
    """Log that a handler raised, with the traceback, but not for each event.

    Args:
        failures: the failures of the handler so far, by kind of error; every power of ten of them is logged.
    """
    kind = type(error).__name__
    failures[kind] += 1
    if str(failures[kind]).strip("0") != "1":
        return
    name = getattr(handler, "__qualname__", type(handler).__qualname__)
    said = "The event handler %s failed on %s of run %s."
    if failures[kind] > 1:
        said += f" It has failed with {kind} {failures[kind]} times."
    _log.warning(said, name, type(event).__name__, event.run_id, exc_info=error)


SLOW_S: Final = 1.0
"""Seconds of a call after which a handler is called in its own thread."""


class PlainHandler:
    """Calls a handler at once, and after a slow call in its own thread, in order."""

    def __init__(self, handler: EventHandler, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.__qualname__ = getattr(handler, "__qualname__", type(handler).__qualname__)
        self._handler = handler
        self._monotonic = monotonic
        self._changing = Lock()
        self._waiting: deque[AgentEvent] | None = None
        self._lost, self._failures = 0, Counter[str]()
        self._idle = Event()
        self._idle.set()

    def __call__(self, event: AgentEvent) -> None:
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
        """Discard the waiting events."""
        with self._changing:
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
            self._lost = _shed(self._handler, self._waiting, self._lost)
            if not self._idle.is_set():
                return
            self._idle.clear()
        try:
            Thread(target=self._work, name=f"reactive_agents {self.__qualname__}", daemon=True).start()
        except RuntimeError:  # the system cannot start a thread
            self._work()

    def _work(self) -> None:
        while True:
            with self._changing:
                if not self._waiting:
                    self._idle.set()
                    return
                event = self._waiting.popleft()
            try:
                self._handler(event)
            except (Exception, CancelledError) as error:  # noqa: BLE001 - a handler is arbitrary user code, and an event cannot fail
                report_failed_handler(self._handler, event, error, self._failures)


# --- The events of one run on their way to a reader, who may be slow ---
# Publishing an event neither waits nor fails, so the run waits elsewhere: before its next step, and after
# each delta of a stream, while too many events are unread. Other runs continue. Events may come from other
# threads, and waiting runs may be on other event loops than the reader.


MOST_WAITING = 256
"""Unread events above which the run waits; those of one more step may follow."""


class EventBuffer:
    """The unread events of a run, in order.

    Args:
        run_id: the run. The events of its sub-runs are redacted here again, since their agents may know fewer
            secrets.
        redactor: the redactor of the agent.
    """

    def __init__(self, run_id: RunId, redactor: Redactor | None = None) -> None:
        self._run_id = run_id
        self._redacted = None if redactor is None else ValueRedactor(redactor).redacted
        self._events: deque[AgentEvent] = deque()
        self._changing = Lock()
        self._closed = False
        self._wake_reader: Callable[[], object] | None = None
        self._wake_runs: list[Callable[[], object]] = []

    @property
    def is_behind(self) -> bool:
        """Whether there are so many unread events that the run must wait."""
        return len(self._events) >= MOST_WAITING and not self._closed

    def show(self, event: AgentEvent) -> None:
        """Add an event, from any thread, unless the reader has ended."""
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
        """Wait until half of the events were read, or the reader has left."""
        while self.is_behind:
            read, call_soon = anyio.Event(), calls_on_this_loop()
            with self._changing:
                if not self.is_behind:
                    return
                self._wake_runs.append(_setter(call_soon, read))
            await read.wait()

    async def get(self) -> AgentEvent | None:
        """Wait for and return the next event; ``None`` after the last."""
        while True:
            with self._changing:
                if self._events:
                    event = self._events.popleft()
                    waiting = self._take_waiting() if 2 * len(self._events) <= MOST_WAITING else ()
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
        """Accept no more events; waiting ones can still be read."""
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


# --- Runs in the program's log: a line for each, its decisions, its failures ---
# The lines go to the logger ``reactive_agents.runs``. Apart from error messages, which are redacted, they
# contain no content of runs.


LOGGER = "reactive_agents.runs"
_runs = logging.getLogger(LOGGER)


def log_run(event: Any) -> None:
    """Log an event of a run; a handler of the bus."""
    match event:
        case events.TaskCompleted(result=result):
            told = result.metadata
            ended = (event.agent, result.status, told.terminated_by)
            _log_line(event, logging.INFO, f" of %s: %s by %s, {_FIGURES}", *ended, *_figures(told))
        case events.TaskFailed(error=error, metadata=told):
            cause = errors.root_cause(error)
            level = _LEVELS[event.status]
            failed = (event.agent, event.status, type(error).__name__, type(cause).__name__, cause.message)
            text = f" of %s: %s with %s, caused by %s: %s; {_FIGURES}"
            _log_line(event, level, text, *failed, *_figures(told))
        case events.ToolCallCompleted(success=False):
            _log_line(event, logging.WARNING, ": a call of %s failed: %s", event.tool_name, event.error)
        case _ if _runs.isEnabledFor(logging.DEBUG):
            _log_decision(event)


_LEVELS = {"failed": logging.ERROR, "interrupted": logging.WARNING, "cancelled": logging.INFO}
_FIGURES = "%d model calls, %d tokens, %.4f $, %.0f ms"


def _figures(told: TaskResultMetadata) -> tuple[object, ...]:
    return told.model_calls, told.tokens_used, told.cost_usd, told.duration_ms


def _log_decision(event: Any) -> None:
    told: tuple[object, ...]
    match event:
        case events.StrategySelected():
            text, told = ": strategy %s, %s", (event.strategy, event.reason)
        case events.GuidanceGiven():
            text, told = ": guidance by %s", (event.policy,)
        case events.ToolCallCompleted():
            text, told = ": %s took %.0f ms", (event.tool_name, event.duration_ms)
        case events.ModelCallCompleted(replayed=False, usage=usage):
            text = ": %s answered (%s) after %.0f ms, %d tokens"
            told = (event.model, event.purpose, event.duration_ms, usage.total_tokens)
        case events.ModelCallAbandoned():
            text, told = ": a model call (%s) failed: %s", (event.purpose, event.error.message)
        case events.ApprovalDecided() | events.GuardrailTriggered() | events.ContextCompacted():
            text, told = ": %s", (type(event).__name__,)
        case _:
            return
    _log_line(event, logging.DEBUG, text, *told)


def _log_line(event: Any, level: int, text: str, *values: object) -> None:
    """Log one line on a run, also where the message of an error has several."""
    flat = (printable(" ".join(each.split())) if isinstance(each, str) else each for each in values)
    of_run = {"run_id": str(event.run_id), "agent": str(event.agent)}  # for formatters, as into JSON
    _runs.log(level, f"run %s{text}", event.run_id, *flat, extra=of_run)
