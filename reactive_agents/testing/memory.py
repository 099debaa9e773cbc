"""Live stores in memory: of memories, plans, strategies, personas and budgets."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from returns.result import Failure, Result, Success

from reactive_agents.adapters import sql, sqlite
from reactive_agents.adapters.governance.budget import BUDGET, SqliteBudget, usd
from reactive_agents.adapters.memory import records, store
from reactive_agents.adapters.memory.database import MEMORY
from reactive_agents.adapters.memory.persona_store import COLUMNS, SqlitePersonaStore, item_of
from reactive_agents.adapters.memory.service import KEPT_SESSIONS, SqliteMemory
from reactive_agents.core import governance, memory, personas
from reactive_agents.core import persona_queue as queue
from reactive_agents.core.errors import BudgetErrors, MemoryErrors, MemoryUnavailable, ServiceFailed
from reactive_agents.core.ids import AgentId, LearningId, PlanId, RunId
from reactive_agents.core.json import read_only
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.core.plans import Plan
from reactive_agents.core.results import ReasoningResult, ReasoningStrategy, StrategyEffectiveness
from reactive_agents.core.tasks import Task
from reactive_agents.effects import attempt, effect
from reactive_agents.ports import LLM, Clock
from reactive_agents.testing.core import FakeClock, SequentialIds

_T = TypeVar("_T")
_E = TypeVar("_E")

NOTHING_RECALLED = memory.MemoryContext(tier="1")


class _Tables(Generic[_E]):
    """A database in memory, by plain calls; ``failure`` returns its failure, if any."""

    place = ""
    skew_us = 0

    def __init__(
        self,
        failure: Callable[[], _E | None],
        tables: sqlite.Store = MEMORY,
        error: Callable[[str, str], Any] = MemoryUnavailable,
    ) -> None:
        self._failure, self._store, self._error = failure, tables, error
        self._connection = sqlite3.connect(sqlite.IN_PROCESS, isolation_level=None, check_same_thread=False)
        self._one_at_a_time = threading.Lock()
        weakref.finalize(self, self._connection.close).atexit = False  # a thread may still use it
        sqlite.migrate(self._connection, tables)

    def do(self, work: sql.Work[_T]) -> _T:
        with self._one_at_a_time:
            return sqlite.in_transaction(self._connection, work, "BEGIN")

    def rows(self, statement: str, *values: object) -> list[Any]:
        return self.do(lambda file: file.execute(statement, values).fetchall())

    async def read(
        self, operation: str, work: sql.Work[_T], *, of: str = "", durable: bool = False, again: bool = False
    ) -> Result[_T, _E]:
        failure = self._failure()
        if failure is not None:
            return Failure(failure)
        try:
            return Success(self.do(work))
        except sqlite.FAILURES as error:
            sentence = sqlite.sentence_of(error, sqlite.IN_PROCESS, self._store)
            return Failure(self._error(sentence, operation))

    write = write_soon = read

    async def empty_log(self, *, rewrites: bool = False) -> None:
        """Do nothing: there is no log."""

    async def check(self) -> Result[None, _E]:
        return await self.read("check", lambda _: None)

    async def aclose(self) -> None:
        """Keep the data for the next use."""


class InMemoryMemory(SqliteMemory):
    """The live memory, kept in memory without threads; it recalls a fixed context.

    Args:
        context: the context that every bootstrap recalls.
        clock: the time at which entries are remembered.
        fails_with: every effect fails with it, and nothing is remembered or forgotten.

    Attributes:
        bootstrapped: the agent and task of each bootstrap.
        flushed: the task and result of each flush, of which no entries are made.
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
        self._tables: Any = _Tables(lambda: self.fails_with)
        super().__init__(self._tables, clock=clock or FakeClock(), ids=SequentialIds("memory-"))

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
        self._drop_notes(task.id)
        return Success(memory.FlushReport())

    @effect
    async def snapshot(self, session: memory.SessionSnapshot) -> Result[None, MemoryErrors]:
        """Store the session as it is."""
        stored: Result[None, MemoryErrors] = await self._tables.write(
            "snapshot", lambda file: store.save_session(file, session, keep=KEPT_SESSIONS)
        )
        return stored

    @property
    def entries(self) -> Mapping[memory.MemoryId, memory.MemoryEntry]:
        """The remembered entries that were not forgotten, in order."""
        every = store.Reach(None)
        found = self._tables.do(lambda file: store.listed(file, every, kinds=store.ALL_KINDS, limit=None))
        return MappingProxyType({each.id: each for each in reversed(found)})

    @property
    def snapshots(self) -> list[memory.SessionSnapshot]:
        """The stored sessions, the oldest first, in a read-only list."""
        frozen: Any = read_only  # which JSON data mostly is given
        found = self._tables.do(lambda file: store.listed_sessions(file, None))
        listed: list[memory.SessionSnapshot] = frozen([*reversed(found)])
        return listed


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


class InMemoryBudget(SqliteBudget):
    """The live budget in memory, without threads.

    Args:
        run_usd, daily_usd, monthly_usd, warn_at: as in ``CostConfig``.
        fails_with: every method fails with it, so that nothing may be spent.

    Attributes:
        reserved: every reservation that was made, in order.
        settled: US dollars spent, by the id of the reservation.
    """

    def __init__(
        self,
        *,
        run_usd: float | None = None,
        daily_usd: float | None = None,
        monthly_usd: float | None = None,
        warn_at: Collection[float] = (),
        fails_with: ServiceFailed | None = None,
    ) -> None:
        self.fails_with = fails_with
        self.reserved: list[governance.Reservation] = []
        self.settled: dict[int, float] = {}
        super().__init__(
            sqlite.IN_PROCESS,
            run_usd=run_usd,
            daily_usd=daily_usd,
            monthly_usd=monthly_usd,
            warn_at=warn_at,
            clock=FakeClock(),
        )
        self._file: Any = _Tables(lambda: self.fails_with, BUDGET, sqlite.failure_of("budget"))

    @property
    def spent_usd(self) -> float:
        """Total of all runs, spent or reserved, in US dollars."""
        rows = self._file.rows("SELECT nano_usd FROM periods WHERE name = ?", self._days()[0])
        return usd(sum(nano for (nano,) in rows))

    @effect
    async def reserve(
        self, run_id: RunId, amount_usd: float, *, for_run_alone: bool = False, user: str | None = None
    ) -> Result[governance.Reservation, BudgetErrors]:
        """Reserve an amount; fails with ``BudgetExceeded`` beyond a limit."""
        made = await attempt(super().reserve(run_id, amount_usd, for_run_alone=for_run_alone, user=user))
        if isinstance(made, Success):
            self.reserved.append(made.unwrap())
        return made

    @effect
    async def settle(
        self, reservation: governance.Reservation, actual_usd: float
    ) -> Result[tuple[governance.BudgetUse, ...], ServiceFailed]:
        """Replace a reservation by the actual amount."""
        settled = await attempt(super().settle(reservation, actual_usd))
        if isinstance(settled, Success):
            self.settled.setdefault(reservation.id, actual_usd)
        return settled
