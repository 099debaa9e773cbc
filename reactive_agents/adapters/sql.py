"""The interface between stores and databases, SQLite and Postgres.

Each store's SQL is written once: a store passes functions to its database, each run as one transaction. Their
statements use only what both understand: question marks for values, ``ON CONFLICT``, ``RETURNING``, ``CAST``,
``"user"`` in quotes. The differences are in this module and the two that it opens: tables, the beginning and
locks of transactions, and messages of failures. Only keyword and vector search has separate statements.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sized
from datetime import datetime
from typing import Any, Protocol, TypeAlias, TypeVar

from returns.result import Failure, Result, Success

from reactive_agents.adapters import sqlite
from reactive_agents.core.codec import from_json
from reactive_agents.core.config import is_postgres as is_postgres
from reactive_agents.core.config import shown_place as shown_place

_E = TypeVar("_E")
_E_co = TypeVar("_E_co", covariant=True)
_T = TypeVar("_T")

ALL_ROWS = 2**62
"""A ``LIMIT`` without effect."""
DAY_US = 86_400_000_000


def row_limit(limit: int | None) -> int:
    """Return the value of a ``LIMIT``; ``None`` has no effect.

    Raises:
        ValueError: it is not a whole number, 0 or more. What databases do then differs.
    """
    if limit is not None and (type(limit) is not int or limit < 0):
        raise ValueError(f"limit: got {limit!r}, expected a whole number, 0 or more")
    return ALL_ROWS if limit is None else min(limit, ALL_ROWS)


class Rows(Protocol):
    """The rows of a statement, and the number of changed rows."""

    @property
    def rowcount(self) -> int:
        """The number of changed rows."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or ``None``."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Yield the remaining rows."""
        ...


class Transaction(Protocol):
    """A transaction that executes statements."""

    def execute(self, statement: str, values: Any = ..., /) -> Rows:
        """Execute a statement with its values."""
        ...

    def executemany(self, statement: str, values: Any, /) -> Rows:
        """Execute a statement once for each group of values."""
        ...


Work: TypeAlias = Callable[[Transaction], _T]
"""SQL in a transaction; may be repeated if the database was locked, so it must change nothing else."""


class Database(Protocol[_E_co]):
    """One store in a file or on a server."""

    @property
    def place(self) -> str:
        """The file or displayed URL; empty for a database in memory."""
        ...

    @property
    def skew_us(self) -> int:
        """Microseconds by which the writers' clock is ahead of this machine's."""
        ...

    async def read(self, operation: str, work: Work[_T]) -> Result[_T, _E_co]:
        """Return the result of the work, in one consistent view."""
        ...

    async def write(
        self, operation: str, work: Work[_T], *, of: str = "", again: bool = False
    ) -> Result[_T, _E_co]:
        """Do the work in one transaction, on disk when this returns.

        Args:
            of: the part of the store whose writes are serialised; by default the whole store.
            again: whether the work may be done once more if it may have been done.
        """
        ...

    async def empty_log(self, *, rewrites: bool = False) -> None:
        """Remove deleted data from the log beside the file.

        Args:
            rewrites: whether the file is rewritten, so that no unused part of it has any either.
        """
        ...

    async def write_soon(
        self, operation: str, work: Work[_T], *, of: str = "", durable: bool = False
    ) -> Result[_T, _E_co]:
        """Do short work in one transaction, perhaps on the calling thread.

        Args:
            durable: whether to wait until it is on disk. After a failure it may have been done.
        """
        ...

    async def check(self) -> Result[None, _E_co]:
        """Check that the store can be written, by a write that changes nothing."""
        ...

    async def aclose(self) -> None:
        """Close the database; the next use opens it again."""
        ...


def shared_us(moment: datetime, database: Database[Any]) -> int:
    """Return a moment in microseconds of the clock that all users of a store share.

    It is called within a transaction, since a server says its time at the beginning of each.
    """
    return sqlite.microseconds(moment) + database.skew_us


def day_of(moment_us: int) -> int:
    """Return the beginning of a day in UTC."""
    return moment_us - moment_us % DAY_US


def believed_us(now_us: int, before_us: int | None) -> int:
    """Return the time by which the age of what is deleted by itself is measured.

    A clock that jumps ahead by months would delete nearly everything. Therefore it is believed from the next
    day on: until then, only the day after the latest earlier use of the store has passed.

    Args:
        before_us: the latest use of the store before today; ``None`` if there was none.
    """
    return now_us if before_us is None else min(now_us, day_of(before_us) + 2 * DAY_US - 1)


async def rows(
    database: Database[_E], operation: str, of_row: Callable[..., _T], statement: str, *values: object
) -> Result[tuple[_T, ...], _E]:
    """Return the rows of a statement, each converted by ``of_row``.

    A ``ValueError`` of ``of_row`` is a failure of the database.
    """
    return await database.read(
        operation, lambda file: tuple(of_row(*row) for row in file.execute(statement, values))
    )


async def erase(
    database: Database[_E], operation: str, work: Work[_T], *, of: str = "", rewrites: bool = False
) -> Result[_T, _E]:
    """Delete, as ``write`` does, and leave nothing in a log beside the file.

    Args:
        rewrites: whether nothing may be left in unused parts of the file either.
    """
    done = await database.write(operation, work, of=of)
    if isinstance(done, Success):
        await database.empty_log(rewrites=rewrites)
    return done


def marks(values: Sized) -> str:
    """Return a question mark for each of the values."""
    return ", ".join("?" * len(values))


def where(wanted: Mapping[str, object]) -> tuple[str, list[object]]:
    """Return one condition, with its values, from those whose value is given.

    >>> where({"agent = ?": "clerk", "parent = ?": None})
    ('agent = ?', ['clerk'])
    """
    given = {condition: value for condition, value in wanted.items() if value is not None}
    return " AND ".join(given) or "1 = 1", list(given.values())


def decoded(text: str, kind: type[Any]) -> Any:
    """Decode a value from stored JSON text.

    Raises:
        ValueError: the text is not such a value.
    """
    read = from_json(text, kind)
    if isinstance(read, Failure):
        raise ValueError(read.failure().message)
    return read.unwrap()


def is_there(place: sqlite.DatabasePath) -> bool:
    """Return whether a file exists; ``True`` for a URL, which is checked at use."""
    return is_postgres(place) or os.path.exists(sqlite.place_of(place))


def is_made(place: sqlite.DatabasePath, store: sqlite.Store) -> bool:
    """Return whether a file exists, or the store in the database of a URL.

    Blocks. ``True`` for a database that cannot be reached: reading it fails with the reason.
    """
    if is_postgres(place):
        from reactive_agents.adapters import postgres  # only with a URL

        return postgres.is_made(str(place), store)
    return is_there(place)


def look_into(place: sqlite.DatabasePath, store: sqlite.Store, work: Work[_T]) -> Result[_T, str]:
    """Return the result of work on a store, without creating or changing it.

    Blocks while it reads. Fails with a sentence that names the place.
    """
    if is_postgres(place):
        from reactive_agents.adapters import postgres  # only with a URL

        return postgres.look_into(str(place), store, work)
    return sqlite.look_into(place, store, work)


def open_database(
    place: sqlite.DatabasePath,
    store: sqlite.Store,
    error: Callable[[str, str], _E],
    *,
    patience_s: float = sqlite.DEFAULT_PATIENCE_S,
    read_only: bool = False,
    traced: bool = False,
    more: tuple[sqlite.Store, ...] = (),
) -> Database[_E]:
    """Return a store at a place, opened at first use.

    Args:
        place: an SQLite file, or a URL that begins with ``postgresql://``.
        error: creates the failure from a sentence and the name of the operation.
        patience_s: seconds to wait for other writers, 0 or more.
        read_only: never write or create tables.
        traced: see :class:`~reactive_agents.adapters.sqlite.SqliteFile`; without effect for a server.
        more: further tables of the store in Postgres.
    """
    if is_postgres(place):
        from reactive_agents.adapters.postgres import PostgresDatabase  # only with a URL

        return PostgresDatabase(
            str(place), store, error, patience_s=patience_s, read_only=read_only, more=more
        )
    return sqlite.shared_file(place, store, error, patience_s=patience_s, read_only=read_only, traced=traced)
