"""The memory file: its tables, and what goes wrong with it as ``MemoryUnavailable``."""

from __future__ import annotations

import sqlite3
from os import PathLike
from typing import TypeVar

from returns.result import Result

from reactive_agents.adapters.sqlite import IN_PROCESS, SqliteFile, Work, primary_code
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.core.event_redaction import ValueRedactor
from reactive_agents.core.ids import AgentId, CallId, ContextId, EventId, LearningId, PersonaId
from reactive_agents.core.memory import MemoryId
from reactive_agents.core.redaction import Redactor
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


# --- Tables and versions ---


APPLICATION_ID = 0x52414D45
"""Marks a file as one of ours in its header, so that no other program's database is ever migrated."""

_MEMORIES = """
CREATE TABLE memories (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    agent_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    content TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    origin TEXT NOT NULL,
    source TEXT NOT NULL,
    task_id TEXT NOT NULL,
    importance REAL NOT NULL,
    created_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    fades_at INTEGER NOT NULL,
    successes INTEGER NOT NULL,
    executions INTEGER NOT NULL,
    UNIQUE (agent_id, kind, fingerprint)
)
"""

_VERSION_1 = (
    _MEMORIES,
    "CREATE INDEX memories_by_age ON memories (agent_id, kind, seen_at)",
    "CREATE INDEX memories_by_strength ON memories (agent_id, kind, fades_at)",
    "CREATE INDEX memories_by_fading ON memories (fades_at)",
    """
    CREATE TABLE sessions (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        agent_id TEXT NOT NULL,
        ended_at INTEGER NOT NULL,
        data TEXT NOT NULL
    )
    """,
    "CREATE INDEX sessions_by_age ON sessions (agent_id, ended_at)",
    """
    CREATE TABLE plans (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        agent_id TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        data TEXT NOT NULL
    )
    """,
    "CREATE INDEX plans_by_age ON plans (agent_id, created_at)",
    """
    CREATE TABLE plan_steps (
        plan_id TEXT NOT NULL,
        position INTEGER NOT NULL,
        step_id TEXT NOT NULL,
        data TEXT NOT NULL,
        PRIMARY KEY (plan_id, position)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE step_transitions (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        plan_id TEXT NOT NULL,
        at TEXT NOT NULL,
        data TEXT NOT NULL
    )
    """,
    "CREATE INDEX step_transitions_by_plan ON step_transitions (plan_id, seq)",
    """
    CREATE TABLE effectiveness (
        seq INTEGER PRIMARY KEY,
        strategy TEXT NOT NULL,
        task_type TEXT NOT NULL,
        successes INTEGER NOT NULL,
        executions INTEGER NOT NULL,
        cost REAL NOT NULL,
        duration REAL NOT NULL,
        confidence REAL NOT NULL,
        last_used TEXT NOT NULL,
        UNIQUE (strategy, task_type)
    )
    """,
)

_VERSION_2 = (
    """
    CREATE VIRTUAL TABLE memory_words USING fts5 (
        content, content = 'memories', content_rowid = 'seq', tokenize = 'unicode61 remove_diacritics 2'
    )
    """,
    """
    CREATE TRIGGER memory_words_added AFTER INSERT ON memories BEGIN
        INSERT INTO memory_words (rowid, content) VALUES (new.seq, new.content);
    END
    """,
    """
    CREATE TRIGGER memory_words_removed AFTER DELETE ON memories BEGIN
        INSERT INTO memory_words (memory_words, rowid, content) VALUES ('delete', old.seq, old.content);
    END
    """,
    "INSERT INTO memory_words (memory_words) VALUES ('rebuild')",
)

_VERSION_3 = (
    """
    CREATE TABLE embedding_spaces (
        id INTEGER PRIMARY KEY,
        model TEXT NOT NULL,
        dimension INTEGER NOT NULL,
        UNIQUE (model, dimension)
    )
    """,
    """
    CREATE TABLE memory_vectors (
        seq INTEGER PRIMARY KEY,
        space INTEGER NOT NULL,
        agent_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        signs BLOB NOT NULL,
        vector BLOB NOT NULL
    )
    """,
    # holds the signs too, so that a search for the nearest need not read the vectors of all
    "CREATE INDEX memory_vectors_by_space ON memory_vectors (space, agent_id, kind, signs)",
    """
    CREATE TRIGGER memory_vectors_removed AFTER DELETE ON memories BEGIN
        DELETE FROM memory_vectors WHERE seq = old.seq;
    END
    """,
)

