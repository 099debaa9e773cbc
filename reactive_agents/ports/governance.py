"""Ports of safety, cost, verification and audit.

Methods fail with ``ServiceFailed``.

Only a reservation can also fail with ``BudgetExceeded``.
"""

from __future__ import annotations

from typing import Protocol

from reactive_agents.core.errors import BudgetErrors, ServiceFailed
from reactive_agents.core.governance import (
    ApprovalDecision,
    ApprovalRequest,
    AuditEntry,
    BudgetUse,
    GuardrailReport,
    GuardrailStage,
    ModelRoute,
    Reservation,
    RouteNeeds,
    SpendingRecord,
    VerificationReport,
)
from reactive_agents.core.ids import RunId
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.tasks import Task
from reactive_agents.effects import Effect
from reactive_agents.ports.llm import LLM


class Approver(Protocol):
    """Decides on tool calls that need approval."""

    def decide(self, request: ApprovalRequest) -> Effect[ApprovalDecision, ServiceFailed]:
        """Return the decision of a person or policy; a denial when none comes in time.

        A failure counts as a denial.
        """
        ...


class Guardrail(Protocol):
    """Checks texts that enter or leave a run."""

    def check(
        self, text: str, stage: GuardrailStage, llm: LLM | None = None
    ) -> Effect[GuardrailReport, ServiceFailed]:
        """Check a text. A guardrail that fails blocks the run.

        Args:
            llm: asks a model on the account of the run.
        """
        ...


class CostRouter(Protocol):
    """Chooses the model for a task."""

    def select_model(self, task: Task, needs: RouteNeeds) -> Effect[ModelRoute, ServiceFailed]:
        """Return the cheapest capable model, with the reason.

        Args:
            needs: what the run asks of its model besides.
        """
        ...


class SpendingGuard(Protocol):
    """Enforces budgets: an amount is reserved before a model call, and settled after.

    All processes that share a budget together stay within it. Days and months are in UTC.
    """

    def reserve(self, run_id: RunId, amount_usd: float) -> Effect[Reservation, BudgetErrors]:
        """Reserve an amount. Fails with ``BudgetExceeded`` when a limit does not allow it.

        Args:
            amount_usd: US dollars, 0 or more: the most that is about to be spent.
        """
        ...

    def settle(
        self, reservation: Reservation, actual_usd: float
    ) -> Effect[tuple[BudgetUse, ...], ServiceFailed]:
        """Replace a reservation by the actual amount; a second time changes nothing.

        Returns the used part of each limit.

        Args:
            actual_usd: US dollars, 0 or more; it may exceed the reservation.
        """
        ...

    def spend(self, run_id: RunId, amount_usd: float) -> Effect[tuple[BudgetUse, ...], ServiceFailed]:
        """Enter an amount that is already spent, regardless of limits.

        Returns the used part of each limit."""
        ...


class CostTracker(Protocol):
    """Records the usage and cost of runs."""

    def record(self, spending: SpendingRecord) -> Effect[None, ServiceFailed]:
        """Record the usage of a run by model; called once a run, also when it failed.

        It is called again when a cancellation interrupted the call: a recorded run must stay unchanged.
        """
        ...


class Verifier(Protocol):
    """Checks whether an answer is supported by the evidence of the run."""

    def verify(
        self, task: Task, result: ReasoningResult, *, llm: LLM, model: str | None = None
    ) -> Effect[VerificationReport, ServiceFailed]:
        """Return the report, with a confidence from 0 to 1.

        Args:
            llm: what the run asks its models by; calls of the verifier are accounted for as the run's own.
            model: the model of the run; ``None`` for the one that answers requests which name none.
        """
        ...


class AuditLog(Protocol):
    """An append-only log of actions."""

    def append(self, entry: AuditEntry) -> Effect[None, ServiceFailed]:
        """Add an entry; durable when the effect ends."""
        ...
