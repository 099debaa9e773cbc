"""The memory file or database: tables by version, ``MemoryUnavailable``.

A published version never changes: new versions are appended, and files and databases migrate through all of
them.
"""

from __future__ import annotations

import json
import sqlite3
from typing import TypeAlias

from reactive_agents.adapters import sqlite
from reactive_agents.adapters.postgres import table_of
from reactive_agents.adapters.sql import Database, open_database
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.core.event_redaction import ValueRedactor
from reactive_agents.core.ids import AgentId, CallId, ContextId, EventId, LearningId, PersonaId
from reactive_agents.core.memory import MemoryId
from reactive_agents.core.redaction import Redactor

_PATIENCE_S = 5.0  # for other writers

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

_SESSIONS = """
CREATE TABLE sessions (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    agent_id TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    data TEXT NOT NULL
)
"""
_PLANS = """
CREATE TABLE plans (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    agent_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    data TEXT NOT NULL
)
"""
_PLAN_STEPS = """
CREATE TABLE plan_steps (
    plan_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    step_id TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (plan_id, position)
) WITHOUT ROWID
"""
_TRANSITIONS = """
CREATE TABLE step_transitions (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    plan_id TEXT NOT NULL,
    at TEXT NOT NULL,
    data TEXT NOT NULL
)
"""
_EFFECTIVENESS = """
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
"""
_VERSION_1 = (
    _MEMORIES,
    "CREATE INDEX memories_by_age ON memories (agent_id, kind, seen_at)",
    "CREATE INDEX memories_by_strength ON memories (agent_id, kind, fades_at)",
    "CREATE INDEX memories_by_fading ON memories (fades_at)",
    _SESSIONS,
    "CREATE INDEX sessions_by_age ON sessions (agent_id, ended_at)",
    _PLANS,
    "CREATE INDEX plans_by_age ON plans (agent_id, created_at)",
    _PLAN_STEPS,
    _TRANSITIONS,
    "CREATE INDEX step_transitions_by_plan ON step_transitions (plan_id, seq)",
    _EFFECTIVENESS,
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
    # a covering index: a search reads the signs of all vectors from it
    "CREATE INDEX memory_vectors_by_space ON memory_vectors (space, agent_id, kind, signs)",
    """
    CREATE TRIGGER memory_vectors_removed AFTER DELETE ON memories BEGIN
        DELETE FROM memory_vectors WHERE seq = old.seq;
    END
    """,
)

_PERSONA_PLANS = """
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
"""
_LEARNINGS = """
CREATE TABLE persona_learnings (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    persona_id TEXT NOT NULL,
    domain TEXT NOT NULL,
    confidence REAL NOT NULL,
    use_count INTEGER NOT NULL,
    data TEXT NOT NULL
)
"""
_THOUGHTS = """
CREATE TABLE persona_thoughts (
    seq INTEGER PRIMARY KEY,
    persona_id TEXT NOT NULL,
    domain TEXT NOT NULL,
    context_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    weight REAL NOT NULL,
    data TEXT NOT NULL
)
"""
_JOURNAL = """
CREATE TABLE persona_journal (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL,
    data TEXT NOT NULL
)
"""
_PERSONAS = (
    _PERSONA_PLANS,
    "CREATE INDEX persona_plans_by_age ON persona_plans (persona_id, created_at)",
    "CREATE INDEX persona_plans_by_event ON persona_plans (persona_id, event_id)",
    _LEARNINGS,
    "CREATE INDEX persona_learnings_by_confidence ON persona_learnings (persona_id, domain, confidence)",
    _THOUGHTS,
    "CREATE INDEX persona_thoughts_by_weight ON persona_thoughts (persona_id, domain, context_id, weight)",
    "CREATE TABLE persona_states (persona_id TEXT PRIMARY KEY, data TEXT NOT NULL) WITHOUT ROWID",
    _JOURNAL,
    "CREATE INDEX persona_journal_by_task ON persona_journal (task_id, seq)",
)

