"""Access to Postgres for all stores of the package.

It has the same guarantees as the module for SQLite files, on a server that many machines share:

* The tables are in a schema of the package, with the version of each store. A schema of another program, or
  of a newer version of this one, is refused. Processes that start at the same time migrate it once.
* A write locks its store, or the named part of it, before it reads, so that its reads are still valid when it
  writes. Writers of different parts do not wait for each other.
* Connections are few, shared by the stores of a process, and borrowed for one transaction each, never during
  a model call. Every setting lasts for its transaction only, as connection poolers require.
* A lost connection is replaced, and the transaction repeated unless it may have been committed. If the server
  was reachable before, a call waits for it as long as for a lock, since it may be restarting; then it fails.
  Once the server has been away for as long as that, calls fail at once, after one attempt for all of them.
* No call waits forever for a server that hangs: its connection is given up like a lost one.
* Leases, and what is deleted by age by itself, use the clock of the server, which each transaction reads,
  since the clocks of machines differ.
* A write sees what was committed while it waited, and texts are sent in UTF-8, whatever isolation and
  encoding the database, the role or the environment sets.
* Texts with NUL, which Postgres rejects, are stored with a mark in its place, and restored when read.
* Each failure is a value, and a warning in the log ``reactive_agents``; of an outage, one for each reason.
* URLs are shown without password.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache, lru_cache
from typing import Any, Generic, TypeAlias, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from attrs import define, field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.sqlite import DEFAULT_PATIENCE_S, Store, is_readable
from reactive_agents.core.config import shown_place

_E = TypeVar("_E")
_T = TypeVar("_T")
_log = logging.getLogger("reactive_agents")

SCHEMA = "reactive_agents"
MOST_CONNECTIONS = 8
"""The maximum of connections of a process to one URL."""
IDLE_S = 60.0
"""Seconds after which an idle connection is closed, at the next use of another one."""

SERVER_TIME = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
"""The statement that reads the clock of the server, in microseconds since 1970."""

_SEARCH_PATH = f"{SCHEMA}, public, extensions"  # the last two may have the vector types
_LOCK_SLICE_MS = 500
_STALLED_MS = 15_000  # a stalled process must not block others
_LONGEST_STATEMENT_MS = 60_000
_LONGEST_ANSWER_S = 65.0  # the server ends a statement before that
_LONGEST_MIGRATION_S = 3600.0  # it may index large tables
_SILENT_S = 10.0
"""Seconds in which a server answers what takes it no time, if it is alive."""
_PAUSE_S, _AWAY_PAUSE_S = 0.005, 0.25
_IN_NO_TRANSACTION = 0  # libpq's status of an idle connection
_SOON = "SET LOCAL synchronous_commit = off"
_SEES_COMMITS = "read committed"
"""The isolation in which a write that has waited for a lock sees what its holder wrote."""
_CONNECTING = {
    "connect_timeout": 5,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "application_name": "reactive_agents",
}
_SILENT = "the server accepts connections, but does not answer"
_UNKNOWN_END = "the connection was lost at the end of a write, which may have been done"
_NOT_UNDERSTOOD = "its address is not understood"


class UnusableSchema(ValueError):
    """A schema that is refused before anything is written to it."""


class PostgresDatabase(Generic[_E]):
    """One store in a Postgres database. Implements ``Database``.

    It may be used from several event loops and threads, and by several processes and machines.

    Args:
        url: the URL for libpq, such as ``postgresql://user@host/database``.
        store: its tables, created or migrated at first use.
        error: creates the failure from a sentence and the name of the operation.
        patience_s: seconds to wait for other writers, and for a server that is restarting, 0 or more.
        read_only: never write or create tables.
        more: further tables of the store.

    Attributes:
        place: the URL without user and password.
        skew_us: microseconds by which the server's clock was ahead of this machine's in the last transaction.
    """

    def __init__(
        self,
        url: str,
        store: Store,
        error: Callable[[str, str], _E],
        *,
        patience_s: float = DEFAULT_PATIENCE_S,
        read_only: bool = False,
        more: tuple[Store, ...] = (),
    ) -> None:
        self.place = shown_place(url)
        self.skew_us = 0
        self._pool = _pool_of(url)
        self._store = store
        self._stores = (store, *more)
        self._error = error
        self._patience_s = patience_s
        self._read_only = read_only
        self._mode = f"ISOLATION LEVEL {_SEES_COMMITS}{' READ ONLY' if read_only else ''}"
        self._whole_store = _Limit(1)

    @property
    def away_since(self) -> float:
        """The monotonic time since which the server cannot be reached; infinity if it can."""
        absence = self._pool.absence
        return float("inf") if absence is None else absence.since

    async def read(self, operation: str, work: Work[_T]) -> Result[_T, _E]:
        """Return the result of the work, in one consistent view."""
        begin = _beginning("ISOLATION LEVEL REPEATABLE READ READ ONLY", None, "")
        return await self._run(operation, work, begin, self._pool.limit, again=True)

    async def write(
        self, operation: str, work: Work[_T], *, of: str = "", again: bool = False
    ) -> Result[_T, _E]:
        """Do the work in one transaction, on the server's disk when this returns.

        Args:
            again: whether the work may be done once more if the connection is lost while it is committed.
        """
        return await self._write(operation, work, of, again=again)

    async def empty_log(self, *, rewrites: bool = False) -> None:
        """Do nothing: the server decides how long it keeps its log."""

    async def write_soon(
        self, operation: str, work: Work[_T], *, of: str = "", durable: bool = False
    ) -> Result[_T, _E]:
        """Do the work in one transaction; wait for the disk only if ``durable``."""
        return await self._write(operation, work, of, first="" if durable else _SOON)

    async def returning(
        self, operation: str, statement: str, *values: object, of: str = "", soon: bool = False
    ) -> Result[Any, _E]:
        """Execute one statement as a transaction, in one round trip.

        Return its first row, or ``None``. After a failure it may have been done. The statement calls a
        function of the store that also takes the lock, since each further statement costs about as much as
        the write. Its first values are the key of the lock, and ``off`` not to wait for the disk. Its columns
        are texts.
        """
        given = (self._lock_of(of), "off" if soon else "on", *values)
        sent = self._send(statement, given)
        if sent is not None:
            try:
                return Success(await self._answer_to(sent))
            except _failures() as error:
                if not _is_busy(error):
                    return Failure(self._failed(operation, error))
        return await self._write(operation, lambda file: file.execute(statement, given).fetchone(), of)

    def begin(self, statement: str, *values: object, of: str = "") -> _Lent | None:
        """Send a statement as :meth:`returning` does with ``soon``, without waiting.

        The server answers while the program continues. ``None`` if sending would block, or many answers are
        open.
        """
        return self._send(statement, (self._lock_of(of), "off", *values), among=MOST_CONNECTIONS // 2)

    async def finish(self, operation: str, begun: _Lent) -> Result[Any, _E]:
        """Return the first row of a begun statement, as :meth:`returning` does."""
        try:
            return Success(await self._answer_to(begun))
        except _failures() as error:
            return Failure(self._failed(operation, error))

    def forget(self, begun: _Lent) -> None:
        """Discard the answer to a begun statement."""
        begun.connection.close()
        self._pool.give_back(begun)

    async def check(self) -> Result[None, _E]:
        """Check that the store can be written, by a write that changes nothing."""

        def work(connection: Any) -> None:
            connection.execute("UPDATE stores SET version = version WHERE name = ?", (self._store.name,))

        return await self.write("check", work, of="check")

    async def aclose(self) -> None:
        """Close connections that no other store uses; the next use opens them again."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._pool.leave, self)

    def _lock_of(self, of: str) -> int:
        return _lock_key(f"reactive_agents\n{self._store.name}\n{of}")

    async def _write(
        self, operation: str, work: Work[_T], of: str, *, first: str = "", again: bool = False
    ) -> Result[_T, _E]:
        begin = _beginning(self._mode, self._lock_of(of), first)
        limit = self._pool.limit if of else self._whole_store
        return await self._run(operation, work, begin, limit, again=again)

    async def _run(
        self, operation: str, work: Work[_T], begin: str, limit: _Limit, *, again: bool = False
    ) -> Result[_T, _E]:
        deadline = time.monotonic() + self._patience_s
        while True:
            began, pause_s = time.monotonic(), _PAUSE_S
            try:
                return Success(
                    await anyio.to_thread.run_sync(self._once, work, begin, again, limiter=limit.here())
                )
            except _failures() as error:
                may_succeed = _is_busy(error)
                if _is_away(error):
                    deadline = min(deadline, self._pool.miss(began, error) + self._patience_s)
                    may_succeed, pause_s = bool(self._pool.ready), _AWAY_PAUSE_S  # it may be restarting
                if not may_succeed or time.monotonic() >= deadline:
                    return Failure(self._failed(operation, error))
            await anyio.sleep(pause_s)

    def _send(self, statement: str, values: tuple[object, ...], *, among: int = 0) -> _Lent | None:
        """Send a statement on an idle connection, without a thread.

        Args:
            among: the maximum of open statements whose answers are not awaited at once.
        """
        lent = self._pool.at_hand(self, self._stores, among)
        if lent is None:
            return None
        connection = lent.connection.pgconn
        try:
            connection.send_query_params(_sent(statement), [*map(_bytes_of, values)])
            lent.is_sent = not connection.flush()
        except BaseException as error:
            lent.connection.close()
            self._pool.give_back(lent)
            if isinstance(error, _library().OperationalError):
                return None
            if isinstance(error, ValueError):  # a text that cannot be stored; a transaction fails with it
                return None
            raise
        return lent

    async def _answer_to(self, lent: _Lent) -> Any:
        """Return the row of a sent statement, and release its connection.

        A cancellation takes effect only after that, as with a thread.
        """
        library, connection = _library(), lent.connection.pgconn
        answer = None
        try:
            connection.consume_input()
            if not lent.is_sent or connection.is_busy():
                await _wait_for_answer(lent)
            while (part := connection.get_result()) is not None:
                answer = part
                if connection.is_busy():
                    await _wait_for_answer(lent)
        except library.OperationalError:
            self._pool.lose(lent)
            raise ConnectionError(_UNKNOWN_END) from None
        except BaseException:
            lent.connection.close()
            raise
        finally:
            self._pool.give_back(lent)
        if answer is None:  # of one statement
            raise ConnectionError(_UNKNOWN_END)
        self._pool.hear()
        if not answer.error_message:
            return _text_row(answer)
        error = library.errors.error_from_result(answer)
        if isinstance(error, library.errors.UndefinedTable | library.errors.UndefinedFunction):
            self._pool.ready.clear()  # the schema was dropped
        raise error

    def _failed(self, operation: str, error: Exception) -> _E:
        sentence = _sentence(error, self.place, self._store)
        level = logging.DEBUG if _is_away(error) and self._pool.was_logged(error) else logging.WARNING
        _log.log(level, "%s (%s: %s)", sentence, operation, type(error).__name__)
        return self._error(sentence, operation)

    def _once(self, work: Work[_T], begin: str, again: bool) -> _T:
        errors = _library().errors
        self._pool.join(self)
        self._pool.check(self._patience_s)
        reason, silences = "", 0
        for _ in range(MOST_CONNECTIONS + 2):  # all idle ones may be lost
            with self._pool.borrowed(self._patience_s) as lent:
                try:
                    done = self._in_transaction(lent, work, begin)
                    self._pool.hear()
                    return done
                except errors.UndefinedTable:
                    self._pool.ready.clear()  # the schema was dropped
                    raise
                except errors.OperationalError as error:
                    if not lent.connection.closed:
                        raise
                    self._pool.lose(lent)
                    if lent.is_committing and not again:
                        raise ConnectionError(_UNKNOWN_END) from None
                    reason = error.diag.message_primary or str(error)
                    silences += lent.connection.is_silent
                    if silences > 1:  # a new one too: a pooler may have no connection to the server
                        break
        raise ConnectionResetError(f"its connections are lost repeatedly: {' '.join(reason.split())}")

    def _in_transaction(self, lent: _Lent, work: Work[_T], begin: str) -> _T:
        for store in self._stores:
            if store.name not in self._pool.ready:
                _migrate(lent.connection, store, read_only=self._read_only)
                self._pool.ready.add(store.name)
        try:
            lent.connection.answer_s = _SILENT_S
            started = lent.connection.execute(begin)
            lent.connection.answer_s = _LONGEST_ANSWER_S
            while started.nextset():
                pass
            server_us, isolation = started.fetchone()
            self._pool.sees_commits = isolation == _SEES_COMMITS
            self.skew_us = int(server_us) - time.time_ns() // 1000
            done = work(_Statements(lent.connection))
            lent.is_committing = True
            lent.connection.execute("COMMIT")
            lent.is_committing = False
        except BaseException:
            if not lent.connection.closed:
                lent.connection.execute("ROLLBACK")
            raise
        return done


