"""The record of runs in Postgres, which workers on several machines share.

The statements are those of the record in SQLite; here is what differs: how a transaction takes its locks, the
schema, and what a write waits for. Rows of runs are locked by the transactions that write them, so that two
runs never wait for each other.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
from returns.result import Failure, Result, Success

from reactive_agents.adapters.run_record import PLAIN, RecordKey, Seal, SqliteRunRecord
from reactive_agents.core.errors import RecordFailed
from reactive_agents.ports import Clock

_E = TypeVar("_E")
_T = TypeVar("_T")
_log = logging.getLogger("reactive_agents")

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS runs (id BIGSERIAL PRIMARY KEY, run_id TEXT NOT NULL UNIQUE,"
    ' agent TEXT NOT NULL, "user" TEXT, session TEXT, parent TEXT, origin BIGINT,'
    " origin_entries BIGINT NOT NULL, changes TEXT NOT NULL, status TEXT NOT NULL, task TEXT NOT NULL,"
    " definition TEXT NOT NULL, result TEXT NOT NULL, attempt BIGINT NOT NULL, holder TEXT NOT NULL,"
    " lease_until_us BIGINT NOT NULL, wanted TEXT NOT NULL, queue TEXT NOT NULL, priority BIGINT NOT NULL,"
    " due_us BIGINT NOT NULL, created_us BIGINT NOT NULL, updated_us BIGINT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS runs_by_holder ON runs (holder)",
    "CREATE INDEX IF NOT EXISTS runs_by_status ON runs (status, queue)",
    'CREATE INDEX IF NOT EXISTS runs_by_user ON runs ("user")',
    "CREATE INDEX IF NOT EXISTS runs_by_origin ON runs (origin)",
    "CREATE TABLE IF NOT EXISTS run_entries (run BIGINT NOT NULL REFERENCES runs ON DELETE CASCADE,"
    " number BIGINT NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL, at_us BIGINT NOT NULL,"
    " body TEXT NOT NULL, PRIMARY KEY (run, number), UNIQUE (run, key))",
    "ALTER TABLE runs ADD COLUMN IF NOT EXISTS begun_us BIGINT NOT NULL DEFAULT 0",
    "CREATE INDEX IF NOT EXISTS runs_by_beginning ON runs (queue, begun_us)",
    "CREATE TABLE IF NOT EXISTS run_queues (agent TEXT NOT NULL, queue TEXT NOT NULL,"
    " dequeued_us BIGINT NOT NULL, PRIMARY KEY (agent, queue))",
    "CREATE TABLE IF NOT EXISTS run_schedules (agent TEXT NOT NULL, name TEXT NOT NULL, cron TEXT NOT NULL,"
    " timezone TEXT NOT NULL, task TEXT NOT NULL, queue TEXT NOT NULL, priority BIGINT NOT NULL,"
    " next_us BIGINT NOT NULL, PRIMARY KEY (agent, name))",
)
_MIGRATION_LOCK = 0x52414D45


def is_postgres(place: str) -> bool:
    """Return whether a place is the address of a Postgres database."""
    return place.startswith(("postgres://", "postgresql://"))


class _Statements:
    """A connection that takes the statements of the record in SQLite."""

    def __init__(self, connection: Any, *, writes: bool) -> None:
        self._connection = connection
        self._writes = writes

    def execute(self, statement: str, values: Any = ()) -> Any:
        """Execute a statement, whose parameters are question marks."""
        if self._writes and statement.startswith("SELECT id, "):
            where = statement.rpartition(" FROM runs WHERE ")[2].partition(" ORDER ")[0]
            self._run(f"SELECT 1 FROM runs WHERE {where} FOR UPDATE", values)
        if statement.startswith("INSERT"):
            statement = f"{statement.replace('INSERT OR IGNORE', 'INSERT')} ON CONFLICT DO NOTHING"
        return self._run(statement, values)

    def _run(self, statement: str, values: Any) -> Any:
        return self._connection.execute(statement.replace("?", "%s"), tuple(values))


class PostgresDatabase(Generic[_E]):
    """One store in a database, behind one connection with one transaction at a time.

    Its methods are those of ``SqliteFile``.

    Args:
        url: the address, such as ``postgresql://user@host/database``.
        error: makes the failure of a sentence and of the name of the operation.
    """

    def __init__(self, url: str, error: Callable[[str, str], _E]) -> None:
        self._url = url
        self._error = error
        self._connection: Any = None
        self._process = os.getpid()
        self._one_at_a_time = threading.Lock()

    async def read(self, operation: str, work: Callable[[Any], _T]) -> Result[_T, _E]:
        """Return the result of the work, in one consistent view."""
        return await self._run(operation, work, ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",), False)

    async def write(self, operation: str, work: Callable[[Any], _T]) -> Result[_T, _E]:
        """Do the work as one transaction, on the server's disk when this ends."""
        return await self._run(operation, work, (), True)

    async def write_soon(self, operation: str, work: Callable[[Any], _T]) -> Result[_T, _E]:
        """Do the work as one transaction, without waiting for the server's disk."""
        return await self._run(operation, work, ("SET LOCAL synchronous_commit TO OFF",), True)

    async def aclose(self) -> None:
        """Close the connection; the next use opens it again."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._close)

    async def _run(
        self, operation: str, work: Callable[[Any], _T], first: tuple[str, ...], writes: bool
    ) -> Result[_T, _E]:
        import psycopg

        failures = (psycopg.Error, OSError, ValueError)
        with anyio.CancelScope(shield=True):  # what was written must be known
            for attempts_left in (1, 0):
                try:
                    return Success(await anyio.to_thread.run_sync(self._once, work, first, writes))
                except failures as error:
                    lost = isinstance(error, psycopg.OperationalError)
                    if lost and attempts_left:  # the server was restarted, or closed an idle connection
                        continue
                    sentence = f"The record in Postgres cannot be used: {str(error).strip()}."
                    _log.warning("%s (%s: %s)", sentence, operation, type(error).__name__)
                    return Failure(self._error(sentence, operation))
        raise AssertionError("each attempt returns")

    def _once(self, work: Callable[[Any], _T], first: tuple[str, ...], writes: bool) -> _T:
        if self._process != os.getpid():  # the parent's connection stays the parent's
            self._connection, self._one_at_a_time = None, threading.Lock()
            self._process = os.getpid()
        with self._one_at_a_time:
            connection = self._connected()
            try:
                with connection.transaction():
                    for statement in first:
                        connection.execute(statement)
                    return work(_Statements(connection, writes=writes))
            except BaseException:
                if connection.closed or connection.broken:
                    self._connection = None
                raise

    def _connected(self) -> Any:
        if self._connection is None or self._connection.closed:
            import psycopg

            connection = psycopg.connect(self._url, autocommit=True)
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
                for statement in SCHEMA:
                    connection.execute(statement)
            self._connection = connection
        return self._connection

    def _close(self) -> None:
        with self._one_at_a_time:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()


class PostgresRunRecord(SqliteRunRecord):
    """Implements ``RunRecord`` in a Postgres database; needs the extra ``durable``.

    Args:
        url: the address of the database, whose tables are made when they are missing.
        clock: tells until when a lease is valid; those of the workers must agree to a few seconds.
        key: as of the record in SQLite.
    """

    def __init__(self, url: str, *, clock: Clock, key: RecordKey | None = None) -> None:
        super().__init__(":memory:", clock=clock)
        self._file = cast(Any, PostgresDatabase(url, RecordFailed))
        self._seal = PLAIN if key is None else Seal(key)
