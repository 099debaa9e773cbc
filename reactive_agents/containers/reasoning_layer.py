"""Strategies and the service that runs them."""

from __future__ import annotations

from dependency_injector import containers, providers
from returns.maybe import Maybe, Nothing, Some

from reactive_agents.core.config import ReactiveAgentsConfig
from reactive_agents.ports import EffectivenessTracker
from reactive_agents.reasoning import ReasoningController, ReasoningService, StrategyRegistry


def build_reasoning(
    config: ReactiveAgentsConfig,
    registry: StrategyRegistry,
    controller: Maybe[ReasoningController],
    effectiveness: Maybe[EffectivenessTracker],
) -> Maybe[ReasoningService]:
    """The reasoning service, or ``Nothing`` when reasoning is off."""
    if config.reasoning is None:
        return Nothing
    service = ReasoningService(registry, config.reasoning, controller=controller, effectiveness=effectiveness)
    return Some(service)


class ReasoningLayer(containers.DeclarativeContainer):
    """Provides ``registry`` and ``reasoning``; ``controller`` is ``Nothing`` until it is overridden."""

    config: providers.Dependency[ReactiveAgentsConfig] = providers.Dependency(
        instance_of=ReactiveAgentsConfig
    )
    memory: providers.DependenciesContainer = providers.DependenciesContainer()
    controller: providers.Provider[Maybe[ReasoningController]] = providers.Object(Nothing)
    registry: providers.Provider[StrategyRegistry] = providers.Singleton(StrategyRegistry)
    reasoning: providers.Provider[Maybe[ReasoningService]] = providers.Singleton(
        build_reasoning,
        config=config,
        registry=registry,
        controller=controller,
        effectiveness=memory.effectiveness,
    )
