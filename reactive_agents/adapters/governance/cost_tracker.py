"""Usage and cost of runs, in an SQLite file or a Postgres database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from operator import add
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

# --- Sums of runs, kept by triggers: totals do not look at each run ---


_HALF = 2**32
_SUMMED = ("nano_usd", "unpriced_calls", "input_tokens", "output_tokens", "total_tokens")
_KEPT = (
    "runs",
    "unreported",
    # each in two halves, since a sum of SQLite is an error over 2^63
    *(f"{column}_{half}" for column in _SUMMED for half in ("high", "low")),
)
_SUMS_TABLE = (
    "CREATE TABLE spending_sums (kind TEXT NOT NULL, name TEXT NOT NULL, day TEXT NOT NULL,"
    f" part INTEGER NOT NULL, {', '.join(f'{each} INTEGER NOT NULL' for each in _KEPT)},"
    " PRIMARY KEY (kind, day, name, part))"
)
"""Sums of an agent, user, model or day: those of all its runs (``day`` is empty), and those of each day.

On a server, the runs of a sum are in 16 parts, since those that end at once would wait for each other.
"""
_NONE = ", ".join("0" for _ in _SUMMED for _ in range(2))


def _halves(of: str, *, sign: str = "") -> str:
    return ", ".join(f"{sign}({of.format(each)} {how} {_HALF})" for each in _SUMMED for how in "/%")


def _added(kinds: tuple[tuple[str, str], ...], sums: str, source: str, *, schema: str, part: str) -> str:
    """Return the statement that adds sums to the rows of kinds, each with its name."""
    rows = " UNION ALL ".join(
        f"SELECT '{kind}', {name}, {day}, {part}, {sums} {source}"
        for kind, name in kinds
        for day in ("run.day", "''")
    )
    added = ", ".join(f"{each} = spending_sums.{each} + excluded.{each}" for each in _KEPT)
    return (
        f"INSERT INTO {schema}spending_sums SELECT * FROM ({rows}) AS new_sums WHERE true"
        f" ORDER BY 1, 2, 3 ON CONFLICT (kind, day, name, part) DO UPDATE SET {added};"
    )


_KINDS = (("agent", "run.agent"), ("day", "run.day"), ("user", "run.user_id"))


def _changes(schema: str = "", part: str = "0") -> dict[str, str]:
    """Return the statements after each change of a table, by the change."""
    user, of_run = (("user", "run.user_id"),), f"FROM {schema}spending_runs AS run WHERE run.run_id = "
    changes: dict[str, str] = {}
    for change, row, sign in (("INSERT", "NEW", ""), ("DELETE", "OLD", "-")):
        at, halves = part.format(f"{row}.run_id"), _halves(f"{row}.{{}}", sign=sign)
        unreported = f"{sign}(1 - {row}.reported)"
        changes[f"{change} ON spending_runs"] = _added(
            _KINDS,
            f"{sign}1, 0, {_NONE}",
            f"FROM (SELECT {row}.agent AS agent, {row}.day AS day, {row}.user_id AS user_id) AS run",
            schema=schema,
            part=at,
        )
        changes[f"{change} ON spending_models"] = "".join(
            _added(kinds, f"{runs}, {unreported}, {halves}", f"{of_run}{row}.run_id", schema=schema, part=at)
            for kinds, runs in ((_KINDS, "0"), ((("model", f"{row}.model"),), f"{sign}1"))
        )
    moved = ""
    for row, sign in (("OLD", "-"), ("NEW", "")):
        run = f"FROM (SELECT {row}.user_id AS user_id, {row}.day AS day) AS run"
        used = f"{run} JOIN {schema}spending_models AS used ON used.run_id = {row}.run_id"
        at, halves = part.format(f"{row}.run_id"), _halves("used.{}", sign=sign)
        moved += _added(user, f"{sign}1, 0, {_NONE}", run, schema=schema, part=at)
        sums = ", ".join(f"coalesce(sum({each}), 0)" for each in halves.split(", "))
        sums = f"0, {sign}coalesce(sum(1 - used.reported), 0), {sums}"
        moved += _added(user, sums, f"{used} GROUP BY run.user_id, run.day", schema=schema, part=at)
    changes["UPDATE OF user_id ON spending_runs"] = moved
    return changes


def _filled(part: str = "0") -> Iterator[str]:
    """Return the statements that sum up what is stored so far."""
    at = part.format("run.run_id")
    sums = ", ".join(f"coalesce(sum({each}), 0)" for each in _halves("used.{}").split(", "))
    for kind, name in (*_KINDS, ("model", "used.model")):
        join = "JOIN" if kind == "model" else "LEFT JOIN"
        for day in ("run.day", "''"):
            yield (
                f"INSERT INTO spending_sums SELECT '{kind}', {name}, {day}, {at}, count(DISTINCT run.run_id),"
                f" coalesce(sum(1 - used.reported), 0), {sums} FROM spending_runs AS run"
                f" {join} spending_models AS used ON used.run_id = run.run_id GROUP BY 1, 2, 3, 4"
            )


_PART = "ascii(right({}, 1)) % 16"


def _on_server() -> Iterator[str]:
    schema = "reactive_agents."
    for number, (change, body) in enumerate(_changes(schema, _PART).items()):
        yield (
            f"CREATE FUNCTION spending_summed_{number}() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN {body} RETURN NULL; END $$"
        )
        yield (
            f"CREATE TRIGGER spending_summed_{number} AFTER {change}"
            f" FOR EACH ROW EXECUTE FUNCTION spending_summed_{number}()"
        )


_IN_FILE = tuple(
    f"CREATE TRIGGER spending_summed_{number} AFTER {change} BEGIN {body} END"
    for number, (change, body) in enumerate(_changes().items())
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
        (f"{_SUMS_TABLE} WITHOUT ROWID", *_filled(), *_IN_FILE),
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
        # the triggers first: they lock the tables, so that no run is recorded while these are summed up
        (_SUMS_TABLE.replace("INTEGER", "bigint"), *_on_server(), *_filled(_PART)),
    ),
)
"""Tokens and money of each run, by model."""

_INSERT_RUN = "INSERT INTO spending_runs VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id) DO NOTHING"
_INSERT_MODEL = "INSERT INTO spending_models VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_FORGET = "UPDATE spending_runs SET user_id = '' WHERE user_id = ?"
_OLDEST = "SELECT run_id FROM spending_runs WHERE at_us < ? ORDER BY at_us LIMIT ?"
_DELETE_EMPTY = "DELETE FROM spending_sums WHERE runs = 0"
_DELETED_AT_ONCE = 500
_COUNTED = ", ".join(
    (
        "count(DISTINCT runs.run_id), coalesce(sum(1 - reported), 0)",
        *(f"coalesce(sum({each}), 0)" for each in _halves("{}").split(", ")),
    )
)
_GROUPED: dict[Grouping, str] = {
    "model": "model",
    "agent": "agent",
    "user": "user_id",
    "day": "day",
    "run": "runs.run_id",
}
_OF_RUNS = (
    f"SELECT {{0}}, {_COUNTED} FROM spending_runs runs {{1}} JOIN spending_models models"
    " ON models.run_id = runs.run_id WHERE at_us >= ? AND at_us < ? GROUP BY {0}"
)
_OF_SUMS = (
    f"SELECT name, {', '.join(f'sum({each})' for each in _KEPT)} FROM spending_sums"
    " WHERE kind = ? AND day {} GROUP BY name HAVING sum(runs) > 0"
)
_EVER, _NEVER = -(2**63), 2**63 - 1


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
            return tuple(map(_total, _rows_of(connection, by, since)))

        return await self._file.read("totals", work)

    @effect
    async def forget(self, user: str) -> Result[int, ServiceFailed]:
        """Remove a user's name from the usage of runs; return their number."""

        def work(connection: sql.Transaction) -> int:
            named = connection.execute(_FORGET, (sqlite.storable(user),))
            connection.execute(f"{_DELETE_EMPTY} AND kind = 'user' AND name = ?", (sqlite.storable(user),))
            return int(named.rowcount)

        return await sql.erase(self._file, "forget", work, rewrites=True)

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
            if len(names) < _DELETED_AT_ONCE:
                connection.execute(_DELETE_EMPTY)
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
    known = list(_GROUPED)
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
    for each in sorted(by_model(named), key=lambda one: one.model):  # runs lock their sums in one order
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


