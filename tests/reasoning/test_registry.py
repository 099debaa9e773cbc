"""Strategies and kernels by name."""

from __future__ import annotations

import pytest
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import KernelErrors, ReasoningErrors, StrategyNotFoundError
from reactive_agents.core.results import ReasoningResult
from reactive_agents.effects import Effect, effect
from reactive_agents.kernel import (
    KernelContext,
    KernelState,
    direct_kernel,
    one_shot_kernel,
    react_kernel,
    transition_state,
)
from reactive_agents.reasoning import StrategyInput, StrategyRegistry, StrategyServices
from reactive_agents.reasoning.strategies.reactive import reactive
from tests.support.kernels import kernel_bench


def no_strategy(_: StrategyInput, __: StrategyServices) -> Effect[ReasoningResult, ReasoningErrors]:
    return FutureResult.from_failure(StrategyNotFoundError("none"))


def test_the_built_in_ones_are_there() -> None:
    registry = StrategyRegistry()
    assert registry.get("reactive") == Success(reactive)
    assert registry.kernel_names() == ("react", "direct", "one-shot")
    assert registry.get_kernel("react") == Success(react_kernel)
    assert registry.get_kernel("direct") == Success(direct_kernel)
    assert registry.get_kernel("one-shot") == Success(one_shot_kernel)


def test_an_unknown_name_is_a_typed_failure_that_lists_the_known_ones() -> None:
    registry = StrategyRegistry()
    assert registry.get("magic") == Failure(StrategyNotFoundError("magic", registry.names()))
    assert registry.get_kernel("magic") == Failure(
        StrategyNotFoundError("magic", registry.kernel_names(), "kernel")
    )


def test_a_strategy_of_ones_own_is_added_and_touches_no_other_registry() -> None:
    registry = StrategyRegistry()
    registry.register("own", no_strategy)
    assert registry.names()[-1] == "own"
    assert registry.get("own") == Success(no_strategy)
    assert registry.get("reactive") == Success(reactive)
    assert "own" not in StrategyRegistry().names()


@pytest.mark.anyio
async def test_a_kernel_of_ones_own_is_registered_fetched_and_run() -> None:
    @effect
    async def shout(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
        return transition_state(state, status="done", output=context.input.task.upper())

    registry = StrategyRegistry()
    registry.register_kernel("shout", shout)
    assert registry.kernel_names()[-1] == "shout"
    state = await kernel_bench().run(registry.get_kernel("shout").unwrap(), task="hello")
    assert (state.output, state.outcome) == ("HELLO", "completed")
