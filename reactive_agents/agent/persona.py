"""Building of personas: an agent for each domain, on shared core services."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload

from attrs import evolve, field, fields_dict, frozen
from returns.maybe import Maybe
from returns.result import Failure, Result, Success
from typing_extensions import TypedDict, TypeVar, Unpack

from reactive_agents import ports
from reactive_agents.adapters.memory.vectors import VectorComparison
from reactive_agents.adapters.system import SystemClock, checked_redactor
from reactive_agents.adapters.telemetry.event_bus import AsyncEventHandler
from reactive_agents.agent import assembly, validation
from reactive_agents.agent.agent import ReactiveAgent
from reactive_agents.agent.builder import ReactiveAgents
from reactive_agents.agent.config import AgentConfig
from reactive_agents.agent.description import AgentComponents, not_an_attribute
from reactive_agents.agent.errors import AgentError, value_or_raise
from reactive_agents.agent.persona_config import DomainConfig, PersonaConfig, PersonaOptions, read_persona
from reactive_agents.agent.subscriptions import Subscriptions
from reactive_agents.agent.tool_references import imported
from reactive_agents.containers.base_providers import open_embedder, tier_problem
from reactive_agents.containers.composition import Lifetimes, Object, Provider, Singleton
from reactive_agents.containers.layers import CoreLayer
from reactive_agents.containers.persona import PersonaContainer
from reactive_agents.containers.runtime import configured_secrets
from reactive_agents.core.channels import ChannelConfig
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import ConfigErrors, InvalidConfig, InvalidEvent, UnknownDomain
from reactive_agents.core.ids import ContextId, EventId
from reactive_agents.core.memory import MemoryTier
from reactive_agents.core.personas import (
    Domain,
    DomainEvent,
    EventSchedule,
    PersonaOutcome,
    PlanTemplate,
    joined_names,
)
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.run_context import can_take, checked_deps_function, wrong_deps
from reactive_agents.core.run_record import next_time
from reactive_agents.effects import attempt
from reactive_agents.engine import ExecutionEngine
from reactive_agents.persona import (
    Check,
    Deliver,
    Describe,
    Engage,
    Persona,
    PersonaDomain,
    PersonaInbox,
    PersonaReasoningSystem,
)
from reactive_agents.persona.domain import takes_key, template_problem
from reactive_agents.persona.inbox import OnOutcome
from reactive_agents.persona.persona import EVENT_UNDER_WAY, remind

_Deps = TypeVar("_Deps")


@frozen
class DomainComponents:
    """Parts of a domain that cannot be serialised; see :meth:`Personas.with_domain`.

    Attributes:
        agent: those of the domain's agent; ``None`` for the configured tools.
    """

    agent: AgentComponents | None = None
    describe: Describe | None = None
    deliver: Deliver | None = None
    deps: Any = field(default=None, repr=False)
    channel: ports.Channel | None = None
    engage: Engage | None = None
    check: Check | None = None


class DomainOptions(TypedDict, total=False):
    """The options of :meth:`Personas.with_domain`, which says what they mean."""

    describe: Describe | None
    deliver: Deliver | None
    templates: Sequence[PlanTemplate]
    channel: ChannelConfig | ports.Channel | None
    reasoning: bool | None
    engage: Engage | None
    check: Check | None
    schedules: Sequence[EventSchedule]
    reminders: bool


@frozen(eq=False)
class _ResolvedDomain:
    agent: assembly.ResolvedAgent
    components: DomainComponents
    config: DomainConfig


def _assembled(described: Personas) -> Result[PersonaAgent, ConfigErrors]:
    config = described.config
    wrong_tier = tier_problem(config.tier, config.embedding_model, described.embedder)
    if wrong_tier is not None:
        return Failure(wrong_tier)
    names = [domain.name for domain in config.domains]
    if not names or len(names) != len(set(names)):
        expected = "one domain or more, each name once"
        return Failure(InvalidConfig("domains", ", ".join(names) or "none", expected))
    resolved: list[_ResolvedDomain] = []
    for domain in config.domains:
        found = _resolve_domain(domain, described)
        if isinstance(found, Failure):
            return found
        resolved.append(found.unwrap())
    return Success(_compose(described, tuple(resolved)))


def _with_functions(
    domain: DomainConfig, components: DomainComponents
) -> Result[DomainComponents, ConfigErrors]:
    """Return the components with the functions that the configuration names."""
    for name, named in (
        ("describe", domain.describe),
        ("deliver", domain.deliver),
        ("engage", domain.engage),
        ("check", domain.check),
    ):
        if named is None or getattr(components, name) is not None:
            continue
        option = f"domains.{domain.name}.{name}.function"
        found = imported(named.function, option)
        if isinstance(found, Failure):
            return found
        if not callable(found.unwrap()):
            return Failure(InvalidConfig(option, repr(named.function), "the name of a function"))
        problem = _wrong_parameters(name, option, found.unwrap())
        if problem is not None:
            return Failure(problem)
        components = evolve(components, **{name: found.unwrap()})
    return Success(components)


def _wrong_parts(option: str, values: object, kind: type, expected: str) -> InvalidConfig | None:
    """Return a problem unless a value is a sequence of objects of a class."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        return InvalidConfig(option, abbreviated(values), expected)
    wrong = [each for each in values if not isinstance(each, kind)]
    return InvalidConfig(option, abbreviated(wrong[0]), expected) if wrong else None