async def _wait_for_answer(lent: _Lent) -> None:
    """Wait for a whole answer; a cancellation takes effect after that.

    Waits for the socket here, since passing a small write to a thread costs more than the write.
    """
    connection = lent.connection.pgconn
    with anyio.CancelScope(shield=True) as scope:
        while connection.flush():
            scope.deadline = anyio.current_time() + _SILENT_S
            await anyio.wait_writable(connection.socket)
        while connection.is_busy():
            scope.deadline = anyio.current_time() + _SILENT_S
            await anyio.wait_readable(connection.socket)
            connection.consume_input()
        return
    lent.connection.is_silent = True
    raise _library().OperationalError(_SILENT)


@lru_cache(maxsize=64)
def _sent(statement: str) -> bytes:
    """Return a statement with numbered placeholders for its values."""
    first, *rest = statement.split("?")
    return "".join((first, *(f"${number}{text}" for number, text in enumerate(rest, 1)))).encode()


def _bytes_of(value: object) -> bytes | None:
    return None if value is None else (_marked(value) if isinstance(value, str) else str(value)).encode()


def _text_row(answer: Any) -> tuple[str | None, ...] | None:
    """Return the first row of an answer whose columns are texts."""
    if not answer.ntuples:
        return None
    found = (answer.get_value(0, column) for column in range(answer.nfields))
    return tuple(None if each is None else _unmarked(each.decode()) for each in found)


