"""Fakes of memory, plan store, effectiveness tracker and persona store."""

from __future__ import annotations

import re
import sqlite3
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.adapters import sql, sqlite
from reactive_agents.adapters.memory import records
from reactive_agents.adapters.memory.database import MEMORY
from reactive_agents.adapters.memory.persona_store import COLUMNS, SqlitePersonaStore, item_of
from reactive_agents.adapters.memory.search import keywords_of
from reactive_agents.core import memory, personas
from reactive_agents.core import persona_queue as queue
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.core.ids import AgentId, LearningId, PlanId, TaskId
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.core.plans import Plan
from reactive_agents.core.results import ReasoningResult, ReasoningStrategy, StrategyEffectiveness
from reactive_agents.core.tasks import Task
from reactive_agents.effects import effect
from reactive_agents.ports import LLM, Clock
from reactive_agents.testing.core import FakeClock, SequentialIds, fake_effect

_T = TypeVar("_T")

NOTHING_RECALLED = memory.MemoryContext(tier="1")


class InMemoryMemory:
    """Implements ``SearchableMemory``: recalls a fixed context and records every call.

    Args:
        context: the context that every bootstrap recalls.
        clock: the time at which entries are remembered.
        fails_with: every effect fails with it, and nothing is remembered or forgotten.

    Attributes:
        bootstrapped: the agent and task of each bootstrap.
        flushed: the task and result of each flush.
        snapshots: the stored sessions.
        entries: the remembered entries that were not forgotten, in order.
    """

    def __init__(
        self,
        context: memory.MemoryContext = NOTHING_RECALLED,
        *,
        clock: Clock | None = None,
        fails_with: MemoryErrors | None = None,
    ) -> None:
        self.context = context
        self.fails_with = fails_with
        self.bootstrapped: list[tuple[AgentId, Task]] = []
        self.flushed: list[tuple[Task, ReasoningResult]] = []
        self.snapshots: list[memory.SessionSnapshot] = []
        self.entries: dict[memory.MemoryId, memory.MemoryEntry] = {}
        self._notes: dict[TaskId, tuple[memory.MemoryCandidate, ...]] = {}
        self._clock = clock or FakeClock()
        self._ids = SequentialIds("memory-")

    @effect
    async def bootstrap(self, agent_id: AgentId, task: Task) -> Result[memory.MemoryContext, MemoryErrors]:
        """Return the configured context."""
        self.bootstrapped.append((agent_id, task))
        return Success(self.context) if self.fails_with is None else Failure(self.fails_with)

    @effect
    async def flush(
        self, task: Task, result: ReasoningResult, *, llm: LLM | None = None, model: str | None = None
    ) -> Result[memory.FlushReport, MemoryErrors]:
        """Record the task and its result, and drop its notes; no model is asked."""
        self.flushed.append((task, result))
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self._notes.pop(task.id, None)
        return Success(memory.FlushReport())

    @effect
    async def snapshot(self, session: memory.SessionSnapshot) -> Result[None, MemoryErrors]:
        """Record the session."""
        self.snapshots.append(session)
        return Success(None) if self.fails_with is None else Failure(self.fails_with)

    def note(self, task_id: TaskId, note: memory.MemoryCandidate) -> None:
        """Keep a note until the task is flushed."""
        self._notes[task_id] = (*self.notes(task_id), note)

    def notes(self, task_id: TaskId) -> tuple[memory.MemoryCandidate, ...]:
        """Return the notes of a task, oldest first."""
        return self._notes.get(task_id, ())

    @fake_effect
    async def remember(
        self, agent_id: AgentId, candidate: memory.MemoryCandidate, *, user: str | None = None
    ) -> Result[memory.MemoryEntry, MemoryErrors]:
        """Store an entry, or renew the one with the same text."""
        now = self._clock.now()
        new = memory.MemoryEntry(
            memory.MemoryId(self._ids.new()),
            agent_id,
            candidate.kind,
            candidate.content,
            candidate.origin,
            candidate.source,
            TaskId(""),
            candidate.importance,
            now,
            now,
            owner=memory.owner_of(user, None),
        )
        entry = next((each for each in self.entries.values() if _mark(each) == _mark(new)), new)
        entry = self.entries[entry.id] = evolve(
            entry,
            importance=max(entry.importance, candidate.importance),
            seen_at=now,
            successes=entry.successes + int(candidate.success is True),
            executions=entry.executions + int(candidate.success is not None),
        )
        return Success(entry)

    @fake_effect
    async def search(
        self,
        agent_id: AgentId,
        text: str,
        *,
        user: str | None = None,
        kinds: Sequence[memory.MemoryKind] = (),
        limit: int = 20,
    ) -> Result[tuple[memory.MemoryEntry, ...], MemoryErrors]:
        """Return the entries with every word of the text, or else with some; newest first."""
        wanted, owners = _words(text), ("", memory.owner_of(user, None))
        own = [
            entry
            for entry in reversed(self.entries.values())
            if entry.agent_id == agent_id and (not kinds or entry.kind in kinds) and entry.owner in owners
        ]
        with_every_word = [entry for entry in own if wanted and wanted <= _words(entry.content)]
        keywords = set(keywords_of(text))
        found = with_every_word or [entry for entry in own if keywords & _words(entry.content)]
        return Success(tuple(found[:limit]))

    @fake_effect
    async def forget(self, what: memory.Forgetting) -> Result[int, MemoryErrors]:
        """Delete entries and sessions, and return their number."""
        entries = {key: entry for key, entry in self.entries.items() if not _forgotten(entry, what)}
        sessions = [each for each in self.snapshots if not _forgotten(each, what)]
        dropped = len(self.entries) - len(entries) + len(self.snapshots) - len(sessions)
        self.entries, self.snapshots = entries, sessions
        return Success(dropped)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.lower()))


