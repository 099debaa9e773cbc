"""The layers of a runtime, each made of the providers of the layers below it.

A layer is a class whose constructor makes its providers. ``given`` has base providers that take the place of
the default ones, by their names; users' overrides come on top of both.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, cast

from attrs import evolve, field, frozen
from dependency_injector.providers import Object, Provider
from returns.maybe import Maybe, Nothing
from returns.result import Failure

from reactive_agents import ports
from reactive_agents.adapters import system
from reactive_agents.adapters.llm.providers import NO_MODEL, provider_of, qualified_model, server_address
from reactive_agents.adapters.telemetry.event_bus import LocalEventBus, redact_log
from reactive_agents.adapters.tools.combined import CombinedTools, ToolGroup, Toolsets
from reactive_agents.adapters.tools.decorator import Tool
from reactive_agents.containers.composition import (
    EMPTY,
    EngineProvider,
    Layer,
    Lifetimes,
    OnDemand,
    OptionalService,
    Providers,
    Singleton,
    checked,
)
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.config import IN_PROCESS, PROFILES_FILE, ModelConfig, RunLogConfig
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.results import ReasoningStrategy
from reactive_agents.core.run_context import ContextFunction, context_function
from reactive_agents.core.settings import RunSettings
from reactive_agents.core.tools import ToolWrapper
from reactive_agents.core.values import Value
from reactive_agents.engine import EnginePorts, ExecutionEngine, LifecycleHook, LifecycleHookRegistry
from reactive_agents.engine.services import HandoffTarget, OutputValidator, RunningTasks, output_validator
from reactive_agents.kernel import CompactionFunction, Policy, ThoughtKernel
from reactive_agents.kernel.context_window.window import profile_for
from reactive_agents.reasoning import ReasoningService, Strategy, StrategyRegistry

if TYPE_CHECKING:
    from reactive_agents.adapters.encryption import RecordKey
    from reactive_agents.adapters.sqlite import DatabasePath
    from reactive_agents.adapters.telemetry.run_log import SqliteRunLog
    from reactive_agents.adapters.tools.mcp import McpServer
    from reactive_agents.adapters.tools.service import LocalToolService
    from reactive_agents.core.model_profiles import ModelProfile
    from reactive_agents.reasoning import ReasoningController
    from reactive_agents.reasoning.structured_output.schema import Shape

_log = logging.getLogger("reactive_agents")


def build_events(
    redactor: Redactor,
    subscribers: tuple[ports.EventHandler, ...] = (),
    run_log: Maybe[ports.EventHandler] = Nothing,
) -> ports.EventBus:
    """Return a bus that redacts events, and redact the package's log as well."""
    redactor = system.checked_redactor(redactor)
    redact_log(redactor)
    bus = LocalEventBus(redactor)
    log = run_log.value_or(None)
    for handler in subscribers if log is None else (*subscribers, log):
        bus.subscribe(handler)
    return bus


def open_run_log(
    config: RunLogConfig | None, key: RecordKey | None, lifetimes: Lifetimes
) -> SqliteRunLog | None:
    """Return the run log in a file; ``None`` without a configuration."""
    checked("core.run_log_config", config, RunLogConfig, NoneType)
    if config is None:
        return None
    from reactive_agents.adapters.telemetry.run_log import SqliteRunLog  # by agents with a run log

    run_log = SqliteRunLog(config.path, keep_days=config.keep_days, keep_runs=config.keep_runs, key=key)
    return lifetimes.keep(run_log)


