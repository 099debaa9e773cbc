"""Memory, plans and effectiveness of strategies from a configuration."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from dependency_injector.providers import Callable, Object, Provider

from reactive_agents.adapters.system import checked_redactor
from reactive_agents.containers.composition import Lifetimes, Singleton
from reactive_agents.containers.layers import CoreLayer, open_queues, open_run_record, open_sessions
from reactive_agents.core.config import (
    IN_PROCESS,
    DurabilityConfig,
    MemoryConfig,
    MemoryTier,
    ModelConfig,
    SessionsConfig,
)
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.redaction import Redactor
from reactive_agents.ports import Clock, Embedder, IdSource

if TYPE_CHECKING:
    from reactive_agents.adapters.memory.factory import MemoryServices  # imported when memory is switched on
    from reactive_agents.adapters.run_record import RecordKey


def memory_services(
    core: CoreLayer,
    model_config: Provider[ModelConfig],
    config: MemoryConfig | None,
    *,
    embedder: Embedder | None = None,
) -> dict[str, Provider[Any]]:
    """Return the base providers of the memory layer; none without a configuration."""
    if config is None:
        return {}
    services = Singleton(
        _open_memory, config, embedder, core.clock, core.ids, model_config, core.redactor, core.lifetimes
    )
    return {
        "memory": Callable(attrgetter("memory"), services),
        "plan_store": Callable(attrgetter("plans"), services),
        "effectiveness": Callable(attrgetter("effectiveness"), services),
    }


def sessions_service(core: CoreLayer, config: SessionsConfig) -> dict[str, Provider[Any]]:
    """Return the base provider of sessions in a file; none for those in the process."""
    if config.path == IN_PROCESS:
        return {}
    return {"sessions": Singleton(open_sessions, config.path, core.clock, core.lifetimes)}


def record_service(
    core: CoreLayer, config: DurabilityConfig | None, key: RecordKey | None
) -> dict[str, Provider[Any]]:
    """Return the base provider of the record of runs; none without a configuration."""
    if config is None:
        return {}
    record = Singleton(open_run_record, config.path, Object(key), core.clock, core.lifetimes)
    if config.engine == "record":
        return {"record": record}
    return {"record": record, "queues": Singleton(open_queues, config.path, core.clock, core.lifetimes)}


def tier_problem(tier: MemoryTier, model: str | None, embedder: Embedder | None) -> InvalidConfig | None:
    """Return the problem of a tier and its embedder, named by the option."""
    if tier == "2" and model is None and embedder is None:
        expected = "a model such as 'openai/text-embedding-3-small', or an embedder, for tier '2'"
        return InvalidConfig("embedding_model", "none", expected)
    if tier == "1" and (model is not None or embedder is not None):
        return InvalidConfig("tier", "'1'", "'2', since an embedding model or embedder is given")
    if model is not None and embedder is not None:
        return InvalidConfig("embedding_model", repr(model), "none, since an embedder is given")
    return None


def open_embedder(
    model: str | None, embedder: Embedder | None, *, beside: ModelConfig, clock: Clock, lifetimes: Lifetimes
) -> Embedder | None:
    """Return the embedder, or one for the model; ``None`` without either.

    Args:
        beside: the agent's model, whose key and address serve an embedding model of the same provider.
    """
    if embedder is not None or model is None:
        return embedder
    from reactive_agents.adapters.llm.embedder import LiteLLMEmbedder

    return lifetimes.keep(LiteLLMEmbedder(model, beside, clock=clock))


def _open_memory(
    config: MemoryConfig,
    embedder: Embedder | None,
    clock: Clock,
    ids: IdSource,
    model: ModelConfig,
    redactor: Redactor,
    lifetimes: Lifetimes,
) -> MemoryServices:
    from reactive_agents.adapters.memory.factory import open_memory

    embedder = open_embedder(config.embedding_model, embedder, beside=model, clock=clock, lifetimes=lifetimes)
    redactor = checked_redactor(redactor)
    return lifetimes.keep(open_memory(config, clock=clock, ids=ids, embedder=embedder, redactor=redactor))
