"""Assembly of an agent: resolve and check its references, then compose it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, fields, frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.llm.providers import NO_MODEL, default_model
from reactive_agents.adapters.system import state_directory
from reactive_agents.adapters.tools.decorator import Tool
from reactive_agents.agent.agent import ReactiveAgent
from reactive_agents.agent.config import MODEL_EXPECTED, AgentConfig, name_model
from reactive_agents.agent.description import AgentComponents, DeskOptions
from reactive_agents.agent.output_types import output_shape, typed_results
from reactive_agents.agent.tool_references import alike, described_tool, find_tool, imported, wrong_tool_deps
from reactive_agents.agent.validation import state_data, wrong_address, wrong_path, wrong_place, wrong_text
from reactive_agents.containers import RuntimeContainer, ToolSettings
from reactive_agents.containers.base_providers import (
    governance_services,
    memory_services,
    record_service,
    sessions_service,
    tier_problem,
    wrong_deliverable,
    wrong_signing_key,
)
from reactive_agents.containers.composition import EMPTY, Object, OptionalService, Providers, Singleton
from reactive_agents.containers.layers import CoreLayer, find_model_profile, with_response_cache
from reactive_agents.core.config import (
    IN_PROCESS,
    CompactionConfig,
    GuardrailsConfig,
    ModelConfig,
    ReasoningConfig,
    StrategiesConfig,
    StrategyOptions,
    is_postgres,
)
from reactive_agents.core.errors import ConfigErrors, InvalidConfig
from reactive_agents.core.model_settings import REQUIRED
from reactive_agents.core.values import replaced
from reactive_agents.kernel import BUILT_IN_KERNELS, CompactionFunction
from reactive_agents.kernel.context_window.previews import compile_query
from reactive_agents.kernel.context_window.window import profile_for
from reactive_agents.ports import Guardrail
from reactive_agents.reasoning.service import BUILT_IN_STRATEGIES
from reactive_agents.reasoning.strategy import GIVEN_FUNCTION

if TYPE_CHECKING:
    from reactive_agents.adapters.telemetry.console import RunConsole
    from reactive_agents.adapters.tools.mcp import McpServer
    from reactive_agents.agent.multi_agent import Handoff  # imported by agents that hand over
    from reactive_agents.engine.services import HandoffTarget
    from reactive_agents.reasoning.structured_output.schema import Shape


@frozen(eq=False)
class ResolvedAgent:
    """A checked description of an agent, with everything that it names.

    Attributes:
        config: the described configuration, with the models of summarization filled in.
        compaction_functions: functions that summarize earlier turns, by the names that the configuration has.
        shape: the schema of the answers; ``None`` for text.
    """

    config: AgentConfig
    components: AgentComponents
    model: ModelConfig
    tools: ToolSettings
    compaction_functions: Mapping[str, CompactionFunction]
    guardrail: Guardrail | None
    shape: Shape[Any] | None
    handoffs: tuple[Handoff, ...] = ()


def assemble_agent(
    config: AgentConfig, components: AgentComponents
) -> Result[ReactiveAgent[Any, Any], ConfigErrors]:
    """Return the agent, or the first thing that is wrong with its description."""
    return resolve_agent(config, components).map(compose_agent)


def resolve_agent(config: AgentConfig, components: AgentComponents) -> Result[ResolvedAgent, ConfigErrors]:
    """Return the description with all that it names, or the first thing wrong."""
    return Result.do(
        ResolvedAgent(
            _with_tier(replaced(config, reasoning=reasoning), components, model),
            components,
            model,
            tools,
            compaction_functions,
            guardrail,
            shape,
            handoffs,
        )
        for model in _model(config, components)
        for handoffs in _handoffs(components)
        for tools in _tool_settings(config, components, handoffs)
        for _ in _first(_wrong_options(config, components, tools))
        for reasoning, compaction_functions in _prepare_compaction(
            config.reasoning, components.compaction_function
        )
        for guardrail in _guardrail(config.guardrails, components)
        for _ in _first(_wrong_components(config, components, tools))
        for _ in _first(_recorded_in_clear(config, components, tools, handoffs))
        for shape in (
            Success(None) if components.output_type is None else output_shape(components.output_type)
        )
        for _ in _check_answers(handoffs, shape)
    )


def compose_agent(agent: ResolvedAgent, core: Providers = EMPTY) -> ReactiveAgent[Any, Any]:
    """Return the agent on a new runtime.

    Args:
        core: base providers of the core layer, such as a clock that several agents share.
    """
    console = None if agent.components.console is None else agent.components.console()
    subscribers = agent.components.subscribers
    if console is not None:
        subscribers = (*subscribers, console.show)
        if console.can_ask:
            asking = _asking(agent.components.desk, console)
            agent = evolve(agent, components=evolve(agent.components, desk=asking))
    container = RuntimeContainer(
        agent.config.settings,
        agent.model,
        agent.tools,
        core={
            "patterns": Object(agent.config.redaction.patterns),
            "subscribers": Object(subscribers),
            "run_log_config": Object(agent.config.run_log),
            "run_log_key": Object(agent.components.record_key),
            **core,
        },
        services=partial(_services, agent),
    )
    given: dict[str, Any] = {} if agent.shape is None else {"present": typed_results(agent.shape)}
    made = ReactiveAgent(
        container,
        name=agent.config.name,
        deps=agent.components.deps,
        deps_function=agent.components.deps_function,
        reader=console,
        **given,
    )
    made.config = agent.config
    return made


def _asking(desk: DeskOptions, console: RunConsole) -> DeskOptions:
    """Return the desk that asks the person at the console."""
    if not desk.approves:
        desk = evolve(desk, approves=True, approval_handler=console.ask)
    return evolve(desk, question_handler=desk.question_handler or console.answer)


def _services(agent: ResolvedAgent, runtime: RuntimeContainer, core: CoreLayer) -> Mapping[str, Providers]:
    config, components = agent.config, agent.components
    return {
        "models": _given_llm(agent, core),
        "memory": {
            **memory_services(core, runtime.model_config, config.memory, embedder=components.embedder),
            **sessions_service(core, config.sessions),
            **record_service(core, config.durability, components.record_key),
        },
        "governance": {
            **_desk(components.desk),
            **governance_services(
                core,
                runtime.tool_settings,
                guardrail=agent.guardrail,
                verification=config.verification,
                cost=config.cost,
                audit=config.audit,
                signing_key=components.signing_key,
                audit_required="audit" in config.required_records,
            ),
        },
        "reasoning": _objects(
            controller=components.controller,
            strategies=dict(components.strategies) or None,
            kernels=dict(components.kernels) or None,
            compaction_functions=agent.compaction_functions or None,
        ),
        "engine": _objects(
            given_hooks=components.hooks or None,
            policies=components.policies or None,
            output_shape=agent.shape,
            output_validators=components.output_validators or None,
            handoffs=_targets(agent),
            instructions=components.instructions or None,
        ),
    }


def _desk(options: DeskOptions) -> Providers:
    """Return the desk, which is the approver as well where there is one."""
    if options == _NO_DESK_OPTIONS:
        return {}
    desk = Singleton(options.desk)
    return {
        **({"approver": desk} if options.approves else {}),
        "desk": desk if options.attended else OptionalService(),
    }


_NO_DESK_OPTIONS = DeskOptions()


def _targets(agent: ResolvedAgent) -> Mapping[str, HandoffTarget] | None:
    if not agent.handoffs:
        return None
    from reactive_agents.agent.multi_agent import handoff_target

    deps = agent.components.deps
    return {one.tool_name: handoff_target(one, agent.shape, deps) for one in agent.handoffs}


def _handoffs(components: AgentComponents) -> Result[tuple[Handoff, ...], InvalidConfig]:
    if not components.handoffs:
        return Success(())
    from reactive_agents.agent.multi_agent import resolve_handoffs  # imported by agents that hand over

    return resolve_handoffs(components.handoffs)


def _check_answers(handoffs: tuple[Handoff, ...], shape: Shape[Any] | None) -> Result[None, InvalidConfig]:
    if not handoffs:
        return Success(None)
    from reactive_agents.agent.multi_agent import check_answers

    return check_answers(handoffs, shape)


def _given_llm(agent: ResolvedAgent, core: CoreLayer) -> Providers:
    llm = agent.components.llm
    if llm is None or agent.model.response_cache is None:
        return _objects(llm=llm)
    return {"llm": Singleton(with_response_cache, llm, agent.model, core.lifetimes)}


def _objects(**given: Any) -> Providers:
    return {name: Object(each) for name, each in given.items() if each is not None}


# --- what a description names ---------------------------------------------------------------------------


def _model(config: AgentConfig, components: AgentComponents) -> Result[ModelConfig, InvalidConfig]:
    chosen = config.model
    wrong = None if chosen.response_cache is None else _wrong_cache(chosen.response_cache)
    if wrong is not None:
        return Failure(wrong)
    if components.llm is not None:
        return _first(_wrong_for_object(chosen)).map(lambda _: chosen)
    if not chosen.provider:  # the model's name may be that of a provider alone
        chosen = name_model(evolve(chosen, model=""), chosen.model, chosen.api_key, chosen.base_url)
    model = chosen.model or default_model(chosen.provider) or ""
    if not model.strip():
        if not components.needs_model and not chosen.provider:
            return Success(evolve(chosen, model=NO_MODEL))
        given = model or chosen.provider
        return Failure(InvalidConfig("model", repr(given) if given else "none", MODEL_EXPECTED))
    return _first(_wrong_servers(chosen)).map(lambda _: evolve(chosen, model=model))


def _wrong_for_object(chosen: ModelConfig) -> Iterator[InvalidConfig]:
    """Yield the options that a model object has itself."""
    if chosen.rate_limit is not None:
        expected = "a model by name, since a model object limits its own requests"
        yield InvalidConfig("model.rate_limit", "a limit for a model object", expected)
    if chosen.prices:
        expected = "a model by name, since a model object tells its own prices"
        yield InvalidConfig("model.prices", "prices for a model object", expected)


def _wrong_servers(chosen: ModelConfig) -> Iterator[InvalidConfig | None]:
    """Yield what is wrong with the addresses of a model and its fallbacks."""
    yield wrong_address("model.base_url", chosen.base_url)
    for index, fallback in enumerate(chosen.fallbacks):
        name = fallback if isinstance(fallback, str) else fallback.model
        if not name.strip():
            yield InvalidConfig("model.fallbacks", repr(name), MODEL_EXPECTED)
        if not isinstance(fallback, str):
            yield wrong_address(f"model.fallbacks[{index}].base_url", fallback.base_url)


def _wrong_cache(path: str) -> InvalidConfig | None:
    wrong = wrong_path("model.response_cache", path)
    if wrong is not None:
        return wrong
    from reactive_agents.adapters.llm.response_cache import cache_problem

    problem = cache_problem(path)
    if problem is None:
        return None
    return InvalidConfig("model.response_cache", repr(path), f"a usable file ({problem})")


def _with_tier(config: AgentConfig, components: AgentComponents, model: ModelConfig) -> AgentConfig:
    """Return the configuration with the context tier of the model's profile.

    What is configured comes first; where the model is chosen for each run, each has the tier of its name.
    """
    chosen = config.context_profile.tier is not None or (config.cost is not None and config.cost.tiers)
    if chosen or components.llm is not None:
        return config
    profile = find_model_profile(model)
    if profile is None:
        return config
    named = profile_for(profile.model).tier
    tier = profile.tier(named)
    if tier == named:
        return config
    return replaced(config, context_profile=evolve(config.context_profile, tier=tier))


def _first(problems: Iterator[InvalidConfig | None]) -> Result[None, InvalidConfig]:
    """Fail with the first problem."""
    found = next(filter(None, problems), None)
    return Success(None) if found is None else Failure(found)


def _wrong_options(
    config: AgentConfig, components: AgentComponents, tools: ToolSettings
) -> Iterator[InvalidConfig | None]:
    """Yield what is wrong with values of the configuration."""
    for tool_name, expression in config.compression.transform.items():
        compiled = compile_query(expression)
        if isinstance(compiled, Failure):
            expected = f"a JMESPath expression ({compiled.failure()})"
            yield InvalidConfig(f"compression.transform.{tool_name}", repr(expression), expected)
    yield from _unknown_tools(config, tools)
    yield wrong_text("name", config.name, "a name that is not blank")
    first_state = state_data("session_state", config.session_state) if config.session_state != {} else None
    yield first_state.failure() if isinstance(first_state, Failure) else None
    stores = {
        "memory.path": config.memory,
        "sessions.path": config.sessions,
        "cost.path": config.cost,
        "audit.path": config.audit,
        "durability.path": config.durability,
        "run_log.path": config.run_log,
    }
    for option, store in stores.items():
        yield None if store is None else wrong_place(option, store.path)
    if config.memory is not None:
        problem = tier_problem(config.memory.tier, config.memory.embedding_model, components.embedder)
        yield problem and evolve(problem, option=f"memory.{problem.option}")
    for pattern in config.redaction.patterns:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            yield InvalidConfig("redaction.patterns", repr(pattern), f"a regular expression ({error})")


def _unknown_tools(config: AgentConfig, settings: ToolSettings) -> Iterator[InvalidConfig]:
    if settings.servers or settings.toolsets:  # what tools they have is known when a run begins
        return
    known = {tool.name for tool in settings.tools}
    named = [("required_tools", requirement.name) for requirement in config.required_tools]
    named += [("budget.calls", limit.name) for limit in config.budget.calls]
    named += [("compression.transform", name) for name in config.compression.transform]
    named += [("model_settings.tool_choice", config.model_settings.first_call)]
    for option, name in named:
        if name and name not in known and name != REQUIRED:
            expected = f"one of the agent's tools: {', '.join(sorted(known)) or 'it has none'}"
            yield InvalidConfig(option, repr(name), expected)


def _wrong_components(
    config: AgentConfig, components: AgentComponents, tools: ToolSettings
) -> Iterator[InvalidConfig | None]:
    """Yield what is wrong with components and the names of strategies and kernels."""
    reasoning = config.reasoning
    if components.controller is not None and reasoning is None:
        yield InvalidConfig("controller", "a controller without reasoning", "with_reasoning() as well")
    if config.verification is not None:
        yield wrong_deliverable(config.verification.deliverables, tools.workspace)
    yield wrong_signing_key(components.signing_key)
    kernels = tuple(name for name, _ in components.kernels)
    if reasoning is None:
        if kernels:
            expected = "with_reasoning() as well, since no kernel is chosen without reasoning"
            yield InvalidConfig("kernel", repr(kernels[0]), expected)
        return
    own = [name for name, _ in components.strategies]
    if not components.needs_model and reasoning.default_strategy not in own:
        expected = "with_workflow after with_reasoning, which chooses another strategy"
        yield InvalidConfig(
            "reasoning.default_strategy", f"{reasoning.default_strategy}, and a workflow", expected
        )
    strategies = (*BUILT_IN_STRATEGIES, *own)
    yield _unknown_name("reasoning.default_strategy", reasoning.default_strategy, strategies)
    yield _unknown_name("reasoning.kernel", reasoning.kernel, (*BUILT_IN_KERNELS, *kernels))


def _recorded_in_clear(
    config: AgentConfig, components: AgentComponents, tools: ToolSettings, handoffs: tuple[Handoff, ...]
) -> Iterator[InvalidConfig | None]:
    """Yield the agents with a key whose runs this agent, which has none, would record."""
    if config.durability is None or components.record_key is not None:
        return
    from reactive_agents.adapters.encryption import KEY_VARIABLE  # by durable agents
    from reactive_agents.engine.durability import is_encrypted

    if KEY_VARIABLE in os.environ:
        return
    below = (*(each.agent for each in tools.tools), *(each.agent for each in handoffs))
    agents = [each for each in below if isinstance(each, ReactiveAgent)]
    for agent in (each for each in agents if each.container.settings().durability is not None):
        if is_encrypted(agent.container.memory.record().value_or(None)):
            got = f"no key, and the agent {agent.name!r}, whose runs are encrypted"
            expected = "a key here too, since its runs are recorded here, or that agent without one"
            yield InvalidConfig("durability", got, expected)


def _unknown_name(option: str, name: str, known: tuple[str, ...]) -> InvalidConfig | None:
    if name in known:
        return None
    return InvalidConfig(option, repr(name), f"one of {', '.join(dict.fromkeys(known))}")


def _guardrail(
    config: GuardrailsConfig | None, components: AgentComponents
) -> Result[Guardrail | None, InvalidConfig]:
    if config is None:
        return Success(None)
    from reactive_agents.adapters.governance.guardrails.rule_guardrail import build_guardrail

    return build_guardrail(config, components.checks)


def _tool_settings(
    config: AgentConfig, components: AgentComponents, handoffs: tuple[Handoff, ...]
) -> Result[ToolSettings, InvalidConfig]:
    tools: dict[str, Tool] = {}
    own_tools, own_files = components.tools, tuple[Path, ...]()
    if config.skills:
        from reactive_agents.agent.skills import read_skills, skill_tool

        skills = read_skills(config.skills)
        if isinstance(skills, Failure):
            return Failure(skills.failure())
        own_tools = (*own_tools, skill_tool(skills.unwrap()))
        own_files = tuple(place for each in skills.unwrap() for place in (each.folder, each.found_in))
    external = (described_tool(each).bind(find_tool) for each in config.external_tools)
    for found in chain(map(find_tool, own_tools), external, (find_tool(each.tool()) for each in handoffs)):
        if isinstance(found, Failure):
            return Failure(found.failure())
        tool = found.unwrap()
        known = tools.setdefault(tool.definition.name, tool)
        if known is not tool and not alike(known, tool):
            return Failure(InvalidConfig("tools", repr(tool.definition.name), "each tool name once"))
        wrong = wrong_tool_deps(tool, components.deps)
        if wrong is not None:
            return Failure(wrong)
    workspace = _workspace(config.workspace)
    if workspace is None:
        return Failure(InvalidConfig("workspace", repr(config.workspace), "an existing directory"))
    has_tools = bool(tools or components.toolsets)
    return Success(
        ToolSettings(
            tuple(tools.values()),
            config.mcp_servers,
            workspace,
            config.timeouts.tool_call_s,
            _protected_paths(config, components).union(own_files) if has_tools else frozenset(),
            config.timeouts.answer_s,
            components.toolsets,
            components.tool_wrappers,
        )
    )


def _workspace(given: str | None) -> Path | None:
    """Return the directory of file tools; ``None`` for one that does not exist."""
    if given is not None and not given:
        return None
    with suppress(RuntimeError, OSError, ValueError):  # an unknown home, or a name that no file system takes
        place = Path.cwd() if given is None else Path(given).expanduser().resolve()
        return place if given is None or place.is_dir() else None
    return None


# --- files that tools do not write -----------------------------------------------------------------------


def _protected_paths(config: AgentConfig, components: AgentComponents) -> frozenset[Path]:
    """Return the files that configure or record the agent, and its servers' scripts."""
    stores = (config.memory, config.sessions, config.cost, config.audit, config.durability, config.run_log)
    places = [each.path for each in stores if each is not None]
    places += [config.model.profiles or IN_PROCESS, config.model.response_cache or IN_PROCESS]
    for server in config.mcp_servers:
        places += [server.known_tools or IN_PROCESS, server.listed_in or IN_PROCESS]
    places += [name for each in config.mcp_servers for name in _files_of(each)]
    own = _kept_paths(os.fspath(state_directory(os.environ)))
    return frozenset((*components.config_files, *own, *stored_paths(*places)))