_PERSONAS = (
    """
    CREATE TABLE persona_plans (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        persona_id TEXT NOT NULL,
        domain TEXT NOT NULL,
        context_id TEXT NOT NULL,
        event_id TEXT NOT NULL,
        status TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        data TEXT NOT NULL
    )
    """,
    "CREATE INDEX persona_plans_by_age ON persona_plans (persona_id, created_at)",
    "CREATE INDEX persona_plans_by_event ON persona_plans (persona_id, event_id)",
    """
    CREATE TABLE persona_learnings (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        persona_id TEXT NOT NULL,
        domain TEXT NOT NULL,
        confidence REAL NOT NULL,
        use_count INTEGER NOT NULL,
        data TEXT NOT NULL
    )
    """,
    "CREATE INDEX persona_learnings_by_confidence ON persona_learnings (persona_id, domain, confidence)",
    """
    CREATE TABLE persona_thoughts (
        seq INTEGER PRIMARY KEY,
        persona_id TEXT NOT NULL,
        domain TEXT NOT NULL,
        context_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        weight REAL NOT NULL,
        data TEXT NOT NULL
    )
    """,
    "CREATE INDEX persona_thoughts_by_weight ON persona_thoughts (persona_id, domain, context_id, weight)",
    "CREATE TABLE persona_states (persona_id TEXT PRIMARY KEY, data TEXT NOT NULL) WITHOUT ROWID",
    """
    CREATE TABLE persona_journal (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        task_id TEXT NOT NULL,
        data TEXT NOT NULL
    )
    """,
    "CREATE INDEX persona_journal_by_task ON persona_journal (task_id, seq)",
)

VERSIONS: tuple[tuple[str, ...], ...] = (_VERSION_1, _VERSION_2, _VERSION_3, _PERSONAS)
"""The statements that lead from each version to the next; version 0 is the empty file."""

NEWEST_VERSION = len(VERSIONS)


class ForeignFile(sqlite3.DatabaseError):
    """The file is a database, but not a memory file that this version of the program can use."""


def migrate(connection: sqlite3.Connection, *, to: int = NEWEST_VERSION) -> None:
    """Bring the file to a version, in one transaction; a file that is there already is not written.

    Raises:
        ForeignFile: the file belongs to another program, or to a newer version of this one.
        sqlite3.Error: the file cannot be read or written.
    """
    if version_of(connection) >= to:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statements in VERSIONS[version_of(connection) : to]:  # another process may have been faster
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {to}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def require_newest(connection: sqlite3.Connection) -> None:
    """Whether a file can be used as it is, for those who may not bring it forward.

    Raises:
        ForeignFile: it is empty, of an older version, or as for :func:`version_of`.
        sqlite3.Error: the file cannot be read.
    """
    version = version_of(connection)
    if version == 0:
        raise ForeignFile("it is empty")
    if version < NEWEST_VERSION:
        raise ForeignFile(
            f"it has version {version}, and stays so until something is written to it; "
            f"reading needs version {NEWEST_VERSION}"
        )


def version_of(connection: sqlite3.Connection) -> int:
    """The version of the file, 0 for an empty one.

    Raises:
        ForeignFile: the file belongs to another program, or to a newer version of this one.
        sqlite3.Error: the file cannot be read.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if application or version or tables:
            raise ForeignFile("it is the database of another program")
    if version > NEWEST_VERSION:
        raise ForeignFile(f"it has version {version}, and this program knows versions up to {NEWEST_VERSION}")
    return int(version)


# --- Redaction of stored records ---


_FOUND_BY = (AgentId, CallId, MemoryId, PersonaId, ContextId, EventId, LearningId)


def record_redactor(redactor: Redactor) -> ValueRedactor:
    """Takes the secrets out of records, which are found again, and refer to each other, by their ids."""
    return ValueRedactor(redactor, names=_FOUND_BY)
