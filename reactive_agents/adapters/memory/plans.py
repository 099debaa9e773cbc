"""Plans in the memory file; every transition of a step is a durable transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import datetime
from typing import Any

from attrs import Factory, evolve, field, frozen
from returns.maybe import Maybe
from returns.result import Failure, Result, Success

from reactive_agents.adapters.memory.database import MemoryDatabase, record_redactor
from reactive_agents.adapters.memory.decay import microseconds
from reactive_agents.adapters.memory.store import decoded
from reactive_agents.core.codec import to_json
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.core.event_redaction import ValueRedactor
from reactive_agents.core.ids import AgentId, PlanId
from reactive_agents.core.memory import StepTransition
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.redaction import Redactor
from reactive_agents.effects import effect
from reactive_agents.ports.system import Clock


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
        return await self.database.write("save_plan", lambda connection: _save(connection, clean))

    @effect
    async def update_step(self, plan_id: PlanId, step: PlanStep) -> Result[None, MemoryErrors]:
        """Replace the step with the same id; on disk when this ends.

        Fails with ``MemoryUnavailable``, also when there is no such step.
        """
        now = self.clock.now()
        clean = self._records.redacted(step)
        updated = await self.database.write(
            "update_step", lambda connection: _update(connection, plan_id, clean, now)
        )
        if isinstance(updated, Success) and not updated.unwrap():
            return Failure(MemoryUnavailable(f"No step {step.id!r} of a plan {plan_id!r}.", "update_step"))
        return updated.map(lambda _: None)

    @effect
    async def get(self, plan_id: PlanId) -> Result[Maybe[Plan], MemoryErrors]:
        """The plan, or ``Nothing``. Fails with ``MemoryUnavailable``."""
        found = await self.database.read("get_plan", lambda connection: _get(connection, plan_id))
        return found.map(Maybe.from_optional)

    @effect
    async def list_plans(self, agent_id: AgentId) -> Result[tuple[Plan, ...], MemoryErrors]:
        """The agent's plans, newest first; of the same age, the one saved later.

        Fails with ``MemoryUnavailable``.
        """
        return await self.database.read("list_plans", lambda connection: _of_agent(connection, agent_id))

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
        return await self.database.read("transitions", lambda connection: _transitions(connection, plan_id))


def _save(connection: sqlite3.Connection, plan: Plan) -> None:
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


def _update(connection: sqlite3.Connection, plan_id: PlanId, step: PlanStep, now: datetime) -> bool:
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


def _get(connection: sqlite3.Connection, plan_id: PlanId) -> Plan | None:
    row = connection.execute("SELECT id, data FROM plans WHERE id = ?", (plan_id,)).fetchone()
    return None if row is None else _plan_of(connection, row)


def _of_agent(connection: sqlite3.Connection, agent_id: AgentId) -> tuple[Plan, ...]:
    rows = connection.execute(
        "SELECT id, data FROM plans WHERE agent_id = ? ORDER BY created_at DESC, seq DESC", (agent_id,)
    ).fetchall()
    return tuple(_plan_of(connection, row) for row in rows)


def _plan_of(connection: sqlite3.Connection, row: Any) -> Plan:
    plan_id, data = row
    plan: Plan = decoded(data, Plan)
    steps = connection.execute("SELECT data FROM plan_steps WHERE plan_id = ? ORDER BY position", (plan_id,))
    return evolve(plan, steps=tuple(decoded(text, PlanStep) for (text,) in steps))


def _transitions(connection: sqlite3.Connection, plan_id: PlanId) -> tuple[StepTransition, ...]:
    rows = connection.execute(
        "SELECT at, data FROM step_transitions WHERE plan_id = ? ORDER BY seq", (plan_id,)
    )
    return tuple(
        StepTransition(plan_id, decoded(data, PlanStep), datetime.fromisoformat(at)) for at, data in rows
    )
