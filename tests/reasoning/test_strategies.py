"""The strategies that are one kernel run: reactive, and direct for when reasoning is off."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.config import ReactiveConfig, ReasoningConfig, StrategiesConfig
from reactive_agents.core.errors import (
    IllegalTransition,
    KernelErrors,
    ModelCallFailed,
    ModelUnavailable,
    StrategyExecutionError,
)
from reactive_agents.core.events import FinalAnswerProduced, ReasoningStepCompleted
from reactive_agents.core.models import Usage
from reactive_agents.effects import attempt
from reactive_agents.kernel import REACT_INSTRUCTIONS, KernelContext, KernelState, KernelStep
from reactive_agents.reasoning import Strategy
from reactive_agents.reasoning.strategies.plan_execute import plan_execute
from reactive_agents.reasoning.strategies.reactive import direct, reactive
from reactive_agents.reasoning.strategies.reflexion import reflexion
from reactive_agents.reasoning.strategies.tree_of_thought import tree_of_thought
from reactive_agents.testing import answer, call, calls, fail, forever, say
from tests.support.kernels import add, assert_balanced, kernel_bench
from tests.support.models import RuledLLM, services_with
from tests.support.sensible import sensible
from tests.support.strategies import strategy_input, strategy_services

pytestmark = pytest.mark.anyio
DOWN = ModelUnavailable("The model is down.", "m")


def configured(**fields: Any) -> ReasoningConfig:
    return ReasoningConfig(strategies=StrategiesConfig(reactive=ReactiveConfig(**fields)))


@pytest.mark.parametrize("strategy", [reactive, reflexion, plan_execute, tree_of_thought, direct])
async def test_without_tools_nothing_is_said_of_tools_and_turns(strategy: Strategy) -> None:
    bench = kernel_bench()
    model = RuledLLM(sensible)
    await attempt(strategy(strategy_input(), services_with(model, bench)))
    said = [message.content.lower() for request in model.requests for message in request.messages]
    assert not [text for text in said if "tool" in text or "final-answer" in text or "turns" in text]


async def test_reactive_reasons_and_delivers_by_the_answer_tool() -> None:
    bench = kernel_bench(
        calls(call("add", a=1, b=2), text="I add.", usage=Usage(10, 5, 15), cost_usd=0.25),
        call("final-answer", answer="3", cost_usd=0.5),
        tools={"add": add},
    )
    result = (await attempt(reactive(strategy_input(), strategy_services(bench)))).unwrap()
    assert (result.strategy, result.status, result.output) == ("reactive", "completed", "3")
    figures = result.metadata
    assert (figures.tokens_used, figures.cost, figures.iterations) == (30, 0.75, 2)
    assert (figures.steps_count, figures.confidence) == (len(result.steps), 0.8)
    assert figures.terminated_by == "final_answer"
    assert figures.duration > 0
    assert result.tool_results == {"add-1": "3"}
    assert f"{REACT_INSTRUCTIONS} You have 10 turns" in bench.sent(0)[0].content
    assert bench.llm.requests[0].temperature is None
    passes = {event.kernel_pass for event in bench.recorder.of(ReasoningStepCompleted)}
    assert passes == {"reactive:main"}


@pytest.mark.parametrize(("own", "whole", "turns"), [(2, None, 2), (2, 3, 3), (9, 3, 3)])
async def test_the_limit_of_the_run_counts_first_and_what_there_is_comes_back_as_partial(
    own: int, whole: int | None, turns: int
) -> None:
    bench = kernel_bench(forever(calls(call("add", a=1, b=2), text="Adding.")), tools={"add": add})
    task = strategy_input(reasoning=configured(max_iterations=own), max_iterations=whole)
    result = (await attempt(reactive(task, strategy_services(bench)))).unwrap()
    assert (result.status, result.output, result.metadata.iterations) == ("partial", "Adding.", turns)
    assert result.metadata.terminated_by == "iteration_limit"
    assert 0 < result.metadata.confidence <= 0.4
    assert "Missing" in result.metadata.reason
    assert len(bench.llm.requests) == turns


async def test_its_options_reach_the_model() -> None:
    bench = kernel_bench(answer("3"), tools={"add": add})
    config = evolve(configured(temperature=0.1), parallel_tool_calls=False)
    task = strategy_input(reasoning=config, model="m/2", system_prompt="You count.")
    await attempt(reactive(task, strategy_services(bench)))
    (request,) = bench.llm.requests
    assert (request.temperature, request.parallel_tool_calls, request.model) == (0.1, False, "m/2")
    assert request.messages[0].content.startswith("You count.")


@pytest.mark.parametrize("strategy", [reactive, direct])
async def test_a_model_that_fails_is_a_typed_failure_with_its_cause(strategy: Any) -> None:
    bench = kernel_bench(call("add", a=1, b=2), fail(DOWN), tools={"add": add})
    match await attempt(strategy(strategy_input(), strategy_services(bench))):
        case Failure(error):
            assert isinstance(error, StrategyExecutionError)
            assert error.strategy == strategy.__name__
            assert (error.step, error.cause) == (1, ModelCallFailed("think", 1, DOWN))
            assert "The model is down." in error.message
        case Success(result):
            raise AssertionError(result)


async def test_direct_answers_when_the_model_stops_calling_tools() -> None:
    bench = kernel_bench(call("add", a=1, b=2), say("3"), tools={"add": add})
    result = (await attempt(direct(strategy_input(), strategy_services(bench)))).unwrap()
    assert (result.strategy, result.status, result.output) == ("direct", "completed", "3")
    assert [tool.name for tool in bench.llm.requests[0].tools] == ["add"]
    assert bench.llm.requests[0].temperature is None
    assert REACT_INSTRUCTIONS not in bench.sent(0)[0].content
    (answer,) = bench.recorder.of(FinalAnswerProduced)
    assert (answer.strategy, answer.answer) == ("direct", "3")


async def test_a_strategys_figures_are_its_own_when_the_meter_has_run_before() -> None:
    bench = kernel_bench(say("warm", usage=Usage(reported=False), cost_usd=9.0), say("3", cost_usd=0.5))
    await bench.run()
    result = (await attempt(reactive(strategy_input(), strategy_services(bench)))).unwrap()
    assert (result.metadata.tokens_used, result.metadata.cost) == (15, 0.5)


async def test_a_strategys_events_are_balanced() -> None:
    bench = kernel_bench(
        calls(call("add", a=1, b=2), call("ad")), call("final-answer", answer="3"), tools={"add": add}
    )
    await attempt(reactive(strategy_input(), strategy_services(bench)))
    twin = kernel_bench(
        calls(call("add", a=1, b=2), call("ad")), call("final-answer", answer="3"), tools={"add": add}
    )
    assert_balanced(twin, await twin.run())
    assert bench.recorder.tags() == twin.recorder.tags()


def undoing_turns(inner: KernelStep) -> KernelStep:
    """The same step, but that it counts a turn back."""

    async def step(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
        outcome = await inner(state, context)
        return outcome.map(lambda after: evolve(after, iteration=state.iteration - 1))

    return step


async def test_a_run_that_breaks_the_kernels_rules_is_a_typed_failure() -> None:
    services = strategy_services(kernel_bench(say("3")))
    services = evolve(services, kernel=evolve(services.kernel, wrap=undoing_turns))
    match await attempt(reactive(strategy_input(), services)):
        case Failure(error):
            assert isinstance(error, StrategyExecutionError)
            assert isinstance(error.cause, IllegalTransition)
            assert error.cause.field == "iteration"
        case Success(result):
            raise AssertionError(result)
