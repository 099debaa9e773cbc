"""Tables of memories and sessions: functions within a transaction of the caller.

The strength of a memory halves with every half-life since the entry was last seen (the exponential forgetting
curve of H. Ebbinghaus, 1885, in its usual simplification); seeing it again renews it. Facts outlive episodes;
a person's statements outlive the rest.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, assert_never

from attrs import evolve, frozen

from reactive_agents.adapters.memory.search import (
    fingerprint,
    full_text_query,
    indexed_form,
    keyword_pairs,
    keywords_of,
    one_line,
    postgres_add_words,
    postgres_by_words,
    postgres_counted,
    unspaced_words,
    words_of,
)
from reactive_agents.adapters.sql import ALL_ROWS, Transaction, believed_us, day_of, decoded, marks
from reactive_agents.adapters.sqlite import microseconds as microseconds
from reactive_agents.adapters.sqlite import moment_of as moment_of
from reactive_agents.core import memory
from reactive_agents.core.codec import to_json
from reactive_agents.core.ids import AgentId, TaskId

HALF_LIFE: Mapping[memory.MemoryKind, timedelta] = {
    "working": timedelta(hours=1),
    "episodic": timedelta(days=21),
    "semantic": timedelta(days=60),
    "procedural": timedelta(days=120),
    "critique": timedelta(days=60),
}
USER_FACTOR = 4
"""The factor of the half-life of a person's statements."""

FORGOTTEN_BELOW = 0.05
"""The strength below which an entry is expired, and flushes delete it."""

REINFORCEMENT = 0.1
"""The share of the difference to full importance that an entry gains when seen again."""

_LAST = 2**62  # microseconds, beyond the last year of a datetime, within an SQLite integer


def half_life_of(entry: memory.MemoryEntry) -> timedelta:
    """Return the time in which the entry loses half of its strength."""
    return HALF_LIFE[entry.kind] * (USER_FACTOR if entry.origin == "user" else 1)


