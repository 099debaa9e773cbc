"""The account of spending holds each run once, and adds up by model, agent and day."""

from __future__ import annotations

import glob
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from attrs import evolve
from returns.result import Failure, Success

from reactive_agents.adapters.governance import cost_tracker
from reactive_agents.adapters.governance.cost_tracker import Grouping, SpendingTotal, SqliteCostTracker
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.governance import SpendingRecord
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.effects import attempt
from reactive_agents.ports import CostTracker
from reactive_agents.testing.core import START, FakeClock
from tests.support.spending import use_at_random
from tests.support.sqlite_files import counted_work, sqlite_file

pytestmark = pytest.mark.anyio

SMALL = RunUsage("small", Usage(1, 2, 3), 0.1, 1)
BIG = evolve(SMALL, model="big", cost_usd=2.0)
FIRST = SpendingRecord(RunId("r1"), TaskId("t1"), AgentId("a1"), (SMALL,), START)
SECOND = evolve(
    FIRST,
    run_id=RunId("r2"),
    agent_id=AgentId("a2"),
    models=(evolve(SMALL, cost_usd=0.2, unpriced_calls=1),),
)
THIRD = evolve(FIRST, run_id=RunId("r3"), models=(BIG,), at=START + timedelta(days=1))


ON_BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
async def tracker(tmp_path: Path) -> AsyncIterator[SqliteCostTracker]:
    made = SqliteCostTracker(tmp_path / "costs.db", clock=FakeClock())
    port: CostTracker = made
    for record in (FIRST, SECOND, THIRD):
        assert await attempt(port.record(record)) == Success(None)
    yield made
    await made.aclose()


@ON_BOTH
async def test_totals_by_model_begin_with_the_dearest(tracker: SqliteCostTracker) -> None:
    assert await attempt(tracker.totals("model")) == Success(
        (
            SpendingTotal("big", 1, Usage(1, 2, 3), 2.0, 0),
            SpendingTotal("small", 2, Usage(2, 4, 6), 0.3, 1),  # exactly, not 0.30000000000000004
        )
    )


async def test_totals_count_more_tokens_than_a_database_can_add_up(tracker: SqliteCostTracker) -> None:
    many = evolve(SMALL, model="many", usage=Usage(2**62, 1, 2**62 + 1), cost_usd=0.0)
    for name in ("r4", "r5"):
        record = tracker.record(evolve(FIRST, run_id=RunId(name), models=(many,)))
        assert await attempt(record) == Success(None)
    assert (await attempt(tracker.totals("model"))).unwrap()[-1].usage == Usage(2**63, 2, 2**63 + 2)


async def test_totals_by_user_stay_when_a_user_is_forgotten(tracker: SqliteCostTracker) -> None:
    for name, user in (("r4", "Ada"), ("r5", "Bo"), ("r6", "Ada")):
        record = tracker.record(evolve(FIRST, run_id=RunId(name), models=(BIG,), user=user))
        assert await attempt(record) == Success(None)

    async def by_user() -> list[tuple[str, int, float]]:
        totals = (await attempt(tracker.totals("user"))).unwrap()
        return [(each.name, each.runs, each.cost_usd) for each in totals]

    assert await by_user() == [("Ada", 2, 4.0), ("", 3, 2.3), ("Bo", 1, 2.0)]
    assert await attempt(tracker.forget("Ada")) == Success(2)
    assert await by_user() == [("", 5, 6.3), ("Bo", 1, 2.0)]


async def test_a_forgotten_user_is_named_in_no_file_beside_the_usage(tmp_path: Path) -> None:
    tracker = SqliteCostTracker(tmp_path / "cost.db", clock=FakeClock())
    assert await attempt(tracker.record(evolve(FIRST, user="Ada Lovelace"))) == Success(None)
    assert await attempt(tracker.forget("Ada Lovelace")) == Success(1)
    files = glob.glob(f"{tmp_path}/*")
    assert [name for name in files if b"Lovelace" in await anyio.Path(name).read_bytes()] == []
    await tracker.aclose()