_PARAMETERS = {
    "describe": ("event",),
    "deliver": ("event", "text"),
    "engage": ("event", "transcript"),
    "check": ("event", "answer", "calls"),
}
"""The parameters of the functions of a domain; ``deliver`` may also have ``key``."""


def _wrong_functions(**given: object) -> InvalidConfig | None:
    checked = (
        validation.wrong_functions(name, each) or _wrong_parameters(name, name, each)
        for name, each in given.items()
        if each is not None
    )
    return next(filter(None, checked), None)


def _wrong_parameters(name: str, option: str, function: Any) -> InvalidConfig | None:
    """Return a problem for a function that cannot be called as that of its name is."""
    keyed = ("key",) if name == "deliver" and takes_key(function) else ()
    if can_take(function, len(_PARAMETERS[name]), *keyed):
        return None
    also = ", and optionally key, which is given by name" if name == "deliver" else ""
    return InvalidConfig(option, abbreviated(function), f"a function of {', '.join(_PARAMETERS[name])}{also}")


def _wrong_channel(channel: object) -> InvalidConfig | None:
    if channel is None or isinstance(channel, ChannelConfig):
        return None
    expected, methods = "a ChannelConfig or a Channel", ("receive", "send", "typing", "aclose")
    return validation.wrong_object("channel", channel, expected, *methods)


def _with_channel(
    domain: DomainConfig, components: DomainComponents, name: str
) -> Result[DomainComponents, ConfigErrors]:
    """Return the components with the channel that the configuration describes."""
    option = f"domains.{domain.name}.channel"
    if components.channel is None and domain.channel is None:
        return Success(components)
    if components.deliver is not None:
        return Failure(InvalidConfig(option, "both", "a channel or a function that delivers"))
    if components.channel is not None or domain.channel is None:
        return Success(components)
    from reactive_agents.adapters.channels import open_channel

    return open_channel(
        domain.channel, name=name, clock=SystemClock(), environment=os.environ, option=option
    ).map(lambda channel: evolve(components, channel=channel))


def _resolve_domain(domain: DomainConfig, described: Personas) -> Result[_ResolvedDomain, ConfigErrors]:
    given = described.components.get(domain.name, DomainComponents())
    return (
        _with_functions(domain, given)
        .bind(lambda components: _with_channel(domain, components, described.config.name))
        .bind(lambda components: _with_agent(domain, components, described))
    )


def _with_agent(
    domain: DomainConfig, components: DomainComponents, described: Personas
) -> Result[_ResolvedDomain, ConfigErrors]:
    problem = _wrong_template(domain) or _wrong_schedule(domain)
    if problem is not None:
        return Failure(evolve(problem, option=f"domains.{domain.name}.{problem.option}"))
    own, config = components.agent or AgentComponents(tools=domain.agent.tools), described.config
    deps = _checked_deps(own, components.deps)
    if isinstance(deps, InvalidConfig):
        return Failure(evolve(deps, option=f"domains.{domain.name}.deps"))
    files = (*own.config_files, *described.config_files, *assembly.stored_paths(config.memory))
    own = evolve(own, config_files=files)
    if domain.reminders:
        own = evolve(own, tools=(*own.tools, remind))
    agent = domain.agent
    if agent.name == AgentConfig().name:
        agent = evolve(agent, name=f"{config.persona_id}-{domain.name}")
    model, default = agent.model, ModelConfig()
    if not (model.model or model.provider or model.base_url or model.api_key):
        left = (name for name in fields_dict(ModelConfig) if getattr(model, name) == getattr(default, name))
        agent = evolve(agent, model=evolve(model, **{name: getattr(config.model, name) for name in left}))
        own = own if own.llm is not None else evolve(own, llm=described.llm)
    return assembly.resolve_agent(agent, own).map(
        lambda resolved: _ResolvedDomain(resolved, evolve(components, deps=deps), domain)
    )


