"""The container of a persona, above the containers of its domains' agents."""

from __future__ import annotations

from dependency_injector import providers
from dependency_injector.providers import Object, Provider
from returns.maybe import Maybe

from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.adapters.system import checked_redactor
from reactive_agents.containers import composition
from reactive_agents.containers.composition import EMPTY, Lifetimes, OptionalService, Singleton
from reactive_agents.containers.layers import CoreLayer
from reactive_agents.core.personas import PersonaSettings
from reactive_agents.core.redaction import Redactor
from reactive_agents.persona import Persona, PersonaDomain, PersonaServices
from reactive_agents.ports import Clock, PersonaStore, TextComparison


def open_store(path: str, redactor: Redactor, clock: Clock, lifetimes: Lifetimes) -> PersonaStore:
    """Return the store on a memory file, closed with the persona."""
    return lifetimes.keep(SqlitePersonaStore(path, redactor=checked_redactor(redactor), clock=clock))


class PersonaContainer(composition.Layer):
    """Provides ``store``, ``comparison``, ``domains``, ``services`` and ``persona``.

    Args:
        core: its clock, ids and events are also those of the agents in the domains.
        given: base providers, in the place of the default ones.
    """

    def __init__(
        self, settings: PersonaSettings, path: str, core: CoreLayer, given: composition.Providers = EMPTY
    ) -> None:
        super().__init__()
        self.settings: Provider[PersonaSettings] = Object(settings)
        self.path: Provider[str] = Object(path)
        self.core = providers.Container(CoreLayer, container=core)
        self.store: Provider[PersonaStore] = given.get("store") or Singleton(
            open_store, self.path, core.redactor, core.clock, core.lifetimes
        )
        self.comparison: Provider[Maybe[TextComparison]] = OptionalService(given.get("comparison"))
        self.domains: Provider[tuple[PersonaDomain, ...]] = given.get("domains") or Object(())
        self.services: Provider[PersonaServices] = Singleton(
            PersonaServices,
            store=self.store,
            events=core.events,
            clock=core.clock,
            ids=core.ids,
            comparison=self.comparison,
        )
        self.persona: Provider[Persona] = Singleton(
            Persona, settings=self.settings, domains=self.domains, services=self.services
        )
