"""From the description of a persona to a persona: an agent for each domain, on the same core services."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen
from dependency_injector import providers
from returns.maybe import Maybe
from returns.result import Failure, Result, Success

from reactive_agents.adapters.memory.comparing import VectorComparison
from reactive_agents.agent.agent import ReactiveAgent
from reactive_agents.agent.assembly import LiveParts, assemble_agent
from reactive_agents.agent.config import AgentConfig
from reactive_agents.agent.persona_agent import PersonaAgent
from reactive_agents.agent.persona_config import DomainConfig, PersonaConfig
from reactive_agents.containers.embedding import open_embedder, tier_problem
from reactive_agents.containers.lifetimes import Lifetimes
from reactive_agents.containers.persona import PersonaContainer
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import ConfigErrors, InvalidConfig
from reactive_agents.core.personas import PlanTemplate
from reactive_agents.core.redaction import Redactor
from reactive_agents.persona import Deliver, Describe, PersonaDomain
from reactive_agents.persona.templating import template_problem
from reactive_agents.ports import LLM, Clock, Embedder, PersonaStore, TextComparison


@frozen
class DomainParts:
    """What of a domain is no data.

    Attributes:
        agent: of the agent that executes steps there; ``None`` takes the tools that are configured.
    """

    agent: LiveParts | None = None
    describe: Describe | None = None
    deliver: Deliver | None = None


@frozen(eq=False)
class _Staffed:
    name: str
    agent: ReactiveAgent
    parts: DomainParts
    templates: tuple[PlanTemplate, ...]


def assemble_persona(
    config: PersonaConfig,
    parts: Mapping[str, DomainParts],
    *,
    llm: LLM | None = None,
    store: PersonaStore | None = None,
    embedder: Embedder | None = None,
) -> Result[PersonaAgent, ConfigErrors]:
    """The persona, or the first thing that is wrong with its description.

    Args:
        parts: what of each domain is no data, by its name.
        llm: for the domains that have no model object of their own.
        store: instead of the memory file.
        embedder: instead of an embedding model by name.
    """
    wrong_tier = tier_problem(config.tier, config.embedding_model, embedder)
    if wrong_tier is not None:
        return Failure(wrong_tier)
    names = [domain.name for domain in config.domains]
    if not names or len(names) != len(set(names)):
        expected = "one domain or more, each name once"
        return Failure(InvalidConfig("domains", ", ".join(names) or "none", expected))
    staffed: list[_Staffed] = []
    for domain in config.domains:
        for template in domain.templates:
            problem = template_problem(template)
            if problem is not None:
                return Failure(evolve(problem, option=f"domains.{domain.name}.{problem.option}"))
        known = parts.get(domain.name, DomainParts())
        built = _agent_of(domain, known, config, llm)
        if isinstance(built, Failure):
            return Failure(built.failure())
        staffed.append(_Staffed(domain.name, built.unwrap(), known, domain.templates))
    container = PersonaContainer(
        settings=providers.Object(config.settings()), path=providers.Object(config.memory)
    )
    cores = [each.agent.container.core for each in staffed]
    # what one domain calls a secret is one in every record
    patterns = dict.fromkeys(pattern for core in cores for pattern in core.patterns())
    secrets = dict.fromkeys(secret for core in cores for secret in core.secrets())
    container.core.patterns.override(providers.Object(tuple(patterns)))
    container.core.secrets.override(providers.Object(tuple(secrets)))
    for core in cores:
        core.clock.override(container.core.clock)
        core.ids.override(container.core.ids)
        core.events.override(container.core.events)
    if store is not None:
        container.store.override(providers.Object(store))
    if config.tier == "2":
        container.comparison.override(
            providers.Singleton(
                _comparison,
                config,
                embedder,
                clock=container.core.clock,
                redactor=container.core.redactor,
                lifetimes=container.core.lifetimes,
            )
        )
    container.domains.override(providers.Callable(_domains, tuple(staffed), container.core.lifetimes))
    return Success(PersonaAgent(container, name=config.name))


def _comparison(
    config: PersonaConfig,
    embedder: Embedder | None,
    *,
    clock: Clock,
    redactor: Redactor,
    lifetimes: Lifetimes,
) -> Maybe[TextComparison]:
    opened = open_embedder(
        config.embedding_model, embedder, beside=config.model, clock=clock, lifetimes=lifetimes
    )
    return Maybe.from_optional(opened).map(lambda made: VectorComparison(made, redactor=redactor))


def _agent_of(
    domain: DomainConfig, parts: DomainParts, config: PersonaConfig, llm: LLM | None
) -> Result[ReactiveAgent, ConfigErrors]:
    agent, live = domain.agent, parts.agent or LiveParts(tools=domain.agent.tools)
    if agent.name == AgentConfig().name:
        agent = evolve(agent, name=f"{config.persona_id}-{domain.name}")
    if agent.model == ModelConfig():
        agent = evolve(agent, model=config.model)
        live = live if live.llm is not None else evolve(live, llm=llm)
    return assemble_agent(agent, live)


def _domains(staffed: tuple[_Staffed, ...], lifetimes: Lifetimes) -> tuple[PersonaDomain, ...]:
    for each in staffed:
        lifetimes.add(each.agent.aclose)
    return tuple(
        PersonaDomain(
            each.name,
            each.agent.container.engine.engine(),
            each.parts.describe,
            each.parts.deliver,
            each.templates,
        )
        for each in staffed
    )
