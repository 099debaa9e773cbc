"""The memory service on an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from os import PathLike

from attrs import evolve
from returns.maybe import Maybe
from returns.result import Failure, Result, Success

from reactive_agents.adapters.memory import store
from reactive_agents.adapters.memory.database import Database, as_database
from reactive_agents.adapters.memory.extraction import Extractor, extract_memories
from reactive_agents.adapters.memory.recalling import ranked, recalled
from reactive_agents.adapters.memory.search import one_line, query_of_any, telling_words
from reactive_agents.adapters.memory.working import WorkingMemory
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.core.ids import AgentId, SessionId, TaskId
from reactive_agents.core.memory import (
    Forgetting,
    MemoryCandidate,
    MemoryContext,
    MemoryEntry,
    MemoryId,
    MemoryKind,
    MemoryTier,
    SessionSnapshot,
)
from reactive_agents.core.reasoning import ReasoningResult
from reactive_agents.core.tasks import Task
from reactive_agents.effects import effect
from reactive_agents.ports.system import Clock, IdSource

DEFAULT_TOKEN_BUDGET = 1_000
"""Tokens that recalled memory may take of every request of a run."""

KEPT: dict[MemoryKind, int] = {"episodic": 1_000, "semantic": 10_000, "procedural": 500}
"""Entries of each kind that an agent keeps; the weakest make room."""

KEPT_SESSIONS = 200
MOST_TASKS_AT_WORK = 256
"""Working memories that are held; a run that was never flushed must not be held for ever."""

_CANDIDATES = 40
_FACTS_OF_USER = 8
_FIRST_FACTS = 4  # the best matches come before what the user once said, the others after it
_EPISODES = 8
_PROCEDURES = 5
_LONGEST_CONTENT, _LONGEST_SOURCE = 2_000, 400


class SqliteMemory:
    """Implements ``SearchableMemory``. Opened by its first use; every failure is a ``MemoryUnavailable``.

    Recalling writes nothing, so a file that is full or opened for reading alone can still be recalled from.

    Args:
        place: the memory file, or a database that other services use as well.
        clock: tells when something was kept, and how much has faded.
        ids: names new entries.
        tier: what recalled contexts say of themselves; this service searches by words, which is tier ``1``.
        token_budget: tokens that a bootstrap may return, 0 or more, estimated on the safe side.
        extract: decides what of a run is worth keeping.

    Raises:
        ValueError: ``token_budget`` is negative.
    """

    def __init__(
        self,
        place: Database | str | PathLike[str],
        *,
        clock: Clock,
        ids: IdSource,
        tier: MemoryTier = "1",
        token_budget: int = DEFAULT_TOKEN_BUDGET,
        extract: Extractor = extract_memories,
    ) -> None:
        if token_budget < 0:
            raise ValueError(f"SqliteMemory: token_budget: got {token_budget}, expected 0 or more.")
        self._database = as_database(place)
        self._clock = clock
        self._ids = ids
        self._tier: MemoryTier = tier
        self._token_budget = token_budget
        self._extract = extract
        self._working: dict[TaskId, WorkingMemory] = {}

    async def aclose(self) -> None:
        """Close the file; the next use opens it again."""
        await self._database.aclose()

    # --- the run ----------------------------------------------------------------------------------------

    @effect
    async def bootstrap(self, agent_id: AgentId, task: Task) -> Result[MemoryContext, MemoryErrors]:
        """What bears on the task: facts that share its words, what the user said, recent runs, what worked.

        Fails with ``MemoryUnavailable``.
        """
        now = self._clock.now()
        words = telling_words(task.input)

        def recall(connection: sqlite3.Connection) -> MemoryContext:
            query = query_of_any(store.rarest(connection, words))
            found = store.matching(connection, agent_id, query, now, kinds=("semantic",), limit=_CANDIDATES)
            lasting = store.strongest(connection, agent_id, "semantic", now, limit=_FACTS_OF_USER)
            said = (entry for entry in lasting if entry.origin == "user")
            matched = ranked(found, now)
            in_order = (*matched[:_FIRST_FACTS], *said, *matched[_FIRST_FACTS:])
            facts = {entry.id: entry for entry in in_order}
            ways = store.newest(connection, agent_id, "procedural", now, limit=_CANDIDATES)
            return recalled(
                self._tier,
                facts.values(),
                store.newest(connection, agent_id, "episodic", now, limit=_EPISODES),
                sorted((way for way in ways if way.successes), key=_reliability, reverse=True)[:_PROCEDURES],
                token_budget=self._token_budget,
            )

        return await self._database.read("bootstrap", recall)

    @effect
    async def flush(self, task: Task, result: ReasoningResult) -> Result[None, MemoryErrors]:
        """Keep what is worth keeping of the run and its notes, drop what has faded; all of it or nothing.

        Fails with ``MemoryUnavailable``; the notes stay then.
        """
        try:
            candidates = self._extract(task, result)
        except Exception as error:  # noqa: BLE001 - an extractor is arbitrary user code
            message = f"The extractor of memories raised {type(error).__name__}: {error}."
            return Failure(MemoryUnavailable(message, "flush"))
        notes = tuple(evolve(each, kind="semantic") for each in self.notes(task.id))
        now = self._clock.now()
        entries = [
            self._entry(task.agent_id, each, now, task.id)
            for each in (*candidates, *notes)
            if each.kind != "working"
        ]

        def keep(connection: sqlite3.Connection) -> None:
            for entry in entries:
                store.add(connection, entry)
            store.drop_faded(connection, now)
            for kind, most in KEPT.items():
                store.drop_weakest(connection, task.agent_id, kind, keep=most)

        flushed = await self._database.write("flush", keep)
        if isinstance(flushed, Success):
            self._working.pop(task.id, None)
        return flushed

    @effect
    async def snapshot(self, session: SessionSnapshot) -> Result[None, MemoryErrors]:
        """Keep the whole run, and of the agent's older ones the newest. Fails with ``MemoryUnavailable``."""
        return await self._database.write(
            "snapshot", lambda connection: store.save_session(connection, session, keep=KEPT_SESSIONS)
        )

    @effect
    async def session(self, session_id: SessionId) -> Result[Maybe[SessionSnapshot], MemoryErrors]:
        """A session that was kept, or ``Nothing``. Fails with ``MemoryUnavailable``."""
        found = await self._database.read(
            "session", lambda connection: store.get_session(connection, session_id)
        )
        return found.map(Maybe.from_optional)

    # --- working memory ---------------------------------------------------------------------------------

    def note(self, task_id: TaskId, note: MemoryCandidate) -> None:
        """Keep a note in the working memory of a task; its flush makes a fact of it."""
        working = self._working.pop(task_id, None) or WorkingMemory()
        while len(self._working) >= MOST_TASKS_AT_WORK:
            self._working.pop(next(iter(self._working)))
        self._working[task_id] = working.noting(note)

    def notes(self, task_id: TaskId) -> tuple[MemoryCandidate, ...]:
        """The working memory of a task, oldest first; empty after its flush."""
        working = self._working.get(task_id)
        return working.notes if working is not None else ()

    # --- asking and tending -----------------------------------------------------------------------------

    @effect
    async def remember(
        self, agent_id: AgentId, candidate: MemoryCandidate
    ) -> Result[MemoryEntry, MemoryErrors]:
        """Keep something; what is known already is renewed.

        Fails with ``MemoryUnavailable``, also for what would be kept in working memory alone.
        """
        if candidate.kind == "working":
            return Failure(MemoryUnavailable("Working memory is kept by note, for a task.", "remember"))
        entry = self._entry(agent_id, candidate, self._clock.now(), TaskId(""))
        return await self._database.write("remember", lambda connection: store.add(connection, entry))

    @effect
    async def search(
        self, agent_id: AgentId, text: str, *, kinds: Sequence[MemoryKind] = (), limit: int = 20
    ) -> Result[tuple[MemoryEntry, ...], MemoryErrors]:
        """The agent's entries, of all kinds or some, that contain every word of the text; best match first.

        Nothing for a text without words. Fails with ``MemoryUnavailable``.
        """
        now = self._clock.now()
        wanted = tuple(kinds) or store.ALL_KINDS
        return await self._database.read(
            "search",
            lambda connection: store.search(
                connection, agent_id, text, now, kinds=wanted, limit=max(0, limit)
            ),
        )

    @effect
    async def forget(self, what: Forgetting) -> Result[int, MemoryErrors]:
        """Delete entries and sessions; how many there were. Plans stay. Fails with ``MemoryUnavailable``."""
        return await self._database.write("forget", lambda connection: store.forget(connection, what))

    def _entry(
        self, agent_id: AgentId, candidate: MemoryCandidate, now: datetime, task_id: TaskId
    ) -> MemoryEntry:
        return MemoryEntry(
            MemoryId(self._ids.new()),
            agent_id,
            candidate.kind,
            one_line(candidate.content)[:_LONGEST_CONTENT],
            candidate.origin,
            one_line(candidate.source)[:_LONGEST_SOURCE],
            task_id,
            min(1.0, max(0.0, candidate.importance)),
            now,
            now,
            successes=int(candidate.success is True),
            executions=int(candidate.success is not None),
        )


def _reliability(way: MemoryEntry) -> float:
    """The success rate with one success and one failure added, so that a single run proves little."""
    return (way.successes + 1) / (way.executions + 2)
