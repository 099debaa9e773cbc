"""All layers composed: the runtime of one agent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, get_args
from urllib.parse import unquote

from dependency_injector import containers, providers
from dependency_injector.providers import Object, Provider

from reactive_agents.adapters.llm.providers import default_model
from reactive_agents.adapters.tools.decorator import Tool, as_tool
from reactive_agents.adapters.tools.signature import ToolDefinitionError
from reactive_agents.containers import layers
from reactive_agents.containers.base_providers import governance_services, memory_services
from reactive_agents.containers.composition import EMPTY, Layer, Providers, Service
from reactive_agents.core import config
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.config import AnonymousMemory, MemoryTier
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.redaction import SHORTEST_SECRET
from reactive_agents.core.settings import RunSettings
from reactive_agents.core.values import replaced
from reactive_agents.ports import Embedder, Guardrail

ExtraLayers: TypeAlias = Mapping[
    str, type[containers.DeclarativeContainer] | containers.DeclarativeContainer | containers.DynamicContainer
]
"""Containers by the name of the layer that they extend, or by a new name."""

Services: TypeAlias = Callable[["RuntimeContainer", layers.CoreLayer], Mapping[str, Providers]]
"""Base providers by layer and name, for a runtime whose core is composed."""

_CLOSE = 0.75
"""The similarity of two names from which on one of them is taken for a typing error."""

_L = TypeVar("_L", bound=Layer)


def configured_secrets(
    model: config.ModelConfig, tools: layers.ToolSettings, settings: RunSettings
) -> tuple[str, ...]:
    """Return the secrets of a configuration: of its model and of tool servers.

    A key of fewer than 8 characters is taken for a placeholder, such as ``none`` for a local server.
    """
    fallbacks = [each for each in model.fallbacks if not isinstance(each, str)]
    models: tuple[config.ModelConfig | config.FallbackModel, ...] = (model, *fallbacks)
    own = [each.api_key or "" for each in models]
    for each in models:
        user = (each.base_url or "").partition("://")[2].partition("/")[0].rpartition("@")[0]
        own.append(unquote(user.partition(":")[2]))
    of_servers: Iterable[str] = ()
    if tools.servers:
        from reactive_agents.adapters.tools.mcp.server import server_secrets  # of agents with servers

        of_servers = server_secrets(tools.servers)
    return (
        *(each for each in own if len(each) >= SHORTEST_SECRET),
        *(secret for each in fallbacks for secret in each.settings.secrets),
        *of_servers,
        *settings.model_settings.secrets,
    )


class RuntimeContainer(Layer):
    """The container of one agent; overriding a provider replaces a service everywhere.

    An override affects the services that are made after it: override before the first run, or call
    ``reset_singletons()``. Every reset leads back to the services that the runtime was composed with.

    Args:
        settings: the settings of the agent's runs.
        core: base providers of the core layer, in place of the default ones.
        services: base providers of the other layers, in place of the default ones.
        extra_layers: containers by the name of the layer that they extend. Their providers replace those of
            the same name in that layer, even those that ``services`` returns. A container with a new name is
            added as a layer. A container class gets the layers below it as dependencies, by their names.

    Raises:
        TypeError: an extra layer is not a container, depends on a layer that is not below it, has the name of
            a provider that is not a layer or of an attribute of containers, or has a name so similar to that
            of a layer or provider that it must be a typing error.
    """

    core: providers.Container[Any]
    models: providers.Container[Any]
    tooling: providers.Container[Any]
    memory: providers.Container[Any]
    governance: providers.Container[Any]
    reasoning: providers.Container[Any]
    engine: providers.Container[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse providers in a subclass or its other bases, which no layer would use.

        Raises:
            TypeError: the class has such a provider.
        """
        super().__init_subclass__(**kwargs)
        own = [
            name
            for base in cls.__mro__
            if base not in RuntimeContainer.__mro__
            for name, value in vars(base).items()
            if isinstance(value, Provider)
        ]
        if own:
            raise TypeError(
                f"{cls.__name__} defines providers ({', '.join(own)}), which no layer would use: give "
                "them as extra_layers, or override those of an instance."
            )

    def __init__(
        self,
        settings: RunSettings | None = None,
        model_config: config.ModelConfig | None = None,
        tool_settings: layers.ToolSettings | None = None,
        *,
        core: Providers = EMPTY,
        services: Services | None = None,
        extra_layers: ExtraLayers = EMPTY,
    ) -> None:
        super().__init__()
        self.settings: Provider[RunSettings] = Object(replaced(settings or RunSettings()))  # read faster
        self.model_config: Provider[config.ModelConfig] = Object(model_config or config.ModelConfig())
        self.tool_settings: Provider[layers.ToolSettings] = Object(tool_settings or layers.ToolSettings())
        if not isinstance(extra_layers, Mapping):
            expected = "containers by the names of layers"
            raise TypeError(InvalidConfig("extra_layers", abbreviated(extra_layers), expected).message)
        taken = ", ".join(name for name in extra_layers if name in self.providers)
        if taken:
            raise TypeError(f"The extra layer {taken!r} has the name of a provider that is not a layer.")
        for name in extra_layers:
            if not isinstance(name, str) or hasattr(self, name):
                expected = "the name of a layer, or one that no container has"
                raise TypeError(InvalidConfig("extra_layers", repr(name), expected).message)
        secrets = Service(configured_secrets, self.model_config, self.tool_settings, self.settings)
        foundation = self._nest(
            "core", layers.CoreLayer, {"secrets": secrets, **core, **self._extra("core", extra_layers)}
        )
        given = EMPTY if services is None else services(self, foundation)

        def base(layer: str) -> Providers:
            own = given.get(layer, EMPTY)
            return {**own, **self._extra(layer, extra_layers)} if layer in extra_layers else own

        model_layer = partial(layers.ModelLayer, self.model_config, self.settings, foundation)
        models = self._nest("models", model_layer, base("models"))
        tooling = self._nest(
            "tooling", partial(layers.ToolLayer, self.tool_settings, foundation), base("tooling")
        )
        memory = self._nest("memory", partial(layers.MemoryLayer, foundation), base("memory"))
        governance = self._nest("governance", layers.GovernanceLayer, base("governance"))
        reasoning = self._nest(
            "reasoning", partial(layers.ReasoningLayer, self.settings, memory), base("reasoning")
        )
        engine = partial(
            layers.EngineLayer,
            self.settings,
            core=foundation,
            models=models,
            tooling=tooling,
            memory=memory,
            governance=governance,
            reasoning=reasoning,
            runtime=self,
        )
        self._nest("engine", engine, base("engine"))
        for name in extra_layers:
            if name not in self.providers:
                _refuse_misspelt(name, self.providers.keys() - extra_layers.keys(), "extra_layers has")
                self._nest(name, lambda _: Layer(), self._extra(name, extra_layers))

    if not TYPE_CHECKING:  # with __getattr__, every name would be an attribute to type checkers

        def __getattr__(self, name: str) -> Any:
            """Refuse a name of the runtime, and say which layers have a provider of that name."""
            nested = {
                each: getattr(own, "providers", EMPTY)
                for each, own in vars(self).get("providers", EMPTY).items()
            }
            places = [f"container.{layer}.{name}" for layer, own in nested.items() if name in own]
            expected = " or ".join(places) or f"one of {', '.join(nested)}"
            raise AttributeError(
                f"{type(self).__name__} has no provider {name!r}: expected {expected}", name=name, obj=self
            )

    def _nest(self, name: str, compose: Callable[[Providers], _L], base: Providers) -> _L:
        """Add a layer under its name, with the base providers that it does not use."""
        layer = compose(base)
        for own in [each for each in base if each not in layer.made and each not in layer.on_demand]:
            _refuse_misspelt(own, layer.providers.keys() - base.keys(), f"The extra layer {name!r} provides")
            if hasattr(layer, own):
                expected = "use a name that no container has"
                raise TypeError(f"The extra layer {name!r} provides {own!r}: {expected}.")
            layer.set_provider(own, base[own])
        setattr(self, name, providers.Container(type(layer), container=layer))
        return layer

    def _extra(self, name: str, extra_layers: ExtraLayers) -> Providers:
        layer = extra_layers.get(name)
        if layer is None:
            return EMPTY
        if isinstance(layer, type) and issubclass(layer, containers.DeclarativeContainer):
            missing = ", ".join(sorted(layer.dependencies.keys() - self.providers.keys()))
            if missing:
                below = ", ".join(self.providers)
                raise TypeError(
                    f"The extra layer {name!r} depends on {missing}; only these are below it: {below}."
                )
            layer = layer(**{each: self.providers[each] for each in layer.dependencies})
        if not isinstance(layer, containers.DynamicContainer):
            raise TypeError(f"The extra layer {name!r} is {layer!r}; expected a container or its class.")
        return {own: each for own, each in layer.providers.items() if own not in layer.dependencies}


