"""Records in the memory file: plans, and the effectiveness of strategies.

Each write is a durable transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from attrs import Factory, define, evolve, field
from returns.maybe import Maybe
from returns.result import Failure, Result, Success

from reactive_agents.adapters import sql
from reactive_agents.adapters.memory.database import MemoryStore, record_redactor
from reactive_agents.adapters.memory.store import microseconds
from reactive_agents.adapters.sql import Transaction, decoded
from reactive_agents.core.codec import to_json
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.core.event_redaction import ValueRedactor
from reactive_agents.core.ids import AgentId, PlanId
from reactive_agents.core.memory import StepTransition
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.results import ReasoningResult, ReasoningStrategy, StrategyEffectiveness
from reactive_agents.effects import effect
from reactive_agents.ports import Clock

_T = TypeVar("_T")


@define(eq=False)
class SqlitePlanStore:
    """Implements ``PlanStore``; each effect fails with ``MemoryUnavailable``.

    Args:
        database: the memory file; its creator closes it.
        redactor: removes secrets from the texts of a plan before it is stored.
    """

    database: MemoryStore
    clock: Clock
    redactor: Redactor = field(factory=Redactor)
    _records: ValueRedactor = field(
        init=False, default=Factory(lambda self: record_redactor(self.redactor), takes_self=True)
    )

    @effect
    async def save(self, plan: Plan) -> Result[None, MemoryErrors]:
        """Store the plan under its id."""
        clean = self._records.redacted(plan)
        return await self.database.write(
            "save_plan", lambda connection: _store_plan(connection, clean), of=plan.id
        )

    @effect
    async def update_step(self, plan_id: PlanId, step: PlanStep) -> Result[None, MemoryErrors]:
        """Replace the step with the same id; on disk when this returns.

        Fails with ``MemoryUnavailable``, also if there is no such step.
        """
        now = self.clock.now()
        clean = self._records.redacted(step)
        updated = await self.database.write(
            "update_step", lambda connection: _update_step(connection, plan_id, clean, now), of=plan_id
        )
        if isinstance(updated, Success) and not updated.unwrap():
            return Failure(MemoryUnavailable(f"No step {step.id!r} of a plan {plan_id!r}.", "update_step"))
        return updated.map(lambda _: None)

    @effect
    async def get(self, plan_id: PlanId) -> Result[Maybe[Plan], MemoryErrors]:
        """Return the plan, or ``Nothing``."""
        found = await self.database.read(
            "get_plan", lambda connection: plans_of(connection, "id = ?", plan_id)
        )
        return found.map(_first)

    @effect
    async def list_plans(self, agent_id: AgentId) -> Result[tuple[Plan, ...], MemoryErrors]:
        """Return the agent's plans, newest first; of the same age, the one saved later."""
        newest_first = "agent_id = ? ORDER BY created_at DESC, seq DESC"
        return await self.database.read(
            "list_plans", lambda connection: plans_of(connection, newest_first, agent_id)
        )

    @effect
    async def rewrite_steps(
        self, plan_id: PlanId, rewritten: Callable[[PlanStep], PlanStep]
    ) -> Result[None, MemoryErrors]:
        """Change the steps of the plan and of its transitions, atomically."""
        return await self.database.write(
            "rewrite_steps", lambda connection: _rewrite(connection, plan_id, rewritten), of=plan_id
        )

    @effect
    async def transitions(self, plan_id: PlanId) -> Result[tuple[StepTransition, ...], MemoryErrors]:
        """Return every update of the plan's steps, in the order of storage."""
        return await sql.rows(
            self.database,
            "transitions",
            lambda at, data: StepTransition(plan_id, decoded(data, PlanStep), datetime.fromisoformat(at)),
            "SELECT at, data FROM step_transitions WHERE plan_id = ? ORDER BY seq",
            plan_id,
        )


def _store_plan(connection: Transaction, plan: Plan) -> None:
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


def _update_step(connection: Transaction, plan_id: PlanId, step: PlanStep, now: datetime) -> bool:
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


def _rewrite(connection: Transaction, plan_id: PlanId, rewritten: Callable[[PlanStep], PlanStep]) -> None:
    for table, key in (("plan_steps", "position"), ("step_transitions", "seq")):
        rows = connection.execute(f"SELECT {key}, data FROM {table} WHERE plan_id = ?", (plan_id,)).fetchall()
        connection.executemany(
            f"UPDATE {table} SET data = ? WHERE plan_id = ? AND {key} = ?",
            [(to_json(rewritten(decoded(data, PlanStep))), plan_id, place) for place, data in rows],
        )