def _mark(entry: memory.MemoryEntry) -> tuple[str, ...]:
    return entry.agent_id, entry.owner, entry.kind, entry.content


def _forgotten(kept: memory.MemoryEntry | memory.SessionSnapshot, what: memory.Forgetting) -> bool:
    is_entry = isinstance(kept, memory.MemoryEntry)
    match what:
        case memory.ForgetEntry(id=entry_id):
            return is_entry and kept.id == entry_id
        case memory.ForgetAgent(agent_id=agent_id):
            return kept.agent_id == agent_id
        case memory.ForgetUser(user=user, agent_id=agent_id):
            return kept.owner == memory.user_owner(user) and agent_id in (None, kept.agent_id)
        case memory.ForgetOlder(before=before, agent_id=agent_id):
            at = kept.seen_at if isinstance(kept, memory.MemoryEntry) else kept.ended_at
            return at < before and agent_id in (None, kept.agent_id)


# --- live stores in memory --------------------------------------------------------------------------------


class _Tables:
    """A database in memory, by plain calls; ``failure`` returns its failure, if any."""

    place = ""
    skew_us = 0

    def __init__(self, failure: Callable[[], MemoryErrors | None]) -> None:
        self._failure = failure
        self._connection = sqlite3.connect(sqlite.IN_PROCESS, isolation_level=None, check_same_thread=False)
        self._one_at_a_time = threading.Lock()
        weakref.finalize(self, self._connection.close).atexit = False  # a thread may still use it
        sqlite.migrate(self._connection, MEMORY)

    def do(self, work: sql.Work[_T]) -> _T:
        with self._one_at_a_time:
            return sqlite.in_transaction(self._connection, work, "BEGIN")

    def rows(self, statement: str) -> list[Any]:
        return self.do(lambda file: file.execute(statement).fetchall())

    async def read(
        self, operation: str, work: sql.Work[_T], *, of: str = "", durable: bool = False, again: bool = False
    ) -> Result[_T, MemoryErrors]:
        failure = self._failure()
        if failure is not None:
            return Failure(failure)
        try:
            return Success(self.do(work))
        except sqlite.FAILURES as error:
            return Failure(MemoryUnavailable(sqlite.sentence_of(error, sqlite.IN_PROCESS, MEMORY), operation))

    write = write_soon = read

    async def empty_log(self, *, rewrites: bool = False) -> None:
        """Do nothing: there is no log."""

    async def check(self) -> Result[None, MemoryErrors]:
        return await self.read("check", lambda _: None)

    async def aclose(self) -> None:
        """Keep the data for the next use."""