def create_runtime(
    *,
    agent_id: str,
    provider: str = "anthropic",
    model: str | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
    memory_tier: MemoryTier | None = "1",
    memory_path: str | Path = config.IN_PROCESS,
    anonymous: AnonymousMemory = "nothing",
    embedder: Embedder | None = None,
    max_iterations: int | None = None,
    reasoning: config.ReasoningConfig | None = None,
    tools: Sequence[Tool | Callable[..., Any]] = (),
    workspace: str | Path | None = None,
    enable_guardrails: bool = False,
    enable_verification: bool = False,
    enable_cost_tracking: bool = False,
    cost_path: str | Path = config.IN_PROCESS,
    enable_audit: bool = False,
    audit_path: str | Path = config.IN_PROCESS,
    extra_layers: ExtraLayers = EMPTY,
) -> RuntimeContainer:
    """Return a runtime from its most common options.

    Each ``enable_*`` option provides the package's own service in its default configuration, and makes it
    required: a run fails with ``ServiceMissing`` when an override removes it.

    Args:
        agent_id: the agent's name in memory, cost records and the audit log.
        provider: ``offline`` or a litellm provider.
        model: the model; by default the provider's default model.
        api_key: the key, instead of the provider's environment variable.
        base_url: the address, instead of the provider's own.
        memory_tier: ``1`` finds memories by words, ``2`` also by meaning; ``None`` for no memory.
        anonymous: with ``nothing`` a run without user and session neither stores nor recalls memories; with
            ``agent`` its memories are the agent's own, which may reach every run.
        memory_path: the file of the memory; by default the memory ends with the runtime.
        embedder: makes the vectors of tier ``2``, which needs it.
        max_iterations: turns that the model may take in a kernel run, 1 or more; by default the strategy's
            limit, and 10 without reasoning.
        reasoning: the options of reasoning; ``None`` runs the loop without reasoning.
        tools: tools and typed functions.
        workspace: the directory to which file tools are confined; the current one by default.
        cost_path: the file of the usage and cost records; by default they end with the runtime.
        audit_path: the file of the audit log; by default it ends with the runtime.
        extra_layers: containers whose services take the place of the runtime's own, or are added to them, as
            :class:`RuntimeContainer` says.

    Raises:
        ValueError: an option has a wrong value, or tier ``2`` has no embedder, or tier ``1`` has one.
        TypeError: an extra layer is not a container, or depends on a layer that is not below it.
    """
    tiers, text, flag = ", ".join(map(repr, get_args(MemoryTier))), "a text, or None", "True or False"
    is_limit = max_iterations is None or (type(max_iterations) is int and max_iterations >= 1)
    is_reasoning = reasoning is None or isinstance(reasoning, config.ReasoningConfig)
    for option, given, fits, expected in (
        ("agent_id", agent_id, _is_text(agent_id), "a name"),
        ("provider", provider, _is_text(provider), "the name of a provider, such as 'offline'"),
        ("model", model, model is None or _is_text(model), text),
        ("api_key", type(api_key).__name__, api_key is None or _is_text(api_key), text),
        ("base_url", base_url, base_url is None or _is_text(base_url), text),
        ("memory_tier", memory_tier, memory_tier in (None, *get_args(MemoryTier)), f"{tiers} or None"),
        ("anonymous", anonymous, anonymous in get_args(AnonymousMemory), "'agent' or 'nothing'"),
        ("memory_path", memory_path, _is_path(memory_path), "a path"),
        ("cost_path", cost_path, _is_path(cost_path), "a path"),
        ("audit_path", audit_path, _is_path(audit_path), "a path"),
        ("max_iterations", max_iterations, is_limit, "1 or more, or None"),
        (
            "reasoning",
            reasoning,
            is_reasoning,
            "a ReasoningConfig, such as ReasoningConfig('reactive'), or None",
        ),
        ("enable_guardrails", enable_guardrails, isinstance(enable_guardrails, bool), flag),
        ("enable_verification", enable_verification, isinstance(enable_verification, bool), flag),
        ("enable_cost_tracking", enable_cost_tracking, isinstance(enable_cost_tracking, bool), flag),
        ("enable_audit", enable_audit, isinstance(enable_audit, bool), flag),
    ):
        _check(fits, option, given, expected)
    chosen_model = model or default_model(provider)
    if not isinstance(extra_layers, Mapping) or "models" not in extra_layers:
        wanted = f"a model of the provider {provider!r}, which has no default model"
        _check(chosen_model is not None, "model", None, wanted)
    verification = config.VerificationConfig() if enable_verification else None
    settings = RunSettings(
        name=agent_id,
        max_iterations=max_iterations,
        verification=verification,
        enable_guardrails=enable_guardrails,
        enable_verification=enable_verification,
        enable_cost_tracking=enable_cost_tracking,
        enable_audit=enable_audit,
        reasoning=reasoning,
    )
    memory = (
        None
        if memory_tier is None
        else config.MemoryConfig(os.fspath(memory_path), memory_tier, anonymous=anonymous)
    )
    if memory is not None:
        with_tier = memory.tier == "2"
        _check(not with_tier or embedder is not None, "embedder", None, "an embedder, for memory_tier '2'")
        wanted = "'2', since an embedder is given"
        _check(with_tier or embedder is None, "memory_tier", memory.tier, wanted)

    def services(runtime: RuntimeContainer, core: layers.CoreLayer) -> Mapping[str, Providers]:
        return {
            "memory": memory_services(core, runtime.model_config, memory, embedder=embedder),
            "governance": governance_services(
                core,
                runtime.tool_settings,
                guardrail=_default_guardrail() if enable_guardrails else None,
                verification=verification,
                cost=config.CostConfig(os.fspath(cost_path)) if enable_cost_tracking else None,
                audit=config.AuditConfig(os.fspath(audit_path)) if enable_audit else None,
            ),
        }

    return RuntimeContainer(
        settings,
        config.ModelConfig(provider=provider, model=chosen_model or "", api_key=api_key, base_url=base_url),
        layers.ToolSettings(_tools(tools), workspace=_directory(workspace)),
        services=services,
        extra_layers=extra_layers,
    )