class _Statements:
    """A connection that accepts statements with question marks for values."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Any = (), /) -> Any:
        return self._connection.execute(_translated(statement), tuple(values))

    def executemany(self, statement: str, values: Any, /) -> Any:
        cursor = self._connection.cursor()
        cursor.executemany(_translated(statement), [tuple(each) for each in values])
        return cursor


Work: TypeAlias = Callable[[_Statements], _T]
"""SQL in a transaction; see :data:`reactive_agents.adapters.sql.Work`."""


@lru_cache(maxsize=512)
def _translated(statement: str) -> str:
    return statement.replace("%", "%%").replace("?", "%s")


@lru_cache(maxsize=512)
def _lock_key(name: str) -> int:
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


@lru_cache(maxsize=512)
def _beginning(mode: str, lock: int | None, first: str) -> str:
    """Return the statements that begin a transaction, sent together."""
    settings = (
        f"SET LOCAL search_path = {_SEARCH_PATH}; SET LOCAL lock_timeout = {_LOCK_SLICE_MS};"
        f" SET LOCAL statement_timeout = {_LONGEST_STATEMENT_MS};"
        f" SET LOCAL idle_in_transaction_session_timeout = {_STALLED_MS}"
    )
    locked = "" if lock is None else f"SELECT pg_advisory_xact_lock({lock})"
    told = f"{SERVER_TIME}, current_setting('default_transaction_isolation')"
    return "; ".join(filter(None, (f"BEGIN {mode}", settings, first, locked, told)))


def _sentence(error: Exception, place: str, store: Store) -> str:
    """Describe a failure in a sentence, without credentials of the URL."""
    return f"The {store.name} in the database {place!r} {_predicate(error, place)}."


def _predicate(error: Exception, place: str) -> str:
    try:
        import psycopg
    except ImportError:
        return f"cannot be used: {error}"
    diagnosis = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    said = " ".join((diagnosis or str(error)).split()).rstrip(".") or type(error).__name__
    if _is_busy(error):
        return "is locked by another process"
    if "…" in place:
        return f"cannot be used: {_NOT_UNDERSTOOD}"
    return f"cannot be reached: {said}" if _is_away(error) else f"cannot be used: {said}"


def _is_busy(error: Exception) -> bool:
    """Return whether another process was in the way, so that a retry may succeed."""
    if isinstance(error, ValueError):  # also that of a missing library
        return False
    errors = _library().errors
    return isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected | errors.SerializationFailure)


def _is_away(error: Exception) -> bool:
    if isinstance(error, ValueError):  # also that of a missing library
        return False
    library = _library()
    errors = library.errors
    away = errors.AdminShutdown | errors.CrashShutdown | errors.CannotConnectNow
    is_lost = isinstance(error, library.OperationalError) and getattr(error, "sqlstate", "") is None
    return is_lost or isinstance(error, ConnectionResetError | away)


def is_made(url: str, store: Store) -> bool:
    """Return whether a database has a store, or cannot be reached."""
    try:
        with closing(_connect(url)) as connection, connection.transaction():
            return _version(connection, store) > 0
    except _failures():
        return True


def look_into(url: str, store: Store, work: Work[_T]) -> Result[_T, str]:
    """As :func:`reactive_agents.adapters.sql.look_into`, for a URL."""
    try:
        with closing(_connect(url)) as connection:
            _migrate(connection, store, read_only=True)
            with connection.transaction():
                connection.execute(f"SET LOCAL search_path = {_SEARCH_PATH}")
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                return Success(work(_Statements(connection)))
    except _failures() as error:
        return Failure(_sentence(error, shown_place(url), store))


@cache
def _failures() -> tuple[type[Exception], ...]:
    """Return the exceptions of a database, also for values that it cannot store."""
    try:
        from psycopg import Error
    except ImportError:
        return OSError, ValueError, OverflowError, TypeError
    return Error, OSError, ValueError, OverflowError, TypeError


_TYPES = {
    r"INTEGER PRIMARY KEY( AUTOINCREMENT)?": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    r"\bINTEGER\b": "bigint",
    r"\bREAL\b": "double precision",
    r"\bTEXT\b": "text",
    r"\bBLOB\b": "bytea",
    r"(?<!\")\buser\b": '"user"',
    r" WITHOUT ROWID": "",
}


def table_of(statement: str, *added: str) -> str:
    """Return the Postgres statement that creates a table or index of an SQLite file.

    Args:
        added: text columns that later versions added to the table of the file.
    """
    for pattern, replacement in _TYPES.items():
        statement = re.sub(pattern, replacement, statement)
    return statement.replace("(", f"({''.join(f'{name} text NOT NULL, ' for name in added)}", 1)


# --- migrations -------------------------------------------------------------------------------------------


def _migrate(connection: Any, store: Store, *, read_only: bool) -> None:
    """Create or migrate the tables of a store, if necessary.

    Raises:
        UnusableSchema: they belong to another program, or to a newer version of this one.
    """
    connection.answer_s = _SILENT_S
    with connection.transaction():
        found = _version(connection, store)
    connection.answer_s = _LONGEST_ANSWER_S
    newest = len(store.postgres)
    if found == newest:
        return
    if read_only:
        if is_readable(found, store.postgres):
            return
        there = f"version {found} of its {store.name}" if found else f"no {store.name}"
        raise UnusableSchema(f"it has {there}, expected version {newest} for reading")
    with connection.transaction():
        connection.answer_s = _LONGEST_MIGRATION_S
        connection.execute(_migration_begin())
        _refuse_foreign(connection)
        found = _version(connection, store)  # another process may have been faster
        if connection.execute("SELECT to_regnamespace(%s)", (SCHEMA,)).fetchone()[0] is None:
            connection.execute(f"CREATE SCHEMA {SCHEMA}")
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {SCHEMA}.stores (name text PRIMARY KEY, version bigint NOT NULL)"
        )
        for statements in store.postgres[found:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(
            f"INSERT INTO {SCHEMA}.stores VALUES (%s, %s)"
            " ON CONFLICT (name) DO UPDATE SET version = excluded.version",
            (store.name, newest),
        )


def _migration_begin() -> str:
    return (
        f"SET LOCAL search_path = {_SEARCH_PATH}; SET LOCAL lock_timeout = '60s';"
        f" SET LOCAL statement_timeout = '{_LONGEST_MIGRATION_S:.0f}s';"
        f" SELECT pg_advisory_xact_lock({_lock_key('reactive_agents migrations')})"
    )


def _refuse_foreign(connection: Any) -> None:
    tables = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s)"
        " AND relkind IN ('r', 'v', 'p')",
        (SCHEMA,),
    )
    names = sorted(name for (name,) in tables)
    if names and "stores" not in names:
        raise UnusableSchema(f"its schema {SCHEMA!r} is that of another program ({', '.join(names)})")


def _version(connection: Any, store: Store) -> int:
    """Return the version of a store in the database; 0 if it is missing."""
    (known,) = connection.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.stores",)).fetchone()
    if known is None:
        return 0
    row = connection.execute(f"SELECT version FROM {SCHEMA}.stores WHERE name = %s", (store.name,)).fetchone()
    version = 0 if row is None else int(row[0])
    if version > len(store.postgres):
        raise UnusableSchema(
            f"found version {version} of its {store.name}, of a newer reactive_agents,"
            f" expected at most {len(store.postgres)}"
        )
    return version


# --- connections ------------------------------------------------------------------------------------------


class _Limit(threading.local):
    """A limit of concurrent threads for each event loop, since limiters belong to one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: tuple[object, anyio.CapacityLimiter] | None = None

    def here(self) -> anyio.CapacityLimiter:
        """Return the limiter of the running event loop."""
        loop, known = anyio.lowlevel.current_token(), self._known
        if known is None or known[0] != loop:
            known = self._known = (loop, anyio.CapacityLimiter(self._most))
        return known[1]


