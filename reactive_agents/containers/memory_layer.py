"""What outlives a run. Nothing is provided by default: override what an agent shall have."""

from __future__ import annotations

from dependency_injector import containers, providers
from returns.maybe import Maybe, Nothing

from reactive_agents.ports import EffectivenessTracker, MemoryService, PlanStore


class MemoryLayer(containers.DeclarativeContainer):
    """Provides ``memory``, ``plan_store`` and ``effectiveness``, each ``Nothing`` until it is overridden."""

    memory: providers.Provider[Maybe[MemoryService]] = providers.Object(Nothing)
    plan_store: providers.Provider[Maybe[PlanStore]] = providers.Object(Nothing)
    effectiveness: providers.Provider[Maybe[EffectivenessTracker]] = providers.Object(Nothing)