def stored_paths(*places: str) -> Iterator[Path]:
    """Yield where files are, and where the links that name them are."""
    for place in places:
        if place == IN_PROCESS or is_postgres(place):
            continue
        folder, name = os.path.split(os.path.expanduser(place))
        path = os.path.join(os.path.realpath(folder), name)
        yield Path(path)
        if os.path.islink(path):
            yield Path(os.path.realpath(path))


@cache
def _kept_paths(place: str) -> tuple[Path, ...]:
    return tuple(stored_paths(place))


def _files_of(server: McpServer) -> Iterator[str]:
    """Yield the files that the command of a server names, as scripts and modules."""
    for word in (server.command or "", *server.args):
        module = word.replace(".", "/")
        for name in (word, word.partition("=")[2], f"{module}.py", f"{module}/__main__.py"):
            path = os.path.join(server.cwd or "", name)
            if os.path.isfile(path):
                yield path


# --- options of compaction: default models, and functions by name ----------------------------------------


def _prepare_compaction(
    reasoning: ReasoningConfig | None, given: CompactionFunction | None
) -> Result[tuple[ReasoningConfig | None, Mapping[str, CompactionFunction]], InvalidConfig]:
    """Return the configuration with default models and functions filled in.

    Fails for a function that cannot be found, for ``custom`` without one, for one that nothing uses, and for
    a provider without a default model.
    """
    functions: dict[str, CompactionFunction] = {} if given is None else {GIVEN_FUNCTION: given}
    used: list[CompactionConfig] = []
    if reasoning is not None:
        ready = _prepared_compaction(reasoning.compaction, "reasoning.compaction", functions)
        if isinstance(ready, Failure):
            return ready
        used.append(reasoning.compaction)
        if ready.unwrap() is not reasoning.compaction:
            reasoning = evolve(reasoning, compaction=ready.unwrap())
        for each in fields(StrategiesConfig):
            options: StrategyOptions = getattr(reasoning.strategies, each.name)
            if options.compaction is None:
                continue
            place = f"reasoning.strategies.{each.name}.compaction"
            ready = _prepared_compaction(options.compaction, place, functions)
            if isinstance(ready, Failure):
                return ready
            used.append(options.compaction)
            changed: dict[str, Any] = {each.name: evolve(options, compaction=ready.unwrap())}
            reasoning = evolve(reasoning, strategies=evolve(reasoning.strategies, **changed))
    if given is not None and not any(map(_takes_given, used)):
        expected = "with_reasoning(compaction={'method': 'custom'}), or that for one of the strategies"
        return Failure(InvalidConfig("compaction_function", repr(given), expected))
    return Success((reasoning, functions))


def _takes_given(config: CompactionConfig) -> bool:
    return config.method == "custom" and not config.function


def _prepared_compaction(
    config: CompactionConfig, option: str, functions: dict[str, CompactionFunction]
) -> Result[CompactionConfig, InvalidConfig]:
    if config.function:
        found = imported(config.function, f"{option}.function")
        if isinstance(found, Failure):
            return Failure(found.failure())
        if not callable(found.unwrap()):
            return Failure(
                InvalidConfig(f"{option}.function", repr(config.function), "the name of a function")
            )
        functions[config.function] = found.unwrap()
    if _takes_given(config) and GIVEN_FUNCTION not in functions:
        expected = "a function for 'custom': with_compaction_function(function), or module:function"
        return Failure(InvalidConfig(f"{option}.function", "none", expected))
    if config.provider and not config.model:
        model = default_model(config.provider)
        if model is None:
            expected = "a provider with a default model, or a model"
            return Failure(InvalidConfig(f"{option}.provider", repr(config.provider), expected))
        config = evolve(config, model=model)
    return Success(config)