_OWNERS = (
    "ALTER TABLE memories ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE sessions ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE memory_vectors ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    "DROP INDEX memories_by_age",
    "DROP INDEX memories_by_strength",
    "DROP INDEX memory_vectors_by_space",
    "CREATE INDEX memories_by_age ON memories (agent_id, owner, kind, seen_at)",
    "CREATE INDEX memories_by_strength ON memories (agent_id, owner, kind, fades_at)",
    "CREATE INDEX memories_by_owner ON memories (owner)",
    "CREATE INDEX memory_vectors_by_space ON memory_vectors (space, agent_id, owner, kind, signs)",
)


def _queue_of_plans(file: sqlite3.Connection) -> None:
    """Add the events and answers of earlier plans; the last plan of an event counts."""
    rows = file.execute(
        "SELECT id, persona_id, domain, context_id, status, created_at, data FROM persona_plans ORDER BY seq"
    ).fetchall()
    plans = {(*row[1:4], json.loads(row[6])["event"]["id"]): row for row in rows}
    insert = (
        'INSERT INTO persona_work (kind, persona_id, tenant, domain, context_id, key, event_id, "user", '
        "priority, status, created_at, updated_at, event, plan_id, task_id, message) "
        "VALUES (?, ?, '', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    for (persona, domain, context, event_id), (plan_id, *_, status, created, data) in plans.items():
        plan = json.loads(data)
        event, task_id = plan["event"], plan["task"]["id"]
        event_text, author, priority = json.dumps(event), event["author"], event.get("priority", 0.5)
        place = (persona, domain, context)
        ended = "open" if status == "active" else "done"
        shared, last = (author, priority), (created, created, event_text, plan_id, task_id)
        file.execute(insert, ("event", *place, event_id, event_id, *shared, ended, *last, ""))
        done = [step for step in plan["plan"]["steps"] if step.get("status") == "completed"]
        answer = (done[-1].get("result") or "") if done else ""
        if status == "completed" and answer:
            key = f"{event_id}#answer"
            file.execute(insert, ("delivery", *place, key, event_id, *shared, "done", *last, answer))


def _rooms_of_learnings(file: sqlite3.Connection) -> None:
    """Give each learning the room of the task that it was first learned from."""
    rooms = {}
    for context, data in file.execute("SELECT context_id, data FROM persona_plans").fetchall():
        rooms[json.loads(data)["task"]["id"]] = context
    for number, data in file.execute("SELECT seq, data FROM persona_learnings").fetchall():
        learning = json.loads(data)
        tasks = learning.get("learned_from") or [""]
        changed = json.dumps({**learning, "room": rooms.get(tasks[0], "")})
        file.execute("UPDATE persona_learnings SET data = ? WHERE seq = ?", (changed, number))


_WORK = """
CREATE TABLE persona_work (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    persona_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    domain TEXT NOT NULL,
    context_id TEXT NOT NULL,
    key TEXT NOT NULL,
    event_id TEXT NOT NULL,
    "user" TEXT NOT NULL,
    priority REAL NOT NULL,
    status TEXT NOT NULL DEFAULT 'open',
    attempts INTEGER NOT NULL DEFAULT 0,
    holder TEXT NOT NULL DEFAULT '',
    lease_until INTEGER NOT NULL DEFAULT 0,
    due INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    event TEXT NOT NULL,
    message TEXT NOT NULL DEFAULT '',
    message_kind TEXT NOT NULL DEFAULT 'answer',
    plan_id TEXT,
    task_id TEXT,
    outcome TEXT,
    message_id TEXT NOT NULL DEFAULT '',
    cost_usd REAL NOT NULL DEFAULT 0,
    UNIQUE (kind, persona_id, tenant, domain, context_id, key)
)
"""
_WORK_INDEXES = (
    "CREATE INDEX persona_work_open ON persona_work"
    " (persona_id, kind, tenant, domain, context_id, number, priority) WHERE status IN ('open', 'answered')",
    "CREATE INDEX persona_work_by_event ON persona_work (persona_id, tenant, domain, context_id, event_id)",
    'CREATE INDEX persona_work_by_user ON persona_work (persona_id, tenant, "user", updated_at)',
    "CREATE INDEX persona_work_by_holder ON persona_work (holder) WHERE holder != ''",
)
_PERSONA_WORK = (
    "ALTER TABLE persona_plans ADD COLUMN tenant TEXT NOT NULL DEFAULT ''",
    "DROP INDEX persona_plans_by_event",
    "CREATE INDEX persona_plans_by_event ON persona_plans (persona_id, tenant, domain, context_id, event_id)",
    "ALTER TABLE persona_learnings ADD COLUMN tenant TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE persona_thoughts ADD COLUMN tenant TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE persona_thoughts ADD COLUMN \"user\" TEXT NOT NULL DEFAULT ''",
    "DROP INDEX persona_thoughts_by_weight",
    "CREATE INDEX persona_thoughts_by_weight"
    " ON persona_thoughts (persona_id, tenant, domain, context_id, weight)",
    "DROP TABLE persona_states",  # the old states mix all rooms
    "CREATE TABLE persona_states (persona_id TEXT NOT NULL, tenant TEXT NOT NULL, domain TEXT NOT NULL,"
    " context_id TEXT NOT NULL, data TEXT NOT NULL,"
    " PRIMARY KEY (persona_id, tenant, domain, context_id)) WITHOUT ROWID",
    _WORK,
    *_WORK_INDEXES,
    _queue_of_plans,
    _rooms_of_learnings,
)

_ROOMS = (
    "CREATE INDEX persona_work_by_room ON persona_work"
    " (persona_id, tenant, domain, context_id, kind, number)",
    "DROP INDEX persona_work_by_event",
    "CREATE INDEX persona_work_by_event ON persona_work"
    " (persona_id, tenant, domain, context_id, event_id, kind, number)",
    "CREATE INDEX persona_work_by_day ON persona_work (persona_id, tenant, updated_at)",
    "CREATE INDEX persona_work_by_day_of_room ON persona_work"
    " (persona_id, tenant, domain, context_id, updated_at)",
    "CREATE INDEX persona_plans_by_room ON persona_plans"
    " (persona_id, tenant, domain, context_id, created_at)",
)
"""Messages and plans of a room in their order, and the work of a day.

Reading the latest costs the same however many there are.
"""

_DOMAINS = ("CREATE INDEX persona_plans_by_domain ON persona_plans (persona_id, tenant, domain, created_at)",)
"""The latest plans of a domain, in all rooms of a tenant."""

_LISTS = (
    "CREATE INDEX persona_work_by_number ON persona_work (persona_id, number)",
    "CREATE INDEX persona_work_by_tenant ON persona_work (persona_id, tenant, number)",
    "CREATE INDEX persona_work_by_message ON persona_work (persona_id, message_id, tenant, domain, kind)"
    " WHERE message_id != ''",
)
"""The latest work of a persona or tenant, and the message that a reaction is to."""

_CREATED = ("CREATE INDEX memories_by_creation ON memories (created_at)",)
"""The latest memory from before today, by which a clock is judged."""

_IN_POSTGRES = (
    table_of(_MEMORIES, "owner"),
    "CREATE INDEX memories_by_age ON memories (agent_id, owner, kind, seen_at)",
    "CREATE INDEX memories_by_strength ON memories (agent_id, owner, kind, fades_at)",
    "CREATE INDEX memories_by_fading ON memories (fades_at)",
    "CREATE INDEX memories_by_owner ON memories (owner)",
    "CREATE TABLE memory_words (seq bigint PRIMARY KEY REFERENCES memories ON DELETE CASCADE,"
    " words text[] NOT NULL)",
    "CREATE INDEX memory_words_by_word ON memory_words USING gin (words)",
    table_of(_SESSIONS, "owner"),
    "CREATE INDEX sessions_by_age ON sessions (agent_id, ended_at)",
    "CREATE INDEX sessions_by_owner ON sessions (owner)",
    table_of(_PLANS),
    "CREATE INDEX plans_by_age ON plans (agent_id, created_at)",
    table_of(_PLAN_STEPS),
    table_of(_TRANSITIONS),
    "CREATE INDEX step_transitions_by_plan ON step_transitions (plan_id, seq)",
    table_of(_EFFECTIVENESS).replace("strategy text", 'strategy text COLLATE "C"', 1),
)

_PERSONAS_IN_POSTGRES = (
    table_of(_PERSONA_PLANS, "tenant"),
    "CREATE INDEX persona_plans_by_age ON persona_plans (persona_id, created_at)",
    "CREATE INDEX persona_plans_by_event ON persona_plans (persona_id, tenant, domain, context_id, event_id)",
    table_of(_LEARNINGS, "tenant"),
    "CREATE INDEX persona_learnings_by_confidence ON persona_learnings (persona_id, domain, confidence)",
    table_of(_THOUGHTS, "tenant", '"user"'),
    "CREATE INDEX persona_thoughts_by_weight"
    " ON persona_thoughts (persona_id, tenant, domain, context_id, weight)",
    "CREATE TABLE persona_states (persona_id text NOT NULL, tenant text NOT NULL, domain text NOT NULL,"
    " context_id text NOT NULL, data text NOT NULL, PRIMARY KEY (persona_id, tenant, domain, context_id))",
    table_of(_JOURNAL),
    "CREATE INDEX persona_journal_by_task ON persona_journal (task_id, seq)",
    table_of(_WORK),
    *_WORK_INDEXES,
)

_IN_BOTH = (_ROOMS, _DOMAINS, _LISTS, _CREATED)

MEMORY = sqlite.Store(
    "memory",
    (_VERSION_1, _VERSION_2, _VERSION_3, _PERSONAS, _OWNERS, _PERSONA_WORK, *_IN_BOTH),
    postgres=(_IN_POSTGRES, _PERSONAS_IN_POSTGRES, *_IN_BOTH),
)
"""Memories, sessions, plans, the record of strategies, and the records of personas."""

VECTORS = sqlite.Store(
    "memory vectors",
    (),
    postgres=(
        (
            "CREATE EXTENSION IF NOT EXISTS vector SCHEMA public",
            "CREATE TABLE embedding_spaces (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
            " model text NOT NULL, dimension bigint NOT NULL, UNIQUE (model, dimension))",
            "CREATE TABLE memory_vectors (seq bigint PRIMARY KEY REFERENCES memories ON DELETE CASCADE,"
            " space bigint NOT NULL, vector vector NOT NULL)",
        ),
    ),
)
"""Vectors of memories in Postgres, which need pgvector; in a file they are part of the memory."""

MemoryStore: TypeAlias = Database[MemoryErrors]
"""A memory in a file or a database."""


def open_memory_store(
    place: sqlite.DatabasePath,
    *,
    read_only: bool = False,
    has_vectors: bool = False,
) -> MemoryStore:
    """Return the memory at a place, opened at first use.

    Args:
        place: an SQLite file, or a Postgres URL.
        read_only: never write or create tables.
        has_vectors: whether entries have vectors, for which Postgres needs pgvector.

    Raises:
        ValueError: a memory without file is read-only.
    """
    if read_only and str(place) == sqlite.IN_PROCESS:
        raise ValueError("memory: read_only: got True, expected False, since a new memory is empty.")
    return open_database(
        place,
        MEMORY,
        MemoryUnavailable,
        patience_s=_PATIENCE_S,
        read_only=read_only,
        more=(VECTORS,) if has_vectors else (),
    )


_KEPT_IDS = (AgentId, CallId, MemoryId, PersonaId, ContextId, EventId, LearningId)


def record_redactor(redactor: Redactor) -> ValueRedactor:
    """Return a redactor that keeps the ids of stored records."""
    return ValueRedactor(redactor, names=_KEPT_IDS)
