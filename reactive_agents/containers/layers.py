"""Time, identifiers, redaction and events: what every other layer stands on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from attrs import field, frozen
from dependency_injector import containers, providers
from returns.maybe import Maybe, Nothing, Some

from reactive_agents.adapters.system import EnvironmentRedactor, SystemClock, UlidSource
from reactive_agents.adapters.telemetry.event_bus import LocalEventBus
from reactive_agents.adapters.telemetry.log_redaction import redact_log
from reactive_agents.adapters.tools.combined import CombinedTools
from reactive_agents.adapters.tools.decorator import Tool
from reactive_agents.adapters.tools.mcp import McpServer, McpTools
from reactive_agents.adapters.tools.service import LocalToolService
from reactive_agents.containers.lifetimes import Lifetimes
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.settings import RunSettings
from reactive_agents.engine import EnginePorts, ExecutionEngine, LifecycleHook, LifecycleHookRegistry
from reactive_agents.kernel import Policy
from reactive_agents.ports import (
    LLM,
    Clock,
    EffectivenessTracker,
    EventBus,
    IdSource,
    PriceList,
    TokenCounter,
    ToolService,
)
from reactive_agents.reasoning import ReasoningController, ReasoningService, StrategyRegistry
from reactive_agents.reasoning.structured_output.schema import Shape


def build_events(redactor: Redactor) -> EventBus:
    """A bus whose events hold no secrets; from then on the package's log holds none either."""
    redact_log(redactor)
    return LocalEventBus(redactor)


class CoreLayer(containers.DeclarativeContainer):
    """Provides ``clock``, ``ids``, ``redactor``, ``events`` and ``lifetimes``.

    ``patterns`` and ``secrets`` are what the redactor looks for besides what it knows by itself.
    """

    clock: providers.Provider[Clock] = providers.Singleton(SystemClock)
    ids: providers.Provider[IdSource] = providers.Singleton(UlidSource)
    patterns: providers.Provider[tuple[str, ...]] = providers.Object(())
    secrets: providers.Provider[tuple[str, ...]] = providers.Object(())
    redactor: providers.Provider[Redactor] = providers.Singleton(
        EnvironmentRedactor, patterns=patterns, secrets=secrets
    )
    events: providers.Provider[EventBus] = providers.Singleton(build_events, redactor)
    lifetimes: providers.Provider[Lifetimes] = providers.Singleton(Lifetimes)


# --- The language model ---


def build_llm(config: ModelConfig, clock: Clock, lifetimes: Lifetimes) -> LLM:
    """The offline model for ``offline``, else litellm, which is imported when it is first asked."""
    provider = config.provider or config.model.partition("/")[0]
    if provider == "offline":
        from reactive_agents.adapters.llm.offline import OfflineLLM

        return OfflineLLM()
    from reactive_agents.adapters.llm.litellm_adapter import LiteLLM

    llm = LiteLLM(config, clock=clock)
    lifetimes.add(llm.aclose)
    return llm


def find_counter(llm: LLM) -> Maybe[TokenCounter]:
    """The model service itself, when it can also count tokens."""
    counts = callable(getattr(llm, "count", None)) and callable(getattr(llm, "window", None))
    return Some(cast(TokenCounter, llm)) if counts else Nothing


def find_prices(llm: LLM) -> Maybe[PriceList]:
    """The model service itself, when it knows what its models cost."""
    return Some(cast(PriceList, llm)) if callable(getattr(llm, "price", None)) else Nothing


class ModelLayer(containers.DeclarativeContainer):
    """Provides ``llm``, ``counter`` and ``prices``."""

    config: providers.Dependency[ModelConfig] = providers.Dependency(instance_of=ModelConfig)
    core: providers.DependenciesContainer = providers.DependenciesContainer()
    llm: providers.Provider[LLM] = providers.Singleton(
        build_llm, config=config, clock=core.clock, lifetimes=core.lifetimes
    )
    counter: providers.Provider[Maybe[TokenCounter]] = providers.Singleton(find_counter, llm)
    prices: providers.Provider[Maybe[PriceList]] = providers.Singleton(find_prices, llm)


# --- The tools ---


@frozen
class ToolSettings:
    """Which tools there are, where they work, and how long a call may take in seconds.

    Attributes:
        servers: MCP servers, whose tools come after the others.
    """

    tools: tuple[Tool, ...] = ()
    servers: tuple[McpServer, ...] = ()
    workspace: Path = field(factory=Path.cwd)
    timeout_s: float = 60.0