async def test_totals_by_agent(tracker: SqliteCostTracker) -> None:
    totals = (await attempt(tracker.totals("agent"))).unwrap()
    assert [(each.name, each.runs, each.cost_usd) for each in totals] == [("a1", 2, 2.1), ("a2", 1, 0.2)]


async def test_totals_by_day_begin_with_the_earliest(tracker: SqliteCostTracker) -> None:
    totals = (await attempt(tracker.totals("day"))).unwrap()
    assert [(each.name, each.runs) for each in totals] == [("2026-01-01", 2), ("2026-01-02", 1)]


async def test_totals_since_a_moment_hold_it(tracker: SqliteCostTracker) -> None:
    def runs(totals: tuple[SpendingTotal, ...]) -> int:
        return sum(each.runs for each in totals)

    assert runs((await attempt(tracker.totals("model", since=START))).unwrap()) == 3
    later = START + timedelta(microseconds=1)
    assert runs((await attempt(tracker.totals("model", since=later))).unwrap()) == 1
    elsewhere = (START + timedelta(days=1)).astimezone(timezone(timedelta(hours=5)))
    assert runs((await attempt(tracker.totals("day", since=elsewhere))).unwrap()) == 1
    assert await attempt(tracker.totals("day", since=datetime(2027, 1, 1, tzinfo=UTC))) == Success(())


@pytest.mark.parametrize(
    ("by", "since", "said"),
    [
        (
            "day",
            datetime(2026, 1, 31),
            "The argument since: got 2026-01-31T00:00:00, expected a moment with a time zone, or None.",
        ),
        (
            "day",
            "2026-01-31",
            "The argument since: got '2026-01-31', expected a moment with a time zone, or None.",
        ),
        ("nope", None, "The argument by: got 'nope', expected one of model, agent, user, day, run."),
        (["day"], None, "The argument by: got ['day'], expected one of model, agent, user, day, run."),
    ],
)
async def test_totals_name_an_argument_that_is_wrong(
    tracker: SqliteCostTracker, by: Any, since: Any, said: str
) -> None:
    asked = await attempt(tracker.totals(by, since=since))
    assert asked == Failure(ServiceFailed(said, "cost-tracker", "totals"))


async def test_a_run_counts_once(tracker: SqliteCostTracker) -> None:
    before = await attempt(tracker.totals("model"))
    assert await attempt(tracker.record(evolve(FIRST, models=(BIG,)))) == Success(None)
    assert await attempt(tracker.totals("model")) == before


async def test_a_run_of_several_models_counts_with_each_and_once_in_the_others(
    tracker: SqliteCostTracker,
) -> None:
    mixed = evolve(FIRST, run_id=RunId("r4"), agent_id=AgentId("a3"), models=(SMALL, BIG, SMALL))
    assert await attempt(tracker.record(mixed)) == Success(None)
    by_model = {each.name: each for each in (await attempt(tracker.totals("model"))).unwrap()}
    assert (by_model["big"].runs, by_model["big"].cost_usd) == (2, 4.0)
    assert (by_model["small"].runs, by_model["small"].cost_usd) == (3, 0.5)
    by_agent = {each.name: each for each in (await attempt(tracker.totals("agent"))).unwrap()}
    assert by_agent["a3"] == SpendingTotal("a3", 1, Usage(3, 6, 9), 2.2, 0)
    by_run = (await attempt(tracker.totals("run"))).unwrap()
    assert [(each.name, each.runs) for each in by_run] == [("r4", 1), ("r3", 1), ("r2", 1), ("r1", 1)]


def test_runs_lock_the_sums_of_their_models_in_one_order_whichever_they_asked_first() -> None:
    """Two transactions on a server that lock them in different orders are a deadlock."""
    for models in ((BIG, SMALL), (SMALL, BIG)):
        rows = cost_tracker._model_rows(evolve(FIRST, models=models))
        assert [model for _, model, *_ in rows] == ["big", "small"]


