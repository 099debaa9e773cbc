"""The law of a shared budget: whoever asks at the same time, together they never get more than there is."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Success

from reactive_agents.adapters.governance.budget import BudgetState, SqliteBudget
from reactive_agents.core.ids import RunId
from reactive_agents.effects import attempt
from reactive_agents.testing.core import FakeClock
from tests.support.profiles import examples

ROOT = Path(__file__).parent.parent
RUN = RunId("run-1")

cents = st.integers(0, 60)
spenders = st.lists(st.lists(st.tuples(cents, cents), min_size=1, max_size=4), min_size=2, max_size=4)


def budget_at(path: Path, *, daily: int, monthly: int) -> SqliteBudget:
    return SqliteBudget(path, daily_usd=daily / 100, monthly_usd=monthly / 100, clock=FakeClock())


async def spend(budget: SqliteBudget, purchases: list[tuple[int, int]], granted: list[int]) -> None:
    """Reserve each amount; settle what is granted at the second amount, or at the first if that is less."""
    for most, actual in purchases:
        match await attempt(budget.reserve(RUN, most / 100)):
            case Success(reservation):
                granted.append(min(most, actual))
                settled = await attempt(budget.settle(reservation, min(most, actual) / 100))
                assert isinstance(settled, Success)
            case _:
                continue
    await budget.aclose()


@examples(8)
@given(everyone=spenders, daily=st.integers(0, 200), monthly=st.integers(0, 200))
def test_threads_never_spend_more_than_there_is(
    everyone: list[list[tuple[int, int]]], daily: int, monthly: int
) -> None:
    granted: list[int] = []
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "budget.db")
        threads = [
            threading.Thread(
                target=lambda each=purchases: anyio.run(
                    spend, budget_at(path, daily=daily, monthly=monthly), each, granted
                )
            )
            for purchases in everyone
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        budget = budget_at(path, daily=daily, monthly=monthly)
        state = anyio.run(attempt, budget.state()).unwrap()
        anyio.run(budget.aclose)
    spent = sum(granted) / 100
    assert state == BudgetState(spent, spent)
    assert sum(granted) <= min(daily, monthly)


@examples(8)
@given(amounts=st.lists(cents, min_size=1, max_size=12), daily=st.integers(0, 200))
def test_tasks_of_one_loop_never_reserve_more_than_there_is(amounts: list[int], daily: int) -> None:
    granted: list[int] = []

    async def reserve(budget: SqliteBudget, amount: int) -> None:
        if isinstance(await attempt(budget.reserve(RUN, amount / 100)), Success):
            granted.append(amount)

    async def reserve_all(path: Path) -> None:
        budget = budget_at(path, daily=daily, monthly=1_000)
        async with anyio.create_task_group() as group:
            for amount in amounts:
                group.start_soon(reserve, budget, amount)
        await budget.aclose()

    with tempfile.TemporaryDirectory() as directory:
        anyio.run(reserve_all, Path(directory, "budget.db"))
    assert sum(granted) <= daily
    refused = sorted(amounts)
    for amount in granted:
        refused.remove(amount)
    assert all(sum(granted) + amount > daily for amount in refused)  # nor is anybody refused for nothing


SPENDER = """
import sys, anyio
from reactive_agents.adapters.governance.budget import SqliteBudget
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.ids import RunId
from reactive_agents.effects import attempt
from returns.result import Success

async def main():
    budget = SqliteBudget(sys.argv[1], daily_usd=None, monthly_usd=1.0, clock=SystemClock())
    granted = [isinstance(await attempt(budget.reserve(RunId("r"), 0.01)), Success) for _ in range(60)]
    await budget.aclose()
    print(sum(granted))

anyio.run(main)
"""


@pytest.mark.system
def test_processes_never_spend_more_than_there_is(tmp_path: Path) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", SPENDER, str(tmp_path / "budget.db")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    assert sum(int(child.communicate()[0]) for child in children) == 100


@examples(20)
@given(
    purchases=st.lists(st.tuples(st.sampled_from(["ada", "bo", None]), cents, cents), max_size=12),
    daily=st.integers(0, 200),
    of_user=st.integers(0, 100),
)
def test_a_user_gets_what_is_left_of_the_users_budget_and_of_that_of_all(
    purchases: list[tuple[str | None, int, int]], daily: int, of_user: int
) -> None:
    spent = {"ada": 0, "bo": 0, None: 0}

    async def spend_all(path: Path) -> None:
        limit = of_user / 100
        budget = SqliteBudget(
            path, daily_usd=daily / 100, monthly_usd=None, user_daily_usd=limit, clock=FakeClock()
        )
        for user, most, actual in purchases:
            reserved = await attempt(budget.reserve(RUN, most / 100, user=user))
            fits = sum(spent.values()) + most <= daily and (user is None or spent[user] + most <= of_user)
            assert isinstance(reserved, Success) == fits
            if fits:
                spent[user] += min(most, actual)
                await attempt(budget.settle(reserved.unwrap(), min(most, actual) / 100))
        for user in ("ada", "bo"):
            assert (await attempt(budget.state(user=user))).unwrap().day_usd == spent[user] / 100
        assert (await attempt(budget.state())).unwrap().day_usd == sum(spent.values()) / 100
        await budget.aclose()

    with tempfile.TemporaryDirectory() as directory:
        anyio.run(spend_all, Path(directory, "budget.db"))
