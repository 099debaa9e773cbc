"""What makes vectors for a memory of tier 2: an object of the user's, or a model by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dependency_injector import containers, providers
from returns.maybe import Maybe, Nothing, Some

from reactive_agents.containers.lifetimes import Lifetimes
from reactive_agents.core.config import MemoryConfig, ModelConfig
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.memory import MemoryTier
from reactive_agents.core.redaction import Redactor
from reactive_agents.ports import Clock, EffectivenessTracker, Embedder, IdSource, MemoryService, PlanStore

if TYPE_CHECKING:
    from reactive_agents.adapters.memory.factory import MemoryServices  # imported when memory is switched on
    from reactive_agents.containers.runtime import RuntimeContainer


def tier_problem(tier: MemoryTier, model: str | None, embedder: Embedder | None) -> InvalidConfig | None:
    """What is wrong with a tier and what there is to make vectors with, by the name of the option."""
    if tier == "2" and model is None and embedder is None:
        expected = "a model such as 'openai/text-embedding-3-small', or an embedder, for tier '2'"
        return InvalidConfig("embedding_model", "none", expected)
    if tier == "1" and (model is not None or embedder is not None):
        return InvalidConfig("tier", "'1'", "'2', since there is something to make vectors with")
    if model is not None and embedder is not None:
        return InvalidConfig("embedding_model", repr(model), "none, since there is an embedder")
    return None


def embedder_problem(embedder: Embedder | None) -> InvalidConfig | None:
    """What keeps an object of the user's from being an embedder."""
    named = all(hasattr(embedder, name) for name in ("embed", "model"))
    if embedder is None or (named and not isinstance(embedder, type)):
        return None
    expected = "an object with embed and model; embedding_model takes a model's name"
    return InvalidConfig("embedder", repr(embedder), expected)


def open_embedder(
    model: str | None, embedder: Embedder | None, *, beside: ModelConfig, clock: Clock, lifetimes: Lifetimes
) -> Embedder | None:
    """The object, or one for the model, closed with the agent; ``None`` without either.

    Args:
        beside: the agent's model, whose key and address serve an embedding model of the same provider.
    """
    if embedder is not None or model is None:
        return embedder
    from reactive_agents.adapters.llm.embedder import LiteLLMEmbedder

    made = LiteLLMEmbedder(model, beside, clock=clock)
    lifetimes.add(made.aclose)
    return made


# --- What outlives a run. Nothing is provided by default: override what an agent shall have ---


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
    from reactive_agents.adapters.memory.factory import open_memory

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
