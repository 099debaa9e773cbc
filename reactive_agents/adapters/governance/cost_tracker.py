"""Usage and cost of runs, in an SQLite file or a Postgres database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, TypeVar

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters import sql, sqlite
from reactive_agents.adapters.governance.budget import nano_usd, usd
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.governance import SpendingRecord
from reactive_agents.core.usage import Usage, by_model
from reactive_agents.effects import effect
from reactive_agents.ports import Clock

_T = TypeVar("_T")

Grouping: TypeAlias = Literal["model", "agent", "user", "day", "run"]

_failed = sqlite.failure_of("cost-tracker")


def _split_by_model(connection: sql.Transaction) -> None:
    """Migrate the single table of files with one model for each run."""
    old = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'spending'"
    if connection.execute(old).fetchone() is not None:
        for statement in _SPLIT:
            connection.execute(statement)


_SPLIT = (
    "INSERT OR IGNORE INTO spending_runs"
    " SELECT run_id, task_id, agent, day, at_us, recorded_us FROM spending",
    "INSERT OR IGNORE INTO spending_models SELECT run_id, model, nano_usd, unpriced_calls, input_tokens,"
    " output_tokens, total_tokens, reported FROM spending",
    "DROP TABLE spending",
)

COST = sqlite.Store(
    "cost",
    (
        (
            "CREATE TABLE IF NOT EXISTS spending_runs (run_id TEXT PRIMARY KEY, task_id TEXT NOT NULL,"
            " agent TEXT NOT NULL, day TEXT NOT NULL, at_us INTEGER NOT NULL, recorded_us INTEGER NOT NULL)",
            "CREATE INDEX IF NOT EXISTS spending_runs_at ON spending_runs (at_us)",
            "CREATE TABLE IF NOT EXISTS spending_models (run_id TEXT NOT NULL, model TEXT NOT NULL,"
            " nano_usd INTEGER NOT NULL, unpriced_calls INTEGER NOT NULL, input_tokens INTEGER NOT NULL,"
            " output_tokens INTEGER NOT NULL, total_tokens INTEGER NOT NULL, reported INTEGER NOT NULL,"
            " PRIMARY KEY (run_id, model))",
            _split_by_model,
        ),
        ("ALTER TABLE spending_runs ADD COLUMN user_id TEXT NOT NULL DEFAULT ''",),
    ),
    postgres=(
        (
            'CREATE TABLE spending_runs (run_id text COLLATE "C" PRIMARY KEY, task_id text NOT NULL,'
            ' agent text COLLATE "C" NOT NULL, day text NOT NULL, at_us bigint NOT NULL,'
            " recorded_us bigint NOT NULL)",
            "CREATE INDEX spending_runs_at ON spending_runs (at_us)",
            "CREATE TABLE spending_models (run_id text NOT NULL REFERENCES spending_runs,"
            ' model text COLLATE "C" NOT NULL, nano_usd bigint NOT NULL, unpriced_calls bigint NOT NULL,'
            " input_tokens bigint NOT NULL, output_tokens bigint NOT NULL, total_tokens bigint NOT NULL,"
            " reported bigint NOT NULL, PRIMARY KEY (run_id, model))",
        ),
        ("ALTER TABLE spending_runs ADD COLUMN user_id text COLLATE \"C\" NOT NULL DEFAULT ''",),
    ),
)
"""Tokens and money of each run, by model."""

_INSERT_RUN = "INSERT INTO spending_runs VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id) DO NOTHING"
_INSERT_MODEL = "INSERT INTO spending_models VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_FORGET = "UPDATE spending_runs SET user_id = '' WHERE user_id = ?"
_OLDEST = "SELECT run_id FROM spending_runs WHERE at_us < ? ORDER BY at_us LIMIT ?"
_DELETED_AT_ONCE = 500
_HALF = 2**32
_SUMMED = ("nano_usd", "unpriced_calls", "input_tokens", "output_tokens", "total_tokens")
_SUMS = ", ".join(
    (
        "count(DISTINCT runs.run_id), coalesce(min(reported), 1)",
        # each in two halves, since a sum of SQLite is an error over 2^63
        *(f"coalesce(sum({each} / {_HALF}), 0), coalesce(sum({each} % {_HALF}), 0)" for each in _SUMMED),
    )
)
_BY_COST = "coalesce(sum(nano_usd / 1.0), 0) DESC, 1"
_FROM = "FROM spending_runs runs {} JOIN spending_models models USING (run_id) WHERE at_us >= ?"
_QUERIES: dict[Grouping, str] = {
    "model": f"SELECT model, {_SUMS} {_FROM.format('')} GROUP BY model ORDER BY {_BY_COST}",
    "agent": f"SELECT agent, {_SUMS} {_FROM.format('LEFT')} GROUP BY agent ORDER BY {_BY_COST}",
    "user": f"SELECT user_id, {_SUMS} {_FROM.format('LEFT')} GROUP BY user_id ORDER BY {_BY_COST}",
    "day": f"SELECT day, {_SUMS} {_FROM.format('LEFT')} GROUP BY day ORDER BY 1",
    "run": f"SELECT run_id, {_SUMS} {_FROM.format('LEFT')} GROUP BY run_id ORDER BY {_BY_COST}",
}
_EVER = -(2**63)


@frozen
class SpendingTotal:
    """Usage and cost of a group of runs.

    Attributes:
        name: the model, the agent, the user, the run, or the UTC day as ``2026-01-31``. The model is empty
            if a tool did not report its models, the user for runs without one.
        runs: number of runs in the group, 1 or more. A run counts for each model that it used.
        cost_usd: US dollars, for calls with a known price.
        unpriced_calls: calls with an unknown price.
    """

    name: str
    runs: int
    usage: Usage
    cost_usd: float
    unpriced_calls: int


class SqliteCostTracker:
    """Implements ``CostTracker``; any number of processes may write to one place.

    Args:
        path: the SQLite file, created with its directories if missing, or a Postgres URL.
        clock: the clock for the times of records.
        read_only: never write or create tables.
    """

    def __init__(self, path: sqlite.DatabasePath, *, clock: Clock, read_only: bool = False) -> None:
        self._clock = clock
        self._file = sql.open_database(path, COST, _failed, read_only=read_only, traced=True)

    @property
    def place(self) -> str:
        """The file or address; empty for records that end with this object."""
        return self._file.place

    @effect
    async def record(self, spending: SpendingRecord) -> Result[None, ServiceFailed]:
        """Add the usage of a run, unless the run is already recorded."""

        def work(connection: sql.Transaction) -> None:
            added = connection.execute(_INSERT_RUN, _run_row(spending, self._clock.now()))
            if added.rowcount:
                connection.executemany(_INSERT_MODEL, _model_rows(spending))

        return await self._file.write("record", work, of=spending.run_id)

    @effect
    async def totals(
        self, by: Grouping, *, since: datetime | None = None
    ) -> Result[tuple[SpendingTotal, ...], ServiceFailed]:
        """Return totals of runs, the most expensive first, or by day in order.

        Args:
            since: only runs that ended at or after this time; with its time zone.

        Fails with ``ServiceFailed`` if the file cannot be read or an argument is invalid.
        """
        wrong = _wrong_grouping(by) or ("" if since is None else _wrong_moment(since, "since", ", or None"))
        if wrong:
            return Failure(_failed(wrong, "totals"))

        def work(connection: sql.Transaction) -> tuple[SpendingTotal, ...]:
            earliest = _EVER if since is None else _microseconds(since)
            return tuple(map(_total, connection.execute(_QUERIES[by], (earliest,))))

        return await self._file.read("totals", work)

    @effect
    async def forget(self, user: str) -> Result[int, ServiceFailed]:
        """Remove a user's name from the usage of runs; return their number."""

        def work(connection: sql.Transaction) -> int:
            named = connection.execute(_FORGET, (sqlite.storable(user),))
            return int(named.rowcount)

        return await self._file.erase("forget", work)

    @effect
    async def prune(self, before: datetime) -> Result[int, ServiceFailed]:
        """Delete the usage of runs that ended before a time; return their number.

        Args:
            before: with its time zone.
        """
        wrong = _wrong_moment(before, "before")
        if wrong:
            return Failure(_failed(wrong, "prune"))

        def work(connection: sql.Transaction) -> int:
            rows = connection.execute(_OLDEST, (_microseconds(before), _DELETED_AT_ONCE)).fetchall()
            names = [name for (name,) in rows]
            for table in ("spending_models", "spending_runs") if names else ():
                connection.execute(f"DELETE FROM {table} WHERE run_id IN ({sql.marks(names)})", names)
            return len(names)

        deleted, some = 0, _DELETED_AT_ONCE
        while some == _DELETED_AT_ONCE:
            done = await self._file.write("prune", work)
            if isinstance(done, Failure):
                return Failure(done.failure())
            some = done.unwrap()
            deleted += some
        await self._file.empty_log()
        return Success(deleted)

    async def aclose(self) -> None:
        """Close the file; the next call opens it again."""
        await self._file.aclose()


