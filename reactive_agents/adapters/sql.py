"""The seam between stores and databases, SQLite and Postgres.

Each store's SQL is written once. A store gives its database functions that are one transaction each. Their
statements keep to what both understand: question marks for values, ``ON CONFLICT``, ``RETURNING``, ``CAST``,
``"user"`` in quotes. What differs is here and in the two modules that this one opens: the tables, how a
transaction begins and what it locks, and how a failure reads. Only the search of words and vectors has
statements for each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sized
from typing import Any, Protocol, TypeAlias, TypeVar

from returns.result import Failure, Result

from reactive_agents.adapters import sqlite
from reactive_agents.core.codec import from_json
from reactive_agents.core.config import is_postgres as is_postgres
from reactive_agents.core.config import shown_place as shown_place

_E = TypeVar("_E")
_E_co = TypeVar("_E_co", covariant=True)
_T = TypeVar("_T")

ALL_ROWS = 2**62
"""A ``LIMIT`` that limits nothing."""


class Rows(Protocol):
    """The rows of a statement, and how many it changed."""

    @property
    def rowcount(self) -> int:
        """The number of changed rows."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or ``None``."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that are left."""
        ...


class Transaction(Protocol):
    """A transaction that statements are executed in."""

    def execute(self, statement: str, values: Any = ..., /) -> Rows:
        """Execute a statement with its values."""
        ...

    def executemany(self, statement: str, values: Any, /) -> Rows:
        """Execute a statement once for each group of values."""
        ...


Work: TypeAlias = Callable[[Transaction], _T]
"""Plain SQL in a transaction; may be run again when the database was locked, so it changes nothing else."""


class Database(Protocol[_E_co]):
    """One store in a file or on a server."""

    @property
    def place(self) -> str:
        """The file or shown address; empty for a database in the process."""
        ...

    @property
    def skew_us(self) -> int:
        """Microseconds that the clock of all writers is before that of this machine."""
        ...

    @property
    def losses(self) -> int:
        """How often connections were lost, as by a crash of the server."""
        ...

    async def read(self, operation: str, work: Work[_T]) -> Result[_T, _E_co]:
        """Return the result of the work, in one consistent view."""
        ...

    async def write(self, operation: str, work: Work[_T], *, of: str = "") -> Result[_T, _E_co]:
        """Do the work as one transaction, on the disk when this ends; all of it or none.

        Args:
            of: the part of the store whose writers go one after the other; by default the whole store.
        """
        ...

    async def erase(self, operation: str, work: Work[_T], *, of: str = "") -> Result[_T, _E_co]:
        """Do work that deletes, as by ``write``.

        What it deletes stays in no log beside the file.
        """
        ...

    async def empty_log(self) -> None:
        """Leave nothing that was deleted in a log beside the file."""
        ...

    async def write_soon(
        self, operation: str, work: Work[_T], *, of: str = "", durable: bool = False
    ) -> Result[_T, _E_co]:
        """Do short work as one transaction, perhaps on the calling thread.

        Args:
            durable: wait until it is on the disk. After a failure it may have been done.
        """
        ...

    async def rows(
        self, operation: str, of_row: Callable[..., _T], statement: str, *values: object
    ) -> Result[tuple[_T, ...], _E_co]:
        """Return what a statement selects, each row made a value by ``of_row``."""
        ...

    async def change(self, operation: str, statement: str, *values: object) -> Result[int, _E_co]:
        """Execute one statement durably and return the number of changed rows."""
        ...

    async def returning(
        self, operation: str, statement: str, *values: object, of: str = "", soon: bool = False
    ) -> Result[Any, _E_co]:
        """Execute one statement as a transaction; return its first row, or ``None``.

        A server is asked once, by a function of the store that takes the lock and whether the disk is waited
        for as its first values. After a failure it may have been done.

        Args:
            soon: does not wait for the disk.
        """
        ...

    def begin(self, statement: str, *values: object, of: str = "") -> Any:
        """Begin a statement, as ``returning`` with ``soon``, and wait for nothing.

        ``None`` where that would have to wait, as for a file.
        """
        ...

    async def finish(self, operation: str, begun: Any) -> Result[Any, _E_co]:
        """Return the first row of a statement that was begun, or ``None``.

        After a failure it may have been done.
        """
        ...

    def forget(self, begun: Any) -> None:
        """Wait for no answer to a statement that was begun."""
        ...

    async def check(self) -> Result[None, _E_co]:
        """Write what the store has already, and so fail where it cannot be written."""
        ...

    async def aclose(self) -> None:
        """Close the database; the next use opens it again."""
        ...


def marks(values: Sized) -> str:
    """Return a question mark for each of the values."""
    return ", ".join("?" * len(values))


def where(wanted: Mapping[str, object]) -> tuple[str, list[object]]:
    """Return the conditions on rows whose value is given, as one with its values.

    >>> where({"agent = ?": "clerk", "parent = ?": None})
    ('agent = ?', ['clerk'])
    """
    given = {condition: value for condition, value in wanted.items() if value is not None}
    return " AND ".join(given) or "1 = 1", list(given.values())


def decoded(text: str, kind: type[Any]) -> Any:
    """Return the value that stored JSON text describes.

    Raises:
        ValueError: the text describes no such value.
    """
    read = from_json(text, kind)
    if isinstance(read, Failure):
        raise ValueError(read.failure().message)
    return read.unwrap()


def is_there(place: sqlite.DatabasePath) -> bool:
    """Return whether there is such a file; an address is asked when it is used."""
    return is_postgres(place) or os.path.exists(sqlite.place_of(place))


def is_made(place: sqlite.DatabasePath, store: sqlite.Store) -> bool:
    """Return whether there is such a file, or the store in the database of an address.

    Blocks. ``True`` for a database that cannot be asked: reading it fails with the reason.
    """
    if is_postgres(place):
        from reactive_agents.adapters import postgres  # by those with an address

        return postgres.is_made(str(place), store)
    return is_there(place)


def look_into(place: sqlite.DatabasePath, store: sqlite.Store, work: Work[_T]) -> Result[_T, str]:
    """Return the result of the work on a store that is neither made nor changed.

    Blocks while it reads. Fails with a sentence that names the place.
    """
    if is_postgres(place):
        from reactive_agents.adapters import postgres  # by those with an address

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
    """Return a store at a place, which is opened by its first use.

    Args:
        place: an SQLite file, or an address that begins with ``postgresql://``.
        error: makes the failure of a sentence and of the name of the operation.
        patience_s: seconds to wait for other writers, 0 or more.
        read_only: never write, and make no tables.
        traced: as of :class:`~reactive_agents.adapters.sqlite.SqliteFile`; no server is deleted by mistake.
        more: tables that the store has in Postgres besides its own.
    """
    if is_postgres(place):
        from reactive_agents.adapters.postgres import PostgresDatabase  # by those with an address

        return PostgresDatabase(
            str(place), store, error, patience_s=patience_s, read_only=read_only, more=more
        )
    return sqlite.SqliteFile(place, store, error, patience_s=patience_s, read_only=read_only, traced=traced)