class CoreLayer(Layer):
    """Provides ``clock``, ``ids``, ``redactor``, ``events`` and ``lifetimes``.

    ``patterns`` and ``secrets`` are redacted besides the secrets that the redactor knows by itself.
    ``subscribers`` are handlers of the events of all runs. ``run_log`` keeps the events in a file, as
    ``run_log_config`` configures it, encrypted with ``run_log_key``.
    """

    def __init__(self, given: Providers = EMPTY) -> None:
        super().__init__()
        self.clock: Provider[ports.Clock] = given.get("clock") or Singleton(system.SystemClock)
        self.ids: Provider[ports.IdSource] = given.get("ids") or Singleton(system.UlidSource)
        self.patterns: Provider[tuple[str, ...]] = given.get("patterns") or Object(())
        self.secrets: Provider[tuple[str, ...]] = given.get("secrets") or Object(())
        self.redactor: Provider[Redactor] = given.get("redactor") or Singleton(
            system.EnvironmentRedactor, patterns=self.patterns, secrets=self.secrets
        )
        self.subscribers: Provider[tuple[ports.EventHandler, ...]] = given.get("subscribers") or Object(())
        self.lifetimes: Provider[Lifetimes] = given.get("lifetimes") or Singleton(Lifetimes)
        self.run_log_config: Provider[RunLogConfig | None] = given.get("run_log_config") or Object(None)
        self.run_log_key: Provider[RecordKey | None] = given.get("run_log_key") or Object(None)
        self.run_log: Provider[Maybe[SqliteRunLog]] = OptionalService(
            given.get("run_log")
            or Singleton(open_run_log, self.run_log_config, self.run_log_key, self.lifetimes)
        )
        self.events: Provider[ports.EventBus] = given.get("events") or Singleton(
            build_events, self.redactor, self.subscribers, self.run_log
        )


def build_llm(
    config: ModelConfig, settings: RunSettings, clock: ports.Clock, lifetimes: Lifetimes
) -> ports.LLM:
    """Return the offline model for ``offline``, else litellm, imported on first use."""
    return with_response_cache(_named_llm(config, settings, clock, lifetimes), config, lifetimes)


def _named_llm(
    config: ModelConfig, settings: RunSettings, clock: ports.Clock, lifetimes: Lifetimes
) -> ports.LLM:
    if (config.provider or config.model.partition("/")[0]) == "offline":
        from reactive_agents.adapters.llm.offline import OfflineLLM

        return OfflineLLM()
    if config.model == NO_MODEL:
        from reactive_agents.adapters.llm.offline import NoLLM

        return NoLLM()
    from reactive_agents.adapters.llm.litellm_adapter import LiteLLM

    find_profile = partial(_profile_at, config)
    return lifetimes.keep(
        LiteLLM(config, clock=clock, find_profile=find_profile, settings=settings.model_settings)
    )


def _profile_at(
    config: ModelConfig, model: str, base_url: str | None
) -> tuple[ModelProfile, int | None] | None:
    profile = find_model_profile(evolve(config, provider="", model=model, base_url=base_url))
    return None if profile is None else (profile, profile.window(profile.tier(profile_for(model).tier)))


def with_response_cache(llm: ports.LLM, config: ModelConfig, lifetimes: Lifetimes) -> ports.LLM:
    """Return a model service that records answers, if that is configured."""
    if config.response_cache is None:
        return llm
    from reactive_agents.adapters.llm.response_cache import CachedLLM

    address = server_address(llm.model, config.base_url, os.environ)
    return lifetimes.keep(CachedLLM(llm, config.response_cache, address=address))


def find_model_profile(config: ModelConfig) -> ModelProfile | None:
    """Return a model's stored profile, or ``None``; an unreadable file is logged."""
    model = qualified_model(config.provider, config.model)
    if provider_of(model) == "offline":
        return None
    path = os.path.expanduser(config.profiles or system.state_directory(os.environ) / PROFILES_FILE)
    if config.profiles == IN_PROCESS or not os.path.exists(path):
        return None
    from reactive_agents.adapters.llm.profiled_llm import find_profile

    found = find_profile(path, model, server_address(model, config.base_url, os.environ))
    if isinstance(found, Failure):
        _log.warning("%s The model %s is used without a profile.", found.failure().message, model)
        return None
    return found.unwrap()


def find_counter(llm: ports.LLM) -> ports.TokenCounter | None:
    """Return the model service itself, when it can also count tokens."""
    counts = callable(getattr(llm, "count", None)) and callable(getattr(llm, "window", None))
    return cast(ports.TokenCounter, llm) if counts else None


