"""Accounts, budgets and model routing, in whole runs."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from dependency_injector import providers
from returns.maybe import Some
from returns.result import Failure, Result

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, tool
from reactive_agents.adapters.governance.budget import SqliteBudget
from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
from reactive_agents.adapters.system import SystemClock
from reactive_agents.agent.multi_agent import agent_tool
from reactive_agents.core.config import ModelPrice, ModelTier
from reactive_agents.core.errors import (
    BudgetExceeded,
    BudgetUnavailable,
    ReasoningErrors,
    ServiceFailed,
    StrategyExecutionError,
)
from reactive_agents.core.events import (
    BudgetNotSettled,
    BudgetWarning,
    ExecutionPhaseSkipped,
    ModelCallAbandoned,
    ModelCallCompleted,
    ModelRouted,
)
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import ModelRequest, TokenPrice
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.effects import attempt, effect
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices
from reactive_agents.testing import (
    EventRecorder,
    InMemoryBudget,
    ScriptedLLM,
    Turn,
    answer,
    call,
    forever,
    say,
)
from tests.support.openai_server import Answer, OpenAIServer, refusal
from tests.support.sqlite_files import sqlite_file

pytestmark = pytest.mark.anyio
DOWN = ServiceFailed("Out of order.", "budget", "settle")

PER_ANSWER = TokenPrice(0.0, 0.001, max_output_tokens=100)
"""A call is bounded by 10 cents."""
USED = Usage(10, 20, 30)


def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is empty"


def looking(*turns: Turn, price: TokenPrice | None = PER_ANSWER) -> tuple[ReactiveAgents, ScriptedLLM]:
    llm = ScriptedLLM(*turns, price=price)
    return ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(look), llm


def looks(count: int, cost_usd: float) -> list[Turn]:
    return [call("look", place=f"drawer {n}", usage=USED, cost_usd=cost_usd) for n in range(count)]


def watched(agent: ReactiveAgent) -> EventRecorder:
    recorder = EventRecorder()
    agent.subscribe(recorder)
    return recorder


# --- budgets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("period", ["run", "day", "month"])
async def test_a_call_that_the_budget_has_no_room_for_is_not_made(tmp_path: Path, period: str) -> None:
    builder, llm = looking(*looks(3, 0.08), say("never"))
    limits = {"run": "run_usd", "day": "daily_usd", "month": "monthly_usd"}
    async with builder.with_cost(tmp_path / "cost.db", **{limits[period]: 0.3}).build() as agent:  # type: ignore[arg-type]
        recorder = watched(agent)
        result = await agent.run("Where are the keys?")
    assert (result.status, result.metadata.terminated_by) == ("partial", "budget")
    assert result.reason == (
        f"The budget of the {period} is exhausted: 0.24 of 0.3 US dollars are spent or reserved, "
        "and the next call may cost 0.1. Missing: a final answer."
    )
    assert len(llm.requests) == 3
    assert len(result.steps) == 6
    (refused,) = recorder.of(ModelCallAbandoned)
    assert isinstance(refused.error, BudgetExceeded)
    assert (refused.error.period, refused.error.limit_usd, refused.error.needed_usd) == (period, 0.3, 0.1)


@pytest.mark.parametrize("period", ["day", "month"])
async def test_the_runs_of_each_user_have_a_budget(tmp_path: Path, period: str) -> None:
    path, limits = tmp_path / "cost.db", {"day": "user_daily_usd", "month": "user_monthly_usd"}
    results = []
    for user in ("Ada", "Bo", "Ada", None, None):
        builder, _ = looking(answer("Here.", usage=USED, cost_usd=0.1))
        async with builder.with_cost(path, **{limits[period]: 0.15}).build() as agent:  # type: ignore[arg-type]
            recorder = watched(agent)
            results.append(await agent.run("Where are the keys?", user=user))
        if user is not None:
            assert {each.period for each in recorder.of(BudgetWarning)} <= {f"user_{period}"}
    statuses = [each.status for each in results]
    assert statuses == ["completed", "completed", "partial", "completed", "completed"]
    assert results[2].reason == (
        f"The budget of the user's {period} is exhausted: 0.1 of 0.15 US dollars are spent or reserved, "
        "and the next call may cost 0.1. Missing: a final answer."
    )
    budget = SqliteBudget(path, daily_usd=None, monthly_usd=None, clock=SystemClock())
    states = [(await attempt(budget.state(user=user))).unwrap() for user in ("Ada", "Bo", None)]
    await budget.aclose()
    assert [each.day_usd for each in states] == [pytest.approx(0.1), pytest.approx(0.1), pytest.approx(0.4)]
    assert [each.month_usd for each in states] == [each.day_usd for each in states]
    with sqlite_file(path) as file:
        names = [name for (name,) in file.execute("SELECT name FROM periods")]
    assert len(names) == 11  # with the day of the last search for old rows
    assert not any("Ada" in name for name in names)


async def test_a_run_that_a_tool_begins_counts_for_the_user_of_its_caller(tmp_path: Path) -> None:
    path = tmp_path / "cost.db"
    builder, _ = looking(answer("Here.", usage=USED, cost_usd=0.1))
    inner = builder.with_cost(path, user_daily_usd=0.15).build()

    @tool
    async def ask_other() -> str:
        """Ask another agent."""
        return str((await inner.run("Where are the keys?")).output)

    turns = call("ask-other", usage=USED, cost_usd=0.0), answer("Here.", usage=USED, cost_usd=0.0)
    model = ScriptedLLM(*turns, price=TokenPrice(0.0, 0.0))
    outer = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(ask_other).build()
    async with inner, outer:
        assert (await outer.run("Ask.", user="Ada")).output == "Here."
    budget = SqliteBudget(path, daily_usd=None, monthly_usd=None, clock=SystemClock())
    assert (await attempt(budget.state(user="Ada"))).unwrap().day_usd == pytest.approx(0.1)
    await budget.aclose()
    tracker = SqliteCostTracker(path, clock=SystemClock())
    assert [each.name for each in (await attempt(tracker.totals("user"))).unwrap()] == ["Ada"]
    await tracker.aclose()


async def test_a_budget_outlives_the_agent(tmp_path: Path) -> None:
    for expected in ("completed", "partial"):
        builder, _ = looking(answer("Here.", usage=USED, cost_usd=0.1))
        async with builder.with_cost(tmp_path / "cost.db", daily_usd=0.15).build() as agent:
            assert (await agent.run("Where are the keys?")).status == expected


@pytest.mark.parametrize("streaming", [False, True])
async def test_it_warns_on_the_way_once_a_share(tmp_path: Path, streaming: bool) -> None:
    builder, _ = looking(*looks(8, 0.1), answer("Nowhere.", usage=USED, cost_usd=0.1))
    builder = builder.with_cost(tmp_path / "cost.db", run_usd=1.0, warn_at=(0.5, 0.8))
    async with builder.build() as agent:
        recorder = watched(agent)
        if streaming:
            assert [event async for event in agent.stream("Where are the keys?")]
        else:
            assert (await agent.run("Where are the keys?")).status == "completed"
    warnings = recorder.of(BudgetWarning)
    assert [(each.period, each.limit_usd, round(each.share, 6)) for each in warnings] == [
        ("run", 1.0, 0.5),
        ("run", 1.0, 0.8),
    ]
    assert warnings[0].spent_usd == pytest.approx(0.5)


async def test_a_streamed_run_is_held_to_its_budget_too() -> None:
    builder, llm = looking(*looks(3, 0.1), say("never"))
    agent = builder.build()
    budget = InMemoryBudget(run_usd=0.25)
    agent.container.governance.budget.override(providers.Object(Some(budget)))
    recorder = watched(agent)
    events = [event async for event in agent.stream("Where are the keys?")]
    assert events
    assert len(llm.requests) == 2
    assert isinstance(recorder.of(ModelCallAbandoned)[0].error, BudgetExceeded)
    assert budget.spent_usd == pytest.approx(0.2)


async def test_a_model_without_a_price_allows_no_budget_and_says_so(tmp_path: Path) -> None:
    builder, llm = looking(say("never"), price=None)
    async with builder.with_cost(tmp_path / "cost.db", daily_usd=5.0).build() as agent:
        result = await agent.run("Where are the keys?")
    assert (result.status, llm.requests) == ("partial", [])
    assert result.reason.startswith(
        "The budget cannot be enforced with scripted/test: its price is not known; with_prices gives it one."
    )


async def test_an_answer_of_unknown_length_needs_a_bound(tmp_path: Path) -> None:
    builder, _ = looking(answer("Here."), price=TokenPrice(0.0, 0.001))
    builder = builder.with_cost(tmp_path / "cost.db", daily_usd=5.0)
    async with builder.build() as agent:
        assert "how long its answers may be" in (await agent.run("Where are the keys?")).reason
    async with builder.with_context_profile(max_answer_tokens=50).build() as agent:
        assert (await agent.run("Where are the keys?")).status == "completed"


async def test_a_model_that_is_free_is_asked_whatever_was_spent(tmp_path: Path) -> None:
    builder, _ = looking(answer("Here."), price=TokenPrice(0.0, 0.0))
    async with builder.with_cost(tmp_path / "cost.db", daily_usd=0.0).build() as agent:
        assert (await agent.run("Where are the keys?")).status == "completed"


async def test_a_budget_that_cannot_be_read_allows_no_spending(tmp_path: Path) -> None:
    path = tmp_path / "cost.db"
    path.write_text("this is no database " * 100)
    builder, llm = looking(say("never"))
    async with builder.with_cost(path, daily_usd=5.0).build() as agent:
        recorder = watched(agent)
        result = await agent.run("Where are the keys?")
    assert (result.status, result.metadata.terminated_by, llm.requests) == ("partial", "budget", [])
    assert result.reason.startswith("The budget cannot be read. The budget file ")
    assert isinstance(recorder.of(ModelCallAbandoned)[0].error, BudgetUnavailable)
    assert path.read_text().startswith("this is no database")


async def test_a_budget_that_somebody_keeps_locked_allows_no_spending(tmp_path: Path) -> None:
    path = tmp_path / "cost.db"
    builder, llm = looking(say("never"))
    agent = builder.build()
    budget = SqliteBudget(path, daily_usd=5.0, monthly_usd=None, clock=SystemClock(), patience_s=0.05)
    agent.container.governance.budget.override(providers.Object(Some(budget)))
    locker = sqlite3.connect(path, isolation_level=None)
    locker.execute("BEGIN EXCLUSIVE")
    result = await agent.run("Where are the keys?")
    locker.close()
    await budget.aclose()
    assert (result.status, llm.requests) == ("partial", [])
    assert "locked" in result.reason


class Unsettled(InMemoryBudget):
    """Breaks once something is reserved."""

    @effect
    async def reserve(self, run_id, amount_usd):  # type: ignore[no-untyped-def]
        reserved = await attempt(super().reserve(run_id, amount_usd))
        self.fails_with = DOWN
        return reserved


async def test_a_settlement_that_fails_is_told_and_the_reservation_stays() -> None:
    builder, _ = looking(say("Here.", usage=USED, cost_usd=0.02))
    agent = builder.build()
    budget = Unsettled(daily_usd=5.0)
    agent.container.governance.budget.override(providers.Object(Some(budget)))
    recorder = watched(agent)
    assert (await agent.run("Where are the keys?")).output == "Here."
    (told,) = recorder.of(BudgetNotSettled)
    assert (told.spent_usd, told.reserved_usd, told.error) == (0.02, 0.1, DOWN)
    assert budget.spent_usd == 0.1


async def test_what_an_agent_spends_that_is_a_tool_counts() -> None:
    asked = ScriptedLLM(say("42", usage=USED, cost_usd=0.9), model="h/1", price=TokenPrice(0.0, 0.009, 100))
    helper = ReactiveAgents.create().with_llm(asked)
    llm = ScriptedLLM(call("helper", task="Add."), say("never"), price=PER_ANSWER)
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning()
    agent = builder.with_tools(agent_tool(helper.with_name("helper").build())).build()
    budget = InMemoryBudget(run_usd=0.95)
    agent.container.governance.budget.override(providers.Object(Some(budget)))
    result = await agent.run("How much is it?")
    assert (result.status, budget.spent_usd) == ("partial", 0.9)
    assert result.metadata.models[-1] == RunUsage("h/1", USED, 0.9, 1)


@effect
async def plain_question(
    strategy_input: StrategyInput, services: StrategyServices
) -> Result[ReasoningResult, ReasoningErrors]:
    """A strategy that asks without a kernel."""
    request = ModelRequest((UserMessage(strategy_input.task_description),))
    error = (await attempt(services.kernel.llm.complete(request))).failure()
    return Failure(StrategyExecutionError("plain", error.message, cause=error))


async def test_a_strategy_without_a_kernel_stops_as_partial_too() -> None:
    llm = ScriptedLLM(say("never"), price=PER_ANSWER)
    builder = ReactiveAgents.create().with_llm(llm).with_strategy("plain", plain_question)
    agent = builder.with_reasoning("plain").build()
    agent.container.governance.budget.override(providers.Object(Some(InMemoryBudget(run_usd=0.01))))
    result = await agent.run("Where are the keys?")
    assert (result.status, result.metadata.terminated_by, result.output) == ("partial", "budget", None)
    assert result.reason.endswith("Missing: a final answer.")


# --- the account ----------------------------------------------------------------------------------------


async def test_each_model_of_a_run_has_its_own_account(tmp_path: Path) -> None:
    fitted = looks(1, 0.1)[0]
    llm = Fallback(fitted, answer("Nowhere.", usage=USED, cost_usd=0.25))
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(look)
    async with builder.with_cost(tmp_path / "cost.db").build() as agent:
        result = await agent.run("Where are the keys?")
    expected = (RunUsage("scripted/test", USED, 0.1, 1), RunUsage("other/1", USED, 0.25, 1))
    assert result.metadata.models == expected
    tracker = SqliteCostTracker(tmp_path / "cost.db", clock=SystemClock())
    totals = (await attempt(tracker.totals("model"))).unwrap()
    await tracker.aclose()
    assert [(each.name, each.cost_usd) for each in totals] == [("other/1", 0.25), ("scripted/test", 0.1)]


class Fallback(ScriptedLLM):
    """Answers the second request with another model."""

    def complete(self, request):  # type: ignore[no-untyped-def]
        second = len(self.requests) == 1
        answered = super().complete(request)
        return answered.map(lambda response: evolve(response, model="other/1")) if second else answered


# --- the tiers -----------------------------------------------------------------------------------------


async def test_model_routing_sees_what_the_run_really_sends(tmp_path: Path) -> None:
    tiers = [ModelTier("small", context_tokens=8_000), ModelTier("large")]
    for prompt, model in (("Be brief.", "small"), ("Be thorough. " * 2_000, "large")):
        builder, llm = looking(answer("Here."))
        builder = builder.with_system_prompt(prompt).with_cost(tmp_path / "cost.db", tiers=tiers)
        async with builder.build() as agent:
            recorder = watched(agent)
            await agent.run("Where are the keys?")
        assert llm.requests[0].model == model
        assert recorder.of(ModelRouted)[0].model == model


async def test_a_run_with_tools_needs_a_model_that_calls_them(tmp_path: Path) -> None:
    tiers = [ModelTier("talker"), ModelTier("caller", capabilities=frozenset({"tools"}))]
    with_tools, llm = looking(answer("Here."))
    async with with_tools.with_cost(tmp_path / "cost.db", tiers=tiers).build() as agent:
        await agent.run("Where are the keys?")
    assert llm.requests[0].model == "caller"
    without = ScriptedLLM(say("Here."))
    builder = ReactiveAgents.create().with_llm(without).with_cost(tmp_path / "cost.db", tiers=tiers)
    async with builder.build() as agent:
        await agent.run("Where are the keys?")
    assert without.requests[0].model == "talker"


# --- without --------------------------------------------------------------------------------------------


async def test_without_limits_nothing_is_held_back_and_the_absent_phases_say_so(tmp_path: Path) -> None:
    builder, _ = looking(answer("Here.", cost_usd=None), price=None)
    async with builder.with_cost(tmp_path / "cost.db").build() as agent:
        recorder = watched(agent)
        assert (await agent.run("Where are the keys?")).status == "completed"
    skipped = {event.phase: event.reason for event in recorder.of(ExecutionPhaseSkipped)}
    assert skipped["cost-route"] == "no service is provided"
    assert "cost-track" not in skipped
    assert not recorder.of(BudgetWarning)
    assert len(recorder.of(ModelCallCompleted)) == 1


async def test_an_endless_run_is_stopped_by_its_budget() -> None:
    llm = ScriptedLLM(forever(call("look", place="x", cost_usd=0.1)), price=PER_ANSWER)
    builder = ReactiveAgents.create().with_llm(llm).with_tools(look).with_max_iterations(100)
    agent = builder.build()
    budget = InMemoryBudget(run_usd=0.45)
    agent.container.governance.budget.override(providers.Object(Some(budget)))
    result = await agent.run("Where are the keys?")
    assert (result.status, len(llm.requests)) == ("partial", 4)
    assert budget.spent_usd <= 0.45


async def test_a_model_that_is_not_on_the_list_has_the_price_of_the_configuration(tmp_path: Path) -> None:
    """Its own, of a name with or without a provider, and that of a fallback."""
    mine = {"input_usd_per_million": 1_000.0, "output_usd_per_million": 10_000.0, "max_output_tokens": 100}
    usage = (10, 20)
    for streamed in (False, True):
        with OpenAIServer(refusal(404), Answer("Hi.", usage=usage), Answer("Hi.", usage=usage)) as server:
            described: dict[str, Any] = {
                "model": "openai/house-brand",
                "base_url": server.base_url,
                "api_key": "none",
                "fallbacks": ["house-fallback"],
                "prices": {"openai/house-brand": mine, "house-fallback": mine},
            }
            limit = {"path": str(tmp_path / f"cost-{streamed}.db"), "daily_usd": 50.0}
            async with ReactiveAgents.from_config({"model": described, "cost": limit}).build() as agent:
                events = EventRecorder()
                agent.subscribe(events)
                if streamed:
                    assert [text async for text in agent.stream_output("Hi?")]
                else:
                    assert (await agent.run("Hi?")).status == "completed"
        (called,) = events.of(ModelCallCompleted)
        assert (called.model, called.cost_usd) == ("openai/house-fallback", pytest.approx(0.21))


async def test_a_budget_knows_the_price_of_the_configuration(tmp_path: Path) -> None:
    builder = ReactiveAgents.create().with_model("openai/house-brand", base_url="http://127.0.0.1:9/v1")
    builder = builder.with_cost(tmp_path / "cost.db", daily_usd=0.5)
    dear = ModelPrice(0.0, 10_000.0, max_output_tokens=100)
    async with builder.with_prices({"openai/house-brand": dear}).build() as agent:
        result = await agent.run("Hi?")
    assert "the next call may cost 1" in (result.reason or "")
    with pytest.raises(AgentError, match=r"prices.*input_usd_per_million"):
        builder.with_prices({"m": {"input_usd_per_million": -1}}).build()
    with pytest.raises(AgentError, match=r"model\.prices"):
        builder.with_llm(ScriptedLLM(say("Hi."))).with_prices({"m": dear}).build()
