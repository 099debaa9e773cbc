"""A shared budget lets nobody spend more than there is."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from returns.result import Failure, Success

from reactive_agents.adapters.governance.cost.budget import BudgetState, Reservation, SqliteBudget
from reactive_agents.core.errors import BudgetExceeded, ServiceFailed
from reactive_agents.effects import attempt
from reactive_agents.testing.system import FakeClock

pytestmark = pytest.mark.anyio
DAY_S = 86_400.0


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def budget(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteBudget]:
    made = SqliteBudget(tmp_path / "budget.db", daily_usd=1.0, monthly_usd=1.5, clock=clock)
    yield made
    await made.aclose()


async def reserved(budget: SqliteBudget, amount_usd: float) -> Reservation:
    return (await attempt(budget.reserve(amount_usd))).unwrap()


async def test_what_is_reserved_is_gone_until_it_is_settled(budget: SqliteBudget) -> None:
    reservation = await reserved(budget, 0.75)
    assert reservation.amount_usd == 0.75
    assert await attempt(budget.reserve(0.5)) == Failure(BudgetExceeded("day", 1.0, 0.75))
    assert await attempt(budget.settle(reservation, 0.25)) == Success(None)
    assert await attempt(budget.state()) == Success(BudgetState(0.25, 0.25))
    assert (await reserved(budget, 0.75)).id != reservation.id


async def test_a_refusal_reserves_nothing(budget: SqliteBudget) -> None:
    assert await attempt(budget.reserve(1.25)) == Failure(BudgetExceeded("day", 1.0, 0.0))
    assert await attempt(budget.state()) == Success(BudgetState(0.0, 0.0))


async def test_small_amounts_add_up_exactly(budget: SqliteBudget) -> None:
    for _ in range(10):
        await reserved(budget, 0.1)
    assert await attempt(budget.reserve(0.000_000_001)) == Failure(BudgetExceeded("day", 1.0, 1.0))


async def test_the_next_day_has_a_budget_of_its_own_and_the_month_goes_on(
    budget: SqliteBudget, clock: FakeClock
) -> None:
    await reserved(budget, 1.0)
    clock.advance(DAY_S)
    assert await attempt(budget.reserve(0.75)) == Failure(BudgetExceeded("month", 1.5, 1.0))
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
    assert await attempt(budget.settle(reservation, 0.75)) == Success(None)
    assert await attempt(budget.state()) == Success(BudgetState(0.25, 0.25))


async def test_what_was_spent_beyond_the_reservation_counts(budget: SqliteBudget) -> None:
    await attempt(budget.settle(await reserved(budget, 0.5), 1.25))
    assert await attempt(budget.reserve(0.0)) == Failure(BudgetExceeded("day", 1.0, 1.25))


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
    assert await attempt(other.reserve(0.25)) == Failure(BudgetExceeded("day", 1.0, 1.0))
    await other.aclose()


@pytest.mark.parametrize("amount", [-0.5, float("nan"), float("inf"), 1e300])
async def test_an_amount_that_is_none_is_refused(budget: SqliteBudget, amount: float) -> None:
    failed = (await attempt(budget.reserve(amount))).failure()
    assert isinstance(failed, ServiceFailed)
    assert "US dollars" in failed.message
    assert await attempt(budget.state()) == Success(BudgetState(0.0, 0.0))


async def test_an_unknown_reservation_is_refused(budget: SqliteBudget) -> None:
    failed = (await attempt(budget.settle(Reservation(7, 0.5), 0.5))).failure()
    assert failed.message.endswith("there is no reservation 7.")


async def test_a_file_that_is_no_database_is_a_failure(tmp_path: Path, clock: FakeClock) -> None:
    (tmp_path / "budget.db").write_bytes(b"no database at all " * 100)
    budget = SqliteBudget(tmp_path / "budget.db", daily_usd=1.0, monthly_usd=1.0, clock=clock)
    failed = (await attempt(budget.reserve(0.5))).failure()
    assert isinstance(failed, ServiceFailed)
    assert (failed.service, failed.operation) == ("budget", "reserve")
    assert "not a database" in failed.message
    await budget.aclose()


async def test_it_works_again_when_the_file_does(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "later" / "budget.db"
    budget = SqliteBudget(path, daily_usd=1.0, monthly_usd=1.0, clock=clock)
    assert isinstance((await attempt(budget.reserve(0.5))).failure(), ServiceFailed)
    path.parent.mkdir()
    await reserved(budget, 0.5)
    await budget.aclose()
    await reserved(budget, 0.5)  # opens it again
    await budget.aclose()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM reservations").fetchone() == (2,)
    connection.close()


def test_a_limit_is_not_negative(tmp_path: Path, clock: FakeClock) -> None:
    with pytest.raises(ValueError, match="US dollars"):
        SqliteBudget(tmp_path / "budget.db", daily_usd=-1.0, monthly_usd=None, clock=clock)