def find_prices(llm: ports.LLM) -> ports.PriceList | None:
    """Return the model service itself, when it knows what its models cost."""
    return cast(ports.PriceList, llm) if callable(getattr(llm, "price", None)) else None


class ModelLayer(Layer):
    """Provides ``llm``, ``counter`` and ``prices``."""

    def __init__(
        self,
        config: Provider[ModelConfig],
        settings: Provider[RunSettings],
        core: CoreLayer,
        given: Providers = EMPTY,
    ) -> None:
        super().__init__()
        self.llm: Provider[ports.LLM] = given.get("llm") or Singleton(
            build_llm, config, settings, core.clock, core.lifetimes
        )
        self.counter: Provider[Maybe[ports.TokenCounter]] = OptionalService(
            given.get("counter") or find_counter, self.llm
        )
        self.prices: Provider[Maybe[ports.PriceList]] = OptionalService(
            given.get("prices") or find_prices, self.llm
        )


@frozen(eq=False, repr=False)
class ToolSettings(Value):
    """The tools of an agent, where they work, and how long a call may take in seconds.

    Attributes:
        servers: MCP servers, whose tools come after the others.
        protected: resolved paths of files and folders that the tools do not write.
        answer_s: how long a call that another program executes waits, in seconds.
        toolsets: tools that are chosen for each run.
        wrappers: code around each call, the outermost first.
    """

    tools: tuple[Tool, ...] = ()
    servers: tuple[McpServer, ...] = ()
    workspace: Path = field(factory=Path.cwd)
    timeout_s: float = 60.0
    protected: frozenset[Path] = frozenset()
    answer_s: float = 300.0
    toolsets: tuple[ToolGroup, ...] = ()
    wrappers: tuple[ToolWrapper, ...] = ()


def local_tools(settings: ToolSettings, clock: ports.Clock, tools: Sequence[Tool]) -> LocalToolService:
    """Return the service that runs these tools with the settings of an agent."""
    from reactive_agents.adapters.tools.service import LocalToolService  # by agents with tools

    return LocalToolService(
        tools,
        workspace=settings.workspace,
        clock=clock,
        default_timeout_s=settings.timeout_s,
        answer_timeout_s=settings.answer_s,
        protected=settings.protected,
        wrappers=settings.wrappers,
    )


def build_toolsets(settings: ToolSettings, clock: ports.Clock) -> ports.RunToolsets:
    """Return the service that makes the tools of single runs."""
    return Toolsets(settings.toolsets, partial(local_tools, settings, clock))


def build_tools(
    settings: ToolSettings, clock: ports.Clock, lifetimes: Lifetimes, redactor: Redactor
) -> ports.ToolService | None:
    """Return the service that runs the tools, or ``None`` when there are none."""
    services: list[ports.ToolService] = []
    if settings.tools:
        services.append(local_tools(settings, clock, settings.tools))
    if settings.servers:
        from reactive_agents.adapters.tools.mcp import McpTools  # imported by those who have servers
        from reactive_agents.adapters.tools.mcp.service import FILE_NAME

        taken = [tool.name for tool in settings.tools]
        remote = McpTools(
            settings.servers,
            clock=clock,
            taken=taken,
            inspect=find_orders,
            known_tools=system.state_directory(os.environ) / FILE_NAME,
            wrappers=settings.wrappers,
            redactor=redactor,
        )
        lifetimes.add(remote.aclose, remote.open, partial(remote.aclose, leaving=True))
        services.append(remote)
    match services:
        case []:
            return None
        case [one]:
            return one
        case _:
            return CombinedTools(services)


_LONGEST_KNOWN = 10_000
"""Characters of a text whose check is remembered."""


def find_orders(text: str) -> str:
    """Return why a text looks like orders to the model; empty if it does not."""
    return _found_orders(text) if len(text) <= _LONGEST_KNOWN else _found_orders.__wrapped__(text)


@lru_cache(maxsize=1_000)  # of tools that are listed again for each run, at some 20 ms each
def _found_orders(text: str) -> str:
    from reactive_agents.adapters.governance.guardrails.injection import (
        orders_of_description,
        prompt_injection,
    )

    findings = prompt_injection()(text)
    assert isinstance(findings, list)
    found = next((finding.detail for finding in findings if finding.action == "block"), "")
    return found or orders_of_description(text)


