"""Custom strategies get what the built-in ones get, and are named when they break their contract."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
import pytest
from returns.result import Failure, Result, Success

from reactive_agents import AgentError, ReactiveAgents, Task
from reactive_agents.core.errors import ReasoningErrors, StrategyExecutionError, root_cause
from reactive_agents.core.results import ReasoningResult
from reactive_agents.effects import attempt, effect
from reactive_agents.reasoning import (
    ReasoningController,
    Strategy,
    StrategyInput,
    StrategyServices,
)
from reactive_agents.reasoning.strategies.reactive import reactive
from reactive_agents.testing import ScriptedLLM, forever, say

pytestmark = pytest.mark.anyio
Given = tuple[StrategyInput, StrategyServices]


def spy(seen: list[Given]) -> Strategy:
    @effect
    async def strategy(
        strategy_input: StrategyInput, services: StrategyServices
    ) -> Result[ReasoningResult, ReasoningErrors]:
        seen.append((strategy_input, services))
        return await attempt(reactive(strategy_input, services))

    return strategy


async def test_input_and_services_are_those_of_the_built_in_strategies(tmp_path: Path) -> None:
    seen: list[Given] = []
    spied = spy(seen)
    builder = (
        ReactiveAgents.create()
        .with_llm(ScriptedLLM(forever(say("4"))))
        .with_tools("calculator")
        .with_system_prompt("You count.")
        .with_context_profile("local")
        .with_result_compression(budget=400)
        .with_required_tools("calculator")
        .with_budget(tokens=1_000)
        .with_timeout(run=60)
        .with_max_iterations(1)
        .with_controller(ReasoningController())
    )
    for name in ("own", "reactive"):
        async with (
            builder.with_memory(tmp_path / f"{name}.db")
            .with_strategy("own", spied)
            .with_strategy("reactive", spied)
            .with_reasoning(name)
            .build()
        ) as agent:
            plain = agent.new_task("What is 2 + 2?")
            await agent.run(Task(plain.id, plain.agent_id, plain.input, plain.created_at, type="sums"))
    (own, with_own), (built_in, with_built_in) = seen
    differing = {"run_id", "task_id", "session_id", "deadline", "settings"}
    for field in attrs.fields(StrategyInput):
        if field.name not in differing:
            assert getattr(own, field.name) == getattr(built_in, field.name), field.name
    assert own.settings == attrs.evolve(built_in.settings, reasoning=own.settings.reasoning)
    assert own.task_type == "sums"
    assert own.deadline is not None
    for field in attrs.fields(StrategyServices):
        assert type(getattr(with_own, field.name)) is type(getattr(with_built_in, field.name)), field.name
    assert with_own.strategies.keys() == with_built_in.strategies.keys()
    assert with_own.control is not None


# --- strategies that break their contract ---------------------------------------------------------------


def raises(strategy_input: StrategyInput, services: StrategyServices) -> Any:
    raise OSError("the disk is gone")


async def raises_later(strategy_input: StrategyInput, services: StrategyServices) -> Any:
    raise OSError("the disk is gone")


def gives_nothing(strategy_input: StrategyInput, services: StrategyServices) -> Any:
    return None


async def gives_a_text(strategy_input: StrategyInput, services: StrategyServices) -> Any:
    return "4"


async def gives_a_successful_text(strategy_input: StrategyInput, services: StrategyServices) -> Any:
    return Success("4")


async def fails_with_a_text(strategy_input: StrategyInput, services: StrategyServices) -> Any:
    return Failure("no luck")


BROKEN = [
    (raises, "The strategy mine raised OSError: the disk is gone"),
    (effect(raises_later), "The strategy mine raised OSError: the disk is gone"),
    (raises_later, "The strategy mine raised OSError: the disk is gone"),
    (gives_nothing, "The strategy mine returned NoneType, expected an effect"),
    (gives_a_text, "The strategy mine returned str, expected Success(ReasoningResult) or a Failure."),
    (gives_a_successful_text, "The strategy mine returned Success(str), expected ReasoningResult."),
    (fails_with_a_text, "The strategy mine failed with str, which is no typed error: 'no luck'"),
]


@pytest.mark.parametrize(("strategy", "problem"), BROKEN)
@pytest.mark.parametrize("controller", [None, ReasoningController()])
async def test_a_strategy_that_breaks_its_contract_is_named(
    strategy: Any, problem: str, controller: ReasoningController | None
) -> None:
    builder = ReactiveAgents.create().with_llm(ScriptedLLM()).with_strategy("mine", strategy)
    if controller is not None:
        builder = builder.with_controller(controller)
    async with builder.with_reasoning("mine").build() as agent:
        with pytest.raises(AgentError, match=re.escape(problem)) as raised:
            await agent.run("What is 2 + 2?")
    error = root_cause(raised.value.error)
    assert isinstance(error, StrategyExecutionError)
    assert error.strategy == "mine"


async def test_one_in_the_place_of_the_adaptive_strategy_is_named_too() -> None:
    builder = ReactiveAgents.create().with_llm(ScriptedLLM()).with_strategy("adaptive", raises)
    async with builder.with_reasoning("adaptive").build() as agent:
        with pytest.raises(AgentError, match="The strategy adaptive raised OSError: the disk is gone"):
            await agent.run("What is 2 + 2?")


async def test_another_strategy_takes_the_place_of_one_that_raises() -> None:
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(say("4"))).with_strategy("mine", raises)
    adaptive = {"enabled": True, "learning": False}
    controller = ReasoningController(on_adapt=lambda given: "mine")
    async with (
        builder.with_controller(controller).with_reasoning("reactive", adaptive=adaptive).build()
    ) as agent:
        result = await agent.run("What is 2 + 2?")
    assert (result.output, result.metadata.selected_strategy) == ("4", "reactive")
    assert "The strategy mine raised OSError" in result.reason


async def test_a_forgotten_effect_is_accepted() -> None:
    async def plain(strategy_input: StrategyInput, services: StrategyServices) -> Any:
        return await attempt(reactive(strategy_input, services))

    builder = ReactiveAgents.create().with_llm(ScriptedLLM(say("4"))).with_strategy("mine", plain)
    async with builder.with_reasoning("mine").build() as agent:
        assert (await agent.run("What is 2 + 2?")).output == "4"
