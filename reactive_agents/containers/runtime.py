"""All layers composed: the runtime of one agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dependency_injector import containers, providers

from reactive_agents.adapters.llm.providers import default_model
from reactive_agents.adapters.tools.decorator import Tool
from reactive_agents.adapters.tools.mcp.server import server_secrets
from reactive_agents.containers.governance import GovernanceLayer
from reactive_agents.containers.layers import (
    CoreLayer,
    EngineLayer,
    ModelLayer,
    ReasoningLayer,
    ToolLayer,
    ToolSettings,
)
from reactive_agents.containers.memory import MemoryLayer, provide_memory, tier_problem
from reactive_agents.core.config import MemoryConfig, ModelConfig, ReasoningConfig
from reactive_agents.core.memory import MemoryTier
from reactive_agents.core.redaction import SHORTEST_SECRET
from reactive_agents.core.settings import RunSettings
from reactive_agents.ports import Embedder


def configured_secrets(model: ModelConfig, tools: ToolSettings) -> tuple[str, ...]:
    """What the configuration keeps secret: the model's key, and what the tool servers are given.

    A key below 8 characters is one that a local server does not look at, such as ``none``.
    """
    key = model.api_key or ""
    return (*((key,) if len(key) >= SHORTEST_SECRET else ()), *server_secrets(tools.servers))


class RuntimeContainer(containers.DeclarativeContainer):
    """One container for one agent. Overriding a provider swaps the service wherever it is used.

    An override reaches what is resolved after it: override before ``engine`` is first asked for, or call
    ``reset_singletons()``.
    """

    settings: providers.Dependency[RunSettings] = providers.Dependency(instance_of=RunSettings)
    model_config: providers.Dependency[ModelConfig] = providers.Dependency(instance_of=ModelConfig)
    tool_settings: providers.Dependency[ToolSettings] = providers.Dependency(instance_of=ToolSettings)

    core = providers.Container(
        CoreLayer, secrets=providers.Callable(configured_secrets, model_config, tool_settings)
    )
    models = providers.Container(ModelLayer, config=model_config, core=core)
    tooling = providers.Container(ToolLayer, config=tool_settings, core=core)
    memory = providers.Container(MemoryLayer)
    governance = providers.Container(GovernanceLayer)
    reasoning = providers.Container(ReasoningLayer, settings=settings, memory=memory)
    engine = providers.Container(
        EngineLayer,
        settings=settings,
        core=core,
        models=models,
        tooling=tooling,
        memory=memory,
        governance=governance,
        reasoning=reasoning,
    )


def compose_runtime(
    settings: RunSettings, model: ModelConfig, tools: ToolSettings | None = None
) -> RuntimeContainer:
    """The runtime for a complete configuration."""
    return RuntimeContainer(
        settings=providers.Object(settings),
        model_config=providers.Object(model),
        tool_settings=providers.Object(tools or ToolSettings()),
    )


def create_runtime(
    *,
    agent_id: str,
    provider: str = "anthropic",
    model: str | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
    memory_tier: MemoryTier | None = None,
    memory_path: str = ":memory:",
    embedder: Embedder | None = None,
    max_iterations: int | None = None,
    reasoning: ReasoningConfig | None = None,
    tools: Sequence[Tool] = (),
    workspace: Path | None = None,
    enable_guardrails: bool = False,
    enable_verification: bool = False,
    enable_cost_tracking: bool = False,
    enable_audit: bool = False,
) -> RuntimeContainer:
    """A runtime from its most common options.

    Args:
        agent_id: names the agent in memory, accounts and the audit log.
        provider: ``offline`` or a litellm provider.
        model: the provider's default when it is not given.
        api_key: instead of the provider's environment variable.
        base_url: instead of the provider's address.
        memory_tier: ``1`` remembers and finds by words, ``2`` also by meaning; ``None`` has no memory.
        memory_path: the file of the memory; by default it ends with the runtime.
        embedder: makes the vectors of tier ``2``, which needs it.
        max_iterations: turns that the model may take in a kernel run, 1 or more; by default what the strategy
            has, and 10 without reasoning.
        reasoning: ``None`` runs the loop without reasoning.
        workspace: what file tools are held inside; the current directory by default.
        enable_guardrails: fail runs while ``governance.guardrail`` provides none; likewise the other flags.

    Raises:
        ValueError: a number is out of its range, or tier ``2`` has no embedder, or tier ``1`` has one.
    """
    settings = RunSettings(
        name=agent_id,
        max_iterations=max_iterations,
        enable_guardrails=enable_guardrails,
        enable_verification=enable_verification,
        enable_cost_tracking=enable_cost_tracking,
        enable_audit=enable_audit,
        reasoning=reasoning,
    )
    model_config = ModelConfig(
        provider=provider, model=model or default_model(provider) or "", api_key=api_key, base_url=base_url
    )
    directory = (workspace or Path.cwd()).resolve()
    runtime = compose_runtime(settings, model_config, ToolSettings(tuple(tools), workspace=directory))
    if memory_tier is not None:
        problem = tier_problem(memory_tier, None, embedder)
        if problem is not None:
            raise ValueError(problem.message)
        provide_memory(runtime, MemoryConfig(memory_path, memory_tier), embedder=embedder)
    return runtime
