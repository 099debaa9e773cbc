"""Safety, cost, verification and audit. Nothing is provided by default: override what an agent shall have."""

from __future__ import annotations

from dependency_injector import containers, providers
from returns.maybe import Maybe, Nothing

from reactive_agents.ports import Approver, AuditLog, CostRouter, CostTracker, Guardrail, Verifier


class GovernanceLayer(containers.DeclarativeContainer):
    """Provides ``approver`` and the services of the optional phases, each ``Nothing`` until overridden."""

    approver: providers.Provider[Maybe[Approver]] = providers.Object(Nothing)
    guardrail: providers.Provider[Maybe[Guardrail]] = providers.Object(Nothing)
    cost_router: providers.Provider[Maybe[CostRouter]] = providers.Object(Nothing)
    cost_tracker: providers.Provider[Maybe[CostTracker]] = providers.Object(Nothing)
    verifier: providers.Provider[Maybe[Verifier]] = providers.Object(Nothing)
    audit: providers.Provider[Maybe[AuditLog]] = providers.Object(Nothing)
