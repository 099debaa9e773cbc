"""Safety, cost, verification and audit. Nothing is provided by default: override what an agent shall have."""

from __future__ import annotations

from dependency_injector import containers, providers
from returns.maybe import Maybe, Nothing

from reactive_agents.ports import (
    Approver,
    AuditLog,
    CostRouter,
    CostTracker,
    Guardrail,
    SpendingGuard,
    Verifier,
)


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