def strength(entry: memory.MemoryEntry, now: datetime) -> float:
    """Return the entry's decayed importance, 0 to 1; it never increases."""
    age = max(0, microseconds(now) - microseconds(entry.seen_at))
    halvings: float = age / (half_life_of(entry) // timedelta(microseconds=1))
    return float(entry.importance * 0.5**halvings)


def fades_at(entry: memory.MemoryEntry) -> int:
    """Return when the entry expires, in microseconds since 1970.

    That is when its strength falls below :data:`FORGOTTEN_BELOW`."""
    seen = microseconds(entry.seen_at)
    if entry.importance <= FORGOTTEN_BELOW:
        return seen
    lives = math.log2(entry.importance / FORGOTTEN_BELOW)
    return min(_LAST, seen + int(lives * (half_life_of(entry) // timedelta(microseconds=1))))


def reinforced(known: float, seen_again: float) -> float:
    """Return the importance, 0 to 1, of an entry seen again; never less than either."""
    stronger = max(known, seen_again)
    return min(1.0, stronger + REINFORCEMENT * (1.0 - stronger))


# --- memories -------------------------------------------------------------------------------------------

ALL_KINDS: tuple[memory.MemoryKind, ...] = ("episodic", "semantic", "procedural", "critique")
"""The kinds that are stored; working memory lives with its run."""

_COLUMNS = (
    "id, agent_id, kind, content, origin, source, task_id, importance, "
    "created_at, seen_at, successes, executions, owner"
)
_NAMES: Sequence[str] = _COLUMNS.split(", ")
_MOMENTS = ("created_at", "seen_at")
_VOCABULARY = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.memory_vocabulary USING fts5vocab(main, memory_words, row)"
)

_BY_AGENT = "agent_id = coalesce(?, agent_id)"
"""The condition on rows of an agent, or of all for ``None``."""
MOST_MATCHES = 1_000
"""Entries that are compared for one query."""

MOST_READ = 10_000
"""Newest entries that are scanned for text that the index does not find."""


@frozen
class Reach:
    """The scope of a query: an agent, or some owners within it.

    Attributes:
        agent_id: ``None`` for all agents.
        owners: ``None`` for all owners.
    """

    agent_id: AgentId | None
    owners: tuple[str, ...] | None = None

    @property
    def condition(self) -> str:
        """The condition in SQL on the columns ``agent_id`` and ``owner``."""
        agent = "" if self.agent_id is None else " AND agent_id = ?"
        owner = "" if self.owners is None else f" AND owner IN ({marks(self.owners)})"
        return f"{agent}{owner}"

    @property
    def values(self) -> tuple[str, ...]:
        """The values of the condition."""
        agent = () if self.agent_id is None else (self.agent_id,)
        return (*agent, *(self.owners or ()))


@frozen
class Living:
    """The unexpired entries of some kinds in a scope."""

    reach: Reach
    now: datetime
    kinds: tuple[memory.MemoryKind, ...] = ALL_KINDS

    @property
    def condition(self) -> str:
        """The condition in SQL on the columns of ``memories``."""
        return f"fades_at > ? AND kind IN ({marks(self.kinds)}){self.reach.condition}"

    @property
    def values(self) -> tuple[object, ...]:
        """The values of the condition."""
        return (microseconds(self.now), *self.kinds, *self.reach.values)


def add(connection: Transaction, entry: memory.MemoryEntry) -> memory.MemoryEntry:
    """Add an entry, or renew the equal one of the same owner; return the stored one.

    A renewed entry keeps its id, wording and source, so that repetition makes no entry trusted.
    """
    entry = evolve(entry, content=one_line(entry.content), source=one_line(entry.source))
    mark = f"{entry.owner}\n{fingerprint(entry.content)}" if entry.owner else fingerprint(entry.content)
    equal = (entry.agent_id, entry.kind, mark)
    known = next(iter(_entries(connection, "agent_id = ? AND kind = ? AND fingerprint = ?", equal)), None)
    if known is None:
        _insert(connection, entry, mark)
        return entry
    renewed = evolve(
        known,
        task_id=entry.task_id,
        importance=reinforced(known.importance, entry.importance),
        seen_at=max(known.seen_at, moment_of(microseconds(entry.seen_at))),
        successes=known.successes + entry.successes,
        executions=known.executions + entry.executions,
    )
    connection.execute(
        "UPDATE memories SET task_id = ?, importance = ?, seen_at = ?, fades_at = ?, successes = ?,"
        " executions = ? WHERE id = ?",
        (
            renewed.task_id,
            renewed.importance,
            microseconds(renewed.seen_at),
            fades_at(renewed),
            renewed.successes,
            renewed.executions,
            known.id,
        ),
    )
    return renewed


def holds_task(connection: Transaction, agent_id: AgentId, task_id: TaskId) -> bool:
    """Return whether a task was the last one to store or renew an entry."""
    chosen = "SELECT 1 FROM memories WHERE agent_id = ? AND task_id = ? LIMIT 1"
    return connection.execute(chosen, (agent_id, task_id)).fetchone() is not None


def get(connection: Transaction, entry_id: memory.MemoryId) -> memory.MemoryEntry | None:
    """Return the entry with an id, even if expired."""
    return next(iter(_entries(connection, "id = ?", (entry_id,))), None)


def search(
    connection: Transaction, among: Living, text: str, *, limit: int = 20
) -> tuple[memory.MemoryEntry, ...]:
    """Return the entries with every word of the text, best match first.

    If none has all, as with a question, return those with any of its keywords. Chinese and Japanese words, or
    else pairs of their characters, are also found inside others; these entries come last.
    """
    found = _with_every_word(connection, among, text, limit)
    if found:
        return found
    words, pairs = rarest(connection, among.reach, keywords_of(text)), keyword_pairs(text)
    by_words = matching(connection, among, words, every=False, limit=limit)
    if not pairs or len(by_words) >= limit:
        return by_words
    known = {entry.id for entry in by_words}
    by_pairs = containing(connection, among, pairs, limit=limit)
    return (*by_words, *(entry for entry in by_pairs if entry.id not in known))[:limit]


def _with_every_word(
    connection: Transaction, among: Living, text: str, limit: int
) -> tuple[memory.MemoryEntry, ...]:
    found = matching(connection, among, words_of(text), every=True, limit=limit)
    inside = unspaced_words(text)
    if not inside or len(found) >= limit:
        return found
    known = {entry.id for entry in found}
    others = frozenset(words_of(text)).difference(inside)
    more = [
        entry
        for entry in containing(connection, among, inside, limit=MOST_MATCHES, least=len(inside))
        if entry.id not in known and others.issubset(words_of(entry.content))
    ]
    return (*found, *more)[:limit]


def containing(
    connection: Transaction, among: Living, parts: Sequence[str], *, limit: int, least: int = 1
) -> tuple[memory.MemoryEntry, ...]:
    """Return entries that contain the parts, also inside of words, most parts first.

    Args:
        parts: in lower case.
        least: minimum number of the parts in an entry.
    """
    rows = connection.execute(
        f"SELECT seq, content FROM memories WHERE {among.condition} ORDER BY seen_at DESC, seq DESC LIMIT ?",
        (*among.values, MOST_READ),
    )
    # counted here, which is several times as fast as instr()
    texts = ((number, content.lower()) for number, content in rows)
    counted = [(sum(part in text for part in parts), number) for number, text in texts]
    most_first = sorted((each for each in counted if each[0] >= least), key=lambda each: -each[0])
    return tuple(by_numbers(connection, [number for _, number in most_first[:limit]], among.now).values())


def matching(
    connection: Transaction, among: Living, words: Sequence[str], *, every: bool, limit: int
) -> tuple[memory.MemoryEntry, ...]:
    """Return entries with all or any of the words, best match (BM25) first."""
    if not words:
        return ()
    if not isinstance(connection, sqlite3.Connection):
        scope = (among.condition, among.values)
        numbers = postgres_by_words(connection, scope, words, every=every, most=MOST_MATCHES)
        return tuple(by_numbers(connection, numbers[:limit], among.now).values())
    # finds and sorts row numbers first: sorting whole rows takes three times as long
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM memories JOIN (SELECT m.seq AS found, bm25(memory_words) AS distance "
        "FROM memory_words JOIN memories m ON m.seq = memory_words.rowid "
        f"WHERE memory_words MATCH ? AND {among.condition} "
        "ORDER BY distance, found DESC LIMIT ?) ON seq = found ORDER BY distance, found DESC",
        (full_text_query(words, every=every), *among.values, limit),
    )
    return tuple(_entry_of(row) for row in rows)


def rarest(connection: Transaction, reach: Reach, words: Sequence[str]) -> tuple[str, ...]:
    """Return the rarest words, which together match :data:`MOST_MATCHES` entries.

    A word of every entry distinguishes none, and would cost a full scan. Postgres counts the entries in
    scope, SQLite all entries of the file.
    """
    counted = _counted(connection, reach, words)
    counted.sort(key=lambda each: each[0])
    together = accumulate(count for count, _ in counted)
    return tuple(
        word for (_, word), sum_ in zip(counted, together, strict=True) if sum_ <= MOST_MATCHES
    ) or tuple(word for _, word in counted[:1])


def _counted(connection: Transaction, reach: Reach, words: Sequence[str]) -> list[tuple[int, str]]:
    if not isinstance(connection, sqlite3.Connection):
        scope = (f"TRUE{reach.condition}", reach.values)
        return postgres_counted(connection, scope, words, most=MOST_MATCHES)
    connection.execute(_VOCABULARY)
    term = "SELECT doc FROM temp.memory_vocabulary WHERE term = ?"
    rows = ((connection.execute(term, (indexed_form(word),)).fetchone(), word) for word in words)
    return [(int(row[0]), word) for row, word in rows if row is not None]


def by_numbers(
    connection: Transaction, numbers: Sequence[int], now: datetime
) -> dict[int, memory.MemoryEntry]:
    """Return unexpired entries by their row numbers, in that order."""
    if not numbers:
        return {}
    rows = connection.execute(
        f"SELECT seq, {_COLUMNS} FROM memories WHERE fades_at > ? AND seq IN ({marks(numbers)})",
        (microseconds(now), *numbers),
    )
    found = {seq: _entry_of(row) for seq, *row in rows}
    return {seq: found[seq] for seq in numbers if seq in found}


def newest(
    connection: Transaction, reach: Reach, kind: memory.MemoryKind, now: datetime, *, limit: int
) -> tuple[memory.MemoryEntry, ...]:
    """Return the unexpired entries of a kind, most recently seen first."""
    # the plus makes SQLite use the index by age, which is already in order
    return _entries(
        connection,
        f"kind = ? AND +fades_at > ?{reach.condition} ORDER BY seen_at DESC, seq DESC LIMIT ?",
        (kind, microseconds(now), *reach.values, limit),
    )


def listed(
    connection: Transaction, reach: Reach, *, kinds: Sequence[memory.MemoryKind], limit: int | None
) -> tuple[memory.MemoryEntry, ...]:
    """Return entries, expired ones too, most recently seen first."""
    return _entries(
        connection,
        f"kind IN ({marks(kinds)}){reach.condition} ORDER BY seen_at DESC, seq DESC LIMIT ?",
        (*kinds, *reach.values, ALL_ROWS if limit is None else limit),
    )


def strongest(
    connection: Transaction, reach: Reach, kind: memory.MemoryKind, now: datetime, *, limit: int
) -> tuple[memory.MemoryEntry, ...]:
    """Return the entries of a kind that will expire last."""
    return _entries(
        connection,
        f"kind = ? AND fades_at > ?{reach.condition} ORDER BY fades_at DESC, seq DESC LIMIT ?",
        (kind, microseconds(now), *reach.values, limit),
    )


def _entries(
    connection: Transaction, chosen: str, values: Sequence[object]
) -> tuple[memory.MemoryEntry, ...]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM memories WHERE {chosen}", values)
    return tuple(map(_entry_of, rows))


def delete_expired(connection: Transaction, now_us: int) -> int:
    """Delete the expired entries of all agents; return their number."""
    earlier = "SELECT max(created_at) FROM memories WHERE created_at < ?"
    (before,) = connection.execute(earlier, (day_of(now_us),)).fetchone()
    until = believed_us(now_us, before)
    return connection.execute("DELETE FROM memories WHERE fades_at <= ?", (until,)).rowcount


def delete_weakest(connection: Transaction, reach: Reach, kind: memory.MemoryKind, *, keep: int) -> int:
    """Delete the first entries to expire beyond a limit; return their number."""
    return connection.execute(
        f"DELETE FROM memories WHERE seq IN (SELECT seq FROM memories WHERE kind = ?{reach.condition} "
        "ORDER BY fades_at DESC, seq DESC LIMIT ? OFFSET ?)",
        (kind, *reach.values, ALL_ROWS, keep),
    ).rowcount


def forget(connection: Transaction, what: memory.Forgetting) -> int:
    """Delete entries, and sessions of the agent or age; return the number of both.

    For a user, also deletes plans. Removes the words from the full-text index of a file, which by default
    would only mark them as deleted.
    """
    match what:
        case memory.ForgetEntry(id=entry_id):
            entries, sessions = _delete(connection, "memories", "id = ?", entry_id), 0
        case memory.ForgetAgent(agent_id=agent_id):
            entries = _delete(connection, "memories", "agent_id = ?", agent_id)
            sessions = _delete(connection, "sessions", "agent_id = ?", agent_id)
        case memory.ForgetUser(user=user, agent_id=agent_id):
            return sum(forget_owner(connection, memory.user_owner(user), agent_id))
        case memory.ForgetOlder(before=before, agent_id=agent_id):
            entries, sessions = (
                _delete(connection, table, f"{age} < ? AND {_BY_AGENT}", microseconds(before), agent_id)
                for table, age in (("memories", "seen_at"), ("sessions", "ended_at"))
            )
        case _:
            assert_never(what)
    if entries:
        _forget_words(connection)
    return entries + sessions


def _forget_words(connection: Transaction) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("INSERT INTO memory_words (memory_words) VALUES ('optimize')")


def forget_owner(connection: Transaction, owner: str, agent_id: AgentId | None = None) -> tuple[int, int]:
    """Delete the data of an owner; return the number of entries and sessions."""
    owned = (owner, agent_id)
    entries, sessions = (
        _delete(connection, table, f"owner = ? AND {_BY_AGENT}", *owned) for table in ("memories", "sessions")
    )
    _forget_plans(connection, *owned)
    if entries:
        _forget_words(connection)
    return entries, sessions


def _forget_plans(connection: Transaction, owner: str, agent_id: AgentId | None) -> None:
    rows = connection.execute(f"SELECT id, data FROM plans WHERE {_BY_AGENT}", (agent_id,)).fetchall()
    for plan_id in [plan_id for plan_id, data in rows if json.loads(data).get("owner") == owner]:
        _delete(connection, "step_transitions", "plan_id = ?", plan_id)
        _delete(connection, "plan_steps", "plan_id = ?", plan_id)
        _delete(connection, "plans", "id = ?", plan_id)


# --- sessions -------------------------------------------------------------------------------------------


def save_session(connection: Transaction, session: memory.SessionSnapshot, *, keep: int) -> None:
    """Store the session under its id, and delete all but the agent's latest ``keep``."""
    connection.execute(
        "INSERT INTO sessions (id, agent_id, ended_at, data, owner) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET agent_id = excluded.agent_id, ended_at = excluded.ended_at, "
        "data = excluded.data, owner = excluded.owner",
        (session.id, session.agent_id, microseconds(session.ended_at), to_json(session), session.owner),
    )
    connection.execute(
        "DELETE FROM sessions WHERE seq IN (SELECT seq FROM sessions WHERE agent_id = ? "
        "ORDER BY ended_at DESC, seq DESC LIMIT ? OFFSET ?)",
        (session.agent_id, ALL_ROWS, keep),
    )


def listed_sessions(connection: Transaction, agent_id: AgentId | None) -> tuple[memory.SessionSnapshot, ...]:
    """Return the sessions of an agent or of all, newest first.

    Raises:
        ValueError: a stored session cannot be read.
    """
    rows = connection.execute(
        "SELECT data FROM sessions WHERE agent_id = coalesce(?, agent_id) ORDER BY ended_at DESC, seq DESC",
        (agent_id,),
    )
    return tuple(decoded(text, memory.SessionSnapshot) for (text,) in rows)


def _delete(connection: Transaction, table: str, condition: str, *values: object) -> int:
    return connection.execute(f"DELETE FROM {table} WHERE {condition}", values).rowcount


def _insert(connection: Transaction, entry: memory.MemoryEntry, mark: str) -> None:
    moments = {name: microseconds(getattr(entry, name)) for name in _MOMENTS}
    values = [moments.get(name, getattr(entry, name)) for name in _NAMES]
    connection.execute(
        f"INSERT INTO memories ({_COLUMNS}, fingerprint, fades_at) VALUES ({marks(_NAMES)}, ?, ?)",
        (*values, mark, fades_at(entry)),
    )
    if not isinstance(connection, sqlite3.Connection):
        postgres_add_words(connection, entry.id, entry.content)


def _entry_of(row: Any) -> memory.MemoryEntry:
    known = dict(zip(_NAMES, row, strict=True))
    moments = {name: moment_of(known[name]) for name in _MOMENTS}
    return memory.MemoryEntry(**{**known, **moments})
