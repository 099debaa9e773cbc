"""Whatever the strategy: a run over its budget, or stopped, is partial, says so, and keeps what it has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from dependency_injector import providers
from returns.future import FutureResult
from returns.maybe import Some
from returns.result import Result

from reactive_agents import ReactiveAgents
from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.errors import BudgetExceeded, LLMErrors
from reactive_agents.core.events import (
    ExecutionStopped,
    ModelCallAbandoned,
    ModelCallCompleted,
    VerificationActed,
)
from reactive_agents.core.messages import ToolMessage
from reactive_agents.core.models import ModelRequest, ModelResponse, TokenPrice
from reactive_agents.effects import Effect, attempt
from reactive_agents.testing import EventRecorder, FakeClock, InMemoryEffectivenessTracker
from tests.support.models import TOKENS, RuledLLM, Said
from tests.support.plans import analysis_step, tool_step

pytestmark = pytest.mark.anyio
COST = 0.25


class PricedLLM(RuledLLM):
    """A model whose price is known."""

    def price(self, model: str | None) -> Effect[TokenPrice | None, object]:
        return FutureResult.from_value(TokenPrice(0.0, 1e-6, max_output_tokens=100))


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def hard_to_please(request: ModelRequest) -> Said:
    """A model that uses its tool, plans, and finds that every answer is good but could be better."""
    match request.purpose:
        case "critique":
            count = request.messages[-1].content.count("Better")
            return json.dumps({"issues": [f"Fault {count}"], "score": 0.7 + 0.05 * count, "satisfied": False})
        case "expand":
            return json.dumps({"thoughts": ["Add the numbers.", "Count on the fingers."]})
        case "score":
            scores = [{"candidate": n, "reason": "", "score": 0.5 + 0.2 * n} for n in (1, 2)]
            return json.dumps({"scores": scores})
        case "plan" | "augment-plan" | "replan":
            return json.dumps({"steps": [tool_step("add", a=1, b=2), analysis_step("Say what it is.")]})
        case "reflect":
            return json.dumps({"verdict": "UNSATISFIED", "confidence": 0.6, "missing": ["a check"]})
    if request.tools and not any(isinstance(message, ToolMessage) for message in request.messages):
        return "add", {"a": 1, "b": 2}
    return "Better: it is 3." if any("Fault" in each.content for each in request.messages) else "It is 3."


def builder(strategy: str, model: RuledLLM) -> ReactiveAgents:
    small = {"tree_of_thought": {"breadth": 2, "depth": 2}, "plan_execute": {"max_refinements": 1}}
    made = ReactiveAgents.create().with_llm(model).with_tools(add)
    return made.with_reasoning(strategy, strategies=small) if strategy else made


CASES = [
    pytest.param(strategy, calls, id=f"{strategy or 'without reasoning'}-{calls}")
    for strategy, most in (
        ("", 2),
        ("reactive", 2),
        ("reflexion", 6),
        ("tree-of-thought", 6),
        ("plan-execute-reflect", 6),
        ("adaptive", 2),
    )
    for calls in range(most)
]


@pytest.mark.parametrize(("strategy", "calls"), CASES)
async def test_a_run_over_budget_is_partial_and_keeps_what_it_has(
    strategy: str, calls: int, tmp_path: Path
) -> None:
    model, recorder, path = PricedLLM(hard_to_please), EventRecorder(), tmp_path / "cost.db"
    limit = max(0.0, COST * calls - COST / 2)  # room for that many calls, and none for another
    async with builder(strategy, model).with_cost(path, run_usd=limit).build() as agent:
        agent.subscribe(recorder)
        result = await agent.run("What is 1 + 2?")
    assert len(model.requests) >= calls
    refused = recorder.of(ModelCallAbandoned)
    assert isinstance(refused[-1].error, BudgetExceeded)
    assert (result.status, result.metadata.terminated_by) == ("partial", "budget")
    assert refused[-1].error.message in result.reason
    assert "Missing: " in result.reason
    said = any("it is 3" in step.content.lower() for step in result.steps)
    assert bool(result.output) or not said
    assert bool(result.tool_results) == any(step.type == "observation" for step in result.steps)

    answered = len(recorder.of(ModelCallCompleted))
    assert result.metadata.model_calls == answered == len(model.requests)
    assert (result.metadata.tokens_used, result.metadata.cost_usd) == (TOKENS * answered, COST * answered)
    tracker = SqliteCostTracker(path, clock=SystemClock())
    totals = (await attempt(tracker.totals("model"))).unwrap()
    await tracker.aclose()
    assert sum(each.cost_usd for each in totals) == COST * answered


class StoppedInCall(RuledLLM):
    """A model that has its own run stopped in one call, the ``index``-th from 0, which then never ends."""

    def __init__(self, index: int) -> None:
        super().__init__(hard_to_please)
        self.index = index
        self.stop: Callable[[], object] = lambda: None

    async def _answer(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        if len(self.requests) == self.index:
            self.stop()
            await anyio.sleep_forever()
        return await super()._answer(request)


@pytest.mark.parametrize(("strategy", "calls"), CASES)
async def test_a_run_that_is_stopped_in_a_model_call_is_partial_and_keeps_what_it_has(
    strategy: str, calls: int
) -> None:
    model, recorder = StoppedInCall(calls), EventRecorder()
    agent = builder(strategy, model).build()
    agent.subscribe(recorder)
    task = agent.new_task("What is 1 + 2?")
    model.stop = lambda: agent.stop(task.id)
    result = await agent.run(task)
    assert (result.status, result.metadata.terminated_by) == ("partial", "stopped")
    assert result.reason == "The run was stopped. Missing: a final answer."
    assert len(recorder.of(ExecutionStopped)) == 1
    assert result.metadata.model_calls == calls == len(model.requests)
    said = any("it is 3" in step.content.lower() for step in result.steps)
    assert bool(result.output) or not said
    assert bool(result.tool_results) == any(step.type == "observation" for step in result.steps)


async def test_a_refused_call_ends_the_attempts_at_once(tmp_path: Path) -> None:
    model, recorder = PricedLLM(hard_to_please), EventRecorder()
    made = builder("reflexion", model).with_cost(tmp_path / "cost.db", run_usd=COST * 2.5)
    async with made.build() as agent:
        agent.subscribe(recorder)
        result = await agent.run("What is 1 + 2?")
    assert len(recorder.of(ModelCallAbandoned)) == 1
    assert result.output == "It is 3."


@pytest.mark.parametrize("strategy", ["reactive", "adaptive"])
async def test_nothing_is_learned_of_a_strategy_that_a_budget_did_not_let_work(
    strategy: str, tmp_path: Path
) -> None:
    learned = []
    for path, limit in ((tmp_path / "some.db", None), (tmp_path / "none.db", 0.0)):
        tracker = InMemoryEffectivenessTracker(FakeClock())
        agent = builder(strategy, PricedLLM(hard_to_please)).with_cost(path, daily_usd=limit).build()
        agent.container.memory.effectiveness.override(providers.Object(Some(tracker)))
        async with agent:
            await agent.run("What is 1 + 2?")
        learned.append(len((await attempt(tracker.history("question"))).unwrap()))
    assert learned == [1, 0]


async def test_there_is_no_second_try_once_the_budget_has_refused_a_call(tmp_path: Path) -> None:
    model, recorder = PricedLLM(hard_to_please), EventRecorder()
    made = builder("reactive", model).with_verification(
        action="retry", self_consistency=3, deliverables=("sum.txt",)
    )
    async with made.with_cost(tmp_path / "cost.db", run_usd=COST * 1.5).build() as agent:
        agent.subscribe(recorder)
        result = await agent.run("What is 1 + 2?")
    (acted,) = recorder.of(VerificationActed)
    assert acted.action == "annotate"
    assert acted.detail == "There is no second try, as the budget of the run is used up."
    assert (result.output, result.status) == ("It is 3.", "completed")