async def test_a_run_that_asked_no_model_is_a_run_all_the_same(tracker: SqliteCostTracker) -> None:
    idle = evolve(FIRST, run_id=RunId("r4"), agent_id=AgentId("idle"), models=())
    assert await attempt(tracker.record(idle)) == Success(None)
    totals = (await attempt(tracker.totals("agent"))).unwrap()
    assert totals[-1] == SpendingTotal("idle", 1, Usage(), 0.0, 0)
    assert [each.name for each in (await attempt(tracker.totals("model"))).unwrap()] == ["big", "small"]


OLD_SCHEMA = (
    "CREATE TABLE spending (run_id TEXT PRIMARY KEY, task_id TEXT NOT NULL,"
    " agent TEXT NOT NULL, model TEXT NOT NULL, day TEXT NOT NULL, at_us INTEGER NOT NULL,"
    " recorded_us INTEGER NOT NULL, nano_usd INTEGER NOT NULL, unpriced_calls INTEGER NOT NULL,"
    " input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, total_tokens INTEGER NOT NULL,"
    " reported INTEGER NOT NULL)"
)


@pytest.mark.parametrize("first", ["read", "written"])
async def test_an_account_with_one_model_for_each_run_is_carried_over(tmp_path: Path, first: str) -> None:
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    connection.execute(OLD_SCHEMA)
    connection.execute(
        "INSERT INTO spending"
        " VALUES ('r0', 't0', 'a1', 'small', '2025-12-31', 0, 0, 500000000, 1, 7, 8, 15, 1)"
    )
    connection.commit()
    connection.close()
    tracker = SqliteCostTracker(path, clock=FakeClock())
    if first == "written":
        assert await attempt(tracker.record(FIRST)) == Success(None)
    (small,) = (await attempt(tracker.totals("model"))).unwrap()
    await tracker.aclose()
    if first == "written":
        assert small == SpendingTotal("small", 2, Usage(8, 10, 18), 0.6, 1)
    else:
        assert small == SpendingTotal("small", 1, Usage(7, 8, 15), 0.5, 1)


async def test_usage_is_reported_only_when_all_of_it_is(tracker: SqliteCostTracker) -> None:
    unknown = evolve(FIRST, run_id=RunId("r4"), models=(evolve(SMALL, usage=Usage(reported=False)),))
    await attempt(tracker.record(unknown))
    totals = (await attempt(tracker.totals("model"))).unwrap()
    assert [each.usage.reported for each in totals] == [True, False]


async def test_half_of_a_surrogate_pair_is_kept_as_text(tracker: SqliteCostTracker) -> None:
    odd = evolve(
        FIRST, run_id=RunId("r\ud800"), models=(evolve(BIG, model="\ud800"), evolve(BIG, model="\\ud800"))
    )
    assert await attempt(tracker.record(odd)) == Success(None)
    dearest = (await attempt(tracker.totals("model"))).unwrap()[0]
    assert (dearest.name, dearest.cost_usd) == ("\\ud800", 4.0)


@pytest.mark.parametrize(
    "record",
    [
        evolve(FIRST, run_id=RunId("x"), models=(evolve(SMALL, cost_usd=float("nan")),)),
        evolve(FIRST, run_id=RunId("x"), models=(evolve(SMALL, usage=Usage(2**80, 0, 0)),)),
        evolve(FIRST, run_id=RunId("x"), at=datetime.min.replace(tzinfo=timezone(timedelta(hours=9)))),
        evolve(FIRST, run_id=RunId("x"), at=datetime(2026, 1, 1)),
    ],
    ids=["no amount", "a huge count", "no moment of UTC", "no time zone"],
)
async def test_what_cannot_be_kept_is_a_failure(tracker: SqliteCostTracker, record: SpendingRecord) -> None:
    before = await attempt(tracker.totals("model"))
    failed = (await attempt(tracker.record(record))).failure()
    assert (failed.service, failed.operation) == ("cost-tracker", "record")
    assert await attempt(tracker.totals("model")) == before