def is_cost_database(path: sqlite.DatabasePath) -> Result[bool, ServiceFailed]:
    """Return whether the file is a cost database, without changing it."""
    tables = "SELECT 1 FROM sqlite_schema WHERE name IN ('spending', 'spending_runs')"
    found = sqlite.look_into(path, COST, lambda connection: connection.execute(tables).fetchone() is not None)
    return found.alt(lambda sentence: _failed(sentence, "open"))


def _wrong_grouping(by: object) -> str:
    known = list(_QUERIES)
    return "" if by in known else f"The argument by: got {by!r}, expected one of {', '.join(known)}."


def _wrong_moment(given: object, name: str, otherwise: str = "") -> str:
    if isinstance(given, datetime) and given.tzinfo is not None:
        return ""
    got = given.isoformat() if isinstance(given, datetime) else repr(given)
    return f"The argument {name}: got {got}, expected a moment with a time zone{otherwise}."


def _run_row(spending: SpendingRecord, now: datetime) -> tuple[str | int, ...]:
    return (
        sqlite.storable(spending.run_id),
        sqlite.storable(spending.task_id),
        sqlite.storable(spending.agent_id),
        f"{spending.at.astimezone(UTC):%Y-%m-%d}",
        _microseconds(spending.at),
        _microseconds(now),
        sqlite.storable(spending.user or ""),
    )


def _model_rows(spending: SpendingRecord) -> Iterator[tuple[str | int, ...]]:
    named = (evolve(each, model=sqlite.storable(each.model)) for each in spending.models)
    for each in by_model(named):
        usage = each.usage
        yield (
            sqlite.storable(spending.run_id),
            each.model,
            nano_usd(each.cost_usd),
            each.unpriced_calls,
            usage.input_tokens,
            usage.output_tokens,
            usage.total_tokens,
            int(usage.reported),
        )


def _total(row: tuple[Any, ...]) -> SpendingTotal:
    name, runs, reported, *halves = row
    nano, unpriced, inputs, outputs, total = (
        int(high) * _HALF + int(low) for high, low in zip(halves[::2], halves[1::2], strict=True)
    )
    return SpendingTotal(name, runs, Usage(inputs, outputs, total, bool(reported)), usd(nano), unpriced)


def _microseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"the moment {moment.isoformat()} has no time zone")
    return sqlite.microseconds(moment)
