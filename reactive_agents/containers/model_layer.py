"""The language model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from dependency_injector import containers, providers

from reactive_agents.core.config import ModelConfig
from reactive_agents.ports import LLM, Clock


@runtime_checkable
class Closeable(Protocol):
    """A service that holds something open."""

    async def aclose(self) -> None:
        """Close it."""
        ...


def build_llm(config: ModelConfig, clock: Clock) -> LLM:
    """The offline model for ``offline``, else litellm, which is imported when it is first asked."""
    provider = config.provider or config.model.partition("/")[0]
    if provider == "offline":
        from reactive_agents.adapters.llm.offline import OfflineLLM

        return OfflineLLM()
    from reactive_agents.adapters.llm.litellm_adapter import LiteLLM

    return LiteLLM(config, clock=clock)


async def keep_open(llm: LLM) -> AsyncIterator[LLM]:
    """Closes the model's connections when the container's resources are shut down."""
    yield llm
    if isinstance(llm, Closeable):
        await llm.aclose()


class ModelLayer(containers.DeclarativeContainer):
    """Provides ``llm``; ``connections`` closes what it opened."""

    config: providers.Dependency[ModelConfig] = providers.Dependency(instance_of=ModelConfig)
    core: providers.DependenciesContainer = providers.DependenciesContainer()
    llm: providers.Provider[LLM] = providers.Singleton(build_llm, config=config, clock=core.clock)
    connections: providers.Resource[LLM] = providers.Resource(keep_open, llm)
