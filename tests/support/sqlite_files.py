"""SQLite files that a test looks into."""

import gzip
import json
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from reactive_agents.adapters import sql
from reactive_agents.effects import Effect, attempt

SAMPLES = Path(__file__).parents[1] / "stored_samples"


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


async def counted_work(
    database: sql.Database[Any],
) -> tuple[Callable[[str, Effect[Any, Any]], Awaitable[Any]], dict[str, int]]:
    """Return a function that does an operation of a store, and the instructions of each by its name."""
    counted = await counting(database)
    works: dict[str, int] = {}

    async def work(name: str, operation: Effect[Any, Any]) -> Any:
        counted[0] = 0
        done = (await attempt(operation)).unwrap()
        works[name] = counted[0]
        return done

    return work, works


def audited(path: Path) -> list[str]:
    """Return the actions of the entries of an audit log, in their order."""
    with sqlite_file(path) as file:
        bodies = file.execute("SELECT body FROM entries ORDER BY sequence").fetchall()
    return [json.loads(body)["action"] for (body,) in bodies]


def sample(name: str, folder: Path) -> Path:
    """Return a copy of a file of an earlier version."""
    path = folder / name
    with gzip.open(SAMPLES / f"{name}.gz") as packed, path.open("wb") as copy:
        shutil.copyfileobj(packed, copy)
    return path
