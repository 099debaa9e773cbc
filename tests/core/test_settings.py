"""The settings of runs: one value that every layer reads."""

from __future__ import annotations

import attrs
import pytest

from reactive_agents import AgentConfig, ReactiveAgents
from reactive_agents.core.config import ReasoningConfig, VerificationConfig
from reactive_agents.core.settings import RunSettings
from reactive_agents.engine import EnginePorts, ExecutionContext, ExecutionEngine
from reactive_agents.kernel import KernelContext, KernelInput, KernelRunOptions, KernelState, Policy
from reactive_agents.reasoning import StrategyInput, StrategyServices
from reactive_agents.testing import ScriptedLLM, call, say

OF_OTHER_TYPES = {"reasoning", "verification", "budget"}
"""Names that a service or a result of a run has as well."""
CHANGED_BY_HOOKS = {"max_iterations"}
"""Settings that a hook may change for one run."""


@pytest.mark.parametrize(
    "kind",
    [
        EnginePorts,
        ExecutionContext,
        KernelContext,
        KernelInput,
        KernelRunOptions,
        StrategyInput,
        StrategyServices,
    ],
)
def test_no_layer_has_a_field_of_the_settings_besides(kind: type) -> None:
    names = {field.name for field in attrs.fields(RunSettings)}
    assert names & {field.name for field in attrs.fields(kind)} <= OF_OTHER_TYPES | CHANGED_BY_HOOKS


def test_an_agents_configuration_adds_services_to_the_settings() -> None:
    own = set(vars(AgentConfig)["__annotations__"])
    assert own.isdisjoint(field.name for field in attrs.fields(RunSettings))
    config = AgentConfig("clerk", ReasoningConfig(), "You count.", max_iterations=4, tools=("calculator",))
    assert config.settings == RunSettings("clerk", ReasoningConfig(), "You count.", 4)
    assert type(config.settings) is RunSettings


@pytest.mark.anyio
async def test_the_settings_are_passed_by_reference_from_the_builder_to_the_kernel() -> None:
    seen: list[RunSettings] = []

    def look(state: KernelState, context: KernelContext) -> None:
        seen.append(context.input.settings)

    policy: Policy = look
    agent = (
        ReactiveAgents.create()
        .with_llm(ScriptedLLM(call("calculator", expression="1 + 2"), say("3")))
        .with_tools("calculator")
        .with_reasoning()
        .with_result_compression(budget=400)
        .with_policies(policy)
        .build()
    )
    await agent.run("What is 1 + 2?")
    engine: ExecutionEngine = agent.container.engine.engine()
    assert seen
    assert all(settings is engine.settings is agent.container.settings() for settings in seen)
    assert seen[0].compression.budget == 400


@pytest.mark.parametrize(
    ("verification", "action"), [(None, "annotate"), (VerificationConfig(action="fail"), "fail")]
)
def test_without_verification_an_answer_is_annotated(
    verification: VerificationConfig | None, action: str
) -> None:
    assert RunSettings(verification=verification).verification_action == action


def test_tools_run_concurrently_unless_reasoning_forbids_it() -> None:
    assert RunSettings().parallel_tool_calls
    assert not RunSettings(reasoning=ReasoningConfig(parallel_tool_calls=False)).parallel_tool_calls
