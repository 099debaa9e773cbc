"""The reasoning service runs a strategy by its name."""

from __future__ import annotations

import pytest
from returns.future import FutureResult
from returns.result import Failure, Result

from reactive_agents.core.config import ReasoningConfig
from reactive_agents.core.errors import ReasoningError, ReasoningErrors, StrategyNotFoundError
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.settings import BudgetConfig
from reactive_agents.effects import Effect, attempt
from reactive_agents.reasoning import (
    ReasoningService,
    Selection,
    StrategyInput,
    StrategyRegistry,
    StrategyServices,
)
from reactive_agents.testing import call, forever, say
from tests.support.kernels import add, kernel_bench
from tests.support.strategies import strategy_input, strategy_services

pytestmark = pytest.mark.anyio


def gives_up(task: StrategyInput, _: StrategyServices) -> Effect[ReasoningResult, ReasoningErrors]:
    return FutureResult.from_failure(ReasoningError(f"No idea: {task.task_description}"))


def service(default: str = "reactive") -> ReasoningService:
    return ReasoningService(StrategyRegistry(), ReasoningConfig(default_strategy=default))


async def selected(reasoning: ReasoningService) -> Result[Selection, ReasoningErrors]:
    services = strategy_services(kernel_bench())
    return await attempt(reasoning.select_strategy(strategy_input(), services))


async def test_the_configured_default_is_selected() -> None:
    selection = (await selected(service())).unwrap()
    assert (selection.strategy, selection.reason) == ("reactive", "the configured default")


async def test_a_default_that_nobody_registered_is_a_typed_failure() -> None:
    match await selected(service("magic")):
        case Failure(StrategyNotFoundError(strategy, known)):
            assert strategy == "magic"
            assert "reactive" in known
        case other:
            raise AssertionError(other)


async def test_a_strategy_is_run_by_name() -> None:
    services = strategy_services(kernel_bench(say("3")))
    result = (await attempt(service().execute("reactive", strategy_input(), services))).unwrap()
    assert (result.strategy, result.output) == ("reactive", "3")


async def test_an_unknown_strategy_asks_no_model() -> None:
    bench = kernel_bench(say("3"))
    outcome = await attempt(service().execute("magic", strategy_input(), strategy_services(bench)))
    assert outcome == Failure(StrategyNotFoundError("magic", StrategyRegistry().names()))
    assert bench.llm.requests == []


async def test_a_strategy_of_ones_own_is_run_and_fails_as_itself() -> None:
    reasoning = service("own")
    reasoning.register_strategy("own", gives_up)
    assert (await selected(reasoning)).unwrap().strategy == "own"
    outcome = await attempt(
        reasoning.execute("own", strategy_input("Why?"), strategy_services(kernel_bench()))
    )
    assert outcome == Failure(ReasoningError("No idea: Why?"))


async def test_without_a_name_the_strategy_is_selected() -> None:
    services = strategy_services(kernel_bench(say("3")))
    result = (await attempt(service().execute(None, strategy_input(), services))).unwrap()
    assert (result.strategy, result.output) == ("reactive", "3")
    services = strategy_services(kernel_bench())
    outcome = await attempt(service("magic").execute(None, strategy_input(), services))
    assert isinstance(outcome, Failure)


async def test_a_strategy_gets_what_is_left_of_the_runs_budget() -> None:
    bench = kernel_bench(say("one"), forever(call("add", a=1, b=2)), tools={"add": add})
    services = strategy_services(bench)
    given = strategy_input(budget=BudgetConfig(tokens=40))
    await attempt(service().execute("reactive", given, services))
    second = (await attempt(service().execute("reactive", given, services))).unwrap()
    assert (second.status, second.metadata.terminated_by) == ("partial", "budget")
    assert len(bench.llm.requests) == 3, "15 of 40 tokens were used, so that two more calls use up the rest"
