"""What bears on a task, out of the tables: the reading half of the memory service."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from attrs import frozen

from reactive_agents.adapters.memory import store, vectors
from reactive_agents.adapters.memory.embedding import Embedding
from reactive_agents.adapters.memory.fusing import fused
from reactive_agents.adapters.memory.recalling import of_similar_tasks, ranked, recalled
from reactive_agents.adapters.memory.search import query_of_any
from reactive_agents.core.ids import AgentId
from reactive_agents.core.memory import MemoryContext, MemoryEntry, MemoryId, MemoryKind

_CANDIDATES = 40
_FACTS_OF_USER = 8
_FIRST_FACTS = 4  # the best matches come before what the user once said, the others after it
_EPISODES = 8
_PROCEDURES = 5
_CRITIQUES = 5


@frozen
class Question:
    """What memory is asked at the start of a run.

    Attributes:
        words: the telling words of the task.
        pairs: its telling pairs of characters, where words are not told apart by spaces.
        embedding: the task as a vector; ``None`` for a search by words alone.
        problem: why it is by words alone, if it should not be.
    """

    agent_id: AgentId
    words: tuple[str, ...]
    pairs: tuple[str, ...]
    embedding: Embedding | None
    now: datetime
    problem: str = ""


@frozen
class _Found:
    entries: tuple[MemoryEntry, ...]
    cosines: dict[MemoryId, float]


def recall(connection: sqlite3.Connection, asked: Question, *, token_budget: int) -> MemoryContext:
    """Facts that match the task, what the user said, recent runs, what worked, critiques of similar tasks."""
    agent_id, now = asked.agent_id, asked.now
    words = store.rarest(connection, asked.words)
    lasting = store.strongest(connection, agent_id, "semantic", now, limit=_FACTS_OF_USER)
    said = (entry for entry in lasting if entry.origin == "user")
    matched = ranked(_found(connection, asked, words, "semantic").entries, now)
    in_order = (*matched[:_FIRST_FACTS], *said, *matched[_FIRST_FACTS:])
    facts = {entry.id: entry for entry in in_order}
    ways = store.newest(connection, agent_id, "procedural", now, limit=_CANDIDATES)
    critiques = _found(connection, asked, words, "critique")
    similar = of_similar_tasks(asked.words, asked.pairs, critiques.entries, critiques.cosines)
    return recalled(
        "1" if asked.embedding is None else "2",
        facts.values(),
        store.newest(connection, agent_id, "episodic", now, limit=_EPISODES),
        sorted((way for way in ways if way.successes), key=_reliability, reverse=True)[:_PROCEDURES],
        list(similar)[:_CRITIQUES],
        token_budget=token_budget,
        problem=asked.problem,
    )


def _found(connection: sqlite3.Connection, asked: Question, words: Sequence[str], kind: MemoryKind) -> _Found:
    """Entries of a kind that share words or meaning with the task, best first."""
    agent_id, query = asked.agent_id, query_of_any(words)
    by_words = store.matching(connection, agent_id, query, asked.now, kinds=(kind,), limit=_CANDIDATES)
    if asked.pairs:
        by_pairs = store.containing(
            connection, agent_id, asked.pairs, asked.now, kinds=(kind,), limit=_CANDIDATES
        )
        by_words = fused(by_words, by_pairs)
    if asked.embedding is None:
        return _Found(by_words, {})
    near = vectors.nearest(connection, agent_id, asked.embedding, asked.now, kinds=(kind,), limit=_CANDIDATES)
    return _Found(
        fused(by_words, [each.entry for each in near]), {each.entry.id: each.cosine for each in near}
    )


def _reliability(way: MemoryEntry) -> float:
    """The success rate with one success and one failure added, so that a single run proves little."""
    return (way.successes + 1) / (way.executions + 2)
