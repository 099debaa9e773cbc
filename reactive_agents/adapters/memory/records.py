"""Records in the memory file: plans, effectiveness of strategies, personas.

Each write is a durable transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from attrs import Factory, evolve, field, frozen
from returns.maybe import Maybe
from returns.result import Failure, Result, Success

from reactive_agents.adapters.memory.database import MemoryDatabase, record_redactor
from reactive_agents.adapters.memory.store import decoded, microseconds
from reactive_agents.adapters.sqlite import DatabasePath
from reactive_agents.core import personas
from reactive_agents.core.codec import to_json
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.core.event_redaction import ValueRedactor
from reactive_agents.core.ids import AgentId, ContextId, EventId, LearningId, PersonaId, PlanId, TaskId
from reactive_agents.core.memory import StepTransition
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.core.plans import Plan, PlanStatus, PlanStep
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.results import ReasoningResult, ReasoningStrategy, StrategyEffectiveness
from reactive_agents.effects import effect
from reactive_agents.ports import Clock

_T = TypeVar("_T")


@frozen(eq=False)
class SqlitePlanStore:
    """Implements ``PlanStore``.

    Args:
        database: the memory file; who made it closes it.
        clock: tells when a step changed.
        redactor: takes the secrets out of the texts of a plan before it is stored.
    """

    database: MemoryDatabase
    clock: Clock
    redactor: Redactor = field(factory=Redactor)
    _records: ValueRedactor = field(
        init=False, default=Factory(lambda self: record_redactor(self.redactor), takes_self=True)
    )

    @effect
    async def save(self, plan: Plan) -> Result[None, MemoryErrors]:
        """Store the plan under its id; fails with ``MemoryUnavailable``."""
        clean = self._records.redacted(plan)
        return await self.database.write("save_plan", lambda connection: _store_plan(connection, clean))

    @effect
    async def update_step(self, plan_id: PlanId, step: PlanStep) -> Result[None, MemoryErrors]:
        """Replace the step with the same id; on disk when this ends.

        Fails with ``MemoryUnavailable``, also when there is no such step.
        """
        now = self.clock.now()
        clean = self._records.redacted(step)
        updated = await self.database.write(
            "update_step", lambda connection: _update_step(connection, plan_id, clean, now)
        )
        if isinstance(updated, Success) and not updated.unwrap():
            return Failure(MemoryUnavailable(f"No step {step.id!r} of a plan {plan_id!r}.", "update_step"))
        return updated.map(lambda _: None)

    @effect
    async def get(self, plan_id: PlanId) -> Result[Maybe[Plan], MemoryErrors]:
        """The plan, or ``Nothing``. Fails with ``MemoryUnavailable``."""
        found = await self.database.read("get_plan", lambda connection: _plans(connection, "id = ?", plan_id))
        return found.map(_first)

    @effect
    async def list_plans(self, agent_id: AgentId) -> Result[tuple[Plan, ...], MemoryErrors]:
        """The agent's plans, newest first; of the same age, the one saved later.

        Fails with ``MemoryUnavailable``.
        """
        newest_first = "agent_id = ? ORDER BY created_at DESC, seq DESC"
        return await self.database.read(
            "list_plans", lambda connection: _plans(connection, newest_first, agent_id)
        )

    @effect
    async def rewrite_steps(
        self, plan_id: PlanId, rewritten: Callable[[PlanStep], PlanStep]
    ) -> Result[None, MemoryErrors]:
        """Change the steps of the plan and of all their transitions; all of them or none.

        Fails with ``MemoryUnavailable``.
        """
        return await self.database.write(
            "rewrite_steps", lambda connection: _rewrite(connection, plan_id, rewritten)
        )

    @effect
    async def transitions(self, plan_id: PlanId) -> Result[tuple[StepTransition, ...], MemoryErrors]:
        """Every update of the plan's steps, in the order in which they were stored.

        Fails with ``MemoryUnavailable``.
        """
        return await self.database.rows(
            "transitions",
            lambda at, data: StepTransition(plan_id, decoded(data, PlanStep), datetime.fromisoformat(at)),
            "SELECT at, data FROM step_transitions WHERE plan_id = ? ORDER BY seq",
            plan_id,
        )


def _store_plan(connection: sqlite3.Connection, plan: Plan) -> None:
    connection.execute(
        "INSERT INTO plans (id, agent_id, created_at, data) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE "
        "SET agent_id = excluded.agent_id, created_at = excluded.created_at, data = excluded.data",
        (plan.id, plan.agent_id, microseconds(plan.created_at), to_json(evolve(plan, steps=()))),
    )
    connection.execute("DELETE FROM plan_steps WHERE plan_id = ?", (plan.id,))
    connection.executemany(
        "INSERT INTO plan_steps (plan_id, position, step_id, data) VALUES (?, ?, ?, ?)",
        [(plan.id, position, step.id, to_json(step)) for position, step in enumerate(plan.steps)],
    )


def _update_step(connection: sqlite3.Connection, plan_id: PlanId, step: PlanStep, now: datetime) -> bool:
    data = to_json(step)
    changed = connection.execute(
        "UPDATE plan_steps SET data = ? WHERE plan_id = ? AND step_id = ?", (data, plan_id, step.id)
    ).rowcount
    if changed:
        connection.execute(
            "INSERT INTO step_transitions (plan_id, at, data) VALUES (?, ?, ?)",
            (plan_id, now.isoformat(), data),
        )
    return changed > 0


def _rewrite(
    connection: sqlite3.Connection, plan_id: PlanId, rewritten: Callable[[PlanStep], PlanStep]
) -> None:
    for table, key in (("plan_steps", "position"), ("step_transitions", "seq")):
        rows = connection.execute(f"SELECT {key}, data FROM {table} WHERE plan_id = ?", (plan_id,)).fetchall()
        connection.executemany(
            f"UPDATE {table} SET data = ? WHERE plan_id = ? AND {key} = ?",
            [(to_json(rewritten(decoded(data, PlanStep))), plan_id, place) for place, data in rows],
        )


def _plans(connection: sqlite3.Connection, condition: str, value: str) -> tuple[Plan, ...]:
    rows = connection.execute(f"SELECT id, data FROM plans WHERE {condition}", (value,)).fetchall()
    steps_of = "SELECT data FROM plan_steps WHERE plan_id = ? ORDER BY position"
    return tuple(
        evolve(
            decoded(data, Plan),
            steps=tuple(decoded(text, PlanStep) for (text,) in connection.execute(steps_of, (plan_id,))),
        )
        for plan_id, data in rows
    )


# --- how strategies have done ---------------------------------------------------------------------------

_HISTORY = (
    "SELECT strategy, task_type, successes, executions, cost, duration, confidence, last_used "
    "FROM effectiveness "
)


@frozen(eq=False)
class SqliteEffectiveness:
    """Implements ``EffectivenessTracker`` with sums for the averages.

    Args:
        database: the memory file; its creator closes it.
        clock: the time of the last use of a strategy.
        redactor: removes secrets from the names of strategies and types of tasks.
    """

    database: MemoryDatabase
    clock: Clock
    redactor: Redactor = field(factory=Redactor)

    @effect
    async def record(
        self, strategy: ReasoningStrategy, task_type: str, result: ReasoningResult, *, success: bool
    ) -> Result[None, MemoryErrors]:
        """Add one run to the record, durably; fails with ``MemoryUnavailable``."""
        figures = result.metadata
        recorded = await self.database.change(
            "record_effectiveness",
            "INSERT INTO effectiveness "
            "(strategy, task_type, successes, executions, cost, duration, confidence, last_used) "
            "VALUES (?, ?, ?, 1, ?, ?, ?, ?) ON CONFLICT (strategy, task_type) DO UPDATE SET "
            "successes = successes + excluded.successes, executions = executions + 1, "
            "cost = cost + excluded.cost, duration = duration + excluded.duration, "
            "confidence = confidence + excluded.confidence, last_used = excluded.last_used",
            self.redactor.redact(strategy),
            self.redactor.redact(task_type),
            int(success),
            figures.cost,
            figures.duration,
            figures.confidence,
            self.clock.now().isoformat(),
        )
        return recorded.map(lambda _: None)

    @effect
    async def get_effectiveness(
        self, strategy: ReasoningStrategy, task_type: str
    ) -> Result[Maybe[StrategyEffectiveness], MemoryErrors]:
        """The record, or ``Nothing``. Fails with ``MemoryUnavailable``."""
        names = self.redactor.redact(strategy), self.redactor.redact(task_type)
        condition = "WHERE strategy = ? AND task_type = ?"
        found = await self.database.rows("get_effectiveness", _effectiveness, _HISTORY + condition, *names)
        return found.map(_first)

    @effect
    async def get_best_strategy(self, task_type: str) -> Result[Maybe[ReasoningStrategy], MemoryErrors]:
        """Return the strategy with the highest success rate, then the most executions.

        Fails with ``MemoryUnavailable``.
        """
        best = (
            "SELECT strategy FROM effectiveness WHERE task_type = ? "
            "ORDER BY 1.0 * successes / executions DESC, executions DESC, seq LIMIT 1"
        )
        name = self.redactor.redact(task_type)
        return (await self.database.rows("get_best_strategy", str, best, name)).map(_first)

    @effect
    async def history(self, task_type: str) -> Result[tuple[StrategyEffectiveness, ...], MemoryErrors]:
        """Return the records of a task type; fails with ``MemoryUnavailable``."""
        name, condition = self.redactor.redact(task_type), "WHERE task_type = ? ORDER BY strategy"
        return await self.database.rows("history", _effectiveness, _HISTORY + condition, name)


def _effectiveness(
    strategy: str,
    task_type: str,
    successes: int,
    executions: int,
    cost: float,
    duration: float,
    confidence: float,
    last_used: str,
) -> StrategyEffectiveness:
    return StrategyEffectiveness(
        strategy,
        task_type,
        success_rate=successes / executions,
        avg_cost=cost / executions,
        avg_duration=duration / executions,
        avg_confidence=confidence / executions,
        executions=executions,
        last_used=datetime.fromisoformat(last_used),
    )


def _first(found: tuple[_T, ...]) -> Maybe[_T]:
    return Maybe.from_optional(found[0] if found else None)


# --- records of personas --------------------------------------------------------------------------------


class SqlitePersonaStore:
    """Implements ``PersonaStore``.

    Args:
        place: the memory file, or a database shared with other services.
        redactor: removes secrets from the texts before they are stored.
    """

    def __init__(self, place: MemoryDatabase | DatabasePath, *, redactor: Redactor | None = None) -> None:
        self._database = place if isinstance(place, MemoryDatabase) else MemoryDatabase(place)
        self._records = record_redactor(redactor or Redactor())

    async def aclose(self) -> None:
        """Close the file; the next use opens it again."""
        await self._database.aclose()

    @effect
    async def save_plan(self, plan: personas.PersonaPlan) -> Result[None, MemoryErrors]:
        """Store the plan under its id, replacing what was there.

        Fails with ``MemoryUnavailable``.
        """
        return await self._do(
            "save_plan",
            "INSERT INTO persona_plans "
            "(id, persona_id, domain, context_id, event_id, status, created_at, data) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
            "status = excluded.status, data = excluded.data",
            plan.id,
            plan.persona_id,
            plan.domain,
            plan.context_id,
            plan.event.id,
            plan.plan.status,
            microseconds(plan.plan.created_at),
            to_json(self._records.redacted(plan)),
        )

    @effect
    async def get_plan(self, plan_id: PlanId) -> Result[Maybe[personas.PersonaPlan], MemoryErrors]:
        """Return the plan, or ``Nothing``. Fails with ``MemoryUnavailable``."""
        return await self._one("get_plan", personas.PersonaPlan, "persona_plans WHERE id = ?", plan_id)

    @effect
    async def plan_of_event(
        self, persona_id: PersonaId, event_id: EventId
    ) -> Result[Maybe[personas.PersonaPlan], MemoryErrors]:
        """Return the newest plan for the event, or ``Nothing``.

        Fails with ``MemoryUnavailable``.
        """
        place = "persona_plans WHERE persona_id = ? AND event_id = ? ORDER BY seq DESC LIMIT 1"
        return await self._one("plan_of_event", personas.PersonaPlan, place, persona_id, event_id)

    @effect
    async def list_plans(
        self,
        persona_id: PersonaId,
        *,
        domain: personas.Domain | None = None,
        context_id: ContextId | None = None,
        status: PlanStatus | None = None,
        limit: int = 50,
    ) -> Result[tuple[personas.PersonaPlan, ...], MemoryErrors]:
        """Return the persona's plans, newest first.

        Of the same age, the one made later first.

        Fails with ``MemoryUnavailable``.
        """
        wanted = {"persona_id": persona_id, "domain": domain, "context_id": context_id, "status": status}
        named = {column: value for column, value in wanted.items() if value is not None}
        conditions = " AND ".join(f"{column} = ?" for column in named)
        place = f"persona_plans WHERE {conditions} ORDER BY created_at DESC, seq DESC LIMIT ?"
        return await self._all("list_plans", personas.PersonaPlan, place, *named.values(), limit)

    @effect
    async def save_learning(self, learning: personas.LearningEntry) -> Result[None, MemoryErrors]:
        """Store the learning under its id, replacing what was there.

        Fails with ``MemoryUnavailable``.
        """
        return await self._do(
            "save_learning",
            "INSERT INTO persona_learnings (id, persona_id, domain, confidence, use_count, data) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET confidence = excluded.confidence, "
            "use_count = excluded.use_count, data = excluded.data",
            learning.id,
            learning.persona_id,
            learning.domain,
            learning.confidence,
            learning.use_count,
            to_json(self._records.redacted(learning)),
        )

    @effect
    async def get_learning(
        self, learning_id: LearningId
    ) -> Result[Maybe[personas.LearningEntry], MemoryErrors]:
        """Return the learning, or ``Nothing``. Fails with ``MemoryUnavailable``."""
        return await self._one(
            "get_learning", personas.LearningEntry, "persona_learnings WHERE id = ?", learning_id
        )

    @effect
    async def list_learnings(
        self, persona_id: PersonaId, *, domain: personas.Domain | None = None
    ) -> Result[tuple[personas.LearningEntry, ...], MemoryErrors]:
        """Return the learnings, the most confident first, then the most used.

        Fails with ``MemoryUnavailable``.
        """
        order = "ORDER BY confidence DESC, use_count DESC, seq"
        place = f"persona_learnings WHERE persona_id = ? AND (? IS NULL OR domain = ?) {order}"
        return await self._all("list_learnings", personas.LearningEntry, place, persona_id, domain, domain)

    @effect
    async def delete_learning(self, learning_id: LearningId) -> Result[bool, MemoryErrors]:
        """Delete the learning; return whether it existed.

        Fails with ``MemoryUnavailable``.
        """
        statement = "DELETE FROM persona_learnings WHERE id = ?"
        deleted = await self._database.change("delete_learning", statement, learning_id)
        return deleted.map(bool)

    @effect
    async def add_thought(self, thought: personas.Thought) -> Result[None, MemoryErrors]:
        """Add to the working memory of the context.

        The least important thoughts are removed.

        Fails with ``MemoryUnavailable``.
        """
        clean = self._records.redacted(thought)
        return await self._database.write("add_thought", lambda connection: _add_thought(connection, clean))

    @effect
    async def recall_thoughts(
        self,
        persona_id: PersonaId,
        *,
        domain: personas.Domain,
        context_id: ContextId,
        kinds: Sequence[personas.ThoughtKind] = (),
        limit: int = 5,
    ) -> Result[tuple[personas.Thought, ...], MemoryErrors]:
        """Return the most important thoughts of one context.

        Fails with ``MemoryUnavailable``.
        """
        wanted = f"AND kind IN ({', '.join('?' * len(kinds))}) " if kinds else ""
        place = (
            "persona_thoughts WHERE persona_id = ? AND domain = ? AND context_id = ? "
            f"{wanted}ORDER BY weight DESC, seq DESC LIMIT ?"
        )
        return await self._all(
            "recall_thoughts", personas.Thought, place, persona_id, domain, context_id, *kinds, limit
        )

    @effect
    async def get_self_state(self, persona_id: PersonaId) -> Result[personas.SelfState, MemoryErrors]:
        """Return the self state; an idle one when none is stored.

        Fails with ``MemoryUnavailable``.
        """
        found = await self._one(
            "get_self_state", personas.SelfState, "persona_states WHERE persona_id = ?", persona_id
        )
        return found.map(lambda state: state.value_or(personas.SelfState(persona_id)))

    @effect
    async def save_self_state(self, state: personas.SelfState) -> Result[None, MemoryErrors]:
        """Store the state, replacing what was there. Fails with ``MemoryUnavailable``."""
        clean = self._records.redacted(state)
        statement = "INSERT OR REPLACE INTO persona_states (persona_id, data) VALUES (?, ?)"
        return await self._do("save_self_state", statement, state.persona_id, to_json(clean))

    @effect
    async def record(self, event: PersonaEvent) -> Result[None, MemoryErrors]:
        """Append to the journal. Fails with ``MemoryUnavailable``."""
        clean = self._records.redacted(event)
        statement = "INSERT INTO persona_journal (task_id, data) VALUES (?, ?)"
        return await self._do("record", statement, event.task_id, to_json(clean, PersonaEvent))

    @effect
    async def journal(self, task_id: TaskId) -> Result[tuple[PersonaEvent, ...], MemoryErrors]:
        """Return the journal of a task, in order. Fails with ``MemoryUnavailable``."""
        return await self._all(
            "journal", PersonaEvent, "persona_journal WHERE task_id = ? ORDER BY seq", task_id
        )

    async def _do(self, operation: str, statement: str, *values: object) -> Result[None, MemoryErrors]:
        return (await self._database.change(operation, statement, *values)).map(lambda _: None)

    async def _all(
        self, operation: str, kind: Any, place: str, *values: object
    ) -> Result[tuple[Any, ...], MemoryErrors]:
        select = f"SELECT data FROM {place}"
        return await self._database.rows(operation, lambda data: decoded(data, kind), select, *values)

    async def _one(
        self, operation: str, kind: Any, place: str, *values: object
    ) -> Result[Maybe[Any], MemoryErrors]:
        return (await self._all(operation, kind, place, *values)).map(_first)


def _add_thought(connection: sqlite3.Connection, thought: personas.Thought) -> None:
    place = (thought.persona_id, thought.domain, thought.context_id)
    connection.execute(
        "INSERT INTO persona_thoughts (persona_id, domain, context_id, kind, weight, data) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (*place, thought.kind, personas.thought_weight(thought), to_json(thought)),
    )
    connection.execute(
        "DELETE FROM persona_thoughts WHERE seq IN (SELECT seq FROM persona_thoughts WHERE persona_id = ? "
        "AND domain = ? AND context_id = ? ORDER BY weight DESC, seq DESC LIMIT -1 OFFSET ?)",
        (*place, personas.THOUGHTS_KEPT),
    )
