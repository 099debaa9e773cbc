"""The language model."""

from __future__ import annotations

from typing import cast

from dependency_injector import containers, providers
from returns.maybe import Maybe, Nothing, Some

from reactive_agents.containers.lifetimes import Lifetimes
from reactive_agents.core.config import ModelConfig
from reactive_agents.ports import LLM, Clock, PriceList, TokenCounter


def build_llm(config: ModelConfig, clock: Clock, lifetimes: Lifetimes) -> LLM:
    """The offline model for ``offline``, else litellm, which is imported when it is first asked."""
    provider = config.provider or config.model.partition("/")[0]
    if provider == "offline":
        from reactive_agents.adapters.llm.offline import OfflineLLM

        return OfflineLLM()
    from reactive_agents.adapters.llm.litellm_adapter import LiteLLM

    llm = LiteLLM(config, clock=clock)
    lifetimes.add(llm.aclose)
    return llm


def find_counter(llm: LLM) -> Maybe[TokenCounter]:
    """The model service itself, when it can also count tokens."""
    counts = callable(getattr(llm, "count", None)) and callable(getattr(llm, "window", None))
    return Some(cast(TokenCounter, llm)) if counts else Nothing


def find_prices(llm: LLM) -> Maybe[PriceList]:
    """The model service itself, when it knows what its models cost."""
    return Some(cast(PriceList, llm)) if callable(getattr(llm, "price", None)) else Nothing


class ModelLayer(containers.DeclarativeContainer):
    """Provides ``llm``, ``counter`` and ``prices``."""

    config: providers.Dependency[ModelConfig] = providers.Dependency(instance_of=ModelConfig)
    core: providers.DependenciesContainer = providers.DependenciesContainer()
    llm: providers.Provider[LLM] = providers.Singleton(
        build_llm, config=config, clock=core.clock, lifetimes=core.lifetimes
    )
    counter: providers.Provider[Maybe[TokenCounter]] = providers.Singleton(find_counter, llm)
    prices: providers.Provider[Maybe[PriceList]] = providers.Singleton(find_prices, llm)
