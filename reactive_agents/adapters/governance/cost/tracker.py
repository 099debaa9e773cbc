"""The account of what runs spent, in a SQLite file."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

from attrs import frozen
from returns.result import Result

from reactive_agents.adapters.governance.cost.amounts import nano_usd, usd
from reactive_agents.adapters.governance.database import Database, DatabasePath
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.governance import SpendingRecord
from reactive_agents.core.models import Usage
from reactive_agents.effects import effect
from reactive_agents.ports.system import Clock

Grouping: TypeAlias = Literal["model", "agent", "day"]

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS spending (run_id TEXT PRIMARY KEY, task_id TEXT NOT NULL,"
    " agent TEXT NOT NULL, model TEXT NOT NULL, day TEXT NOT NULL, at_us INTEGER NOT NULL,"
    " recorded_us INTEGER NOT NULL, nano_usd INTEGER NOT NULL, unpriced_calls INTEGER NOT NULL,"
    " input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, total_tokens INTEGER NOT NULL,"
    " reported INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS spending_at ON spending (at_us)",
)
_INSERT = (
    "INSERT INTO spending VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id) DO NOTHING"
)
_SUMS = (
    "count(*), sum(nano_usd), sum(unpriced_calls), sum(input_tokens), sum(output_tokens),"
    " sum(total_tokens), min(reported)"
)
_QUERIES: dict[Grouping, str] = {
    "model": f"SELECT model, {_SUMS} FROM spending WHERE at_us >= ? GROUP BY model ORDER BY 3 DESC, 1",
    "agent": f"SELECT agent, {_SUMS} FROM spending WHERE at_us >= ? GROUP BY agent ORDER BY 3 DESC, 1",
    "day": f"SELECT day, {_SUMS} FROM spending WHERE at_us >= ? GROUP BY day ORDER BY 1",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EVER = -(2**63)


@frozen
class SpendingTotal:
    """What a group of runs spent together.

    Attributes:
        name: the model, the agent, or the day of UTC as ``2026-01-31``.
        runs: how many runs there are in the group, 1 or more.
        cost_usd: US dollars, of the calls whose price is known.
        unpriced_calls: calls whose price is unknown.
    """

    name: str
    runs: int
    usage: Usage
    cost_usd: float
    unpriced_calls: int


class SqliteCostTracker:
    """Implements ``CostTracker``; any number of processes may write to one file.

    Args:
        path: the SQLite file, made when it is not there; its directory must exist.
        clock: tells when a record was written.
    """

    def __init__(self, path: DatabasePath, *, clock: Clock) -> None:
        self._clock = clock
        self._database = Database(path, service="cost-tracker", schema=_SCHEMA)

    @effect
    async def record(self, spending: SpendingRecord) -> Result[None, ServiceFailed]:
        """Add what one run spent. A run that is recorded already stays as it is."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_INSERT, _row(spending, self._clock.now()))

        return await self._database.transact("record", work)

    @effect
    async def totals(
        self, by: Grouping, *, since: datetime | None = None
    ) -> Result[tuple[SpendingTotal, ...], ServiceFailed]:
        """What was spent: by model or agent the dearest first, by day the earliest first.

        Args:
            by: what makes a group.
            since: counts runs that ended then or later; with its time zone.
        """

        def work(connection: sqlite3.Connection) -> tuple[SpendingTotal, ...]:
            earliest = _EVER if since is None else _microseconds(since)
            return tuple(map(_total, connection.execute(_QUERIES[by], (earliest,))))

        return await self._database.transact("totals", work)

    async def aclose(self) -> None:
        """Close the file; the next call opens it again."""
        await self._database.aclose()


def _row(spending: SpendingRecord, now: datetime) -> tuple[str | int, ...]:
    usage = spending.usage
    return (
        _text(spending.run_id),
        _text(spending.task_id),
        _text(spending.agent_id),
        _text(spending.model),
        f"{spending.at.astimezone(UTC):%Y-%m-%d}",
        _microseconds(spending.at),
        _microseconds(now),
        nano_usd(spending.cost_usd),
        spending.unpriced_calls,
        usage.input_tokens,
        usage.output_tokens,
        usage.total_tokens,
        int(usage.reported),
    )


def _total(row: tuple[str, int, int, int, int, int, int, int]) -> SpendingTotal:
    name, runs, nano, unpriced, inputs, outputs, total, reported = row
    return SpendingTotal(name, runs, Usage(inputs, outputs, total, bool(reported)), usd(nano), unpriced)


def _microseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"the moment {moment.isoformat()} has no time zone")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _text(value: str) -> str:
    """What SQLite can hold: half of a surrogate pair, which it cannot, is escaped."""
    return value.encode(errors="backslashreplace").decode()