def plans_of(connection: Transaction, condition: str, *values: str) -> tuple[Plan, ...]:
    """Return the plans that fit a condition, with its order."""
    rows = connection.execute(f"SELECT id, data FROM plans WHERE {condition}", values).fetchall()
    steps_of = "SELECT data FROM plan_steps WHERE plan_id = ? ORDER BY position"
    return tuple(
        evolve(
            decoded(data, Plan),
            steps=tuple(decoded(text, PlanStep) for (text,) in connection.execute(steps_of, (plan_id,))),
        )
        for plan_id, data in rows
    )


HISTORY = (
    "SELECT strategy, task_type, CAST(successes AS double precision) / executions, cost / executions, "
    "duration / executions, confidence / executions, executions, last_used FROM effectiveness "
)


@define(eq=False)
class SqliteEffectiveness:
    """Implements ``EffectivenessTracker`` with sums for the averages.

    Each effect fails with ``MemoryUnavailable``.

    Args:
        database: the memory file; its creator closes it.
        redactor: removes secrets from the names of strategies and types of tasks.
    """

    database: MemoryStore
    clock: Clock
    redactor: Redactor = field(factory=Redactor)

    @effect
    async def record(
        self, strategy: ReasoningStrategy, task_type: str, result: ReasoningResult, *, success: bool
    ) -> Result[None, MemoryErrors]:
        """Add a run to the record, durably."""
        figures = result.metadata
        statement = (
            "INSERT INTO effectiveness "
            "(strategy, task_type, successes, executions, cost, duration, confidence, last_used) "
            "VALUES (?, ?, ?, 1, ?, ?, ?, ?) ON CONFLICT (strategy, task_type) DO UPDATE SET "
            "successes = effectiveness.successes + excluded.successes, "
            "executions = effectiveness.executions + 1, "
            "cost = effectiveness.cost + excluded.cost, "
            "duration = effectiveness.duration + excluded.duration, "
            "confidence = effectiveness.confidence + excluded.confidence, last_used = excluded.last_used"
        )
        values = (
            self.redactor.redact(strategy),
            self.redactor.redact(task_type),
            int(success),
            figures.cost,
            figures.duration,
            figures.confidence,
            self.clock.now().isoformat(),
        )

        def work(connection: Transaction) -> None:
            connection.execute(statement, values)

        return await self.database.write("record_effectiveness", work)

    @effect
    async def get_effectiveness(
        self, strategy: ReasoningStrategy, task_type: str
    ) -> Result[Maybe[StrategyEffectiveness], MemoryErrors]:
        """Return the record, or ``Nothing``."""
        names = self.redactor.redact(strategy), self.redactor.redact(task_type)
        condition = "WHERE strategy = ? AND task_type = ?"
        found = await sql.rows(
            self.database, "get_effectiveness", effectiveness_of, HISTORY + condition, *names
        )
        return found.map(_first)

    @effect
    async def get_best_strategy(self, task_type: str) -> Result[Maybe[ReasoningStrategy], MemoryErrors]:
        """Return the strategy with the highest success rate, then the most executions."""
        best = (
            "SELECT strategy FROM effectiveness WHERE task_type = ? "
            "ORDER BY 1.0 * successes / executions DESC, executions DESC, seq LIMIT 1"
        )
        name = self.redactor.redact(task_type)
        return (await sql.rows(self.database, "get_best_strategy", str, best, name)).map(_first)

    @effect
    async def history(self, task_type: str) -> Result[tuple[StrategyEffectiveness, ...], MemoryErrors]:
        """Return the records of a task type."""
        name, condition = self.redactor.redact(task_type), "WHERE task_type = ? ORDER BY strategy"
        return await sql.rows(self.database, "history", effectiveness_of, HISTORY + condition, name)


def effectiveness_of(*row: Any) -> StrategyEffectiveness:
    """Return the record of a row of ``HISTORY``."""
    figures: list[Any] = [*row[:-1], datetime.fromisoformat(row[-1])]
    return StrategyEffectiveness(*figures)


def _first(found: tuple[_T, ...]) -> Maybe[_T]:
    return Maybe.from_optional(found[0] if found else None)