class InMemoryPlanStore(records.SqlitePlanStore):
    """The live store of plans in memory, without threads.

    Args:
        fails_with: every method fails with it, and nothing is stored.
    """

    def __init__(self, *, fails_with: MemoryErrors | None = None) -> None:
        self.fails_with = fails_with
        self._tables: Any = _Tables(lambda: self.fails_with)
        super().__init__(self._tables, FakeClock())

    @property
    def plans(self) -> Mapping[PlanId, Plan]:
        """The stored plans, in the order of their first saving."""
        found = self._tables.do(lambda file: records.plans_of(file, "1 = 1 ORDER BY seq"))
        return MappingProxyType({each.id: each for each in found})


class InMemoryEffectivenessTracker(records.SqliteEffectiveness):
    """The live record of strategies in memory, without threads.

    Args:
        clock: the time at which a strategy was last used.
        fails_with: every method fails with it, and nothing is recorded.
    """

    def __init__(self, clock: Clock | None = None, *, fails_with: MemoryErrors | None = None) -> None:
        self.fails_with = fails_with
        self._tables: Any = _Tables(lambda: self.fails_with)
        super().__init__(self._tables, clock or FakeClock())

    @property
    def known(self) -> Mapping[tuple[ReasoningStrategy, str], StrategyEffectiveness]:
        """The record of each strategy on each type of task."""
        found = [records.effectiveness_of(*row) for row in self._tables.rows(records.HISTORY)]
        return MappingProxyType({(each.strategy, each.task_type): each for each in found})


class InMemoryPersonaStore(SqlitePersonaStore):
    """The live store of personas in memory, without threads; its claims do not expire.

    Args:
        fails_with: every method fails with it, and nothing is stored.
        clock: tells when work is due.
    """

    def __init__(self, *, fails_with: MemoryErrors | None = None, clock: Clock | None = None) -> None:
        self.fails_with = fails_with
        self._tables: Any = _Tables(lambda: self.fails_with)
        super().__init__(self._tables, clock=clock)

    @property
    def plans(self) -> Mapping[PlanId, personas.PersonaPlan]:
        """The stored plans, in the order of their first saving."""
        found = self._all_of("persona_plans", personas.PersonaPlan)
        return MappingProxyType({each.id: each for each in found})

    @property
    def learnings(self) -> Mapping[LearningId, personas.LearningEntry]:
        """The stored learnings, in the order of their first saving."""
        found = self._all_of("persona_learnings", personas.LearningEntry)
        return MappingProxyType({each.id: each for each in found})

    @property
    def thoughts(self) -> Sequence[personas.Thought]:
        """The working memory of all rooms, in order."""
        return self._all_of("persona_thoughts", personas.Thought)

    @property
    def states(self) -> Mapping[personas.Room, personas.SelfState]:
        """The self state in each room."""
        found = self._all_of("persona_states", personas.SelfState, order="data")
        return MappingProxyType({each.room: each for each in found})

    @property
    def events(self) -> Sequence[PersonaEvent]:
        """The journal of all tasks, in order."""
        return self._all_of("persona_journal", PersonaEvent)

    @property
    def work(self) -> Mapping[int, queue.WorkItem]:
        """The queue, by the numbers of its items."""
        items = map(item_of, self._tables.rows(f"SELECT {COLUMNS} FROM persona_work ORDER BY number"))
        return MappingProxyType({item.number: item for item in items})

    def _all_of(self, table: str, kind: Any, *, order: str = "seq") -> tuple[Any, ...]:
        stored = self._tables.rows(f"SELECT data FROM {table} ORDER BY {order}")
        return tuple(sql.decoded(data, kind) for (data,) in stored)

    def _hold(self, holder: str) -> None:
        """Renew nothing: no other process can claim the work."""

    def _lease_end(self, at: int) -> int:
        return sql.ALL_ROWS