def build_tools(settings: ToolSettings, clock: Clock, lifetimes: Lifetimes) -> Maybe[ToolService]:
    """The service that runs the tools, or ``Nothing`` when there are none."""
    services: list[ToolService] = []
    if settings.tools:
        services.append(
            LocalToolService(
                settings.tools,
                workspace=settings.workspace,
                clock=clock,
                default_timeout_s=settings.timeout_s,
            )
        )
    if settings.servers:
        taken = [tool.name for tool in settings.tools]
        far = McpTools(settings.servers, clock=clock, taken=taken)
        lifetimes.add(far.aclose, far.open)
        services.append(far)
    match services:
        case []:
            return Nothing
        case [one]:
            return Some(one)
        case _:
            return Some(CombinedTools(services))


class ToolLayer(containers.DeclarativeContainer):
    """Provides ``tools``: ``Nothing`` for an agent without."""

    config: providers.Dependency[ToolSettings] = providers.Dependency(instance_of=ToolSettings)
    core: providers.DependenciesContainer = providers.DependenciesContainer()
    tools: providers.Provider[Maybe[ToolService]] = providers.Singleton(
        build_tools, settings=config, clock=core.clock, lifetimes=core.lifetimes
    )


# --- Strategies and the service that runs them ---


def build_reasoning(
    settings: RunSettings,
    registry: StrategyRegistry,
    controller: Maybe[ReasoningController],
    effectiveness: Maybe[EffectivenessTracker],
) -> Maybe[ReasoningService]:
    """The reasoning service, or ``Nothing`` when reasoning is off."""
    if settings.reasoning is None:
        return Nothing
    service = ReasoningService(
        registry, settings.reasoning, controller=controller, effectiveness=effectiveness
    )
    return Some(service)


class ReasoningLayer(containers.DeclarativeContainer):
    """Provides ``registry`` and ``reasoning``; ``controller`` is ``Nothing`` until it is overridden."""

    settings: providers.Dependency[RunSettings] = providers.Dependency(instance_of=RunSettings)
    memory: providers.DependenciesContainer = providers.DependenciesContainer()
    controller: providers.Provider[Maybe[ReasoningController]] = providers.Object(Nothing)
    registry: providers.Provider[StrategyRegistry] = providers.Singleton(StrategyRegistry)
    reasoning: providers.Provider[Maybe[ReasoningService]] = providers.Singleton(
        build_reasoning,
        settings=settings,
        registry=registry,
        controller=controller,
        effectiveness=memory.effectiveness,
    )


# --- The execution engine, with every service that there is ---


class EngineLayer(containers.DeclarativeContainer):
    """Provides ``hooks`` (which begin with ``given_hooks``), ``policies``, ``ports`` and ``engine``.

    ``output_shape`` is what answers have to look like: ``Nothing``, for text, until it is overridden.
    """

    settings: providers.Dependency[RunSettings] = providers.Dependency(instance_of=RunSettings)
    core: providers.DependenciesContainer = providers.DependenciesContainer()
    models: providers.DependenciesContainer = providers.DependenciesContainer()
    tooling: providers.DependenciesContainer = providers.DependenciesContainer()
    memory: providers.DependenciesContainer = providers.DependenciesContainer()
    governance: providers.DependenciesContainer = providers.DependenciesContainer()
    reasoning: providers.DependenciesContainer = providers.DependenciesContainer()

    given_hooks: providers.Provider[tuple[LifecycleHook, ...]] = providers.Object(())
    hooks: providers.Provider[LifecycleHookRegistry] = providers.Singleton(LifecycleHookRegistry, given_hooks)
    policies: providers.Provider[tuple[Policy, ...]] = providers.Object(())
    output_shape: providers.Provider[Maybe[Shape[Any]]] = providers.Object(Nothing)
    ports: providers.Provider[EnginePorts] = providers.Singleton(
        EnginePorts,
        llm=models.llm,
        events=core.events,
        clock=core.clock,
        ids=core.ids,
        hooks=hooks,
        tools=tooling.tools,
        reasoning=reasoning.reasoning,
        memory=memory.memory,
        approver=governance.approver,
        guardrail=governance.guardrail,
        cost_router=governance.cost_router,
        cost_tracker=governance.cost_tracker,
        verifier=governance.verifier,
        audit=governance.audit,
        open_services=core.lifetimes.provided.open,
        policies=policies,
        counter=models.counter,
        prices=models.prices,
        budget=governance.budget,
        redactor=core.redactor,
        plans=memory.plan_store,
        output_shape=output_shape,
    )
    engine: providers.Provider[ExecutionEngine] = providers.Singleton(
        ExecutionEngine, settings=settings, ports=ports
    )
