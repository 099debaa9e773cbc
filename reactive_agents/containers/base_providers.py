"""Base providers of the layers from a configuration: memory, records, governance."""

from __future__ import annotations

import os
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dependency_injector.providers import Callable, Object, Provider
from returns.result import Failure

from reactive_agents.adapters.system import checked_redactor
from reactive_agents.containers.composition import Lifetimes, Singleton
from reactive_agents.containers.layers import CoreLayer, ToolSettings, open_sessions
from reactive_agents.core.config import (
    IN_PROCESS,
    AuditConfig,
    CostConfig,
    DurabilityConfig,
    MemoryConfig,
    MemoryTier,
    ModelConfig,
    SessionsConfig,
    VerificationConfig,
)
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.redaction import Redactor
from reactive_agents.ports import Clock, Embedder, Guardrail, IdSource

if TYPE_CHECKING:  # each is imported when its service is switched on
    from reactive_agents.adapters.dbos_queue import DbosQueue
    from reactive_agents.adapters.encryption import RecordKey
    from reactive_agents.adapters.governance.audit_log import SqliteAuditLog
    from reactive_agents.adapters.governance.budget import SqliteBudget
    from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
    from reactive_agents.adapters.governance.evidence_verifier import EvidenceVerifier
    from reactive_agents.adapters.memory.service import MemoryServices
    from reactive_agents.adapters.run_record import SqliteRunRecord


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
    record = Singleton(_open_record, config.path, Object(key), core.clock, core.lifetimes)
    if config.engine == "record":
        return {"record": record}
    return {"record": record, "queues": Singleton(_open_queues, config.path, core.clock, core.lifetimes)}


def _open_record(path: str, key: RecordKey | None, clock: Clock, lifetimes: Lifetimes) -> SqliteRunRecord:
    """Return the record of runs; without a key, that of the environment encrypts it."""
    from reactive_agents.adapters.encryption import KEY_VARIABLE
    from reactive_agents.adapters.run_record import SqliteRunRecord

    key = os.environ.get(KEY_VARIABLE) if key is None else key
    return lifetimes.keep(SqliteRunRecord(path, clock=clock, key=key))


def _open_queues(path: str, clock: Clock, lifetimes: Lifetimes) -> DbosQueue:
    from reactive_agents.adapters.dbos_queue import DbosQueue

    return lifetimes.keep(DbosQueue(path, clock=clock))


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
    from reactive_agents.adapters.memory.service import open_memory

    embedder = open_embedder(config.embedding_model, embedder, beside=model, clock=clock, lifetimes=lifetimes)
    redactor = checked_redactor(redactor)
    return lifetimes.keep(open_memory(config, clock=clock, ids=ids, embedder=embedder, redactor=redactor))


def governance_services(
    core: CoreLayer,
    tool_settings: Provider[ToolSettings],
    *,
    guardrail: Guardrail | None = None,
    verification: VerificationConfig | None = None,
    cost: CostConfig | None = None,
    audit: AuditConfig | None = None,
    signing_key: bytes | None = None,
    audit_required: bool = False,
) -> dict[str, Provider[Any]]:
    """Return the base providers of the governance layer for the enabled services.

    Args:
        cost: switches cost tracking on; its limits add a budget, its tiers add model routing.
        signing_key: private Ed25519 key of 32 bytes, which signs the audit log.
        audit_required: whether a run begins only after its start is on the disk.
    """
    services: dict[str, Provider[Any]] = {}
    if guardrail is not None:
        services["guardrail"] = Object(guardrail)
    if verification is not None:
        services["verifier"] = Singleton(_make_verifier, verification, tool_settings)
    if cost is not None:
        services["cost_tracker"] = Singleton(_open_cost_tracker, cost, core.clock, core.lifetimes)
        if cost.has_limits:
            services["budget"] = Singleton(_open_budget, cost, core.clock, core.lifetimes)
        if cost.tiers:
            from reactive_agents.adapters.governance.model_router import TierRouter

            services["cost_router"] = Singleton(TierRouter, cost.tiers)
    if audit is not None:
        services["audit"] = Singleton(
            _open_audit_log,
            audit,
            signing_key,
            core.clock,
            core.redactor,
            core.lifetimes,
            durable_starts=audit_required,
        )
    return services


def wrong_signing_key(key: bytes | None) -> InvalidConfig | None:
    """Return the problem of a key that cannot sign."""
    if key is None:
        return None
    from reactive_agents.adapters.governance.audit_log import signer

    usable = signer(key)
    if not isinstance(usable, Failure):
        return None
    expected = f"32 bytes of an Ed25519 key, and the extra 'sign' ({usable.failure().message})"
    return InvalidConfig("audit.signing_key", "a key that cannot be used", expected)


def wrong_deliverable(paths: Sequence[str], workspace: Path) -> InvalidConfig | None:
    """Return the problem of the first path outside of the workspace."""
    if not paths:
        return None
    from reactive_agents.adapters.tools.workspace import resolve_inside

    for path in paths:
        place = resolve_inside(workspace, path.replace("\\", "/"))
        reason = ""
        if isinstance(place, Failure):
            reason = place.failure().reason.rstrip(".")
        elif not path.strip() or place.unwrap() == workspace.resolve():
            reason = "it names no file"
        if reason:
            expected = f"paths of files inside the workspace ({reason})"
            return InvalidConfig("verification.deliverables", repr(path), expected)
    return None


def _make_verifier(config: VerificationConfig, tools: ToolSettings) -> EvidenceVerifier:
    from reactive_agents.adapters.governance.evidence_verifier import EvidenceVerifier

    return EvidenceVerifier(config, tools.workspace)


def _open_cost_tracker(config: CostConfig, clock: Clock, lifetimes: Lifetimes) -> SqliteCostTracker:
    from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker

    return lifetimes.keep(SqliteCostTracker(config.path, clock=clock))


def _open_budget(config: CostConfig, clock: Clock, lifetimes: Lifetimes) -> SqliteBudget:
    from reactive_agents.adapters.governance.budget import SqliteBudget

    budget = SqliteBudget(
        config.path,
        run_usd=config.run_usd,
        daily_usd=config.daily_usd,
        monthly_usd=config.monthly_usd,
        user_daily_usd=config.user_daily_usd,
        user_monthly_usd=config.user_monthly_usd,
        warn_at=config.warn_at,
        clock=clock,
    )
    return lifetimes.keep(budget)


def _open_audit_log(
    config: AuditConfig,
    signing_key: bytes | None,
    clock: Clock,
    redactor: Redactor,
    lifetimes: Lifetimes,
    *,
    durable_starts: bool,
) -> SqliteAuditLog:
    from reactive_agents.adapters.governance.audit_log import SqliteAuditLog

    log = SqliteAuditLog(
        config.path,
        clock=clock,
        redactor=checked_redactor(redactor),
        signing_key=signing_key,
        durable_starts=durable_starts,
    )
    return lifetimes.keep(log)
