"""What outlives a run. Nothing is provided by default: override what an agent shall have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dependency_injector import containers, providers
from returns.maybe import Maybe, Nothing, Some

from reactive_agents.containers.embedding import open_embedder
from reactive_agents.containers.lifetimes import Lifetimes
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.service_config import MemoryConfig
from reactive_agents.ports import (
    Clock,
    EffectivenessTracker,
    Embedder,
    IdSource,
    MemoryService,
    PlanStore,
)

if TYPE_CHECKING:
    from reactive_agents.adapters.memory.opening import MemoryServices  # imported when memory is switched on
    from reactive_agents.containers.runtime import RuntimeContainer


class MemoryLayer(containers.DeclarativeContainer):
    """Provides ``memory``, ``plan_store`` and ``effectiveness``, each ``Nothing`` until it is overridden."""

    memory: providers.Provider[Maybe[MemoryService]] = providers.Object(Nothing)
    plan_store: providers.Provider[Maybe[PlanStore]] = providers.Object(Nothing)
    effectiveness: providers.Provider[Maybe[EffectivenessTracker]] = providers.Object(Nothing)


def provide_memory(
    container: RuntimeContainer,
    config: MemoryConfig,
    *,
    embedder: Embedder | None,
) -> None:
    """Memory, plans and the record of strategies in one file."""
    from reactive_agents.adapters.memory.opening import open_memory

    def made(
        clock: Clock, ids: IdSource, model: ModelConfig, redactor: Redactor, lifetimes: Lifetimes
    ) -> MemoryServices:
        services = open_memory(
            config.path,
            clock=clock,
            ids=ids,
            token_budget=config.token_budget,
            embedder=open_embedder(
                config.embedding_model, embedder, beside=model, clock=clock, lifetimes=lifetimes
            ),
            extraction=config.extraction,
            redactor=redactor,
        )
        lifetimes.add(services.aclose)
        return services

    def memory(services: MemoryServices) -> Maybe[MemoryService]:
        return Some(services.memory)

    def plans(services: MemoryServices) -> Maybe[PlanStore]:
        return Some(services.plans)

    def effectiveness(services: MemoryServices) -> Maybe[EffectivenessTracker]:
        return Some(services.effectiveness)

    core, layer = container.core, container.memory
    services = providers.Singleton(
        made,
        clock=core.clock,
        ids=core.ids,
        model=container.model_config,
        redactor=core.redactor,
        lifetimes=core.lifetimes,
    )
    layer.memory.override(providers.Singleton(memory, services))
    layer.plan_store.override(providers.Singleton(plans, services))
    layer.effectiveness.override(providers.Singleton(effectiveness, services))
