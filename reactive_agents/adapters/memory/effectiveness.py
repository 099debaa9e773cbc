"""How strategies have done, in the memory file."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Any

from attrs import field, frozen
from returns.maybe import Maybe
from returns.result import Result

from reactive_agents.adapters.memory.database import MemoryDatabase
from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.results import ReasoningResult, ReasoningStrategy, StrategyEffectiveness
from reactive_agents.effects import effect
from reactive_agents.ports.system import Clock

_COLUMNS = "strategy, task_type, successes, executions, cost, duration, confidence, last_used"


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
        row = (
            self.redactor.redact(strategy),
            self.redactor.redact(task_type),
            int(success),
            figures.cost,
            figures.duration,
            figures.confidence,
            self.clock.now().isoformat(),
        )
        return await self.database.write("record_effectiveness", lambda connection: _record(connection, row))

    @effect
    async def get_effectiveness(
        self, strategy: ReasoningStrategy, task_type: str
    ) -> Result[Maybe[StrategyEffectiveness], MemoryErrors]:
        """The record, or ``Nothing``. Fails with ``MemoryUnavailable``."""
        names = self.redactor.redact(strategy), self.redactor.redact(task_type)
        found = await self.database.read("get_effectiveness", lambda connection: _get(connection, *names))
        return found.map(Maybe.from_optional)

    @effect
    async def get_best_strategy(self, task_type: str) -> Result[Maybe[ReasoningStrategy], MemoryErrors]:
        """Return the strategy with the highest success rate, then the most executions.

        Fails with ``MemoryUnavailable``.
        """
        name = self.redactor.redact(task_type)
        found = await self.database.read("get_best_strategy", lambda connection: _best(connection, name))
        return found.map(Maybe.from_optional)

    @effect
    async def history(self, task_type: str) -> Result[tuple[StrategyEffectiveness, ...], MemoryErrors]:
        """Return the records of a task type; fails with ``MemoryUnavailable``."""
        name = self.redactor.redact(task_type)
        return await self.database.read("history", lambda connection: _history(connection, name))


def _record(connection: sqlite3.Connection, row: tuple[str | int | float, ...]) -> None:
    connection.execute(
        "INSERT INTO effectiveness "
        "(strategy, task_type, successes, executions, cost, duration, confidence, last_used) "
        "VALUES (?, ?, ?, 1, ?, ?, ?, ?) ON CONFLICT (strategy, task_type) DO UPDATE SET "
        "successes = successes + excluded.successes, executions = executions + 1, "
        "cost = cost + excluded.cost, duration = duration + excluded.duration, "
        "confidence = confidence + excluded.confidence, last_used = excluded.last_used",
        row,
    )


def _get(
    connection: sqlite3.Connection, strategy: ReasoningStrategy, task_type: str
) -> StrategyEffectiveness | None:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM effectiveness WHERE strategy = ? AND task_type = ?", (strategy, task_type)
    ).fetchone()
    return None if row is None else _effectiveness(row)


def _history(connection: sqlite3.Connection, task_type: str) -> tuple[StrategyEffectiveness, ...]:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM effectiveness WHERE task_type = ? ORDER BY strategy", (task_type,)
    ).fetchall()
    return tuple(map(_effectiveness, rows))


def _effectiveness(row: tuple[Any, ...]) -> StrategyEffectiveness:
    strategy, task_type, successes, executions, cost, duration, confidence, last_used = row
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


def _best(connection: sqlite3.Connection, task_type: str) -> ReasoningStrategy | None:
    row = connection.execute(
        "SELECT strategy FROM effectiveness WHERE task_type = ? "
        "ORDER BY 1.0 * successes / executions DESC, executions DESC, seq LIMIT 1",
        (task_type,),
    ).fetchone()
    return None if row is None else str(row[0])
