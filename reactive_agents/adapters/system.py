"""The clock, source of ids and redactors of this process, and its trace."""

from __future__ import annotations

import atexit
import os
import re
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from os import urandom
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from ulid_transform import bytes_to_ulid

from reactive_agents.core.json import Json
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.secret_patterns import PATTERNS, SecretPattern

if TYPE_CHECKING:
    from concurrent.futures import Future

_Result = TypeVar("_Result")
_YEAR_S = 31_536_000.0


class SystemClock:
    """The machine's clocks, called directly because every step reads them often.

    Attributes:
        now: returns the time of day in UTC, with its time zone.
        monotonic: returns seconds of ``time.monotonic``, the clock of asyncio.
    """

    now = staticmethod(partial(datetime.now, UTC))
    monotonic = staticmethod(time.monotonic)


def trace_headers() -> dict[str, str]:
    """Return the headers that join a request to the current trace.

    Excludes the program's baggage, such as a user, since a model chooses the server.
    """
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return {name: value for name, value in headers.items() if name == "traceparent"}


def retry_after_s(value: str, now: datetime) -> float | None:
    """Return the seconds of a ``Retry-After`` header; ``None`` if it is invalid.

    The header contains seconds or a date. More than a year counts as one.

    >>> retry_after_s("3", datetime.now(UTC)), retry_after_s("soon", datetime.now(UTC))
    (3.0, None)
    """
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value.strip()):
        return min(float(value), _YEAR_S)
    from email.utils import parsedate_to_datetime  # here, since few processes need it

    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return min(max(0.0, (moment - now).total_seconds()), _YEAR_S)


