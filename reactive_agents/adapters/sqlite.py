"""Access to SQLite files for all stores of the package.

A file outlives the program that wrote it, so every store has the same guarantees:

* A file has the application id of the package and a table of its stores with their versions, so that a
  database of another program, or of a newer version of this one, is refused before anything is written.
* An older file is migrated in one transaction, by the first connection that may write.
* One file may contain several stores: ``agent.db`` can be the memory, the cost file and the audit log.
* A missing file is created for its owner only, and so is its folder; those above get the usual permissions.
* A file that this user may not write is only read, and a write to it fails.
* Journal mode WAL, and ``synchronous=FULL``: a commit is on disk when it is reported. Only ``write_soon``
  commits with ``NORMAL``, and flushes the log itself if necessary.
* Waiting for another process's lock happens on the event loop and can be cancelled; a begun transaction
  cannot.
* Each failure is a value, and a warning in the log ``reactive_agents``; as long as nothing can be written, as
  on a full disk, one for each reason.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing, suppress
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from queue import Empty, SimpleQueue
from traceback import clear_frames
from typing import Any, Generic, TypeAlias, TypeGuard, TypeVar

import anyio
import anyio.lowlevel
from attrs import define, field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.config import IN_PROCESS as IN_PROCESS
from reactive_agents.core.config import is_postgres, shown_place
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.event_loop import event_on_this_loop, schedule_on_this_loop, wait_whatever_happens

_E = TypeVar("_E")
_T = TypeVar("_T")

Work: TypeAlias = Callable[[sqlite3.Connection], _T]
"""SQL on a connection; may be repeated if the file was locked, so it must change nothing else."""

Statement: TypeAlias = str | Callable[[sqlite3.Connection], object]

DatabasePath: TypeAlias = str | PathLike[str]

FAILURES = (sqlite3.Error, OSError, ValueError, OverflowError, TypeError)
"""Exceptions of SQLite, also for values that it cannot store, and for stored ones of a wrong type."""

DEFAULT_PATIENCE_S = 10.0

APPLICATION_ID = 0x52414D45
LAYOUT = 5
"""The ``user_version`` of a file with a table of stores. 1 to 4: a memory file of that version."""

_MEMORY = "memory"
_STORES = "reactive_agents_stores"
_LEGACY_TABLES: dict[str, str] = {
    "periods": "name nano_usd",
    "reservations": "id day month nano_usd settled",
    "spending": (
        "run_id task_id agent model day at_us recorded_us nano_usd unpriced_calls "
        "input_tokens output_tokens total_tokens reported"
    ),
    "spending_runs": "run_id task_id agent day at_us recorded_us",
    "spending_models": (
        "run_id model nano_usd unpriced_calls input_tokens output_tokens total_tokens reported"
    ),
    "entries": "sequence previous body hash signature",
    "heads": "id sequence hash signature",
}
"""Tables, with their columns, of cost files and audit logs from before files carried an application id."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_IDLE_S = 5.0
_LONGEST_FORK_S = 5.0
"""Seconds that a fork waits for the work on all files."""
_PAUSE_S = 0.005
_REWRITE_SHARE = 0.25
"""How much of the patience of writers the first half of rewriting a file may take."""
_OPERATIONS = 10_000
"""Operations of SQLite after which the time is looked at."""
_MOST_IN_LOG = 300
"""Commits without a flush, after which a thread checkpoints the log."""
_MANY_IN_LOG = 30
"""Commits after which a large log is checkpointed."""
_MOST_FLUSHES = 50
"""Flushes after which the log is checkpointed: then it is written from its start again.

Flushing a file that has not grown takes about half as long. A checkpoint takes as long as a flush or two.
"""
_LARGE_LOG = 8 << 20
"""Bytes of a large log; one that grew beyond it while others read the file is shortened when it is reset."""
_DATA_TO_DISK: Callable[[int], object] = getattr(os, "fdatasync", os.fsync)
_PATIENCE_AFTER_TIMEOUT = 0.05  # a share, so that a locked file does not block every operation
_LEAST_ROOM = 64 << 10
"""Bytes that SQLite needs to begin a log and its index, with some to spare."""
_READ_VERSION = 19  # https://sqlite.org/fileformat.html: the byte that is 2 if a file has a log
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_REPLACEABLE = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
)
_CUT_OFF = "has a write that was cut off, and has to be opened once by someone who may write to it"
_SENTENCES = {
    sqlite3.SQLITE_BUSY: "is locked by another process",
    sqlite3.SQLITE_LOCKED: "is locked by another process",
    sqlite3.SQLITE_READONLY: "is read-only",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_NOTADB: "is not a database",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_PERM: "may not be accessed",
    sqlite3.SQLITE_IOERR: "cannot be read or written by the system",
}

