"""Kernels that users register by name, through the public API."""

from __future__ import annotations

import pytest
from returns.result import Failure, Result

from reactive_agents import AgentError, ReactiveAgents
from reactive_agents.core.errors import (
    InvalidConfig,
    KernelErrors,
    KernelFailed,
    ModelCallFailed,
    PolicyFailed,
    StrategyNotFoundError,
    root_cause,
)
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel import KernelContext, KernelState, Verdict, transition_state
from reactive_agents.reasoning import StrategyRegistry
from reactive_agents.testing import ScriptedLLM, say
from tests.support.kernels import kernel_bench
from tests.support.strategies import strategy_input, strategy_services

pytestmark = pytest.mark.anyio


@effect
async def haiku(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
    request = ModelRequest((UserMessage(f"Haiku: {context.input.task}"),), purpose="haiku")
    answer = await attempt(context.llm.complete(request))
    if isinstance(answer, Failure):
        return Failure(ModelCallFailed(request.purpose, state.iteration, answer.failure()))
    return transition_state(state, status="done", iteration=1, output=answer.unwrap().content)


def create(llm: ScriptedLLM) -> ReactiveAgents:
    return ReactiveAgents.create().with_llm(llm)


async def test_a_kernel_is_run_by_its_name() -> None:
    llm = ScriptedLLM(say("old pond"))
    agent = create(llm).with_kernel("haiku", haiku).with_reasoning(kernel="haiku").build()
    result = await agent.run("What is a pond?")
    assert (result.output, result.status, result.metadata.terminated_by) == (
        "old pond",
        "completed",
        "kernel",
    )
    assert llm.requests[0].purpose == "haiku"
    assert result.metadata.tokens_used == 15


async def test_the_settings_of_the_builder_reach_the_kernel_as_the_same_object() -> None:
    seen: list[object] = []

    @effect
    async def looking(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
        seen.append(context.input.settings)
        return transition_state(state, status="done", iteration=1, output="seen")

    builder = create(ScriptedLLM()).with_kernel("looking", looking).with_reasoning(kernel="looking")
    agent = builder.with_budget(tokens=1_000).build()
    settings = agent.container.settings()
    assert (await agent.run("Look.")).status == "completed"
    assert [each is settings for each in seen] == [True]


@pytest.mark.parametrize("strategy", ["reactive", "direct", "reflexion", "tree-of-thought"])
async def test_every_strategy_runs_the_kernel_of_the_configuration(strategy: str) -> None:
    kernel_types: list[str] = []

    @effect
    async def quiet(state: KernelState, _: KernelContext) -> Result[KernelState, KernelErrors]:
        kernel_types.append(state.kernel_type)
        return transition_state(state, status="done", iteration=1, output="It is so.")

    builder = create(ScriptedLLM()).with_kernel("quiet", quiet).with_reasoning(strategy, kernel="quiet")
    result = await builder.build().run("Is it so?")
    assert result.output == "It is so."
    assert kernel_types
    assert set(kernel_types) == {"quiet"}


async def test_a_kernel_under_the_name_of_a_built_in_one_takes_its_place() -> None:
    agent = create(ScriptedLLM(say("old pond"))).with_kernel("react", haiku).with_reasoning().build()
    assert (await agent.run("What is a pond?")).metadata.terminated_by == "kernel"


async def test_a_kernel_that_is_registered_at_the_container_is_run_as_well() -> None:
    agent = create(ScriptedLLM(say("old pond"))).with_reasoning().build()
    registry: StrategyRegistry = agent.container.reasoning.registry()
    registry.register_kernel("react", haiku)
    assert (await agent.run("What is a pond?")).metadata.terminated_by == "kernel"


async def test_a_kernel_nobody_registered_is_named_with_the_known_ones() -> None:
    built = create(ScriptedLLM()).with_kernel("haiku", haiku).with_reasoning(kernel="sonnet")
    with pytest.raises(AgentError) as caught:
        built.build()
    assert caught.value.error == InvalidConfig(
        "reasoning.kernel", "'sonnet'", "one of react, direct, one-shot, haiku"
    )
    registry = StrategyRegistry()
    error = registry.get_kernel("sonnet").failure()
    assert error == StrategyNotFoundError("sonnet", ("react", "direct", "one-shot"), "kernel")
    assert error.message == "There is no kernel 'sonnet'. Known: react, direct, one-shot."


async def test_a_strategy_that_names_no_kernel_that_there_is_fails_with_its_name() -> None:
    from reactive_agents.kernel import KernelRunOptions
    from reactive_agents.reasoning import kernel_input
    from reactive_agents.reasoning.passes import run_once

    services, options = strategy_services(kernel_bench()), KernelRunOptions(1, "poet", "sonnet")
    ran = await attempt(run_once("sonnet", kernel_input(strategy_input()), options, services))
    assert ran == Failure(StrategyNotFoundError("sonnet", ("react", "direct", "one-shot"), "kernel"))


@pytest.mark.parametrize(("name", "kernel"), [(" ", haiku), ("haiku", "haiku")])
def test_what_is_no_kernel_is_refused(name: str, kernel: object) -> None:
    with pytest.raises(AgentError, match="kernel"):
        create(ScriptedLLM()).with_kernel(name, kernel).with_reasoning().build()  # type: ignore[arg-type]


def test_without_reasoning_a_kernel_is_refused_and_not_ignored() -> None:
    with pytest.raises(AgentError, match=r"with_reasoning\(\)"):
        create(ScriptedLLM()).with_kernel("direct", haiku).build()


def test_a_custom_kernel_cannot_be_written_as_data() -> None:
    described = ReactiveAgents.create().with_kernel("haiku", haiku).with_reasoning(kernel="haiku")
    with pytest.raises(AgentError, match="a built-in kernel, to be serialised"):
        described.to_config()


async def test_a_kernel_that_raises_fails_the_run_with_its_name() -> None:
    def broken(*_: object) -> object:
        raise KeyError("line")

    agent = create(ScriptedLLM()).with_kernel("haiku", broken).with_reasoning(kernel="haiku").build()  # type: ignore[arg-type]
    with pytest.raises(AgentError) as caught:
        await agent.run("What is a pond?")
    assert root_cause(caught.value.error) == KernelFailed("The kernel haiku raised KeyError: 'line'", "haiku")


async def test_a_policy_that_is_async_fails_the_run_with_its_name() -> None:
    async def careful(*_: object) -> Verdict | None:
        return None

    agent = create(ScriptedLLM(say("3"))).with_reasoning().with_policies(careful).build()  # type: ignore[arg-type]
    with pytest.raises(AgentError) as caught:
        await agent.run("What is a pond?")
    error = root_cause(caught.value.error)
    assert isinstance(error, PolicyFailed)
    assert error.policy == "careful"
    assert "it is not async" in error.message