@define(eq=False)
class _Lent:
    """A connection in use, for one transaction.

    Attributes:
        is_sent: whether the whole statement has been sent.
        is_open: whether its answer is not awaited at once.
    """

    connection: Any
    is_committing: bool = False
    is_sent: bool = True
    is_open: bool = False


@define(eq=False)
class _Idle:
    connection: Any
    since: float = field(factory=time.monotonic)


@frozen
class _Absence:
    """Since when a server cannot be reached, and when and why it last could not."""

    since: float
    known_at: float
    reason: Exception


class _Pool:
    """The connections of this process to one URL.

    A borrower opens a connection if none is idle, so that it gets the failure.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._inherited: list[object] = []
        self.absence: _Absence | None = None
        self._logged: set[str] = set()
        self._heard_at = 0.0
        self.limit = _Limit(MOST_CONNECTIONS)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._changing = threading.Lock()
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        self._idle: list[_Idle] = []
        self._users: weakref.WeakSet[object] = weakref.WeakSet()
        self.ready: set[str] = set()
        self.sees_commits = False
        self._lent_for_longer = 0
        weakref.finalize(self, _close, self._idle, self._process)

    def join(self, user: object) -> None:
        if self._process != os.getpid():  # closing the parent's would break them
            self._inherited += [self._idle, self._changing, self._free]
            self._begin()
        with self._changing:
            self._users.add(user)

    def leave(self, user: object) -> None:
        """Remove a store; after the last one, close the idle connections."""
        if self._process != os.getpid():
            return
        with self._changing:
            self._users.discard(user)
            closing = [] if self._users else self._idle[:]
            del self._idle[: len(closing)]
        _close(closing, self._process)

    @contextmanager
    def borrowed(self, patience_s: float) -> Iterator[_Lent]:
        """Lend a connection.

        Raises:
            psycopg.Error: it cannot connect.
            OSError: all connections are in use.
        """
        free = self._free
        if not free.acquire(timeout=max(patience_s, 0.1)):
            raise OSError(f"the {MOST_CONNECTIONS} connections of this process are in use")
        lent = None
        try:
            lent = _Lent(self._take())
            yield lent
        finally:
            if lent is not None:
                self._keep_or_close(lent.connection)
            free.release()

    def hear(self) -> None:
        """Note that the server has answered."""
        self.absence, self._heard_at = None, time.monotonic()
        self._logged.clear()

    def was_logged(self, reason: Exception) -> bool:
        """Return whether the log has this reason since the last answer; note it."""
        is_known = str(reason) in self._logged
        self._logged.add(str(reason))
        return is_known

    def miss(self, began: float, reason: Exception) -> float:
        """Note that an attempt failed; return since when the server cannot be reached."""
        known, now = self.absence, time.monotonic()
        is_same = known is not None and now - known.known_at <= IDLE_S
        since = known.since if known is not None and is_same else max(began, self._heard_at)
        if known is None or known.reason is not reason:
            self.absence = _Absence(since, now, reason)
        return since

    def check(self, patience_s: float) -> None:
        """Fail if the server is known to have been away for longer than a call waits."""
        known, now = self.absence, time.monotonic()
        if known and now - known.since > patience_s and now - known.known_at < _AWAY_PAUSE_S:
            raise known.reason.with_traceback(None)

    def lose(self, lent: _Lent) -> None:
        """Close a lost connection; if the server is silent, the idle ones are lost too."""
        lent.connection.close()
        if lent.connection.is_silent:
            since = time.monotonic() - _SILENT_S
            self.absence = self.absence or _Absence(since, since, ConnectionResetError(_SILENT))
            with self._changing:
                closing = self._idle[:]
                self._idle.clear()
            _close(closing, self._process)

    def at_hand(self, user: object, stores: Sequence[Store], among: int = 0) -> _Lent | None:
        """Lend an idle connection, without waiting.

        ``None`` if there is none, tables may be missing, or a statement alone would not see what others
        committed while it waited for its lock.

        Args:
            among: the maximum lent for longer than one transaction, if this one is; otherwise 0.
        """
        if among and self._lent_for_longer >= among:
            return None
        if any(each.name not in self.ready for each in stores) or self._process != os.getpid():
            return None
        if not self.sees_commits:
            return None
        if not self._free.acquire(blocking=False):
            return None
        with self._changing:
            self._users.add(user)
            known = self._idle.pop() if self._idle else None
        if known is not None and time.monotonic() - known.since <= IDLE_S:
            with self._changing:
                self._lent_for_longer += bool(among)
            return _Lent(known.connection, is_open=bool(among))
        if known is not None:
            known.connection.close()
        self._free.release()
        return None

    def give_back(self, lent: _Lent) -> None:
        """Take a lent connection back."""
        with self._changing:
            self._lent_for_longer -= lent.is_open
        self._keep_or_close(lent.connection)
        self._free.release()

    def _take(self) -> Any:
        now = time.monotonic()
        with self._changing:
            closing = [each for each in self._idle if now - each.since > IDLE_S]
            del self._idle[: len(closing)]  # the oldest first
            lent = self._idle.pop().connection if self._idle else None
        _close(closing, self._process)
        return lent or _connect(self._url)

    def _keep_or_close(self, connection: Any) -> None:
        usable = connection.pgconn.transaction_status == _IN_NO_TRANSACTION  # nor closed
        with self._changing:
            if usable and self._users:
                self._idle.append(_Idle(connection))
                return
        connection.close()


def _close(idle: list[_Idle], process: int) -> None:
    if process == os.getpid():
        for each in idle:
            each.connection.close()


_POOLS: weakref.WeakValueDictionary[str, _Pool] = weakref.WeakValueDictionary()
_MAKING = threading.Lock()


def _pool_of(url: str) -> _Pool:
    with _MAKING:
        return _POOLS.setdefault(url, _Pool(url))


def _library() -> Any:
    try:
        import psycopg
    except ImportError:
        raise ValueError("it needs psycopg: pip install 'reactive-agents[durable]'") from None
    return psycopg


def _connect(url: str) -> Any:
    library = _library()
    texts, figures, loader, number = _adapters()
    connection = _connection_type().connect(
        url, autocommit=True, prepare_threshold=None, client_encoding="UTF8", **_defaults(url)
    )
    connection.isolation_level = library.IsolationLevel.READ_COMMITTED  # of migrations
    connection.adapters.register_dumper(str, texts)
    connection.adapters.register_dumper(float, figures)
    connection.adapters.register_loader("text", loader)
    connection.adapters.register_loader("numeric", number)
    return connection


@cache
def _connection_type() -> Any:
    """Return the class of connections, which are closed if the server does not answer."""
    library = _library()

    class Connection(library.Connection):  # type: ignore[misc, name-defined]
        answer_s = _LONGEST_ANSWER_S
        is_silent = False

        def wait(self, steps: Any, *options: Any, **named: Any) -> Any:
            return super().wait(self._in_time(steps), *options, **named)

        def _in_time(self, steps: Any) -> Any:
            """Pass on the steps of a statement, until the server is silent for too long."""
            until = time.monotonic() + self.answer_s
            try:
                wanted = next(steps)
                while True:
                    ready = yield wanted
                    if ready:  # of a long result or many statements, a part has come
                        until = time.monotonic() + self.answer_s
                    elif time.monotonic() > until:
                        self.is_silent = True
                        self.close()
                        raise library.OperationalError(_SILENT)
                    wanted = steps.send(ready)
            except StopIteration as done:
                return done.value

    return Connection


def _defaults(url: str) -> dict[str, Any]:
    """Return the connection settings that the URL does not set."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise ValueError(_NOT_UNDERSTOOD) from None  # libpq's message may contain the password
    return {name: value for name, value in _CONNECTING.items() if name not in given}


