"""One SQLite file behind one connection, used from worker threads, one piece of work at a time.

Waiting for a lock that another process holds is done on the event loop, so that it can be cancelled; a
transaction that has begun is not.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TypeAlias, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from attrs import frozen
from returns.result import Failure, Result, Success

_T = TypeVar("_T")

Work: TypeAlias = Callable[[sqlite3.Connection], _T]
"""Plain SQL on a connection; may be run again when the file was locked, so it changes nothing else."""

IN_PROCESS = ":memory:"
"""The place of a database that has no file."""

FAILURES = (sqlite3.Error, OSError, ValueError, OverflowError)
"""What SQLite raises about its file, and about a value that it cannot hold."""

_SLICE_S = 0.05
_PAUSE_S = 0.005
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_SPOILED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


@frozen
class _Locked:
    error: sqlite3.OperationalError


class SqliteFile:
    """A database that is opened by its first use, closed by :meth:`aclose`, and usable again after that.

    It is in WAL mode, and a commit is on the disk when it ends (``synchronous=FULL``). It may be used from
    several event loops, and the file by several processes.

    Args:
        path: the file, made for its owner alone when it is missing. ``:memory:`` for no file: what is kept
            then belongs to this object, and is lost with it rather than by :meth:`aclose`.
        check: looks at each new connection before anything is written, since the file may be somebody else's.
        prepare: makes each new connection ready, tables and all.
        patience_s: seconds to wait for a lock that another process holds, 0 or more.
        make_folders: make also the folders above the file.
        read_only: never write, and never make the file.
        max_pages: the most pages of 4096 bytes that the file may have; ``None`` for no limit.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        prepare: Callable[[sqlite3.Connection], object],
        patience_s: float,
        check: Callable[[sqlite3.Connection], object] | None = None,
        make_folders: bool = False,
        read_only: bool = False,
        max_pages: int | None = None,
    ) -> None:
        self.path = Path(path)
        self._in_process = str(path) == IN_PROCESS
        self._check = check
        self._prepare = prepare
        self._patience_s = patience_s
        self._make_folders = make_folders
        self._read_only = read_only
        self._max_pages = max_pages
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None
        self._process = os.getpid()
        self._inherited: list[object] = []
        self._one_at_a_time = threading.Lock()  # for event loops in several threads
        self._limiter: tuple[object, anyio.CapacityLimiter] | None = None

    async def read(self, work: Work[_T]) -> Result[_T, Exception]:
        """What the work finds, in one consistent view of the file. Fails with one of :data:`FAILURES`."""
        return await self._run(work, "BEGIN")

    async def write(self, work: Work[_T]) -> Result[_T, Exception]:
        """Do the work as one transaction, on disk when this ends; all of it or none.

        It has the write lock from its start, so that what it reads is still true when it writes. Fails with
        one of :data:`FAILURES`, the file unchanged.
        """
        return await self._run(work, "BEGIN IMMEDIATE")

    async def aclose(self) -> None:
        """Close the file; a second time does nothing. The next use opens it again."""
        if self._in_process:
            return
        self._leave_to_parent()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._close, limiter=self._one())

    async def _run(self, work: Work[_T], begin: str) -> Result[_T, Exception]:
        self._leave_to_parent()
        deadline = anyio.current_time() + self._patience_s
        while True:
            try:
                outcome = await anyio.to_thread.run_sync(self._once, work, begin, limiter=self._one())
            except FAILURES as error:
                return Failure(error)
            if not isinstance(outcome, _Locked):
                return Success(outcome)
            if anyio.current_time() >= deadline:
                return Failure(outcome.error)
            await anyio.sleep(_PAUSE_S)

    def _once(self, work: Work[_T], begin: str) -> _T | _Locked:
        with self._one_at_a_time:
            try:
                return _in_transaction(self._connected(), work, begin)
            except sqlite3.OperationalError as error:
                if primary_code(error) in _LOCKED:
                    return _Locked(error)
                self._drop_if_spoiled(error)
                raise
            except sqlite3.DatabaseError as error:
                self._drop_if_spoiled(error)
                raise

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._identity() != self._opened:
            self._drop()  # the file was deleted or replaced: what is written to the old one would be lost
        if self._connection is None:
            self._connection = self._connect()
            self._opened = self._identity()
        return self._connection

    def _identity(self) -> tuple[int, int] | None:
        if self._in_process:
            return None
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _connect(self) -> sqlite3.Connection:
        connection = self._new_connection()
        try:
            if self._max_pages is not None:
                connection.execute(f"PRAGMA max_page_count = {self._max_pages}")
            if self._check is not None:
                self._check(connection)
            if not self._read_only:
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # a commit outlives also a loss of power
            connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        if self._in_process:
            weakref.finalize(self, connection.close)
        return connection

    def _new_connection(self) -> sqlite3.Connection:
        place = IN_PROCESS
        if not self._in_process:
            if not self._read_only:
                self._make_file()
            place = self.path.absolute().as_uri() + ("?mode=ro" if self._read_only else "")
        slice_s = min(_SLICE_S, self._patience_s)
        return sqlite3.connect(
            place, uri=not self._in_process, timeout=slice_s, isolation_level=None, check_same_thread=False
        )

    def _make_file(self) -> None:
        if self._make_folders:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists() and self.path.parent.is_dir():
            self.path.touch(mode=0o600)  # what an agent does and remembers is nobody else's business

    def _close(self) -> None:
        with self._one_at_a_time:
            self._drop()

    def _drop_if_spoiled(self, error: sqlite3.Error) -> None:
        """A file that was damaged may be replaced: the next use shall see the new one."""
        if primary_code(error) in _SPOILED:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _leave_to_parent(self) -> None:
        """In a forked process: hold on to the parent's connection unused, since even closing it does harm."""
        if self._process != os.getpid():
            self._inherited += [self._connection, self._one_at_a_time]
            self._connection, self._one_at_a_time = None, threading.Lock()
            self._process = os.getpid()

    def _one(self) -> anyio.CapacityLimiter:
        """The limiter of the running event loop, since a limiter belongs to the loop that made it."""
        loop = anyio.lowlevel.current_token()
        known = self._limiter
        if known is None or known[0] != loop:
            known = self._limiter = (loop, anyio.CapacityLimiter(1))
        return known[1]


def primary_code(error: sqlite3.Error) -> int:
    """The primary result code; the extended ones say more than anybody here asks."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _in_transaction(connection: sqlite3.Connection, work: Work[_T], begin: str) -> _T:
    connection.execute(begin)
    try:
        done = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some failures, such as a full disk, have rolled back already
            connection.execute("ROLLBACK")
        raise
    return done
