"""The files of governance: their tables, and what goes wrong with them as ``ServiceFailed``."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from os import PathLike
from typing import TypeAlias, TypeVar

from returns.result import Result

from reactive_agents.adapters.sqlite import FAILURES as FAILURES
from reactive_agents.adapters.sqlite import SqliteFile, Work
from reactive_agents.core.errors import ServiceFailed

_T = TypeVar("_T")

DatabasePath: TypeAlias = str | PathLike[str]

DEFAULT_PATIENCE_S = 10.0


class Database:
    """A file of a service, which any number of tasks, event loops, threads and processes may use at once.

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
        self._service = service
        self._schema = tuple(schema)
        self._file = SqliteFile(path, prepare=self._make_tables, patience_s=patience_s)

    async def transact(self, operation: str, work: Work[_T]) -> Result[_T, ServiceFailed]:
        """Do the work in one transaction: all of it is on the disk when this succeeds, else nothing.

        Args:
            operation: names the work in a ``ServiceFailed``.
            work: called in a worker thread.
        """
        done = await self._file.write(work)
        return done.alt(lambda error: failure_of(error, self._file.path, self._service, operation))

    async def aclose(self) -> None:
        """Close the file; the next transaction opens it again."""
        await self._file.aclose()

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for statement in self._schema:
            connection.execute(statement)
        connection.execute("COMMIT")


def failure_of(error: Exception, path: DatabasePath, service: str, operation: str) -> ServiceFailed:
    """What went wrong with a file, in a sentence."""
    said = str(error).rstrip(".") or type(error).__name__
    return ServiceFailed(f"The file {str(path)!r} does not serve: {said}.", service, operation)
