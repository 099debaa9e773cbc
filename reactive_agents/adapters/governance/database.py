"""One SQLite file that several processes write: opened when first needed, used in a worker thread."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike, fspath
from typing import TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ServiceFailed

_T = TypeVar("_T")

DatabasePath: TypeAlias = str | PathLike[str]
Work: TypeAlias = Callable[[sqlite3.Connection], _T]

DEFAULT_PATIENCE_S = 10.0
_PAUSE_S = 0.01

FAILURES = (sqlite3.Error, OSError, ValueError, OverflowError)
"""What SQLite raises about its file, and about a value that it cannot hold."""


class Database:
    """A file in WAL mode whose commits are on the disk when they end (``synchronous=FULL``).

    Any number of tasks, event loops, threads and processes may use one file; each transaction takes the
    write lock at its start, so that what it reads is still true when it writes.

    Args:
        path: the file, made when it is not there; its directory must exist.
        service: names the service in a ``ServiceFailed``.
        schema: statements that may run again on a file that has it already.
        patience_s: seconds to wait for other writers before it fails, 0 or more.
    """

    def __init__(
        self,
        path: DatabasePath,
        *,
        service: str,
        schema: Sequence[str],
        patience_s: float = DEFAULT_PATIENCE_S,
    ) -> None:
        self._path = fspath(path)
        self._service = service
        self._schema = tuple(schema)
        self._patience_s = patience_s
        self._connection: sqlite3.Connection | None = None
        # the limiter lets one task of a loop at it, without a thread for each that waits; the lock keeps
        # out other loops, and a transaction whose task was cancelled and left its thread to finish alone
        self._lock = threading.Lock()

    async def transact(self, operation: str, work: Work[_T]) -> Result[_T, ServiceFailed]:
        """Do the work in one transaction: all of it is on the disk when this succeeds, else nothing.

        Args:
            operation: names the work in a ``ServiceFailed``.
            work: called once, in a worker thread.
        """
        return await anyio.to_thread.run_sync(
            partial(self._transact, operation, work), limiter=_limiter_of(self)
        )

    async def aclose(self) -> None:
        """Close the file; the next transaction opens it again."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._close, limiter=_limiter_of(self))

    def _transact(self, operation: str, work: Work[_T]) -> Result[_T, ServiceFailed]:
        with self._lock:
            try:
                return Success(self._in_transaction(work))
            except FAILURES as error:
                return Failure(failure_of(error, self._path, self._service, operation))

    def _in_transaction(self, work: Work[_T]) -> _T:
        connection = self._connection
        if connection is None:
            connection = self._connection = _open(self._path, self._patience_s)
        try:
            connection.execute("BEGIN IMMEDIATE")
            for statement in self._schema:
                connection.execute(statement)
            done = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            # what broke one transaction, a full disk or a replaced file, must not break all that follow
            self._connection = None
            _abandon(connection)
            raise
        return done

    def _close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                _abandon(connection)


def failure_of(error: Exception, path: DatabasePath, service: str, operation: str) -> ServiceFailed:
    """What went wrong with a file, in a sentence."""
    said = str(error).rstrip(".") or type(error).__name__
    return ServiceFailed(f"The file {str(path)!r} does not serve: {said}.", service, operation)


def _open(path: str, patience_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=patience_s, isolation_level=None, check_same_thread=False, cached_statements=16
    )
    try:
        _use_wal(connection, time.monotonic() + patience_s)
        connection.execute("PRAGMA synchronous=FULL")
    except BaseException:
        _abandon(connection)
        raise
    return connection


def _use_wal(connection: sqlite3.Connection, deadline: float) -> None:
    """SQLite does not wait by itself for others that are about to change the mode too."""
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def _abandon(connection: sqlite3.Connection) -> None:
    """Close it; SQLite rolls back what is open."""
    try:
        connection.close()
    except sqlite3.Error:
        return


_limiters: RunVar[WeakKeyDictionary[Database, anyio.CapacityLimiter]] = RunVar("reactive_agents.databases")


def _limiter_of(database: Database) -> anyio.CapacityLimiter:
    """A limiter belongs to an event loop, a database may outlive one."""
    limiters = _limiters.get(None)
    if limiters is None:
        limiters = WeakKeyDictionary()
        _limiters.set(limiters)
    return limiters.setdefault(database, anyio.CapacityLimiter(1))