@contextmanager
def joined_to_trace(traceparent: str) -> Iterator[None]:
    """Join the block to the caller's trace, if the header names one.

    A span that the program has already created for the request stays the parent.
    """
    if not traceparent or "opentelemetry.trace" not in sys.modules:
        yield
        return
    from opentelemetry import context, trace

    if trace.get_current_span().get_span_context().is_valid:
        yield
        return
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    token = context.attach(TraceContextTextMapPropagator().extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        context.detach(token)


def write_for_owner(path: str | os.PathLike[str], text: str) -> None:
    """Write a file that may contain secrets; only its owner can read a new one.

    A file is replaced as a whole, on disk, and keeps its mode. A lone surrogate is written as a JSON escape.

    Raises:
        OSError: the file cannot be written; it names the given path.
    """
    data = text.encode(errors="backslashreplace")
    mode = os.stat(path).st_mode if os.path.exists(path) else stat.S_IFREG | 0o600
    if not stat.S_ISREG(mode):  # such as /dev/stdout
        Path(path).write_bytes(data)
        return
    target = Path(os.path.realpath(path))  # a link stays
    written = target.with_name(f"{target.name}.{urandom(4).hex()}")
    try:
        with open(written, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        written.chmod(stat.S_IMODE(mode))
        written.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None  # not of the temporary file
    finally:
        written.unlink(missing_ok=True)


class UlidSource:
    """ULIDs: 26 characters that sort by time; thread-safe.

    Source: the ULID specification (https://github.com/ulid/spec), 48 bits of Unix time in milliseconds, then
    80 random bits, which count on within a millisecond.

    Args:
        time_ns: the time of day, in nanoseconds since 1970.
    """

    def __init__(self, time_ns: Callable[[], int] = time.time_ns) -> None:
        self._time_ns = time_ns
        self._latest = 0
        self._making = Lock()

    def new(self) -> str:
        """Return a new ULID, greater than all before, even if the clock is set back."""
        now = self._time_ns() // 1_000_000 << 80
        with self._making:
            is_later = now > self._latest
            self._latest = made = now | int.from_bytes(urandom(10)) if is_later else self._latest + 1
        return bytes_to_ulid(made.to_bytes(16))


def state_directory(environment: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the directory of the package in the user's state directory.

    Args:
        environment: names and values of the variables that are set.
        platform: as ``sys.platform``.
    """
    home = environment.get("HOME") or environment.get("USERPROFILE") or os.path.expanduser("~")
    if platform == "win32":
        return _own_directory(environment.get("LOCALAPPDATA") or "", home, "AppData/Local")
    if platform == "darwin":
        return _own_directory("", home, "Library/Application Support")
    return _own_directory(environment.get("XDG_STATE_HOME") or "", home, ".local/state")


@lru_cache(maxsize=8)
def _own_directory(base: str, home: str, usual: str) -> Path:
    return (Path(base) if base else Path(home, usual)) / "reactive-agents"


def default_run_log() -> Path:
    """Return the default run log of the command line."""
    return state_directory(os.environ) / "runs.db"


class EnvironmentRedactor(Redactor):
    """A redactor for the secrets in the environment of the process.

    Args:
        patterns: further regular expressions; a group named ``secret`` is the secret, else the whole match.
        environment: variables instead of those of the process, read once at construction.
        secrets: further values to look for, such as a configured key.

    Raises:
        ValueError: a pattern is not a regular expression.
    """

    def __init__(
        self,
        patterns: Iterable[str | re.Pattern[str]] = (),
        environment: Mapping[str, str] | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        super().__init__(patterns, os.environ if environment is None else environment, secrets)


WITHHELD = "[withheld: it could not be redacted]"


class CheckedRedactor(Redactor):
    """A redactor that withholds texts if a custom redactor fails, and logs that once."""

    works_in_threads = False  # the custom one may be for one thread only

    def __init__(self, custom: Redactor) -> None:
        super().__init__()
        self._custom = custom
        self._logged = False
        self.is_known_clean = getattr(custom, "is_known_clean", self.is_known_clean)

    @property
    def patterns(self) -> tuple[SecretPattern, ...]:
        """All patterns to search for."""
        found: tuple[SecretPattern, ...] = getattr(self._custom, "patterns", PATTERNS)
        return found

    def redact(self, text: str) -> str:
        """Return the text without its secrets, or a note that it is withheld."""
        shown: str = self._checked("redact", text, str)
        return shown

    def redact_json(self, value: Json) -> Json:
        """Return the redacted JSON data, or a note that it is withheld."""
        shown: Json = self._checked("redact_json", value, _JSON)
        return shown

    def _checked(self, method: str, given: Json, expected: type | tuple[type, ...]) -> Any:
        try:
            shown = getattr(self._custom, method)(given)
        except Exception as error:  # noqa: BLE001 - a redactor may be the user's
            problem = f"raised {type(error).__name__}"
        else:
            if isinstance(shown, expected):
                return shown
            problem = f"returned {type(shown).__name__}"
        if not self._logged:
            self._logged = True  # first: the log is redacted as well
            kind = type(self._custom).__name__
            import logging  # takes a while to import

            log = logging.getLogger("reactive_agents")
            log.warning("%s of the redactor %s %s: texts are withheld.", method, kind, problem)
        return WITHHELD


_JSON: tuple[type, ...] = (dict, list, str, int, float, type(None))


def checked_redactor(redactor: Redactor) -> Redactor:
    """Return a redactor that never fails: the same one if it is of this package."""
    is_built_in = type(redactor).__module__.startswith("reactive_agents.")
    return redactor if is_built_in else CheckedRedactor(redactor)


# --- Handling of SIGTERM: cancel and record all runs before the process ends ---


@contextmanager
def cancel_on_sigterm() -> Iterator[None]:
    """Cancel the block on SIGTERM, then let the signal end the process.

    Its runs end with ``RunCancelled``, and cost tracking and audit record them. A second signal ends the
    process at once. Where other tasks of asyncio run on after the block, as some do after ``gather`` and
    ``wait``, ``SystemExit`` ends the event loop, which cancels them, and the signal comes after the last of
    them. Without effect if the program handles SIGTERM itself, outside of the main thread, and on
    Windows.
    """
    from reactive_agents.event_loop import schedule_on_this_loop

    schedule, scope = schedule_on_this_loop(), anyio.CancelScope()
    with end_on_sigterm_after(lambda: schedule(scope.cancel)), scope:
        yield


_last_writes: list[Callable[[], object]] = []


def call_before_end(write: Callable[[], object]) -> None:
    """Call a function before the process ends, by itself or by a SIGTERM handled here."""
    atexit.register(write)
    _last_writes.append(write)


def not_before_end(write: Callable[[], object]) -> None:
    """Undo :func:`call_before_end`."""
    atexit.unregister(write)
    with suppress(ValueError):
        _last_writes.remove(write)


def _end_by_signal() -> None:
    """Do the last writes, and let SIGTERM end the process."""
    for write in tuple(_last_writes):
        last = threading.Thread(target=write)  # it may use an event loop, which this thread may be in
        last.start()
        last.join()
    signal.raise_signal(signal.SIGTERM)


@contextmanager
def end_on_sigterm_after(cancel: Callable[[], object]) -> Iterator[None]:
    """Call a function on SIGTERM, and let the signal end the process after the block.

    ``cancel``: ends the block soon. Otherwise like :func:`cancel_on_sigterm`.
    """
    if not _ends_the_process():
        yield
        return
    received: list[int] = []

    def receive(signal_number: int, frame: object) -> None:
        received.append(signal_number)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        cancel()

    signal.signal(signal.SIGTERM, receive)
    try:
        with _signals_wake_the_loop():
            yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if received:
        from reactive_agents.event_loop import after_other_tasks

        after_other_tasks(_end_by_signal)
        sys.exit(128 + signal.SIGTERM)  # ends the event loop, or the thread has blocked the signal


def interruptible_result(future: Future[_Result]) -> _Result:
    """Wait for a future, handling signals within a second.

    Python calls signal handlers between instructions of the main thread: if a signal arrives as it begins to
    wait for a lock, or in another thread, the handler would be called only after the wait.
    """
    while not future.done():
        with suppress(TimeoutError):
            future.exception(timeout=1)
    return future.result()


@contextmanager
def _signals_wake_the_loop() -> Iterator[None]:
    """Let signals wake the event loop of the main thread.

    Otherwise the handler of a signal that arrives just before asyncio begins to wait, or in another thread,
    would be called only when something else ends the wait. trio handles this itself.
    """
    import asyncio
    import socket

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        yield
        return
    awaited, woken = socket.socketpair()
    with awaited, woken:
        awaited.setblocking(False)
        woken.setblocking(False)
        if (others := signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)) != -1:
            signal.set_wakeup_fd(others)  # the program's handlers of signals wake the loop
            yield
            return
        loop.add_reader(awaited, lambda: awaited.recv(4096))
        try:
            yield
        finally:
            loop.remove_reader(awaited)
            if (others := signal.set_wakeup_fd(-1)) != woken.fileno():
                signal.set_wakeup_fd(others)


def _ends_the_process() -> bool:
    return (
        sys.platform != "win32"
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
