"""The persona store in the memory file; each write is a durable transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from returns.maybe import Maybe
from returns.result import Result

from reactive_agents.adapters.memory.database import MemoryDatabase, record_redactor
from reactive_agents.adapters.memory.decay import microseconds
from reactive_agents.adapters.memory.store import decoded
from reactive_agents.adapters.sqlite import DatabasePath
from reactive_agents.core.codec import to_json
from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.ids import ContextId, EventId, LearningId, PersonaId, PlanId, TaskId
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.core.personas import (
    THOUGHTS_KEPT,
    Domain,
    LearningEntry,
    PersonaPlan,
    SelfState,
    Thought,
    ThoughtKind,
    thought_weight,
)
from reactive_agents.core.plans import PlanStatus
from reactive_agents.core.redaction import Redactor
from reactive_agents.effects import effect


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
    async def save_plan(self, plan: PersonaPlan) -> Result[None, MemoryErrors]:
        """Store the plan under its id, replacing what was there.

        Fails with ``MemoryUnavailable``.
        """
        row = (
            plan.id,
            plan.persona_id,
            plan.domain,
            plan.context_id,
            plan.event.id,
            plan.plan.status,
            microseconds(plan.plan.created_at),
            to_json(self._records.redacted(plan)),
        )
        return await self._database.write("save_plan", lambda connection: _save_plan(connection, row))

    @effect
    async def get_plan(self, plan_id: PlanId) -> Result[Maybe[PersonaPlan], MemoryErrors]:
        """Return the plan, or ``Nothing``. Fails with ``MemoryUnavailable``."""
        return await self._one("get_plan", PersonaPlan, "persona_plans WHERE id = ?", plan_id)

    @effect
    async def plan_of_event(
        self, persona_id: PersonaId, event_id: EventId
    ) -> Result[Maybe[PersonaPlan], MemoryErrors]:
        """Return the newest plan for the event, or ``Nothing``.

        Fails with ``MemoryUnavailable``.
        """
        place = "persona_plans WHERE persona_id = ? AND event_id = ? ORDER BY seq DESC LIMIT 1"
        return await self._one("plan_of_event", PersonaPlan, place, persona_id, event_id)

    @effect
    async def list_plans(
        self,
        persona_id: PersonaId,
        *,
        domain: Domain | None = None,
        context_id: ContextId | None = None,
        status: PlanStatus | None = None,
        limit: int = 50,
    ) -> Result[tuple[PersonaPlan, ...], MemoryErrors]:
        """Return the persona's plans, newest first.

        Of the same age, the one made later first.

        Fails with ``MemoryUnavailable``.
        """
        wanted = {"persona_id": persona_id, "domain": domain, "context_id": context_id, "status": status}
        named = {column: value for column, value in wanted.items() if value is not None}
        conditions = " AND ".join(f"{column} = ?" for column in named)
        place = f"persona_plans WHERE {conditions} ORDER BY created_at DESC, seq DESC LIMIT ?"
        return await self._all("list_plans", PersonaPlan, place, *named.values(), limit)

    @effect
    async def save_learning(self, learning: LearningEntry) -> Result[None, MemoryErrors]:
        """Store the learning under its id, replacing what was there.

        Fails with ``MemoryUnavailable``.
        """
        row = (
            learning.id,
            learning.persona_id,
            learning.domain,
            learning.confidence,
            learning.use_count,
            to_json(self._records.redacted(learning)),
        )
        return await self._database.write("save_learning", lambda connection: _save_learning(connection, row))

    @effect
    async def get_learning(self, learning_id: LearningId) -> Result[Maybe[LearningEntry], MemoryErrors]:
        """Return the learning, or ``Nothing``. Fails with ``MemoryUnavailable``."""
        return await self._one("get_learning", LearningEntry, "persona_learnings WHERE id = ?", learning_id)

    @effect
    async def list_learnings(
        self, persona_id: PersonaId, *, domain: Domain | None = None
    ) -> Result[tuple[LearningEntry, ...], MemoryErrors]:
        """Return the learnings, the most confident first, then the most used.

        Fails with ``MemoryUnavailable``.
        """
        order = "ORDER BY confidence DESC, use_count DESC, seq"
        place = f"persona_learnings WHERE persona_id = ? AND (? IS NULL OR domain = ?) {order}"
        return await self._all("list_learnings", LearningEntry, place, persona_id, domain, domain)

    @effect
    async def delete_learning(self, learning_id: LearningId) -> Result[bool, MemoryErrors]:
        """Delete the learning; return whether it existed.

        Fails with ``MemoryUnavailable``.
        """
        statement = "DELETE FROM persona_learnings WHERE id = ?"
        return await self._database.write(
            "delete_learning", lambda connection: connection.execute(statement, (learning_id,)).rowcount > 0
        )

    @effect
    async def add_thought(self, thought: Thought) -> Result[None, MemoryErrors]:
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
        domain: Domain,
        context_id: ContextId,
        kinds: Sequence[ThoughtKind] = (),
        limit: int = 5,
    ) -> Result[tuple[Thought, ...], MemoryErrors]:
        """Return the most important thoughts of one context.

        Fails with ``MemoryUnavailable``.
        """
        wanted = f"AND kind IN ({', '.join('?' * len(kinds))}) " if kinds else ""
        place = (
            "persona_thoughts WHERE persona_id = ? AND domain = ? AND context_id = ? "
            f"{wanted}ORDER BY weight DESC, seq DESC LIMIT ?"
        )
        return await self._all(
            "recall_thoughts", Thought, place, persona_id, domain, context_id, *kinds, limit
        )

    @effect
    async def get_self_state(self, persona_id: PersonaId) -> Result[SelfState, MemoryErrors]:
        """Return the self state; an idle one when none is stored.

        Fails with ``MemoryUnavailable``.
        """
        found = await self._one(
            "get_self_state", SelfState, "persona_states WHERE persona_id = ?", persona_id
        )
        return found.map(lambda state: state.value_or(SelfState(persona_id)))

    @effect
    async def save_self_state(self, state: SelfState) -> Result[None, MemoryErrors]:
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
        done = await self._database.write(
            operation, lambda connection: connection.execute(statement, values).rowcount
        )
        return done.map(lambda _: None)

    async def _all(
        self, operation: str, kind: Any, place: str, *values: object
    ) -> Result[tuple[Any, ...], MemoryErrors]:
        return await self._database.read(
            operation, lambda connection: _decoded_rows(connection, kind, place, values)
        )

    async def _one(
        self, operation: str, kind: Any, place: str, *values: object
    ) -> Result[Maybe[Any], MemoryErrors]:
        found = await self._all(operation, kind, place, *values)
        return found.map(lambda rows: Maybe.from_optional(rows[0] if rows else None))


def _decoded_rows(
    connection: sqlite3.Connection, kind: Any, place: str, values: tuple[object, ...]
) -> tuple[Any, ...]:
    rows = connection.execute(f"SELECT data FROM {place}", values).fetchall()
    return tuple(decoded(data, kind) for (data,) in rows)


def _save_plan(connection: sqlite3.Connection, row: tuple[str | int, ...]) -> None:
    connection.execute(
        "INSERT INTO persona_plans "
        "(id, persona_id, domain, context_id, event_id, status, created_at, data) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
        "status = excluded.status, data = excluded.data",
        row,
    )


def _save_learning(connection: sqlite3.Connection, row: tuple[str | float, ...]) -> None:
    connection.execute(
        "INSERT INTO persona_learnings (id, persona_id, domain, confidence, use_count, data) "
        "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET confidence = excluded.confidence, "
        "use_count = excluded.use_count, data = excluded.data",
        row,
    )


def _add_thought(connection: sqlite3.Connection, thought: Thought) -> None:
    place = (thought.persona_id, thought.domain, thought.context_id)
    connection.execute(
        "INSERT INTO persona_thoughts (persona_id, domain, context_id, kind, weight, data) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (*place, thought.kind, thought_weight(thought), to_json(thought)),
    )
    connection.execute(
        "DELETE FROM persona_thoughts WHERE seq IN (SELECT seq FROM persona_thoughts WHERE persona_id = ? "
        "AND domain = ? AND context_id = ? ORDER BY weight DESC, seq DESC LIMIT -1 OFFSET ?)",
        (*place, THOUGHTS_KEPT),
    )