def build_content_loader(settings: ToolSettings) -> ports.ContentLoader:
    """Return the service that reads content from the workspace and from URLs."""
    from reactive_agents.adapters.tools.content_loader import WorkspaceContent  # of runs with content

    return WorkspaceContent(settings.workspace)


class ToolLayer(Layer):
    """Provides ``tools``, ``Nothing`` for an agent without, and ``toolsets``.

    ``content_loader`` reads images, audio and documents.
    """

    content_loader = OnDemand[Maybe[ports.ContentLoader]](
        Nothing, lambda layer, settings: Singleton(build_content_loader, settings)
    )

    def __init__(self, settings: Provider[ToolSettings], core: CoreLayer, given: Providers = EMPTY) -> None:
        super().__init__(given, settings)
        self.tools: Provider[Maybe[ports.ToolService]] = OptionalService(
            given.get("tools") or Singleton(build_tools, settings, core.clock, core.lifetimes, core.redactor)
        )
        self.toolsets: Provider[ports.RunToolsets] = given.get("toolsets") or Singleton(
            build_toolsets, settings, core.clock
        )


# --- Memory and governance: optional services ---


def open_sessions(path: DatabasePath, clock: ports.Clock, lifetimes: Lifetimes) -> ports.SessionStore:
    """Return the sessions of a file, or of the process."""
    from reactive_agents.adapters.memory.sessions import SqliteSessions  # by runs that have a session

    return lifetimes.keep(SqliteSessions(path, clock=clock))


def find_content(sessions: Maybe[ports.SessionStore]) -> ports.ContentStore | None:
    """Return the content store in the file of the sessions, or in the process."""
    content: ports.ContentStore | None = getattr(sessions.value_or(None), "content", None)
    if content is not None:
        return content
    from reactive_agents.adapters.memory.sessions import SqliteSessions

    return SqliteSessions(IN_PROCESS, clock=system.SystemClock()).content


class MemoryLayer(Layer):
    """Provides ``sessions``, in the process by default, and ``content`` beside them.

    ``memory``, ``plan_store``, ``effectiveness``, ``record`` and ``queues`` are ``Nothing`` by default;
    without ``queues`` the record has the queues.
    """

    sessions = OnDemand[Maybe[ports.SessionStore]](
        Nothing, lambda layer, core: Singleton(open_sessions, IN_PROCESS, core.clock, core.lifetimes)
    )
    content = OnDemand[Maybe[ports.ContentStore]](
        Nothing, lambda layer, core: Singleton(find_content, layer.sessions)
    )
    memory = OnDemand[Maybe[ports.MemoryService]](Nothing)
    plan_store = OnDemand[Maybe[ports.PlanStore]](Nothing)
    effectiveness = OnDemand[Maybe[ports.EffectivenessTracker]](Nothing)
    record = OnDemand[Maybe[ports.RunRecord]](Nothing)
    queues = OnDemand[Maybe[ports.QueueEngine]](Nothing)

    def __init__(self, core: CoreLayer, given: Providers = EMPTY) -> None:
        super().__init__(given, core)


def open_desk() -> ports.RequestDesk:
    """Return a desk whose requests wait until the program settles them."""
    from reactive_agents.adapters.governance.requests import LocalRequestDesk

    return LocalRequestDesk()


class GovernanceLayer(Layer):
    """Provides ``desk``, in the process by default.

    ``approver``, ``budget`` and the services of the optional phases are ``Nothing`` unless they are given.
    """

    desk = OnDemand[Maybe[ports.RequestDesk]](Nothing, lambda layer: Singleton(open_desk))
    approver = OnDemand[Maybe[ports.Approver]](Nothing)
    guardrail = OnDemand[Maybe[ports.Guardrail]](Nothing)
    cost_router = OnDemand[Maybe[ports.CostRouter]](Nothing)
    cost_tracker = OnDemand[Maybe[ports.CostTracker]](Nothing)
    budget = OnDemand[Maybe[ports.SpendingGuard]](Nothing)
    verifier = OnDemand[Maybe[ports.Verifier]](Nothing)
    audit = OnDemand[Maybe[ports.AuditLog]](Nothing)