def _checked_deps(own: AgentComponents, given: object) -> object:
    """Return the dependencies of runs, the function that makes them, or an error."""
    if own.deps_function is not None and given is None:
        return checked_deps_function(own.deps_function, own.deps)
    return wrong_deps(own.deps, given) or given


def _wrong_template(domain: DomainConfig) -> InvalidConfig | None:
    return next(filter(None, map(template_problem, domain.templates)), None)


def _wrong_schedule(domain: DomainConfig) -> InvalidConfig | None:
    names = [each.name for each in domain.schedules]
    tenants = () if domain.channel is None else domain.channel.known_tenants
    for schedule in domain.schedules:
        option = f"schedules.{schedule.name}"
        if names.count(schedule.name) > 1:
            return InvalidConfig(option, "the name twice", "each name once")
        try:
            next_time(schedule.cron, schedule.timezone, datetime.fromtimestamp(0, UTC))
        except ValueError as error:
            return InvalidConfig(option, f"{schedule.cron!r} in {schedule.timezone}", f"{error}")
        if tenants and schedule.tenant not in tenants:
            expected = f"a tenant of the channel: {', '.join(map(repr, tenants))}"
            return InvalidConfig(f"{option}.tenant", repr(schedule.tenant), expected)
    return None


def _compose(persona: Personas, domains: tuple[_ResolvedDomain, ...]) -> PersonaAgent:
    config = persona.config
    # a secret of one domain is one in every record
    patterns = (pattern for each in domains for pattern in each.agent.config.redaction.patterns)
    described = [each.agent for each in domains]
    secrets = (
        secret for each in described for secret in configured_secrets(each.model, each.tools, each.config)
    )
    of_channels = (
        os.environ.get(name, "")
        for each in domains
        if each.config.channel is not None
        for name in each.config.channel.variables
    )
    core = CoreLayer(
        {
            "patterns": Object(tuple(dict.fromkeys(patterns))),
            "secrets": Object(tuple(dict.fromkeys((*secrets, *of_channels)))),
        }
    )
    shared: dict[str, Provider[Any]] = {"clock": core.clock, "ids": core.ids, "events": core.events}
    agents = tuple(assembly.compose_agent(each.agent, shared) for each in domains)
    given: dict[str, Provider[Any]] = {
        "domains": Singleton(
            _domains,
            domains,
            agents,
            core.lifetimes,
            *(agent.container.engine.engine for agent in agents),  # a reset reaches them
        )
    }
    if persona.store is not None:
        given["store"] = Object(persona.store)
    if config.tier == "2":
        given["comparison"] = Singleton(
            _comparison,
            config,
            persona.embedder,
            clock=core.clock,
            redactor=core.redactor,
            lifetimes=core.lifetimes,
        )
    container = PersonaContainer(config.settings(), config.memory, core, given)
    return PersonaAgent(container, name=config.name)


def _comparison(
    config: PersonaConfig,
    embedder: ports.Embedder | None,
    *,
    clock: ports.Clock,
    redactor: Redactor,
    lifetimes: Lifetimes,
) -> Maybe[ports.TextComparison]:
    opened = open_embedder(
        config.embedding_model, embedder, beside=config.model, clock=clock, lifetimes=lifetimes
    )
    return Maybe.from_optional(opened).map(
        lambda made: VectorComparison(made, redactor=checked_redactor(redactor))
    )


