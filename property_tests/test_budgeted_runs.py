"""Whole runs at once, in one process and in two: together they never spend more than there is."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import pytest
from attrs import frozen
from dependency_injector import providers
from hypothesis import given
from hypothesis import strategies as st
from returns.maybe import Some

from reactive_agents import ReactiveAgents, agent_tool
from reactive_agents.adapters.governance.budget import BudgetState, SqliteBudget
from reactive_agents.core.events import TaskCompleted
from reactive_agents.core.models import TokenPrice
from reactive_agents.core.tasks import TaskResult
from reactive_agents.core.usage import Usage
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock, InMemoryBudget, ScriptedLLM, answer, call, calls, forever
from tests.support.profiles import examples

ROOT = Path(__file__).parent.parent
MOST = 100
"""Cents that a call is bounded by: a hundred tokens at most, a cent each."""


@frozen
class Script:
    """The cost of each call of a run, in cents, and whether the run is streamed."""

    cents: tuple[int, ...]
    streaming: bool


scripts = st.builds(Script, st.lists(st.integers(0, MOST), min_size=1, max_size=4).map(tuple), st.booleans())
limits = st.none() | st.integers(0, 6 * MOST)


def look(place: int) -> str:
    """Look at a place."""
    return f"place {place} is empty"


def agent_of(script: Script) -> ReactiveAgents:
    *looks, last = [{"usage": Usage(1, each, 1 + each), "cost_usd": each / 100} for each in script.cents]
    turns = [call("look", place=n, **spent) for n, spent in enumerate(looks)]  # type: ignore[arg-type]
    llm = ScriptedLLM(*turns, answer("Nowhere.", **last), price=TokenPrice(0.0, 0.01, MOST))  # type: ignore[arg-type]
    return ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(look)


def dollars(cents: int | None) -> float | None:
    return None if cents is None else cents / 100


async def spend(script: Script, budget: object, results: list[TaskResult]) -> None:
    agent = agent_of(script).build()
    agent.container.governance.budget.override(providers.Object(Some(budget)))
    if script.streaming:
        results.extend([each.result async for each in agent.stream("Go.") if isinstance(each, TaskCompleted)])
    else:
        results.append(await agent.run("Go."))


async def spend_all(everyone: list[Script], budget: object) -> list[TaskResult]:
    results: list[TaskResult] = []
    async with anyio.create_task_group() as group:
        for script in everyone:
            group.start_soon(spend, script, budget, results)
    return results


def check(results: list[TaskResult], run: int | None, day: int | None) -> float:
    """Return the total of all runs, after each was checked against the limits."""
    for result in results:
        cents = round(result.metadata.cost_usd * 100)
        assert run is None or cents <= run
        assert (result.status == "partial") == (result.metadata.terminated_by == "budget")
    total = sum(round(result.metadata.cost_usd * 100) for result in results)
    assert day is None or total <= day
    return total / 100


@examples(15)
@given(everyone=st.lists(scripts, min_size=1, max_size=5), run=limits, day=limits)
def test_concurrent_runs_never_exceed_a_budget_in_memory(
    everyone: list[Script], run: int | None, day: int | None
) -> None:
    budget = InMemoryBudget(run_usd=dollars(run), daily_usd=dollars(day))
    results = anyio.run(spend_all, everyone, budget)
    assert len(results) == len(everyone)
    spent = check(results, run, day)
    assert abs(budget.spent_usd - spent) < 1e-9  # everything was settled at what it cost


@examples(5)
@given(everyone=st.lists(scripts, min_size=2, max_size=4), run=limits, day=limits)
def test_concurrent_runs_never_exceed_a_budget_in_a_file(
    everyone: list[Script], run: int | None, day: int | None
) -> None:
    async def run_all(path: Path) -> tuple[list[TaskResult], BudgetState]:
        budget = SqliteBudget(
            path, run_usd=dollars(run), daily_usd=dollars(day), monthly_usd=None, clock=FakeClock()
        )
        try:
            return await spend_all(everyone, budget), (await attempt(budget.state())).unwrap()
        finally:
            await budget.aclose()

    with tempfile.TemporaryDirectory() as directory:
        results, state = anyio.run(run_all, Path(directory, "budget.db"))
    assert state.day_usd == check(results, run, day)


@examples(10)
@given(
    everyone=st.lists(scripts, min_size=1, max_size=8),
    limit=st.integers(1, 6 * MOST),
    in_file=st.booleans(),
)
def test_agents_at_once_never_exceed_the_budget_of_their_caller(
    everyone: list[Script], limit: int, in_file: bool
) -> None:
    agents = [agent_tool(agent_of(script).build(), name=f"a{n}") for n, script in enumerate(everyone)]
    asking = calls(*(call(f"a{n}", task="Go.") for n in range(len(everyone))))
    llm = ScriptedLLM(asking, forever(answer("Done.")), price=TokenPrice(0.0, 0.0, MOST))
    caller = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(*agents)
    caller = caller.with_cost(run_usd=limit / 100) if in_file else caller.with_budget(cost_usd=limit / 100)
    result = anyio.run(caller.build().run, "Go.")
    assert round(result.metadata.cost_usd * 100) <= limit


SPENDER = """
import sys
from reactive_agents import ReactiveAgents
from reactive_agents.core.models import TokenPrice
from reactive_agents.core.usage import Usage
from reactive_agents.testing import ScriptedLLM, call

def look(place: str) -> str:
    "Look at a place."
    return f"{place} is empty"

spent = {"usage": Usage(1, 1, 2), "cost_usd": 0.01}
looks = (call("look", place=f"drawer {n}", **spent) for n in range(60))
llm = ScriptedLLM(*looks, price=TokenPrice(0.0, 0.001, 10))
agent = (
    ReactiveAgents.create().with_llm(llm).with_tools(look).with_max_iterations(60)
    .with_cost(sys.argv[1], daily_usd=0.305).build()
)
result = agent.run_sync("Go.")
print(result.metadata.terminated_by, len(llm.requests))
"""


@pytest.mark.system
def test_two_processes_never_exceed_the_budget_of_a_day(tmp_path: Path) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", SPENDER, str(tmp_path / "cost.db")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    ended = [child.communicate()[0].split() for child in children]
    assert [ended_by for ended_by, _ in ended] == ["budget", "budget"]
    assert sum(int(calls) for _, calls in ended) <= 30
    assert sum(int(calls) for _, calls in ended) >= 29  # nor is anybody refused for long