# --- Strategies and the service that runs them ---


def build_registry(
    strategies: Mapping[ReasoningStrategy, Strategy],
    kernels: Mapping[str, ThoughtKernel],
    compaction_functions: Mapping[str, CompactionFunction],
) -> StrategyRegistry:
    """Return a registry of the built-in strategies and kernels, and the given ones."""
    registry = StrategyRegistry()
    registry.strategies.update(strategies)
    registry.kernels.update(kernels)
    registry.compaction_functions.update(compaction_functions)
    return registry


def build_reasoning(
    settings: RunSettings,
    registry: StrategyRegistry,
    controller: Maybe[ReasoningController],
    effectiveness: Maybe[ports.EffectivenessTracker],
) -> ReasoningService | None:
    """Return the reasoning service, or ``None`` when reasoning is off."""
    if settings.reasoning is None:
        return None
    return ReasoningService(registry, settings.reasoning, controller=controller, effectiveness=effectiveness)


class ReasoningLayer(Layer):
    """Provides ``controller``, ``registry`` and ``reasoning``.

    The registry begins with the built-in strategies and kernels, ``strategies``, ``kernels`` and
    ``compaction_functions``.
    """

    def __init__(
        self, settings: Provider[RunSettings], memory: MemoryLayer, given: Providers = EMPTY
    ) -> None:
        super().__init__()
        self.controller: Provider[Maybe[ReasoningController]] = OptionalService(given.get("controller"))
        self.strategies: Provider[Mapping[ReasoningStrategy, Strategy]] = given.get("strategies") or Object(
            EMPTY
        )
        self.kernels: Provider[Mapping[str, ThoughtKernel]] = given.get("kernels") or Object(EMPTY)
        self.compaction_functions: Provider[Mapping[str, CompactionFunction]] = given.get(
            "compaction_functions"
        ) or Object(EMPTY)
        self.registry: Provider[StrategyRegistry] = given.get("registry") or Singleton(
            build_registry, self.strategies, self.kernels, self.compaction_functions
        )
        self.reasoning: Provider[Maybe[ReasoningService]] = OptionalService(
            given.get("reasoning")
            or Singleton(build_reasoning, settings, self.registry, self.controller, memory.effectiveness)
        )


# --- The execution engine, with every service that there is ---


def build_ports(
    core: CoreLayer,
    models: ModelLayer,
    tooling: ToolLayer,
    memory: MemoryLayer,
    governance: GovernanceLayer,
    reasoning: ReasoningLayer,
    engine: EngineLayer,
) -> EnginePorts:
    """Return the services of an engine in one value.

    Raises:
        TypeError: ``models.llm`` gives no model service, or a validator or instructions are of a wrong type.
    """
    llm = models.llm()
    try:
        has_all = all(hasattr(llm, name) for name in ("complete", "stream", "model"))
    except Exception:  # noqa: BLE001 - a model that raises ends the run with an error that names it
        has_all = True
    if not has_all:
        raise TypeError(f"models.llm: got {llm!r:.80}, expected an object with complete, stream and model")
    return EnginePorts(
        llm=llm,
        events=core.events(),
        clock=core.clock(),
        ids=core.ids(),
        hooks=engine.hooks(),
        tools=tooling.tools(),
        reasoning=reasoning.reasoning(),
        memory=memory.provided("memory"),
        approver=governance.provided("approver"),
        guardrail=governance.provided("guardrail"),
        cost_router=governance.provided("cost_router"),
        cost_tracker=governance.provided("cost_tracker"),
        verifier=governance.provided("verifier"),
        audit=governance.provided("audit"),
        opens=core.lifetimes().opens,
        policies=tuple(engine.provided("policies")),
        output_validators=tuple(map(_validator, engine.provided("output_validators"))),
        counter=models.counter(),
        prices=models.prices(),
        budget=governance.provided("budget"),
        redactor=system.checked_redactor(core.redactor()),
        plans=memory.provided("plan_store"),
        sessions=lambda: memory.sessions(),
        record=memory.provided("record"),
        content_store=lambda: memory.content(),
        content_loader=lambda: tooling.content_loader(),
        output_shape=engine.provided("output_shape"),
        instructions=tuple(map(_instructions, engine.provided("instructions"))),
        toolsets=tooling.toolsets(),
        desk=lambda: governance.desk(),
        handoffs=engine.provided("handoffs"),
    )


