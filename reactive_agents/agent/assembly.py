"""From the description of an agent to an agent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen
from dependency_injector import providers
from returns.maybe import Some
from returns.result import Failure, Result, Success

from reactive_agents.adapters.llm.providers import default_model
from reactive_agents.adapters.tools.decorator import Tool
from reactive_agents.agent.agent import ReactiveAgent
from reactive_agents.agent.config import AgentConfig, name_model
from reactive_agents.agent.output_types import output_shape, typed_results
from reactive_agents.agent.summarization import prepare_compaction
from reactive_agents.agent.tool_references import ToolLike, alike, find_tool
from reactive_agents.containers import RuntimeContainer, ToolSettings, compose_runtime
from reactive_agents.containers.governance import (
    provide_audit,
    provide_cost,
    provide_guardrails,
    provide_verification,
)
from reactive_agents.containers.memory import provide_memory, tier_problem
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import ConfigErrors, InvalidConfig
from reactive_agents.core.reasoning import ReasoningStrategy
from reactive_agents.engine import LifecycleHook
from reactive_agents.kernel import CompactionFunction, Policy
from reactive_agents.kernel.context_window.json_query import compile_query
from reactive_agents.ports import LLM, Approver, Embedder
from reactive_agents.reasoning import ReasoningController, Strategy

if TYPE_CHECKING:  # each is imported when its service is switched on
    from reactive_agents.adapters.governance.guardrails.checks import Check

MODEL_EXPECTED = "a model such as 'openai/gpt-4o-mini', 'ollama/llama3.2' or 'offline'"


@frozen
class LiveParts:
    """What of an agent is no data.

    Attributes:
        llm: a model object, instead of the configured model.
        tools: functions and names, instead of the configured names.
        approver: who decides on tool calls that need approval.
        strategies: strategies of one's own, by name.
        compaction_function: summarizes earlier turns where the method is ``custom``.
        controller: watches the reasoning of every run.
        output_type: what the answer of every run has to be; ``None`` for text.
        policies: asked before the kernel's own.
        checks: functions that guardrails ask besides the configured checks, at every stage.
        embedder: turns texts into vectors for memory, instead of a model by name.
        signing_key: private Ed25519 key of 32 bytes that signs the audit log.
    """

    llm: LLM | None = None
    tools: tuple[ToolLike, ...] = ()
    hooks: tuple[LifecycleHook, ...] = ()
    approver: Approver | None = None
    strategies: tuple[tuple[ReasoningStrategy, Strategy], ...] = ()
    compaction_function: CompactionFunction | None = None
    controller: ReasoningController | None = None
    output_type: Any = None
    policies: tuple[Policy, ...] = ()
    checks: tuple[Check, ...] = ()
    embedder: Embedder | None = None
    signing_key: bytes | None = field(default=None, repr=False)


def assemble_agent(config: AgentConfig, parts: LiveParts) -> Result[ReactiveAgent[Any], ConfigErrors]:
    """The agent, or the first thing that is wrong with its description."""
    model = _model(config) if parts.llm is None else Success(config.model)
    if isinstance(model, Failure):
        return Failure(model.failure())
    settings = _tool_settings(config, parts.tools)
    if isinstance(settings, Failure):
        return Failure(settings.failure())
    transforms = _checked_transforms(config.compression.transform)
    if isinstance(transforms, Failure):
        return Failure(transforms.failure())
    missing = _missing_tool(config, settings.unwrap()) or _wrong_tier(config, parts.embedder)
    if missing is not None:
        return Failure(missing)
    patterns = _checked_patterns(config.redaction.patterns)
    if isinstance(patterns, Failure):
        return Failure(patterns.failure())
    compaction = prepare_compaction(config.reasoning, parts.compaction_function)
    if isinstance(compaction, Failure):
        return Failure(compaction.failure())
    reasoning, functions = compaction.unwrap()
    if parts.controller is not None and reasoning is None:
        return Failure(InvalidConfig("controller", "without reasoning", "with_reasoning()"))
    config = evolve(config, reasoning=reasoning)
    container = compose_runtime(config.settings, model.unwrap(), settings.unwrap())
    if parts.llm is not None:
        container.models.llm.override(providers.Object(parts.llm))
    if parts.approver is not None:
        container.governance.approver.override(providers.Object(Some(parts.approver)))
    container.core.patterns.override(providers.Object(patterns.unwrap()))
    if parts.controller is not None:
        container.reasoning.controller.override(providers.Object(Some(parts.controller)))
    container.engine.given_hooks.override(providers.Object(parts.hooks))
    container.engine.policies.override(providers.Object(parts.policies))
    switched_on = _switch_on_services(container, config, parts)
    if isinstance(switched_on, Failure):
        return Failure(switched_on.failure())
    for name, custom in parts.strategies:
        container.reasoning.registry().register(name, custom)
    for name, function in functions.items():
        container.reasoning.registry().register_compaction_function(name, function)
    strategy = config.reasoning.default_strategy if config.reasoning else None
    if strategy is not None:
        found = container.reasoning.registry().get(strategy)
        if isinstance(found, Failure):
            known = ", ".join(found.failure().known)
            return Failure(InvalidConfig("reasoning.default_strategy", repr(strategy), f"one of {known}"))
    if parts.output_type is None:
        return Success(ReactiveAgent(container, name=config.name))
    shape = output_shape(parts.output_type)
    if isinstance(shape, Failure):
        return Failure(shape.failure())
    container.engine.output_shape.override(providers.Object(Some(shape.unwrap())))
    return Success(ReactiveAgent(container, name=config.name, present=typed_results(shape.unwrap())))


def _switch_on_services(
    container: RuntimeContainer, config: AgentConfig, parts: LiveParts
) -> Result[None, InvalidConfig]:
    if config.memory is not None:
        provide_memory(container, config.memory, embedder=parts.embedder)
    if config.guardrails is not None:
        provided = provide_guardrails(container, config.guardrails, parts.checks)
        if isinstance(provided, Failure):
            return provided
    if config.verification is not None:
        verified = provide_verification(container, config.verification)
        if isinstance(verified, Failure):
            return verified
    if config.cost is not None:
        provide_cost(container, config.cost)
    if config.audit is not None:
        return provide_audit(container, config.audit, signing_key=parts.signing_key)
    return Success(None)


def _model(config: AgentConfig) -> Result[ModelConfig, InvalidConfig]:
    chosen = config.model
    if not chosen.provider:  # the model's name may be that of a provider alone
        chosen = name_model(evolve(chosen, model=""), chosen.model, chosen.api_key, chosen.base_url)
    model = chosen.model or default_model(chosen.provider) or ""
    if not model.strip():
        return Failure(InvalidConfig("model", repr(model or chosen.provider or "none"), MODEL_EXPECTED))
    for fallback in chosen.fallbacks:
        if not fallback.strip():
            return Failure(InvalidConfig("model.fallbacks", repr(fallback), MODEL_EXPECTED))
    return Success(evolve(chosen, model=model))


def _missing_tool(config: AgentConfig, settings: ToolSettings) -> InvalidConfig | None:
    if settings.servers:  # what tools they have is known when they are open
        return None
    known = {tool.name for tool in settings.tools}
    named = [("required_tools", requirement.name) for requirement in config.required_tools]
    named += [("budget.calls", limit.name) for limit in config.budget.calls]
    named += [("compression.transform", name) for name in config.compression.transform]
    for option, name in named:
        if name not in known:
            expected = f"one of the agent's tools: {', '.join(sorted(known)) or 'it has none'}"
            return InvalidConfig(option, repr(name), expected)
    return None


def _wrong_tier(config: AgentConfig, embedder: Embedder | None) -> InvalidConfig | None:
    memory = config.memory
    problem = None if memory is None else tier_problem(memory.tier, memory.embedding_model, embedder)
    return None if problem is None else evolve(problem, option=f"memory.{problem.option}")


def _checked_transforms(transforms: Mapping[str, str]) -> Result[None, InvalidConfig]:
    for tool_name, expression in transforms.items():
        compiled = compile_query(expression)
        if isinstance(compiled, Failure):
            option = f"compression.transform.{tool_name}"
            expected = f"a JMESPath expression ({compiled.failure()})"
            return Failure(InvalidConfig(option, repr(expression), expected))
    return Success(None)


def _checked_patterns(patterns: Iterable[str]) -> Result[tuple[str, ...], InvalidConfig]:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            return Failure(
                InvalidConfig("redaction.patterns", repr(pattern), f"a regular expression ({error})")
            )
    return Success(tuple(patterns))


def _tool_settings(config: AgentConfig, sources: Iterable[ToolLike]) -> Result[ToolSettings, InvalidConfig]:
    tools: dict[str, Tool] = {}
    for source in sources:
        found = find_tool(source)
        if isinstance(found, Failure):
            return Failure(found.failure())
        tool = found.unwrap()
        known = tools.setdefault(tool.definition.name, tool)
        if not alike(known, tool):
            return Failure(InvalidConfig("tools", repr(tool.definition.name), "each tool name once"))
    workspace = Path(config.workspace or ".")
    try:
        workspace = workspace.expanduser()
        exists = workspace.is_dir()
    except (RuntimeError, OSError):  # the home of nobody, or a name that no file system takes
        exists = False
    if not exists:
        return Failure(InvalidConfig("workspace", repr(str(workspace)), "an existing directory"))
    servers, timeout_s = config.mcp_servers, config.timeouts.tool_call_s
    return Success(ToolSettings(tuple(tools.values()), servers, workspace.resolve(), timeout_s))
