"""The ports to safety, cost, verification and audit. Every method fails with ``ServiceFailed``."""

from __future__ import annotations

from typing import Protocol

from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.governance import (
    ApprovalDecision,
    ApprovalRequest,
    AuditEntry,
    GuardrailReport,
    GuardrailStage,
    ModelRoute,
    SpendingRecord,
    VerificationReport,
)
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

    def select_model(self, task: Task) -> Effect[ModelRoute, ServiceFailed]:
        """The cheapest model that is up to the task, and why."""
        ...


class CostTracker(Protocol):
    """Keeps the account of what runs spent."""

    def record(self, spending: SpendingRecord) -> Effect[None, ServiceFailed]:
        """Add what one run spent; called once a run, also when the run failed."""
        ...


class Verifier(Protocol):
    """Checks whether an answer is supported by what the run saw."""

    def verify(self, task: Task, result: ReasoningResult) -> Effect[VerificationReport, ServiceFailed]:
        """The verdict, with a confidence of 0 to 1."""
        ...


class AuditLog(Protocol):
    """An append-only record of who did what."""

    def append(self, entry: AuditEntry) -> Effect[None, ServiceFailed]:
        """Add an entry; durable when the effect ends."""
        ...