def _refuse_misspelt(name: str, known: Iterable[str], given: str) -> None:
    from difflib import get_close_matches  # needed for names that are not known alone

    meant = get_close_matches(name, known, 1, _CLOSE)
    if meant:
        raise TypeError(f"{given} {name!r}: use {meant[0]!r}, or a name that is less similar to it.")


def _check(fits: bool, option: str, value: object, expected: str) -> None:
    if not fits:
        raise ValueError(InvalidConfig(option, abbreviated(value), expected).message)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_path(value: object) -> bool:
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    return _is_text(path) and "\0" not in str(path)


def _directory(workspace: str | Path | None) -> Path:
    expected = "an existing directory, or None"
    _check(workspace is None or _is_path(workspace), "workspace", workspace, expected)
    path = Path.cwd() if workspace is None else Path(workspace).expanduser().resolve()
    _check(workspace is None or path.is_dir(), "workspace", str(workspace), expected)
    return path


def _tools(given: Sequence[Tool | Callable[..., Any]]) -> tuple[Tool, ...]:
    expected = "tools and typed functions"
    _check(isinstance(given, Sequence) and not isinstance(given, str), "tools", given, expected)
    tools: list[Tool] = []
    for each in given:
        _check(isinstance(each, Tool) or callable(each), "tools", each, expected)
        try:
            tools.append(as_tool(each))
        except ToolDefinitionError as error:
            raise ValueError(InvalidConfig("tools", repr(each), f"{expected} ({error})").message) from error
    return tuple(tools)


def _default_guardrail() -> Guardrail:
    from reactive_agents.adapters.governance.guardrails.rule_guardrail import build_guardrail

    return build_guardrail(config.GuardrailsConfig()).unwrap()