def _domains(
    domains: tuple[_ResolvedDomain, ...],
    agents: tuple[ReactiveAgent[Any, Any], ...],
    lifetimes: Lifetimes,
    *engines: ExecutionEngine,
) -> tuple[PersonaDomain, ...]:
    for agent in agents:
        lifetimes.add(agent.aclose)
    for domain in domains:
        if domain.components.channel is not None:
            lifetimes.add(domain.components.channel.aclose)
    return tuple(
        PersonaDomain(
            each.config.name,
            engine,
            describe=each.components.describe,
            deliver=each.components.deliver,
            templates=each.config.templates,
            deps=each.components.deps,
            channel=each.components.channel,
            reasoning=each.config.reasoning,
            engage=each.components.engage,
            schedules=each.config.schedules,
            reminders=each.config.reminders,
            check=each.components.check,
            tenants=() if each.config.channel is None else each.config.channel.known_tenants,
        )
        for each, engine in zip(domains, engines, strict=True)
    )


class PersonaAgent:
    """A persona, ready for events; use it as ``async with persona:``, which closes it.

    Attributes:
        container: its services; override a provider there before the first event.
        name: its name.
    """

    def __init__(self, container: PersonaContainer, *, name: str) -> None:
        self.container = container
        self.name = name
        self._subscriptions = Subscriptions()

    @property
    def persona(self) -> Persona:
        """The persona itself, whose methods return effects."""
        persona: Persona = self.container.persona()
        return persona

    @property
    def reasoning(self) -> PersonaReasoningSystem:
        """Its plans and learnings."""
        return self.persona.reasoning

    async def send(
        self, content: str, *, domain: Domain | None = None, context: str = "default", author: str = "user"
    ) -> PersonaOutcome:
        """Send one event and return its outcome.

        Args:
            domain: the domain of the event; the first one by default.
            context: the room, file or session of the event.

        Raises:
            AgentError: the persona has no such domain, or an argument is no text or blank.
        """
        return await self.process(
            domain or next(iter(self.persona.domains)), self.new_event(content, context, author)
        )

    async def process(self, domain: Domain, event: DomainEvent) -> PersonaOutcome:
        """Process one event; a plan that failed is an outcome with the reason.

        Raises:
            AgentError: the persona has no such domain, or the event no content.
        """
        outcome = await attempt(self.persona.process_event(domain, event))
        if isinstance(outcome, Failure):
            match outcome.failure():
                case UnknownDomain(known=known):
                    wrong = InvalidConfig("domain", repr(domain), f"one of {', '.join(known)}")
                case InvalidEvent(field=name, got=got, expected=expected):
                    wrong = InvalidConfig(f"event.{name}", got, expected)
            raise AgentError(wrong)
        return outcome.unwrap()

    def as_tool(self, description: str = "") -> Callable[[str], Awaitable[str]]:
        """Return a tool with which the steps of another persona ask this one.

        It is named ``ask_<name>``. The question is an event of this persona in a separate room for
        each room of the asker. A persona that is just being asked, or asks, is not asked again.

        Args:
            description: what it can be asked, for the model.
        """
        domain = next(iter(self.persona.domains))

        async def ask(question: str) -> str:
            event, under_way = self.new_event(question), EVENT_UNDER_WAY.get()
            if under_way is not None:
                _, asker, asked = under_way
                earlier = asked.details.get(_ASKED_BY)
                waiting = [*(earlier if isinstance(earlier, list) else ()), asker.persona_id]
                if self.persona.settings.id in waiting:
                    return f"{self.name} is waiting for this answer itself, and cannot be asked."
                context = joined_names(asker.persona_id, asker.domain, asker.context_id)
                event = evolve(
                    self.new_event(question, context, asker.persona_id),
                    user=asked.user_id,  # whose limits count, and who may want it deleted
                    tenant=asker.tenant,
                    details={_ASKED_BY: waiting},  # another process may answer, and ask in its turn
                )
            outcome = await self.process(domain, event)
            if outcome.status == "completed":
                return outcome.answer
            raise RuntimeError(f"{self.name} has no answer: {outcome.reason}")

        ask.__name__ = ask.__qualname__ = "ask_" + re.sub(r"\W+", "_", self.name).strip("_").lower()
        ask.__doc__ = description or f"Ask {self.name} a question and wait for the answer."
        return ask

    def inbox(self, on_outcome: OnOutcome | None = None) -> PersonaInbox:
        """Return a queue for many events; enter it, and ``submit`` events to it."""
        return PersonaInbox(self.persona, on_outcome)

    def new_event(self, content: str, context: str = "default", author: str = "user") -> DomainEvent:
        """Return an event with a new id and the current time.

        Raises:
            AgentError: an argument is not a text.
        """
        for name, value in (("content", content), ("context", context), ("author", author)):
            if not isinstance(value, str):
                raise AgentError(InvalidConfig(f"event.{name}", abbreviated(value), "a text"))
        ids: ports.IdSource = self.container.core.ids()
        clock: ports.Clock = self.container.core.clock()
        return DomainEvent(EventId(ids.new()), ContextId(context), author, content, clock.now())

    def subscribe(self, handler: ports.EventHandler | AsyncEventHandler) -> Callable[[], None]:
        """Call a handler with every later event; return a function that unsubscribes it.

        The events of the steps' runs are among them.

        As :meth:`ReactiveAgent.subscribe <reactive_agents.agent.agent.ReactiveAgent.subscribe>`.

        Raises:
            AgentError: the handler is no function, or an ``async`` one subscribed outside of an event loop.
        """
        bus: ports.EventBus = self.container.core.events()
        return value_or_raise(self._subscriptions.add(bus, handler))

    async def aclose(self) -> None:
        """Close all that the persona opened; it can be used again afterwards."""
        await self._subscriptions.drain()
        lifetimes: Lifetimes = self.container.core.lifetimes()
        await lifetimes.aclose()

    async def __aenter__(self) -> PersonaAgent:
        await self.persona.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.persona.__aexit__(kind, error, trace)
        finally:
            await self.aclose()


