"""Strategies and the service that runs them."""

from __future__ import annotations

from dependency_injector import containers, providers
from returns.maybe import Maybe, Nothing, Some

from reactive_agents.core.config import ReactiveAgentsConfig
from reactive_agents.reasoning import ReasoningService, StrategyRegistry


def build_reasoning(config: ReactiveAgentsConfig, registry: StrategyRegistry) -> Maybe[ReasoningService]:
    """The reasoning service, or ``Nothing`` when reasoning is off."""
    return Nothing if config.reasoning is None else Some(ReasoningService(registry, config.reasoning))


class ReasoningLayer(containers.DeclarativeContainer):
    """Provides ``registry`` and ``reasoning``."""

    config: providers.Dependency[ReactiveAgentsConfig] = providers.Dependency(
        instance_of=ReactiveAgentsConfig
    )
    registry: providers.Provider[StrategyRegistry] = providers.Singleton(StrategyRegistry)
    reasoning: providers.Provider[Maybe[ReasoningService]] = providers.Singleton(
        build_reasoning, config=config, registry=registry
    )