async def test_many_writers_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    trackers = [SqliteCostTracker(path, clock=FakeClock()) for _ in range(4)]

    async def write(number: int) -> None:
        for index in range(5):
            record = evolve(FIRST, run_id=RunId(f"{number}-{index}"))
            assert await attempt(trackers[number].record(record)) == Success(None)

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(write, number)
    (total,) = (await attempt(trackers[0].totals("model"))).unwrap()
    assert (total.runs, total.cost_usd) == (20, 2.0)
    for tracker in trackers:
        await tracker.aclose()


async def test_what_is_recorded_is_on_the_disk(tmp_path: Path, tracker: SqliteCostTracker) -> None:
    connection = sqlite3.connect(tmp_path / "costs.db")
    assert connection.execute("SELECT count(*) FROM spending_runs").fetchone() == (3,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


async def test_a_file_that_cannot_be_opened_is_a_failure(tmp_path: Path) -> None:
    tracker = SqliteCostTracker(tmp_path, clock=FakeClock())
    failed = (await attempt(tracker.record(FIRST))).failure()
    assert "cannot be opened" in failed.message
    await tracker.aclose()


async def test_the_usage_of_old_runs_is_pruned(
    tracker: SqliteCostTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_tracker, "_DELETED_AT_ONCE", 1)
    assert await attempt(tracker.prune(START)) == Success(0)
    assert await attempt(tracker.prune(START + timedelta(days=1))) == Success(2)
    totals = (await attempt(tracker.totals("run"))).unwrap()
    assert [each.name for each in totals] == ["r3"]
    assert [each.name for each in (await attempt(tracker.totals("model"))).unwrap()] == ["big"]
    refused = (await attempt(tracker.prune(datetime(2026, 1, 1)))).failure()
    assert "before: got 2026-01-01T00:00:00, expected a moment with a time zone" in refused.message


@pytest.mark.parametrize("seed", range(3))
async def test_totals_are_those_of_all_runs_that_are_kept(tmp_path: Path, seed: int) -> None:
    tracker = SqliteCostTracker(tmp_path / "costs.db", clock=FakeClock())
    await use_at_random(tracker, Random(seed))
    await tracker.aclose()
    with sqlite_file(tmp_path / "costs.db") as file:
        assert file.execute("SELECT count(*) FROM spending_sums").fetchone() == (0,)


async def work_of_totals(path: Path, days: int) -> dict[str, int]:
    """Return the instructions of SQLite for totals of 96 runs a day."""
    tracker = SqliteCostTracker(path, clock=FakeClock())

    def fill(file: Any) -> None:
        runs = [(f"r{number}", START + timedelta(minutes=15 * number)) for number in range(96 * days)]
        at = [(name, f"{at:%Y-%m-%d}", int(at.timestamp() * 1e6)) for name, at in runs]
        file.executemany("INSERT INTO spending_runs VALUES (?, 't', 'a', ?, ?, 0, 'u')", at)
        rows = [(name, model) for name, _ in runs for model in ("big", "small")]
        file.executemany("INSERT INTO spending_models VALUES (?, ?, 1, 0, 1, 1, 1, 1)", rows)

    (await tracker._file.write("fill", fill)).unwrap()
    work, works = await counted_work(tracker._file)
    last_days = START + timedelta(days=days - 2)
    groupings: tuple[Grouping, ...] = ("model", "agent", "user")
    for by in groupings:
        assert sum(total.runs for total in await work(f"{by}, all", tracker.totals(by))) >= 96 * days
        await work(f"{by}, late", tracker.totals(by, since=last_days))
    await tracker.aclose()
    return works


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_totals_of_many_runs_take_no_more_than_those_of_few(tmp_path: Path) -> None:
    few, many = await work_of_totals(tmp_path / "few.db", 4), await work_of_totals(tmp_path / "many.db", 32)
    grown = {name: work / few[name] for name, work in many.items()}
    assert {name: times for name, times in grown.items() if times > 1.2} == {}
