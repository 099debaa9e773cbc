"""The tables of a memory file, version by version, and how a file of an older version is brought forward.

A version that was published is never changed: a new one is appended, and files pass through all of them.
"""

from __future__ import annotations

import sqlite3

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
