"""A strategy of one's own gets what the built-in ones get."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from returns.result import Result

from reactive_agents import ReactiveAgents, Task
from reactive_agents.core.errors import ReasoningErrors
from reactive_agents.core.reasoning import ReasoningResult
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
