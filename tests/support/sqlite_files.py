"""SQLite files that a test looks into."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from reactive_agents.adapters import sql


@contextmanager
def sqlite_file(path: str | Path) -> Iterator[sqlite3.Connection]:
    """Open a file, commit what is done with it, and close it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


async def counting(database: sql.Database[Any]) -> list[int]:
    """Return a list whose first number counts the instructions of SQLite's virtual machine from now on."""
    counted = [0]

    def count() -> None:
        counted[0] += 1

    def work(connection: Any) -> None:
        connection.set_progress_handler(count, 1)

    (await database.write("count", work)).unwrap()
    return counted
