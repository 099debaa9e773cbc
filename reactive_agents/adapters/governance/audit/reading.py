"""The entries of an audit log, for whoever looks at the file: reads it, changes nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.audit.log import RecordedEntry, recorded
from reactive_agents.adapters.governance.database import (
    DEFAULT_PATIENCE_S,
    FAILURES,
    DatabasePath,
    failure_of,
)
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.ids import RunId

_ENTRIES_TABLE = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'entries'"


def open_log(path: DatabasePath) -> sqlite3.Connection:
    """The file, to be read only.

    Raises:
        sqlite3.Error: it is not there.
    """
    return sqlite3.connect(
        f"{Path(path).resolve().as_uri()}?mode=ro", uri=True, timeout=DEFAULT_PATIENCE_S, isolation_level=None
    )


def read_entries(
    path: DatabasePath, *, run_id: RunId | None = None
) -> Result[tuple[RecordedEntry, ...], ServiceFailed]:
    """All entries, oldest first, or those of one run; that they are genuine is for ``verify`` to say.

    Blocks while it reads; call it in a thread from a coroutine. Processes may append meanwhile.

    Fails with ``ServiceFailed`` when the file is no audit log, or an entry cannot be read.
    """
    try:
        connection = open_log(path)
        try:
            if connection.execute(_ENTRIES_TABLE).fetchone() is None:
                return Failure(failure_of(ValueError("it is no audit log"), path, "audit", "read"))
            rows = connection.execute("SELECT sequence, body, hash FROM entries ORDER BY sequence")
            entries = (recorded(*row) for row in rows)
            return Success(tuple(each for each in entries if run_id in (None, each.entry.run_id)))
        finally:
            connection.close()
    except FAILURES as error:
        return Failure(failure_of(error, path, "audit", "read"))
