"""One SQLite file behind one connection, used from worker threads, one piece of work at a time.

Whatever goes wrong with the file comes back as ``MemoryUnavailable``. Waiting for a lock that another process
holds is done on the event loop, so that it can be cancelled; a transaction that has begun is not.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.memory.schema import ForeignFile, migrate, version_of
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.effects import effect

_T = TypeVar("_T")

Work = Callable[[sqlite3.Connection], _T]
"""Plain SQL on a connection; may be run again when the file was locked, so it changes nothing else."""

DEFAULT_BUSY_TIMEOUT_S = 5.0
IN_PROCESS = ":memory:"
"""The place of a memory that has no file."""

_SLICE_S = 0.05
_PAUSE_S = 0.005

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
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_SPOILED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


@frozen
class _Locked:
    error: sqlite3.OperationalError


class Database:
    """A memory file: opened by its first use, closed by :meth:`aclose`, and usable again after that.

    It may be used from several event loops, and the file by several processes.

    Args:
        path: the file; it and the folders above it are made when they are missing. ``:memory:`` for no file:
            what is kept then belongs to this object, and is lost with it rather than by :meth:`aclose`.
        busy_timeout_s: seconds to wait for a lock that another process holds, 0 or more.
        read_only: never write, and never make the file; every writing operation fails.
        max_pages: the most pages of 4096 bytes that the file may have; ``None`` for no limit.

    Raises:
        ValueError: ``busy_timeout_s`` is negative, ``max_pages`` below 1, or no file is to be read only.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        busy_timeout_s: float = DEFAULT_BUSY_TIMEOUT_S,
        read_only: bool = False,
        max_pages: int | None = None,
    ) -> None:
        if busy_timeout_s < 0:
            raise ValueError(f"Database: busy_timeout_s: got {busy_timeout_s}, expected 0 or more.")
        if max_pages is not None and max_pages < 1:
            raise ValueError(f"Database: max_pages: got {max_pages}, expected 1 or more.")
        self.path = Path(path)
        self._in_process = str(path) == IN_PROCESS
        if self._in_process and read_only:
            raise ValueError("Database: read_only: got True, expected False, since a new memory is empty.")
        self._busy_timeout_s = busy_timeout_s
        self._read_only = read_only
        self._max_pages = max_pages
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None
        self._process = os.getpid()
        self._inherited: list[object] = []
        self._one_at_a_time = threading.Lock()  # for event loops in several threads
        self._limiter: tuple[object, anyio.CapacityLimiter] | None = None

    @effect
    async def open(self) -> Result[None, MemoryErrors]:
        """Open the file now, and bring it to the newest version. Fails with ``MemoryUnavailable``."""
        return await self.read("open", lambda connection: None)

    async def aclose(self) -> None:
        """Close the file; a second time does nothing. The next use opens it again."""
        if self._in_process:
            return
        self._leave_to_parent()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._close, limiter=self._one())

    async def read(self, operation: str, work: Work[_T]) -> Result[_T, MemoryErrors]:
        """What the work finds, in one consistent view of the file. Fails with ``MemoryUnavailable``."""
        return await self._run(operation, work, "BEGIN")

    async def write(self, operation: str, work: Work[_T]) -> Result[_T, MemoryErrors]:
        """Do the work as one transaction, on disk when this ends; all of it or none.

        Fails with ``MemoryUnavailable``, the file unchanged.
        """
        return await self._run(operation, work, "BEGIN IMMEDIATE")

    async def _run(self, operation: str, work: Work[_T], begin: str) -> Result[_T, MemoryErrors]:
        self._leave_to_parent()
        deadline = anyio.current_time() + self._busy_timeout_s
        while True:
            try:
                outcome = await anyio.to_thread.run_sync(self._once, work, begin, limiter=self._one())
            except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
                return Failure(MemoryUnavailable(self._sentence(error), operation))
            if not isinstance(outcome, _Locked):
                return Success(outcome)
            if anyio.current_time() >= deadline:
                return Failure(MemoryUnavailable(self._sentence(outcome.error), operation))
            await anyio.sleep(_PAUSE_S)

    def _once(self, work: Work[_T], begin: str) -> _T | _Locked:
        with self._one_at_a_time:
            try:
                connection = self._connected()
                return _in_transaction(connection, work, begin)
            except sqlite3.OperationalError as error:
                if _code(error) in _LOCKED:
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
        if self._in_process:
            connection = sqlite3.connect(IN_PROCESS, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, connection.close)
            migrate(connection)
            return connection
        if not self._read_only:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self.path.exists():
                self.path.touch(mode=0o600)  # what an agent remembers is nobody else's business
        place = self.path.absolute().as_uri() + ("?mode=ro" if self._read_only else "")
        slice_s = min(_SLICE_S, self._busy_timeout_s)
        connection = sqlite3.connect(
            place, uri=True, timeout=slice_s, isolation_level=None, check_same_thread=False
        )
        try:
            if self._max_pages is not None:
                connection.execute(f"PRAGMA max_page_count = {self._max_pages}")
            version_of(connection)  # before anything is written, since the file may be somebody else's
            if not self._read_only:
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # a commit outlives also a loss of power
            connection.execute("PRAGMA secure_delete = ON")  # what is forgotten is overwritten
            migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _close(self) -> None:
        with self._one_at_a_time:
            self._drop()

    def _drop_if_spoiled(self, error: sqlite3.Error) -> None:
        """A file that was damaged may be replaced: the next use shall see the new one."""
        if _code(error) in _SPOILED:
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

    def _sentence(self, error: Exception) -> str:
        if isinstance(error, ForeignFile):
            return f"The memory file {str(self.path)!r} cannot be used: {error}."
        known = _SENTENCES.get(_code(error)) if isinstance(error, sqlite3.Error) else None
        return f"The memory file {str(self.path)!r} {known or f'cannot be used: {error}'}."


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


def _code(error: sqlite3.Error) -> int:
    """The primary result code; the extended ones say more than anybody here asks."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
