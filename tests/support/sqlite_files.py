"""SQLite files that a test looks into."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def sqlite_file(path: str | Path) -> Iterator[sqlite3.Connection]:
    """Open a file, commit what is done with it, and close it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection
