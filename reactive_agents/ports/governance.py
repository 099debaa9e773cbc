"""The ports to safety, cost, verification and audit. Every method fails with ``ServiceFailed``.

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
from reactive_agents.core.reasoning import ReasoningResult
from reactive_agents.core.tasks import Task
from reactive_agents.effects import Effect
from reactive_agents.ports.llm import LLM


class Approver(Protocol):
    """Decides on tool calls that need approval."""

    def decide(self, request: ApprovalRequest) -> Effect[ApprovalDecision, ServiceFailed]:
        """The decision, when somebody has made it; a denial when nobody can or does in time.

        A failure counts as a denial.
        """
        ...


class Guardrail(Protocol):
    """Judges texts that come into a run or leave it."""

    def check(
        self, text: str, stage: GuardrailStage, llm: LLM | None = None
    ) -> Effect[GuardrailReport, ServiceFailed]:
        """Whether the text may pass. A guardrail that fails blocks the run.

        Args:
            llm: asks a model on the account of the run.
        """
        ...


class CostRouter(Protocol):
    """Chooses the model for a task."""

    def select_model(self, task: Task, needs: RouteNeeds) -> Effect[ModelRoute, ServiceFailed]:
        """The cheapest model that is up to the task, and why.

        Args:
            needs: what the run asks of its model besides.
        """
        ...


class SpendingGuard(Protocol):
    """Keeps budgets: money is reserved before a model is asked, and settled when the cost is known.

    Whoever shares a budget spends no more than there is. Days and months are those of UTC.
    """

    def reserve(self, run_id: RunId, amount_usd: float) -> Effect[Reservation, BudgetErrors]:
        """Set money aside. Fails with ``BudgetExceeded`` when a limit does not allow it.

        Args:
            amount_usd: US dollars, 0 or more: the most that is about to be spent.
        """
        ...

    def settle(
        self, reservation: Reservation, actual_usd: float
    ) -> Effect[tuple[BudgetUse, ...], ServiceFailed]:
        """Put what was really spent in the place of what was reserved; a second time changes nothing.

        Gives how much of each limit is used now.

        Args:
            actual_usd: US dollars, 0 or more; what exceeds the reservation counts too, since it is spent.
        """
        ...

    def spend(self, run_id: RunId, amount_usd: float) -> Effect[tuple[BudgetUse, ...], ServiceFailed]:
        """Enter what is spent already, whatever the limits; gives what :meth:`settle` does."""
        ...


class CostTracker(Protocol):
    """Keeps the account of what runs spent."""

    def record(self, spending: SpendingRecord) -> Effect[None, ServiceFailed]:
        """Add what one run spent by each model; called once a run, also when the run failed.

        When a cancellation broke the call off it is called again: a run that is recorded already must stay as
        it is.
        """
        ...


class Verifier(Protocol):
    """Checks whether an answer is supported by what the run saw."""

    def verify(
        self, task: Task, result: ReasoningResult, *, llm: LLM, model: str | None = None
    ) -> Effect[VerificationReport, ServiceFailed]:
        """The verdict, with a confidence of 0 to 1.

        Args:
            llm: what the run asks its models by; calls of the verifier are accounted for as the run's own.
            model: the model of the run; ``None`` for the one that answers requests which name none.
        """
        ...


class AuditLog(Protocol):
    """An append-only record of who did what."""

    def append(self, entry: AuditEntry) -> Effect[None, ServiceFailed]:
        """Add an entry; durable when the effect ends."""
        ...