def _rows_of(connection: sql.Transaction, by: Grouping, since: datetime | None) -> list[tuple[Any, ...]]:
    """Return the rows of totals, in order.

    Each has the name of the group, the numbers of its runs and of unreported calls, and its sums.
    """
    first, after = (_EVER, _NEVER) if since is None else (_microseconds(since), _NEVER)
    found: list[tuple[Any, ...]] = []
    if by != "run":
        day = "" if since is None else f"{since.astimezone(UTC):%Y-%m-%d}"
        kept = _OF_SUMS.format("> ?" if day or by == "day" else "= ?")
        found = connection.execute(kept, (by, day)).fetchall()
        after = _EVER if since is None else _microseconds(_end_of_day(since))
    if first < after:  # of the runs of the first day only some count
        of_runs = _OF_RUNS.format(_GROUPED[by], "" if by == "model" else "LEFT")
        found += connection.execute(of_runs, (first, after)).fetchall()
    summed: dict[str, list[int]] = {}
    for name, *row in found:
        before = summed.get(name)
        summed[name] = [*map(int, row)] if before is None else [*map(add, before, map(int, row))]
    rows = [
        (
            name,
            runs,
            unreported,
            *(high * _HALF + low for high, low in zip(sums[::2], sums[1::2], strict=True)),
        )
        for name, (runs, unreported, *sums) in summed.items()
    ]
    return sorted(rows, key=lambda row: (row[0] if by == "day" else -row[3], row[0]))


def _end_of_day(moment: datetime) -> datetime:
    """Return the first moment of the next UTC day.

    On the last day that there is, its last moment.
    """
    begin = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return begin + timedelta(days=1) if begin.date() < date.max else datetime.max.replace(tzinfo=UTC)


def _total(row: tuple[Any, ...]) -> SpendingTotal:
    name, runs, unreported, nano, unpriced, inputs, outputs, total = row
    return SpendingTotal(name, runs, Usage(inputs, outputs, total, not unreported), usd(nano), unpriced)


def _microseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"the moment {moment.isoformat()} has no time zone")
    return sqlite.microseconds(moment)