_log = logging.getLogger("reactive_agents")


@frozen
class Store:
    """A versioned group of tables.

    Attributes:
        name: the name in the file and in messages, such as ``memory``.
        versions: the statements that migrate from each version to the next; a published version never
            changes. Those of version 1 must not touch existing tables, of files from before application ids.
        postgres: the same for a Postgres database; empty for a store in files only.
    """

    name: str
    versions: tuple[tuple[Statement, ...], ...]
    postgres: tuple[tuple[str, ...], ...] = ()

    @property
    def newest(self) -> int:
        """The version that this program reads and writes, 1 or more."""
        return len(self.versions)


def is_readable(found: int, versions: tuple[tuple[Statement, ...], ...]) -> bool:
    """Return whether tables of a version can be read.

    So they can if later versions only add indexes, or functions that write.
    """
    later = (each for version in versions[found:] for each in version)
    return found > 0 and all(
        isinstance(each, str) and each.split()[1] in ("INDEX", "FUNCTION") for each in later
    )


class UnusableFile(sqlite3.DatabaseError):
    """A file that is refused before anything is written to it."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}")


@frozen
class _Locked:
    error: sqlite3.OperationalError


_NOT_OPEN, _IN_USE = (_Locked(sqlite3.OperationalError(said)) for said in ("not open", "in use"))


@define(eq=False)
class _Wait:
    """Whether the last wait for a file timed out, for all its stores in this process."""

    timed_out: bool = False


_WAITS: weakref.WeakValueDictionary[str, _Wait] = weakref.WeakValueDictionary()


def place_of(path: DatabasePath) -> Path:
    """Return where a file is, with ``~`` for the user's home."""
    return Path(os.path.expanduser(path))