_ASKED_BY = "asked_by"
"""The detail of a question with the personas that wait for its answer, each for the next one."""


NAMELESS = PersonaConfig("persona", "persona.db")


@frozen
class Personas:
    """An immutable builder of personas: each ``with_*`` returns a new one.

    Attributes:
        config: the serialisable part of the persona.
        components: the other parts of each domain, by its name.
        llm: the model object of domains without one.
        store: replaces the memory file.
        embedder: replaces an embedding model by name.
        config_files: resolved paths of the files that configure it, which its file tools do not write.
        problems: errors so far; ``build`` fails with the first.
    """

    config: PersonaConfig = NAMELESS
    components: Mapping[str, DomainComponents] = field(factory=dict)
    llm: ports.LLM | None = None
    store: ports.PersonaStore | None = None
    embedder: ports.Embedder | None = None
    config_files: tuple[Path, ...] = ()
    problems: tuple[ConfigErrors, ...] = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say what to do when the builder is used as the persona.

            Raises:
                AttributeError: always.
            """
            raise not_an_attribute(self, name, PersonaAgent)

    @classmethod
    def create(cls, name: str = "persona") -> Personas:
        """Return a builder without domains; the memory file is ``<name>.db``."""
        wrong = validation.wrong_text("name", name, "a name that is not blank")
        if wrong is not None:
            return cls(problems=(wrong,))
        return cls(PersonaConfig(name, f"{name}.db"))

    @classmethod
    def from_config(
        cls, source: PersonaConfig | Mapping[str, Any] | str | Path, *, allow_tools_from: Collection[str] = ()
    ) -> Personas:
        """Return a builder from a config, a mapping, or a ``.json`` or ``.toml`` file.

        Args:
            allow_tools_from: modules whose functions a mapping or file may name, with the modules in them.
        """
        read = read_persona(source, allow_tools_from=allow_tools_from)
        if isinstance(read, Failure):
            return cls(problems=(read.failure(),))
        files = (Path(source).resolve(),) if isinstance(source, str | Path) else ()
        return cls(read.unwrap(), config_files=files)

    def with_options(self, **options: Unpack[PersonaOptions]) -> Personas:
        """Set fields of :class:`PersonaConfig`: ``learning={"shown": 3}``.

        A mapping sets some fields of a nested value; the others get their defaults.
        """
        read = validation.changed_options(self.config, options)
        if isinstance(read, Failure):
            return self._with_problem(read.failure())
        return evolve(self, config=read.unwrap())

    def with_memory(
        self,
        path: str | Path,
        *,
        tier: MemoryTier = "1",
        embedding_model: str | None = None,
        embedder: ports.Embedder | None = None,
    ) -> Personas:
        """Set the file or database of the persona's records.

        Args:
            path: an SQLite file, or the address of a Postgres database that several machines share.
            tier: ``1`` compares learnings by words; ``2`` by embeddings, and needs one of the next two.
            embedding_model: the embedding model, such as ``openai/text-embedding-3-small``.
            embedder: a custom embedder instead of a model by name.
        """
        problem = validation.wrong_place("memory", path) or validation.wrong_embedder("embedder", embedder)
        if problem is not None:
            return self._with_problem(problem)
        described = self.with_options(memory=os.fspath(path), tier=tier, embedding_model=embedding_model)
        return evolve(described, embedder=embedder)

    def with_store(self, store: ports.PersonaStore) -> Personas:
        """Use a custom store instead of the file."""
        problem = validation.wrong_object("store", store, "a PersonaStore", "save_plan", "list_learnings")
        return evolve(self._with_problem(problem), store=store)

    def with_llm(self, llm: ports.LLM) -> Personas:
        """Use a custom model object for all domains, such as a ``ScriptedLLM``."""
        problem = validation.wrong_object(
            "llm", llm, "an object with complete, stream and model", "complete", "stream", "model"
        )
        return evolve(self._with_problem(problem), llm=llm)

    @overload
    def with_domain(
        self,
        name: str,
        agent: ReactiveAgents[Any, None] | ReactiveAgents[Any, _Deps | None] | None = None,
        **options: Unpack[DomainOptions],
    ) -> Personas: ...

    @overload
    def with_domain(
        self, name: str, agent: ReactiveAgents[Any, _Deps], *, deps: _Deps, **options: Unpack[DomainOptions]
    ) -> Personas: ...

    def with_domain(
        self,
        name: str,
        agent: ReactiveAgents[Any, Any] | None = None,
        *,
        deps: Any = None,
        describe: Describe | None = None,
        deliver: Deliver | None = None,
        templates: Sequence[PlanTemplate] = (),
        channel: ChannelConfig | ports.Channel | None = None,
        reasoning: bool | None = None,
        engage: Engage | None = None,
        check: Check | None = None,
        schedules: Sequence[EventSchedule] = (),
        reminders: bool = False,
    ) -> Personas:
        """Add a domain, or replace the one of that name.

        Args:
            agent: the builder of the agent that executes steps; by default one that reasons, without tools.
            deps: the dependencies of all of its runs, where the agent is created with ``deps`` and no
                function of ``with_deps`` makes them.
            describe: makes the task's description from an event.
            deliver: delivers answers; without it they are in the outcome alone.
            templates: plans for known kinds of events; the first that matches is used.
            channel: the platform that its events come from and its answers go to, in place of ``deliver``.
            reasoning: whether its events are planned and evaluated; as the persona's by default.
            engage: decides on events that the engagement policy allows.
            check: judges answers by their tool calls or anything else, in place of the model.
            schedules: events that come again and again.
            reminders: whether its steps have a tool ``remind``, by which an event comes later.
        """
        problem = (
            validation.wrong_text("name", name, "the name of a domain")
            or _wrong_parts("agent", [agent] if agent else (), ReactiveAgents, "a builder of an agent")
            or _wrong_parts("templates", templates, PlanTemplate, "a list of PlanTemplate")
            or _wrong_parts("schedules", schedules, EventSchedule, "a list of EventSchedule")
            or _wrong_functions(describe=describe, deliver=deliver, engage=engage, check=check)
            or _wrong_channel(channel)
        )
        if problem is not None:
            return self._with_problem(problem)
        described = agent or ReactiveAgents.create().with_reasoning()
        others = tuple(each for each in self.config.domains if each.name != name)
        configured = channel if isinstance(channel, ChannelConfig) else None
        domain = DomainConfig(
            name,
            described.config,
            tuple(templates),
            configured,
            reasoning,
            schedules=tuple(schedules),
            reminders=reminders,
        )
        config = evolve(self.config, domains=(*others, domain))
        given = None if isinstance(channel, ChannelConfig) else channel
        components = {
            **self.components,
            name: DomainComponents(described.components, describe, deliver, deps, given, engage, check),
        }
        return evolve(
            self, config=config, components=components, problems=(*self.problems, *described.problems)
        )

    def _with_problem(self, problem: ConfigErrors | None) -> Personas:
        return self if problem is None else evolve(self, problems=(*self.problems, problem))

    def build(self) -> PersonaAgent:
        """Build the persona.

        Raises:
            AgentError: the configuration is invalid; ``.error`` is the error.
        """
        return value_or_raise(self.build_result())

    def build_result(self) -> Result[PersonaAgent, ConfigErrors]:
        """Build the persona as a plain result."""
        return Failure(self.problems[0]) if self.problems else _assembled(self)
