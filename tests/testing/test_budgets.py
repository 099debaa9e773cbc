"""The budget in memory keeps its limits as the one in a file does."""

from __future__ import annotations

import pytest
from returns.result import Failure, Success

from reactive_agents.core.errors import BudgetExceeded, ServiceFailed
from reactive_agents.core.governance import BudgetUse, Reservation
from reactive_agents.core.ids import RunId
from reactive_agents.effects import attempt
from reactive_agents.ports import SpendingGuard
from reactive_agents.testing import InMemoryBudget

pytestmark = pytest.mark.anyio
ONE, TWO = RunId("run-1"), RunId("run-2")


async def test_what_is_reserved_is_gone_until_it_is_settled() -> None:
    budget = InMemoryBudget(run_usd=1.0, daily_usd=1.5, warn_at=(0.5,))
    port: SpendingGuard = budget
    reservation = (await attempt(port.reserve(ONE, 0.75))).unwrap()
    assert reservation == Reservation(1, ONE, 0.75)
    assert await attempt(port.reserve(ONE, 0.5)) == Failure(BudgetExceeded("run", 1.0, 0.75, 0.5))
    assert await attempt(port.reserve(TWO, 1.0)) == Failure(BudgetExceeded("day", 1.5, 0.75, 1.0))
    uses = (BudgetUse("run", 1.0, 0.5, 0.5), BudgetUse("day", 1.5, 0.5))
    assert await attempt(port.settle(reservation, 0.5)) == Success(uses)
    assert await attempt(port.settle(reservation, 0.25)) == Success(uses)
    assert (budget.spent_usd, budget.settled) == (0.5, {1: 0.5})


async def test_what_is_spent_counts_whatever_the_limits() -> None:
    budget = InMemoryBudget(monthly_usd=1.0)
    assert await attempt(budget.spend(ONE, 2.0)) == Success((BudgetUse("month", 1.0, 2.0),))
    assert await attempt(budget.reserve(TWO, 0.0)) == Failure(BudgetExceeded("month", 1.0, 2.0, 0.0))


async def test_it_can_be_made_to_fail() -> None:
    down = ServiceFailed("Out of order.", "budget", "reserve")
    budget = InMemoryBudget(fails_with=down)
    assert await attempt(budget.reserve(ONE, 0.5)) == Failure(down)
    assert await attempt(budget.settle(Reservation(1, ONE, 0.5), 0.5)) == Failure(down)
    assert await attempt(budget.spend(ONE, 0.5)) == Failure(down)
    assert (budget.reserved, budget.spent_usd) == ([], 0.0)
