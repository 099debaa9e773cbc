"""Safety, cost, verification and audit. Nothing is provided by default: override what an agent shall have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dependency_injector import containers, providers
from returns.maybe import Maybe, Nothing, Some
from returns.result import Failure, Result, Success

from reactive_agents.containers.lifetimes import Lifetimes
from reactive_agents.core.config import AuditConfig, CostConfig, GuardrailsConfig, VerificationConfig
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.redaction import Redactor
from reactive_agents.ports import (
    Approver,
    AuditLog,
    Clock,
    CostRouter,
    CostTracker,
    Guardrail,
    SpendingGuard,
    Verifier,
)

if TYPE_CHECKING:
    from reactive_agents.adapters.governance.guardrails.checks import Check
    from reactive_agents.containers.layers import ToolSettings
    from reactive_agents.containers.runtime import RuntimeContainer


class GovernanceLayer(containers.DeclarativeContainer):
    """Provides ``approver``, ``budget`` and the services of the optional phases.

    Each is ``Nothing`` until it is overridden.
    """

    approver: providers.Provider[Maybe[Approver]] = providers.Object(Nothing)
    guardrail: providers.Provider[Maybe[Guardrail]] = providers.Object(Nothing)
    cost_router: providers.Provider[Maybe[CostRouter]] = providers.Object(Nothing)
    cost_tracker: providers.Provider[Maybe[CostTracker]] = providers.Object(Nothing)
    budget: providers.Provider[Maybe[SpendingGuard]] = providers.Object(Nothing)
    verifier: providers.Provider[Maybe[Verifier]] = providers.Object(Nothing)
    audit: providers.Provider[Maybe[AuditLog]] = providers.Object(Nothing)


# --- Services that a configuration switches on: each a function that puts the service into a container ---


def provide_audit(
    container: RuntimeContainer,
    config: AuditConfig,
    *,
    signing_key: bytes | None,
) -> Result[None, InvalidConfig]:
    """An audit log in a file. Fails with ``InvalidConfig`` for a key that nothing can be signed with."""
    from reactive_agents.adapters.governance.audit_chain import signer
    from reactive_agents.adapters.governance.audit_log import SqliteAuditLog

    usable = Success(None) if signing_key is None else signer(signing_key)
    if isinstance(usable, Failure):
        expected = f"32 bytes of an Ed25519 key, and the extra to sign ({usable.failure().message})"
        return Failure(InvalidConfig("audit.signing_key", "a key that cannot be used", expected))

    def made(clock: Clock, redactor: Redactor, lifetimes: Lifetimes) -> Maybe[AuditLog]:
        log = SqliteAuditLog(config.path, clock=clock, redactor=redactor, signing_key=signing_key)
        lifetimes.add(log.aclose)
        return Some(log)

    core = container.core
    container.governance.audit.override(
        providers.Singleton(made, clock=core.clock, redactor=core.redactor, lifetimes=core.lifetimes)
    )
    return Success(None)


def provide_guardrails(
    container: RuntimeContainer, config: GuardrailsConfig, functions: Sequence[Check]
) -> Result[None, InvalidConfig]:
    """Checks of what a run is asked, what its tools give, and what it answers.

    Fails with ``InvalidConfig`` as ``build_guardrail`` does.
    """
    from reactive_agents.adapters.governance.guardrails.rule_guardrail import build_guardrail

    built = build_guardrail(config, functions)
    if isinstance(built, Failure):
        return Failure(built.failure())
    guardrail: Maybe[Guardrail] = Some(built.unwrap())
    container.governance.guardrail.override(providers.Object(guardrail))
    return Success(None)


def provide_verification(
    container: RuntimeContainer, config: VerificationConfig
) -> Result[None, InvalidConfig]:
    """Verification of answers by what the run saw; files are looked for in the agent's workspace.

    Fails with ``InvalidConfig`` for a deliverable that is no file of the workspace, so that no run could
    leave it there.
    """
    from reactive_agents.adapters.governance.evidence_verifier import EvidenceVerifier

    wrong = _wrong_deliverable(config.deliverables, container.tool_settings().workspace)
    if wrong is not None:
        return Failure(wrong)

    def made(settings: ToolSettings) -> Maybe[Verifier]:
        return Some(
            EvidenceVerifier(
                config.threshold,
                workspace=settings.workspace,
                judge_model=config.judge_model,
                self_consistency=config.self_consistency,
                deliverables=config.deliverables,
            )
        )

    container.governance.verifier.override(providers.Singleton(made, container.tool_settings))
    return Success(None)


def _wrong_deliverable(paths: Sequence[str], workspace: Path) -> InvalidConfig | None:
    """What keeps the first that is none from being a file of the workspace, by the rule of the file tools."""
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


def provide_cost(container: RuntimeContainer, config: CostConfig) -> None:
    """Usage tracking in a file; with limits also budgets, with tiers also model routing."""
    from reactive_agents.adapters.governance.budget import SqliteBudget
    from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
    from reactive_agents.adapters.governance.model_router import TierRouter

    def made(clock: Clock, lifetimes: Lifetimes) -> Maybe[CostTracker]:
        tracker = SqliteCostTracker(config.path, clock=clock)
        lifetimes.add(tracker.aclose)
        return Some(tracker)

    def budget(clock: Clock, lifetimes: Lifetimes) -> Maybe[SpendingGuard]:
        guard = SqliteBudget(
            config.path,
            run_usd=config.run_usd,
            daily_usd=config.daily_usd,
            monthly_usd=config.monthly_usd,
            warn_at=config.warn_at,
            clock=clock,
        )
        lifetimes.add(guard.aclose)
        return Some(guard)

    core = container.core
    container.governance.cost_tracker.override(
        providers.Singleton(made, clock=core.clock, lifetimes=core.lifetimes)
    )
    if config.has_limits:
        container.governance.budget.override(
            providers.Singleton(budget, clock=core.clock, lifetimes=core.lifetimes)
        )
    if config.tiers:
        router: Maybe[CostRouter] = Some(TierRouter(config.tiers))
        container.governance.cost_router.override(providers.Object(router))
