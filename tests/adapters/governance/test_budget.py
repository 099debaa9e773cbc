"""A shared budget lets nobody spend more than there is."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from returns.result import Failure, Success

from reactive_agents.adapters.governance.budget import KEPT_DAYS, BudgetState, SqliteBudget
from reactive_agents.core.errors import BudgetExceeded, ServiceFailed
from reactive_agents.core.governance import BudgetUse, Reservation
from reactive_agents.core.ids import RunId
from reactive_agents.effects import attempt
from reactive_agents.testing.core import START, FakeClock
from tests.support.sqlite_files import counted_work, sqlite_file

pytestmark = pytest.mark.anyio
DAY_S = 86_400.0
RUN = RunId("run-1")


ON_BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def budget(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteBudget]:
    made = SqliteBudget(tmp_path / "budget.db", daily_usd=1.0, monthly_usd=1.5, clock=clock)
    yield made
    await made.aclose()


async def reserved(budget: SqliteBudget, amount_usd: float) -> Reservation:
    return (await attempt(budget.reserve(RUN, amount_usd))).unwrap()


@ON_BOTH
async def test_what_is_reserved_is_gone_until_it_is_settled(budget: SqliteBudget) -> None:
    reservation = await reserved(budget, 0.75)
    assert reservation.amount_usd == 0.75
    assert await attempt(budget.reserve(RUN, 0.5)) == Failure(BudgetExceeded("day", 1.0, 0.75, 0.5))
    uses = (BudgetUse("day", 1.0, 0.25), BudgetUse("month", 1.5, 0.25))
    assert await attempt(budget.settle(reservation, 0.25)) == Success(uses)
    assert await attempt(budget.state()) == Success(BudgetState(0.25, 0.25))
    assert (await reserved(budget, 0.75)).id != reservation.id


async def test_a_day_ends_at_midnight_and_not_half_a_second_before(
    budget: SqliteBudget, clock: FakeClock
) -> None:
    midnight = (START + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    clock.advance((midnight - START).total_seconds() - 0.25)
    assert isinstance(await attempt(budget.spend(RUN, 0.75)), Success)
    assert (await attempt(budget.state())).unwrap().day_usd == 0.75
    clock.advance(0.25)
    assert (await attempt(budget.state())).unwrap().day_usd == 0.0


async def test_a_reservation_counts_for_its_user_on_the_day_that_it_was_made(
    tmp_path: Path, clock: FakeClock
) -> None:
    path = tmp_path / "users.db"
    budget = SqliteBudget(
        path, daily_usd=9.0, monthly_usd=None, user_daily_usd=1.0, user_monthly_usd=1.5, clock=clock
    )
    first = (await attempt(budget.reserve(RUN, 0.75, user="Ada"))).unwrap()
    refused = Failure(BudgetExceeded("user_day", 1.0, 0.75, 0.5))
    assert await attempt(budget.reserve(RunId("other"), 0.5, user="Ada")) == refused
    assert isinstance(await attempt(budget.reserve(RUN, 0.5, user="Bo")), Success)
    assert isinstance(await attempt(budget.reserve(RUN, 0.5)), Success)
    clock.advance(24 * 3600)
    uses = (await attempt(budget.settle(first, 0.5))).unwrap()
    assert [(each.period, each.spent_usd) for each in uses] == [
        ("day", 0.0),
        ("user_day", 0.0),
        ("user_month", 0.5),
    ]
    assert (
        await attempt(budget.reserve(RUN, 0.9, for_run_alone=True, user="Ada"))
    ).unwrap().amount_usd == 0.9
    assert await attempt(budget.state(user="Ada")) == Success(BudgetState(0.0, 0.5))
    assert isinstance(await attempt(budget.spend(RUN, 0.25, user="Ada")), Success)
    assert await attempt(budget.state(user="Ada")) == Success(BudgetState(0.25, 0.75))
    assert await attempt(budget.state()) == Success(BudgetState(0.25, 1.75))
    await budget.aclose()


@ON_BOTH
async def test_of_many_reservations_at_once_there_are_as_many_as_dollars(
    tmp_path: Path, clock: FakeClock
) -> None:
    path, taken = tmp_path / "shared.db", list[bool]()
    budgets = [SqliteBudget(path, daily_usd=1.0, monthly_usd=None, clock=clock) for _ in range(3)]

    async def reserve(number: int) -> None:
        reserved = await attempt(budgets[number % len(budgets)].reserve(RunId(f"run-{number}"), 0.1))
        taken.append(isinstance(reserved, Success))

    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(reserve, number)
    assert (taken.count(True), len(taken)) == (10, 30)
    assert (await attempt(budgets[0].state())).unwrap().day_usd == 1.0
    for budget in budgets:
        await budget.aclose()


async def test_a_refusal_reserves_nothing(budget: SqliteBudget) -> None:
    assert await attempt(budget.reserve(RUN, 1.25)) == Failure(BudgetExceeded("day", 1.0, 0.0, 1.25))
    assert await attempt(budget.state()) == Success(BudgetState(0.0, 0.0))


async def test_small_amounts_add_up_exactly(budget: SqliteBudget) -> None:
    for _ in range(10):
        await reserved(budget, 0.1)
    assert await attempt(budget.reserve(RUN, 0.000_000_001)) == Failure(
        BudgetExceeded("day", 1.0, 1.0, 0.000_000_001)
    )


async def test_the_next_day_has_a_budget_of_its_own_and_the_month_goes_on(
    budget: SqliteBudget, clock: FakeClock
) -> None:
    await reserved(budget, 1.0)
    clock.advance(DAY_S)
    assert await attempt(budget.reserve(RUN, 0.75)) == Failure(BudgetExceeded("month", 1.5, 1.0, 0.75))
    await reserved(budget, 0.5)
    clock.advance(31 * DAY_S)
    await reserved(budget, 1.0)
    assert await attempt(budget.state()) == Success(BudgetState(1.0, 1.0))


async def test_a_settlement_belongs_to_the_day_of_its_reservation(
    budget: SqliteBudget, clock: FakeClock
) -> None:
    reservation = await reserved(budget, 1.0)
    clock.advance(DAY_S)
    await attempt(budget.settle(reservation, 0.25))
    assert await attempt(budget.state()) == Success(BudgetState(0.0, 0.25))


async def test_a_second_settlement_changes_nothing(budget: SqliteBudget) -> None:
    reservation = await reserved(budget, 0.5)
    await attempt(budget.settle(reservation, 0.25))
    assert isinstance(await attempt(budget.settle(reservation, 0.75)), Success)
    assert await attempt(budget.state()) == Success(BudgetState(0.25, 0.25))


async def test_what_was_spent_beyond_the_reservation_counts(budget: SqliteBudget) -> None:
    await attempt(budget.settle(await reserved(budget, 0.5), 1.25))
    assert await attempt(budget.reserve(RUN, 0.0)) == Failure(BudgetExceeded("day", 1.0, 1.25))


async def test_a_run_has_a_budget_of_its_own(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "runs.db"
    budget = SqliteBudget(path, run_usd=0.5, daily_usd=None, monthly_usd=None, clock=clock)
    await reserved(budget, 0.5)
    assert await attempt(budget.reserve(RUN, 0.25)) == Failure(BudgetExceeded("run", 0.5, 0.5, 0.25))
    other = (await attempt(budget.reserve(RunId("run-2"), 0.5))).unwrap()
    assert await attempt(budget.settle(other, 0.1)) == Success((BudgetUse("run", 0.5, 0.1),))
    await budget.aclose()


async def test_a_settlement_tells_how_far_the_warnings_are_reached(tmp_path: Path, clock: FakeClock) -> None:
    budget = SqliteBudget(tmp_path / "b.db", daily_usd=1.0, monthly_usd=10.0, warn_at=(0.8, 0.5), clock=clock)
    half = (await attempt(budget.settle(await reserved(budget, 0.5), 0.5))).unwrap()
    assert half == (BudgetUse("day", 1.0, 0.5, 0.5), BudgetUse("month", 10.0, 0.5, 0.0))
    more = (await attempt(budget.spend(RUN, 0.75))).unwrap()
    assert more == (BudgetUse("day", 1.0, 1.25, 0.8), BudgetUse("month", 10.0, 1.25, 0.0))
    assert more[0].share == 1.25
    await budget.aclose()


async def test_a_file_that_somebody_keeps_locked_is_a_failure(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "budget.db"
    budget = SqliteBudget(path, daily_usd=1.0, monthly_usd=None, clock=clock, patience_s=0.05)
    await reserved(budget, 0.25)
    locker = sqlite3.connect(path, isolation_level=None)
    locker.execute("BEGIN EXCLUSIVE")
    failed = (await attempt(budget.reserve(RUN, 0.25))).failure()
    assert isinstance(failed, ServiceFailed)
    assert "locked" in failed.message
    locker.execute("ROLLBACK")
    locker.close()
    await reserved(budget, 0.25)
    await budget.aclose()


async def test_a_budget_may_have_no_limit(tmp_path: Path, clock: FakeClock) -> None:
    budget = SqliteBudget(tmp_path / "budget.db", daily_usd=None, monthly_usd=None, clock=clock)
    await reserved(budget, 1_000_000.0)
    await reserved(budget, 1_000_000.0)
    await budget.aclose()


async def test_another_process_sees_what_is_reserved(
    tmp_path: Path, budget: SqliteBudget, clock: FakeClock
) -> None:
    await reserved(budget, 1.0)
    other = SqliteBudget(tmp_path / "budget.db", daily_usd=1.0, monthly_usd=None, clock=clock)
    assert await attempt(other.reserve(RUN, 0.25)) == Failure(BudgetExceeded("day", 1.0, 1.0, 0.25))
    await other.aclose()


@pytest.mark.parametrize("amount", [-0.5, float("nan"), float("inf"), 1e300])
async def test_an_amount_that_is_none_is_refused(budget: SqliteBudget, amount: float) -> None:
    failed = (await attempt(budget.reserve(RUN, amount))).failure()
    assert isinstance(failed, ServiceFailed)
    assert "US dollars" in failed.message
    assert await attempt(budget.state()) == Success(BudgetState(0.0, 0.0))


async def test_an_unknown_reservation_is_refused(budget: SqliteBudget) -> None:
    failed = (await attempt(budget.settle(Reservation(7, RUN, 0.5), 0.5))).failure()
    assert failed.message.endswith("there is no reservation 7.")


async def test_a_file_that_is_no_database_is_a_failure(tmp_path: Path, clock: FakeClock) -> None:
    (tmp_path / "budget.db").write_bytes(b"no database at all " * 100)
    budget = SqliteBudget(tmp_path / "budget.db", daily_usd=1.0, monthly_usd=1.0, clock=clock)
    failed = (await attempt(budget.reserve(RUN, 0.5))).failure()
    assert isinstance(failed, ServiceFailed)
    assert (failed.service, failed.operation) == ("budget", "reserve")
    assert "not a database" in failed.message
    await budget.aclose()


async def test_it_works_again_when_the_file_does(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "budget.db"
    path.mkdir()
    budget = SqliteBudget(path, daily_usd=1.0, monthly_usd=1.0, clock=clock)
    assert isinstance((await attempt(budget.reserve(RUN, 0.5))).failure(), ServiceFailed)
    path.rmdir()
    await reserved(budget, 0.5)
    await budget.aclose()
    await reserved(budget, 0.5)  # opens it again
    await budget.aclose()
    with sqlite_file(path) as connection:
        assert connection.execute("SELECT count(*) FROM reservations").fetchone() == (2,)


async def test_old_rows_are_searched_for_once_a_day_not_by_each_agent(
    tmp_path: Path, clock: FakeClock
) -> None:
    async def work_of_reservation() -> int:
        """The instructions of SQLite for the first reservation of another agent."""
        other = SqliteBudget(tmp_path / "budget.db", daily_usd=1.0, monthly_usd=None, clock=clock)
        work, works = await counted_work(other._file)
        await work("reserve", other.reserve(RUN, 0.0))
        await other.aclose()
        return works["reserve"]

    await work_of_reservation()
    few = await work_of_reservation()
    with sqlite_file(tmp_path / "budget.db") as file:
        row = ("2026-01-01", "2026-01", 0)
        file.executemany("INSERT INTO reservations (day, month, nano_usd) VALUES (?, ?, ?)", [row] * 1_000)
    assert await work_of_reservation() < few + 20
    clock.advance(DAY_S)
    assert await work_of_reservation() > few + 1_000


async def test_rows_that_no_budget_asks_for_any_more_are_deleted(
    tmp_path: Path, budget: SqliteBudget, clock: FakeClock
) -> None:
    await attempt(budget.settle(await reserved(budget, 0.5), 0.25))
    clock.advance(KEPT_DAYS * DAY_S)
    late = [await reserved(budget, 0.25)]
    clock.advance(DAY_S)  # a clock is believed from the next day on
    late += [await reserved(budget, 0.25)]
    await budget.aclose()
    with sqlite_file(tmp_path / "budget.db") as connection:
        rows = connection.execute("SELECT count(*) FROM periods").fetchone()
        assert connection.execute("SELECT id FROM reservations").fetchall() == [(each.id,) for each in late]
    assert rows == (5,)  # the run, the days and the month of the late reservations, and the search


async def test_a_clock_that_jumps_ahead_deletes_nothing_on_its_first_day(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    for clock in (FakeClock(), FakeClock(START + timedelta(days=400)), FakeClock(START + timedelta(days=1))):
        budget = SqliteBudget(path, daily_usd=None, monthly_usd=1.0, clock=clock)
        await reserved(budget, 0.25)
        await reserved(budget, 0.25)
        state = await attempt(budget.state())
        await budget.aclose()
    assert state == Success(BudgetState(0.5, 1.0))


async def test_a_reservation_of_the_last_month_can_still_be_settled(
    budget: SqliteBudget, clock: FakeClock
) -> None:
    reservation = await reserved(budget, 0.5)
    clock.advance((KEPT_DAYS - 1) * DAY_S)
    assert isinstance(await attempt(budget.settle(reservation, 0.25)), Success)


def test_a_limit_is_not_negative(tmp_path: Path, clock: FakeClock) -> None:
    with pytest.raises(ValueError, match="US dollars"):
        SqliteBudget(tmp_path / "budget.db", daily_usd=-1.0, monthly_usd=None, clock=clock)


async def test_a_deleted_file_is_no_fresh_budget(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    path = anyio.Path(tmp_path / "budget.db")
    budget = SqliteBudget(path, daily_usd=1.0, monthly_usd=None, clock=clock)
    await reserved(budget, 0.9)
    for name in await anyio.to_thread.run_sync(lambda: [each.name for each in tmp_path.glob("budget.db*")]):
        if name != "budget.db-budget":
            await anyio.Path(tmp_path / name).unlink()
    again = SqliteBudget(path, daily_usd=1.0, monthly_usd=None, clock=clock)
    for each in (budget, again):
        failed = (await attempt(each.reserve(RUN, 0.5))).failure()
        assert isinstance(failed, ServiceFailed)
        assert "was deleted or replaced since it was made" in failed.message
        assert failed.message in caplog.text
        await each.aclose()
    await path.write_bytes(b"")
    assert isinstance(await attempt(again.reserve(RUN, 0.5)), Failure), (
        "an empty file is no fresh budget either"
    )
    await again.aclose()
    await anyio.Path(tmp_path / "budget.db-budget").unlink()
    assert isinstance(await attempt(again.reserve(RUN, 0.5)), Success)
    await again.aclose()
