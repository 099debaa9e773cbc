"""The language model."""

from __future__ import annotations

from dependency_injector import containers, providers

from reactive_agents.containers.lifetimes import Lifetimes
from reactive_agents.core.config import ModelConfig
from reactive_agents.ports import LLM, Clock


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


class ModelLayer(containers.DeclarativeContainer):
    """Provides ``llm``."""

    config: providers.Dependency[ModelConfig] = providers.Dependency(instance_of=ModelConfig)
    core: providers.DependenciesContainer = providers.DependenciesContainer()
    llm: providers.Provider[LLM] = providers.Singleton(
        build_llm, config=config, clock=core.clock, lifetimes=core.lifetimes
    )
