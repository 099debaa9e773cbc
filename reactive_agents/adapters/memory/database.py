"""The memory file: its tables, and what goes wrong with it as ``MemoryUnavailable``."""

from __future__ import annotations

import sqlite3
from os import PathLike
from typing import TypeVar

from returns.result import Result

from reactive_agents.adapters.memory.schema import ForeignFile, migrate, require_newest, version_of
from reactive_agents.adapters.sqlite import IN_PROCESS, SqliteFile, Work, primary_code
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.effects import effect

_T = TypeVar("_T")

DEFAULT_BUSY_TIMEOUT_S = 5.0

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


class Database:
    """A memory file: opened by its first use, closed by :meth:`aclose`, and usable again after that.

    It may be used from several event loops, and the file by several processes.

    Args:
        path: the file; it and the folders above it are made when they are missing. ``:memory:`` for no file:
            what is kept then belongs to this object, and is lost with it rather than by :meth:`aclose`.
        busy_timeout_s: seconds to wait for a lock that another process holds, 0 or more.
        read_only: never write, and never make the file; every writing operation fails, and so do all
            others on a file that is empty or of an older version.
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
        if read_only and str(path) == IN_PROCESS:
            raise ValueError("Database: read_only: got True, expected False, since a new memory is empty.")
        self._file = SqliteFile(
            path,
            check=version_of,
            prepare=require_newest if read_only else migrate,
            patience_s=busy_timeout_s,
            make_folders=True,
            read_only=read_only,
            max_pages=max_pages,
        )
        self.path = self._file.path

    @effect
    async def open(self) -> Result[None, MemoryErrors]:
        """Open the file now, and bring it to the newest version. Fails with ``MemoryUnavailable``."""
        return await self.read("open", lambda connection: None)

    async def aclose(self) -> None:
        """Close the file; a second time does nothing. The next use opens it again."""
        await self._file.aclose()

    async def read(self, operation: str, work: Work[_T]) -> Result[_T, MemoryErrors]:
        """What the work finds, in one consistent view of the file. Fails with ``MemoryUnavailable``."""
        found = await self._file.read(work)
        return found.alt(lambda error: MemoryUnavailable(self._sentence(error), operation))

    async def write(self, operation: str, work: Work[_T]) -> Result[_T, MemoryErrors]:
        """Do the work as one transaction, on disk when this ends; all of it or none.

        Fails with ``MemoryUnavailable``, the file unchanged.
        """
        done = await self._file.write(work)
        return done.alt(lambda error: MemoryUnavailable(self._sentence(error), operation))

    def _sentence(self, error: Exception) -> str:
        if isinstance(error, ForeignFile):
            return f"The memory file {str(self.path)!r} cannot be used: {error}."
        known = _SENTENCES.get(primary_code(error)) if isinstance(error, sqlite3.Error) else None
        return f"The memory file {str(self.path)!r} {known or f'cannot be used: {error}'}."