class SqliteFile(Generic[_E]):
    """One store in a file, behind one connection with one transaction at a time.

    The file is opened by its first use, closed by :meth:`aclose`, and usable again after that. It may be used
    from several event loops and threads, and by several processes.

    Args:
        path: the file, created with its directories if missing. ``~`` is the user's home. ``:memory:`` for no
            file: the data then exists as long as this object, even after :meth:`aclose`.
        store: its tables, created or migrated when the file is opened.
        error: creates the failure from a sentence, which names the file, and the name of the operation.
        patience_s: seconds to wait for another process's lock, 0 or more. After a wait of this or another
            store in the file timed out, a twentieth of it, until the file is free again.
        read_only: never write or create the file.
        traced: whether an empty file beside this one records that the store was created. A file without its
            tables is then refused: it was deleted or replaced.

    Raises:
        ValueError: the path is a database URL.

    Attributes:
        skew_us: 0, since all users of a file share the clock of one machine.
    """

    skew_us = 0

    def __init__(
        self,
        path: DatabasePath,
        store: Store,
        error: Callable[[str, str], _E],
        *,
        patience_s: float = DEFAULT_PATIENCE_S,
        read_only: bool = False,
        traced: bool = False,
    ) -> None:
        if is_postgres(path):
            raise ValueError(f"got {shown_place(path)!r}, expected the path of a file")
        self._in_process = str(path) == IN_PROCESS
        # absolute, since the program may change its directory
        self.path = place_of(path) if self._in_process else place_of(path).absolute()
        self._trace = Path(f"{self.path}-{store.name}") if traced else None
        self._looked_at = str(self.path)
        self._wait = _Wait() if self._in_process else _WAITS.setdefault(str(self.path), _Wait())
        self._store = store
        self._error = error
        self._patience_s = patience_s
        self._read_only = read_only
        self._is_still = False
        self._connection: sqlite3.Connection | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._opened: tuple[int, int] | None = None
        self._waits = True
        self._wal = ""
        self._in_log = self._flushes = 0
        self._logged: set[str] = set()
        self._works = _Works()
        self._inherited: list[object] = []
        self._one_at_a_time = threading.Lock()  # for event loops in several threads
        with _FORKS.changing:
            _FORKS.files.add(self)

    async def read(self, operation: str, work: Work[_T]) -> Result[_T, _E]:
        """Return the result of the work, in one consistent view of the file.

        Args:
            operation: names the work in the log.
            work: called in a worker thread.
        """
        return await self._run(operation, work, waits=None)

    @property
    def place(self) -> str:
        """The file; empty for a database in memory."""
        return "" if self._in_process else str(self.path)

    async def write(
        self, operation: str, work: Work[_T], *, of: str = "", again: bool = False
    ) -> Result[_T, _E]:
        """Do the work in one transaction, on disk when this returns.

        It has the write lock from the start, so that its reads are still valid when it writes. Arguments as
        for :meth:`read`; a file has one writer at a time and no connection to lose, so ``of`` and ``again``
        have no effect.
        """
        return await self._run(operation, work, waits=True)

    async def write_soon(
        self, operation: str, work: Work[_T], *, of: str = "", durable: bool = False
    ) -> Result[_T, _E]:
        """Do short work in one transaction, mostly on the calling thread.

        That is faster than switching threads; if the file is in use, waits for its turn. The write outlives
        the process, but perhaps not a power failure; the next :meth:`write` flushes it too.

        Args:
            durable: whether it is on disk when this returns, flushed by a thread together with concurrent
                writes. After a failure it may have been done.
        """
        if durable:
            await anyio.lowlevel.checkpoint_if_cancelled()
        try:
            while (outcome := self._at_once(work)) is _IN_USE:
                await self._works.run(self._wait_turn)
            if isinstance(outcome, _Locked):
                done = await self._run(operation, work, waits=False)
            else:
                self._wait.timed_out = False
                done = Success(outcome)
            has_log = isinstance(done, Success) and not self._in_process
            is_full = self._in_log >= _MOST_IN_LOG or not self._in_log % _MANY_IN_LOG
            if has_log and (durable or is_full):
                await self._works.run(self._flush)
        except FAILURES as error:
            return Failure(self._failed(operation, error))
        return done

    def _wait_turn(self) -> None:
        """Wait for earlier work."""

    def _flush(self) -> None:
        """Flush all commits so far, while others may write."""
        try:
            log = os.open(self._wal, os.O_RDWR)
            try:
                _DATA_TO_DISK(log)
                is_large = os.fstat(log).st_size >= _LARGE_LOG
            finally:
                os.close(log)
        except OSError as error:
            is_closed = self._connection is None and self._identity() == self._opened
            if is_closed and isinstance(error, FileNotFoundError):
                return  # closing the file checkpointed the log
            self._write_back()  # the system may report lost data as written
            self._close()  # as after a failed write, to read the file again
            raise
        self._flushes += 1
        many = _MANY_IN_LOG if is_large else _MOST_IN_LOG
        if self._in_log >= many or self._flushes >= _MOST_FLUSHES:
            self._write_back()

    def _write_back(self) -> None:
        """Checkpoint the log; if that fails, everything is still in the log."""
        with self._one_at_a_time, suppress(sqlite3.Error):
            self._in_log = self._flushes = 0
            if self._connection is not None:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    async def empty_log(self, *, rewrites: bool = False) -> None:
        """Empty the log of the file (``-wal``), which still contains deleted data.

        The file itself is overwritten at once, but the unused parts of its pages may keep copies of rows that
        were moved. What fails or takes longer than the patience stays undone, and a warning is logged.

        Args:
            rewrites: whether the file is rewritten, without such copies. It takes as long as copying the
                file, and that much free space. Others read it meanwhile, but do not write; so it is given up
                where it takes so long that they would fail.
        """
        if self._in_process:
            return
        rewritten_later = _REWRITTEN_LATER.get()
        if rewrites and rewritten_later is not None:
            rewritten_later[self.path] = self
            return
        if rewrites and not await self._done_in_time(self._rewrite):
            _log.warning(
                "Unused parts of the %s file %r may have what was deleted until VACUUM rewrites it.",
                self._store.name,
                str(self.path),
            )
        if not await self._done_in_time(self._write_log_back):
            _log.warning(
                "The log of the %s file %r has what was deleted until it is closed.",
                self._store.name,
                str(self.path),
            )

    async def _done_in_time(self, work: Callable[[sqlite3.Connection], bool]) -> bool:
        """Return whether work on the whole file was done, as soon as others let it be."""
        deadline = anyio.current_time() + self._patience_s
        while not (done := await self._works.run(partial(self._is_done, work))):
            if done is None or anyio.current_time() >= deadline:
                return False
            await anyio.sleep(_PAUSE_S)
        return True

    def _is_done(self, work: Callable[[sqlite3.Connection], bool]) -> bool | None:
        """Return whether work is done now; ``None`` if it cannot be."""
        with self._one_at_a_time:
            try:
                return work(self._connected())
            except FAILURES as error:
                return False if _is_locked(error) else None

    def _write_log_back(self, connection: sqlite3.Connection) -> bool:
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def _rewrite(self, connection: sqlite3.Connection) -> bool:
        until = time.monotonic() + self._patience_s * _REWRITE_SHARE
        connection.set_progress_handler(lambda: time.monotonic() >= until, _OPERATIONS)
        try:
            connection.execute("VACUUM")
        finally:
            connection.set_progress_handler(None, 0)
        return True

    def _at_once(self, work: Work[_T]) -> _T | _Locked:
        if self._connection is None:
            return _NOT_OPEN
        if not self._one_at_a_time.acquire(blocking=False):
            return _IN_USE
        try:
            return self._done_or_locked(work, waits=False)
        finally:
            self._one_at_a_time.release()

    async def check(self) -> Result[None, _E]:
        """Check that the file can be written, by a write that changes nothing."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(f"PRAGMA user_version = {LAYOUT}")  # rewrites a page of it

        return await self.write("check", work)

    async def aclose(self) -> None:
        """Close the file; a second time does nothing. The next use opens it again."""
        if self._in_process:
            return
        with anyio.CancelScope(shield=True):
            await self._works.run(self._close)

    async def _run(self, operation: str, work: Work[_T], *, waits: bool | None) -> Result[_T, _E]:
        await anyio.lowlevel.checkpoint_if_cancelled()
        patience_s = self._patience_s * (_PATIENCE_AFTER_TIMEOUT if self._wait.timed_out else 1.0)
        deadline = anyio.current_time() + patience_s
        while True:
            try:
                outcome = await self._works.run(partial(self._once, work, waits))
            except FAILURES as error:
                return Failure(self._failed(operation, error))
            if not isinstance(outcome, _Locked):
                self._wait.timed_out = False
                return Success(outcome)
            if anyio.current_time() >= deadline:
                self._wait.timed_out = True
                return Failure(self._failed(operation, outcome.error))
            await anyio.sleep(_PAUSE_S)

    def _failed(self, operation: str, error: Exception) -> _E:
        sentence = sentence_of(error, self.path, self._store)
        level = logging.DEBUG if str(error) in self._logged else logging.WARNING
        _log.log(level, "%s (%s: %s: %s)", sentence, operation, type(error).__name__, error)
        if isinstance(error, sqlite3.OperationalError | OSError):  # of the file, not of a row
            self._logged.add(str(error))
        return self._error(sentence, operation)

    def _once(self, work: Work[_T], waits: bool | None) -> _T | _Locked:
        with self._one_at_a_time:
            return self._done_or_locked(work, waits=waits)

    def _done_or_locked(self, work: Work[_T], *, waits: bool | None) -> _T | _Locked:
        """Do the work in one transaction; ``waits`` is ``None`` to read."""
        try:
            if waits is None:
                return in_transaction(self._connected(), work, "BEGIN")
            done = in_transaction(self._waiting_for_disk(waits), work, "BEGIN IMMEDIATE")
        except sqlite3.DatabaseError as error:
            if _is_locked(error):
                return _Locked(error)
            if primary_code(error) in _REPLACEABLE:
                self._drop()  # the next use opens its replacement, or may write by then
            raise
        self._logged.clear()
        self._in_log = 0 if waits else self._in_log + 1
        return done

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._identity() != self._opened:
            self._drop()  # writes to the old one would be lost
            told = (
                "The %s file %r was deleted or replaced while it was in use: what is at its path is used now."
            )
            _log.warning(told, self._store.name, str(self.path))
        if self._is_still:
            self._drop()  # it would not see what another process writes
        if self._connection is None:
            self._connection, self._waits = self._connect(), True
            self._opened, self._wal = self._identity(), _log_of(self.path)
        return self._connection

    def _waiting_for_disk(self, waits: bool) -> sqlite3.Connection:
        """Return the connection, set to wait for the disk at commits or not."""
        connection = self._connected()
        if waits != self._waits:
            connection.execute(f"PRAGMA synchronous = {'FULL' if waits else 'NORMAL'}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {1000 if waits else 0}")
            self._waits = waits
        return connection

    def _identity(self) -> tuple[int, int] | None:
        if self._in_process:
            return None
        try:
            found = os.stat(self._looked_at)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _connect(self) -> sqlite3.Connection:
        is_closed = not self._in_process and self.path.exists() and not _may_write(self.path)
        only_read = self._read_only or is_closed  # a write then says so
        trace = None if self._in_process or only_read else self._trace
        if trace is not None and trace.exists() and not self.path.exists():
            raise FileNotFoundError(self._lost(trace))
        connection = self._new_connection(only_read)
        try:
            if trace is not None and trace.exists() and not version_of(connection, self._store):
                raise FileNotFoundError(self._lost(trace))
            if only_read:
                _require_newest(connection, self._store)
            else:
                version_of(connection, self._store)  # nothing is written to a refused file
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(f"PRAGMA journal_size_limit = {_LARGE_LOG}")
            connection.execute("PRAGMA synchronous = FULL")  # a commit survives a power failure
            connection.execute("PRAGMA secure_delete = ON")  # deleted data is overwritten
            if not only_read:
                migrate(connection, self._store)
            if trace is not None:
                trace.touch(mode=0o600)
        except BaseException:
            connection.close()
            raise
        self._finalizer = weakref.finalize(self, _close_here, connection, os.getpid())
        self._finalizer.atexit = False
        return connection

    def _lost(self, trace: Path) -> str:
        return (
            f"it was deleted or replaced since it was made; to begin again, delete {trace.name!r} beside it"
        )

    def _new_connection(self, only_read: bool) -> sqlite3.Connection:
        if self._in_process:
            return _connection(IN_PROCESS)
        self._is_still = only_read and _is_still(self.path)
        if only_read:
            return _to_read(self.path, 0.0, is_still=self._is_still)
        self.path.parent.mkdir(0o700, parents=True, exist_ok=True)
        if not self.path.exists():
            self.path.touch(mode=0o600)  # the data of an agent is for its owner only
        return _connection(self.path.as_uri())  # the event loop waits for locks

    def _close(self) -> None:
        with self._one_at_a_time:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._finalizer is not None:
                self._finalizer.detach()
            connection.close()

    def _stop(self, timeout_s: float) -> bool:
        """Close the file before a fork; ``False`` if work on it takes longer."""
        if not self._one_at_a_time.acquire(timeout=timeout_s):
            return False
        if not self._in_process:
            self._drop()
        return True

    def _begin_in_child(self, *, stopped: bool) -> None:
        """Leave to the parent its threads, and the connection that it uses now."""
        if not stopped:  # closing it would break the parent's
            self._inherited.append(self._connection)
            self._connection = None
        self._one_at_a_time, self._works = threading.Lock(), _Works()


_SHARED: weakref.WeakValueDictionary[tuple[object, ...], SqliteFile[Any]] = weakref.WeakValueDictionary()


def shared_file(
    path: DatabasePath,
    store: Store,
    error: Callable[[str, str], _E],
    *,
    patience_s: float = DEFAULT_PATIENCE_S,
    read_only: bool = False,
    traced: bool = False,
) -> SqliteFile[_E]:
    """Return the :class:`SqliteFile` of a store that this process has, or a new one.

    So agents that are built for each request share one connection for each store of a file, which is closed
    when the last of them is gone, or any of them closes it. Data in memory is not shared. Arguments as for
    the class; those with others have another connection.
    """
    open_file = partial(
        SqliteFile, path, store, error, patience_s=patience_s, read_only=read_only, traced=traced
    )
    if is_postgres(path) or str(path) == IN_PROCESS:
        return open_file()
    key = (str(place_of(path).absolute()), id(store), error, patience_s, read_only, traced)
    with _FORKS.changing:
        file = _SHARED.get(key)
        if file is None:
            file = _SHARED[key] = open_file()
        return file


_REWRITTEN_LATER: ContextVar[dict[Path, SqliteFile[Any]] | None] = ContextVar("rewritten_later", default=None)
"""The files to rewrite at the end of a block of :func:`each_file_rewritten_once`, if it is in one."""


@asynccontextmanager
async def each_file_rewritten_once() -> AsyncIterator[None]:
    """Rewrite each file from which stores delete in a block once, at its end."""
    files: dict[Path, SqliteFile[Any]] = {}
    token = _REWRITTEN_LATER.set(files)
    try:
        yield
    finally:
        _REWRITTEN_LATER.reset(token)
        for file in files.values():
            await file.empty_log(rewrites=True)


class _Forks:
    """Closes all files before a fork; the parent opens them again on use.

    SQLite counts the locks of a file per process. A child that has an open file of its parent takes no locks
    of its own, and what it writes is lost when the parent closes the file. Data in memory is copied.
    """

    def __init__(self) -> None:
        self.files: weakref.WeakSet[SqliteFile[Any]] = weakref.WeakSet()
        self.changing = threading.RLock()
        self._stopped: list[SqliteFile[Any]] = []

    def before(self) -> None:
        self.changing.acquire()
        until = time.monotonic() + _LONGEST_FORK_S
        for each in self.files:  # one by one: Ctrl-C may end it
            if each._stop(max(0.0, until - time.monotonic())):
                self._stopped.append(each)

    def in_parent(self) -> None:
        for each in self._stopped:
            each._one_at_a_time.release()
        self._stopped = []
        self.changing.release()

    def in_child(self) -> None:
        for each in self.files:
            each._begin_in_child(stopped=each in self._stopped)
        self._stopped, self.changing = [], threading.RLock()
        _THREADS.__init__()  # type: ignore[misc]


_FORKS = _Forks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_FORKS.before, after_in_parent=_FORKS.in_parent, after_in_child=_FORKS.in_child
    )


def _close_here(connection: sqlite3.Connection, process: int) -> None:
    """Close the file of a deleted owner, but not in a forked process."""
    if process == os.getpid():
        connection.close()


class _Threads:
    """Daemon threads, each of which does the work of one file at a time.

    An idle thread ends after a while. A call takes 60 to 100 µs of processor time less than with a thread of
    anyio, which waits for the event loop three times. A pool of the standard library accepts no work once the
    main thread has ended, while another thread may still have a run in progress.
    """

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._works: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = 0  # idle threads minus work that they have not taken yet

    def start(self, work: Callable[[], None]) -> None:
        with self._changing:
            if self._idle:
                self._idle -= 1
                self._works.put(work)
                return
        threading.Thread(target=self._run, args=(work,), name="sqlite", daemon=True).start()

    def _run(self, work: Callable[[], None]) -> None:
        while True:
            work()
            with self._changing:
                self._idle += 1
            try:
                work = self._works.get(timeout=_IDLE_S)
            except Empty:
                with self._changing:
                    if self._idle:
                        self._idle -= 1
                        return
                work = self._works.get()


_THREADS = _Threads()


@define(eq=False)
class _Asked:
    """Work, its result, and the functions that wake its waiters, by event loop."""

    work: Callable[[], Any]
    returned: Any = None
    raised: BaseException | None = None
    waiting: dict[Callable[[Callable[[], object]], object], list[Callable[[], object]]] = field(factory=dict)

    def do(self) -> None:
        """Do the work, and wake its waiters, once per event loop."""
        try:
            self.returned = self.work()
        except BaseException as error:  # noqa: BLE001 - raised where it was asked for
            self.raised = error
        for schedule, tell in self.waiting.items():
            with suppress(RuntimeError):  # the loop has ended
                schedule(partial(_call_all, tell))


class _Works:
    """The queue of work on a file, done by one thread."""

    def __init__(self) -> None:
        self._asked: deque[_Asked] = deque()
        self._is_under_way = False
        self._changing = threading.Lock()

    async def run(self, work: Callable[[], _T]) -> _T:
        """Return the result of the work; a cancellation takes effect after it.

        If the function is the last in the queue and has not begun, it is called once for all callers.
        """
        schedule, ended = schedule_on_this_loop(), event_on_this_loop()
        with self._changing:
            if not self._asked or self._asked[-1].work != work:
                self._asked.append(_Asked(work))
            asked = self._asked[-1]
            asked.waiting.setdefault(schedule, []).append(ended.set)
            is_first, self._is_under_way = not self._is_under_way, True
        if is_first:
            try:
                _THREADS.start(self._do_all)
            except RuntimeError:  # without a thread, does the work of concurrent callers too
                self._do_all()
        await wait_whatever_happens(ended)
        if asked.raised is not None:
            raise asked.raised
        return asked.returned  # type: ignore[no-any-return]

    def _do_all(self) -> None:
        while True:
            with self._changing:
                if not self._asked:
                    self._is_under_way = False
                    return
                asked = self._asked.popleft()
            asked.do()


def _call_all(functions: Iterable[Callable[[], object]]) -> None:
    for function in functions:
        function()


def microseconds(moment: datetime) -> int:
    """Return a time as microseconds since 1970; the default time zone is UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def moment_of(microseconds_: int) -> datetime:
    """The moment in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds_)


def open_to_read(path: DatabasePath) -> sqlite3.Connection:
    """Open a file for reading, without creating or checking it.

    Raises:
        sqlite3.Error, ValueError: it is missing or cannot be opened.
    """
    place = place_of(path).absolute()
    return _to_read(place, DEFAULT_PATIENCE_S, is_still=_is_still(place))


def _to_read(place: Path, timeout_s: float, *, is_still: bool) -> sqlite3.Connection:
    return _connection(f"{place.as_uri()}?mode=ro{'&immutable=1' if is_still else ''}", timeout_s)


def _is_still(path: Path) -> bool:
    """Return whether a file in WAL mode has nothing in its log, and none can be made.

    SQLite makes a log even to read, and refuses to where it may not write or the disk is full. What another
    process writes later is seen by the next connection alone. A file with a rollback journal, such as a
    backup, needs no log.
    """
    log = _log_of(path)
    is_in_log = os.path.exists(log) and os.path.getsize(log) > 0
    if _has_log(path) and (is_in_log or not _is_full(path)):
        return False
    with suppress(OSError), open(path, "rb") as file:
        return file.read(_READ_VERSION + 1)[_READ_VERSION:] == b"\2"
    return False


def _is_full(path: Path) -> bool:
    """Return whether there is no room for the log of a file and its index."""
    with suppress(OSError, AttributeError):  # Windows has no such function
        system = os.statvfs(path.parent)
        return bool(system.f_blocks) and system.f_bavail * system.f_frsize < _LEAST_ROOM
    return False


def _may_write(path: Path) -> bool:
    """Return whether this user may write a file, and a log beside it."""
    return os.access(path, os.W_OK) and _has_log(path)


def _has_log(path: Path) -> bool:
    """Return whether a file has a log, or this user may make it."""
    log = _log_of(path)
    return os.access(os.path.dirname(log), os.W_OK) or os.path.exists(log)


def _log_of(path: DatabasePath) -> str:
    """Return the path of the log of a file, beside what a link leads to."""
    return f"{os.path.realpath(path)}-wal"


def _connection(place: str, timeout_s: float = 0.0) -> sqlite3.Connection:
    """Return a connection for several threads in turn, which begins no transaction."""
    return sqlite3.connect(place, timeout=timeout_s, isolation_level=None, check_same_thread=False, uri=True)


def look_into(path: DatabasePath, store: Store, work: Work[_T]) -> Result[_T, str]:
    """As :func:`reactive_agents.adapters.sql.look_into`, for a file."""
    try:
        with closing(open_to_read(path)) as connection:
            version_of(connection, store)
            return Success(work(connection))
    except FAILURES as error:
        return Failure(sentence_of(error, path, store))


def version_of(connection: sqlite3.Connection, store: Store) -> int:
    """Return the version of a store in a file; 0 if the file lacks it.

    Raises:
        UnusableFile: the file belongs to another program, or to a newer version of this one.
        sqlite3.Error: the file cannot be read.
    """
    if connection.in_transaction:
        return _version(connection, store)
    # in one transaction, since another process may be creating the tables
    return in_transaction(connection, partial(_version, store=store), "BEGIN")


def _version(connection: sqlite3.Connection, store: Store) -> int:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        foreign = _foreign_tables(connection)
        if application or layout or foreign:
            kind = f"application id {application:#x}" if application else f"user_version {layout}"
            found = f"the database of another program ({foreign or kind})"
            raise UnusableFile(found, "an empty file or one that reactive_agents made")
        return 0
    if layout > LAYOUT:
        raise UnusableFile(f"layout {layout} of a newer reactive_agents", f"at most {LAYOUT}")
    version = _recorded_version(connection, layout, store)
    if version > store.newest:
        found = f"version {version} of its {store.name}, of a newer reactive_agents"
        raise UnusableFile(found, f"at most {store.newest}")
    return version


def migrate(connection: sqlite3.Connection, store: Store, *, to: int | None = None) -> None:
    """Migrate a store to a version in one transaction, unless the file has it already.

    Raises:
        UnusableFile: see :func:`version_of`.
        sqlite3.Error: the file cannot be read or written.
    """
    target = store.newest if to is None else to

    def change(connection: sqlite3.Connection) -> None:
        version = version_of(connection, store)  # another process may have been faster
        for statement in chain.from_iterable(store.versions[version:target]):
            if callable(statement):
                statement(connection)
            else:
                connection.execute(statement)
        _record_version(connection, store, max(version, target))

    if version_of(connection, store) < target:
        in_transaction(connection, change, "BEGIN IMMEDIATE")


def sentence_of(error: Exception, path: DatabasePath, store: Store) -> str:
    """Describe a failure of a file in a sentence."""
    named = f"The {store.name} file {str(path)!r}"
    code = primary_code(error) if isinstance(error, sqlite3.Error) else 0
    known = _SENTENCES.get(code)
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):
        known = _what_is_at(path) or known
    elif getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK:
        known = _CUT_OFF
    said = str(error).rstrip(".") or type(error).__name__
    return f"{named} {known or f'cannot be used: {said}'}."


def _what_is_at(path: DatabasePath) -> str:
    """Return why no file can be opened at a path; empty if that is not seen."""
    place = place_of(path).absolute()
    folder = place.parent
    try:
        os.stat(place)
    except FileNotFoundError:
        missing = "it" if folder.is_dir() else f"its folder {str(folder)!r}"
        return f"cannot be opened: {missing} does not exist"
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    if place.is_dir():
        return "cannot be opened: it is a directory"
    if not os.access(place, os.R_OK):
        return _SENTENCES[sqlite3.SQLITE_PERM]
    with suppress(OSError, AttributeError):  # Windows has no such function
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return "cannot be opened for writing: its file system is read-only"
    if _is_full(place):
        return _SENTENCES[sqlite3.SQLITE_FULL]
    log = _log_of(place)
    return _CUT_OFF if os.path.exists(log) and not os.access(folder, os.W_OK) else ""


def failure_of(service: str) -> Callable[[str, str], ServiceFailed]:
    """Return a function that creates failures of a service."""
    return lambda sentence, operation: ServiceFailed(sentence, service, operation)


def storable(text: str) -> str:
    """Return text that SQLite can store: lone surrogates are escaped."""
    return text.encode(errors="backslashreplace").decode()


def primary_code(error: sqlite3.Error) -> int:
    """Return the primary result code of an SQLite error; 0 for none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_locked(error: Exception) -> TypeGuard[sqlite3.OperationalError]:
    return isinstance(error, sqlite3.OperationalError) and primary_code(error) in _LOCKED