# --- texts with NUL ---------------------------------------------------------------------------------------

_MARK = "\ufdd0"
"""A noncharacter as the mark; it is itself marked in texts."""


def _marked(text: str) -> str:
    return text.replace(_MARK, f"{_MARK}1").replace("\0", f"{_MARK}0")


def _unmarked(text: str) -> str:
    return text.replace(f"{_MARK}0", "\0").replace(f"{_MARK}1", _MARK)


@cache
def _adapters() -> tuple[Any, Any, Any, Any]:
    """Return the classes that write texts and numbers, and read texts and sums."""
    from psycopg.adapt import Loader
    from psycopg.types.numeric import FloatDumper
    from psycopg.types.string import StrDumperUnknown, TextLoader

    class MarkingDumper(StrDumperUnknown):
        def dump(self, obj: str) -> Any:
            return super().dump(_marked(obj) if "\0" in obj or _MARK in obj else obj)

    class NumberDumper(FloatDumper):
        def dump(self, obj: float) -> Any:
            if obj != obj:  # SQLite has no NaN either
                raise ValueError("NaN cannot be stored")
            return super().dump(obj)

    class MarkingLoader(TextLoader):
        def load(self, data: Any) -> Any:
            text = super().load(data)
            return _unmarked(text) if isinstance(text, str) and _MARK in text else text

    class SumLoader(Loader):
        def load(self, data: Any) -> int | float:
            text = bytes(data)
            return int(text) if text.lstrip(b"-").isdigit() else float(text)

    return MarkingDumper, NumberDumper, MarkingLoader, SumLoader
