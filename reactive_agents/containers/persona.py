"""The runtime of one persona: its own services, above the runtimes of the agents in its domains."""

from __future__ import annotations

from dependency_injector import containers, providers
from returns.maybe import Maybe, Nothing

from reactive_agents.adapters.memory.personas import SqlitePersonaStore
from reactive_agents.containers.layers import CoreLayer
from reactive_agents.containers.lifetimes import Lifetimes
from reactive_agents.core.personas import PersonaSettings
from reactive_agents.core.redaction import Redactor
from reactive_agents.persona import Persona, PersonaDomain, PersonaServices
from reactive_agents.ports import PersonaStore, TextComparison


def open_store(path: str, redactor: Redactor, lifetimes: Lifetimes) -> PersonaStore:
    """The store on a memory file, closed with the persona."""
    store = SqlitePersonaStore(path, redactor=redactor)
    lifetimes.add(store.aclose)
    return store


class PersonaContainer(containers.DeclarativeContainer):
    """Provides ``store`` (the file at ``path``), ``comparison``, ``domains``, ``services`` and ``persona``.

    ``core`` is also that of the agents in the domains, so one clock and one event bus serve all.
    """

    settings: providers.Dependency[PersonaSettings] = providers.Dependency(instance_of=PersonaSettings)
    core = providers.Container(CoreLayer)
    path: providers.Dependency[str] = providers.Dependency(instance_of=str)
    store: providers.Provider[PersonaStore] = providers.Singleton(
        open_store, path, core.redactor, core.lifetimes
    )
    comparison: providers.Provider[Maybe[TextComparison]] = providers.Object(Nothing)
    domains: providers.Provider[tuple[PersonaDomain, ...]] = providers.Object(())
    services: providers.Provider[PersonaServices] = providers.Singleton(
        PersonaServices,
        store=store,
        events=core.events,
        clock=core.clock,
        ids=core.ids,
        comparison=comparison,
    )
    persona: providers.Provider[Persona] = providers.Singleton(
        Persona, settings=settings, domains=domains, services=services
    )