def _require_newest(connection: sqlite3.Connection, store: Store) -> None:
    version = version_of(connection, store)
    if is_readable(version, store.versions):
        return
    if version:
        found = f"version {version} of its {store.name}, which stays so until something is written to it"
    else:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        found = f"a file without {store.name}" if tables else "an empty file"
    raise UnusableFile(found, f"version {store.newest} for reading")


def _recorded_version(connection: sqlite3.Connection, layout: int, store: Store) -> int:
    if layout < LAYOUT:  # from before the table of stores
        return layout if store.name == _MEMORY else 0
    row = connection.execute(f"SELECT version FROM {_STORES} WHERE name = ?", (store.name,)).fetchone()
    return 0 if row is None else int(row[0])


def _record_version(connection: sqlite3.Connection, store: Store, version: int) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {_STORES} "
        "(name TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID"
    )
    if application == APPLICATION_ID and 0 < layout < LAYOUT:
        connection.execute(f"INSERT OR IGNORE INTO {_STORES} VALUES (?, ?)", (_MEMORY, layout))
    connection.execute(f"INSERT OR REPLACE INTO {_STORES} VALUES (?, ?)", (store.name, version))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {LAYOUT}")


def _foreign_tables(connection: sqlite3.Connection) -> str:
    """Return the names of tables of other programs in an unmarked file."""
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')").fetchall()
    names = [name for (name,) in rows if not name.startswith("sqlite_")]
    return ", ".join(name for name in names if _columns(connection, name) != _LEGACY_TABLES.get(name))


def _columns(connection: sqlite3.Connection, table: str) -> str:
    rows = connection.execute("SELECT name FROM pragma_table_info(?) ORDER BY cid", (table,))
    return " ".join(name for (name,) in rows)


def in_transaction(connection: sqlite3.Connection, work: Work[_T], begin: str) -> _T:
    """Return the result of the work, done in one transaction."""
    connection.execute(begin)
    try:
        done = work(connection)
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:  # some failures, such as a full disk, have already rolled back
            connection.execute("ROLLBACK")
        clear_frames(error.__traceback__)  # a cursor with rows left would keep the old view of the file
        raise
    return done