def _validator(given: OutputValidator | Callable[..., Any]) -> OutputValidator:
    if isinstance(given, OutputValidator):
        return given
    made = output_validator(given)
    if isinstance(made, Failure):
        raise TypeError(evolve(made.failure(), option="engine.output_validators").message)
    return made.unwrap()


def _instructions(given: ContextFunction | Callable[..., Any]) -> ContextFunction:
    made = given if isinstance(given, ContextFunction) else context_function(given)
    if made is None:
        expected = "a function that takes a RunContext or nothing"
        raise TypeError(InvalidConfig("engine.instructions", abbreviated(given), expected).message)
    return made


_LISTED = (tuple, list)
TYPES: Mapping[str, tuple[type, ...]] = {
    "settings": (RunSettings,),
    "model_config": (ModelConfig,),
    "tool_settings": (ToolSettings,),
    "core.patterns": _LISTED,
    "core.secrets": _LISTED,
    "core.subscribers": _LISTED,
    "core.run_log_config": (RunLogConfig, NoneType),
    "core.lifetimes": (Lifetimes,),
    "reasoning.strategies": (Mapping,),
    "reasoning.kernels": (Mapping,),
    "reasoning.compaction_functions": (Mapping,),
    "reasoning.registry": (StrategyRegistry,),
    "engine.given_hooks": _LISTED,
    "engine.hooks": (LifecycleHookRegistry,),
    "engine.policies": _LISTED,
    "engine.output_validators": _LISTED,
    "engine.instructions": _LISTED,
    "engine.handoffs": (Mapping,),
    "engine.ports": (EnginePorts,),
    "engine.engine": (ExecutionEngine,),
}
"""The types of what is no service of a port, which a call checks, by the paths of the providers."""


class EngineLayer(Layer):
    """Provides ``hooks``, ``policies``, ``instructions`` and ``engine``.

    ``given_hooks`` are the initial hooks. ``output_shape`` is the form of the answers, ``Nothing`` for text.
    ``handoffs`` are the agents that a conversation may be handed to, by the names of their tools.
    """

    policies = OnDemand[tuple[Policy, ...]](())
    output_validators = OnDemand[tuple[OutputValidator, ...]](())
    instructions = OnDemand[tuple[ContextFunction, ...]](())
    output_shape: OnDemand[Maybe[Shape[Any]]] = OnDemand(Nothing)
    handoffs = OnDemand[Mapping[str, HandoffTarget]](EMPTY)

    def __init__(
        self,
        settings: Provider[RunSettings],
        given: Providers = EMPTY,
        *,
        core: CoreLayer,
        models: ModelLayer,
        tooling: ToolLayer,
        memory: MemoryLayer,
        governance: GovernanceLayer,
        reasoning: ReasoningLayer,
        runtime: Layer,
    ) -> None:
        super().__init__(given)
        self.given_hooks: Provider[tuple[LifecycleHook, ...]] = given.get("given_hooks") or Object(())
        self.hooks: Provider[LifecycleHookRegistry] = given.get("hooks") or Singleton(
            LifecycleHookRegistry, self.given_hooks
        )
        self.ports: Provider[EnginePorts] = given.get("ports") or EngineProvider(
            build_ports,
            core,
            models,
            tooling,
            memory,
            governance,
            reasoning,
            self,
            runtime=runtime,
            types=TYPES,
        )
        self.engine: Provider[ExecutionEngine] = given.get("engine") or EngineProvider(
            ExecutionEngine, settings, self.ports, RunningTasks(), runtime=runtime, types=TYPES
        )
