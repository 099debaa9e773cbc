"""Safety, cost, verification and audit with fixed answers, and a record of what they were asked."""

from __future__ import annotations

import re
from collections.abc import Collection

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.governance import (
    ApprovalDecision,
    ApprovalRequest,
    AuditEntry,
    GuardrailReport,
    GuardrailStage,
    ModelRoute,
    RouteNeeds,
    SpendingRecord,
    VerificationReport,
)
from reactive_agents.core.reasoning import ReasoningResult
from reactive_agents.core.tasks import Task
from reactive_agents.effects import effect
from reactive_agents.ports import LLM

_ALLOWED = GuardrailReport(allowed=True)


class FixedApprover:
    """Implements ``Approver``: always the same decision.

    Args:
        reason: why a call is denied.
        fails_with: every decision fails with it, which denies the call.

    Attributes:
        requests: the calls that were asked about.
    """

    def __init__(
        self, approved: bool = True, reason: str = "", *, fails_with: ServiceFailed | None = None
    ) -> None:
        self.fails_with = fails_with
        self.requests: list[ApprovalRequest] = []
        self._decision = ApprovalDecision(approved, reason)

    @effect
    async def decide(self, request: ApprovalRequest) -> Result[ApprovalDecision, ServiceFailed]:
        """The decision."""
        self.requests.append(request)
        return Success(self._decision) if self.fails_with is None else Failure(self.fails_with)


class AllowAll:
    """Implements ``Guardrail``: every text may pass.

    Args:
        fails_with: every check fails with it, which blocks a run.

    Attributes:
        checked: the texts that came, each with its stage.
    """

    def __init__(self, *, fails_with: ServiceFailed | None = None) -> None:
        self.fails_with = fails_with
        self.checked: list[tuple[str, GuardrailStage]] = []

    @effect
    async def check(
        self, text: str, stage: GuardrailStage, llm: LLM | None = None
    ) -> Result[GuardrailReport, ServiceFailed]:
        """Allowed."""
        self.checked.append((text, stage))
        return Success(_ALLOWED) if self.fails_with is None else Failure(self.fails_with)


class BlockWords:
    """Implements ``Guardrail``: a text with one of the words may not pass.

    Args:
        words: each blocked as a whole word, in capitals or not.
        stages: where they are looked for; ``None`` for everywhere.
        fails_with: every check fails with it, which blocks a run.

    Attributes:
        checked: the texts that came, each with its stage.
    """

    def __init__(
        self,
        *words: str,
        stages: Collection[GuardrailStage] | None = None,
        fails_with: ServiceFailed | None = None,
    ) -> None:
        self.fails_with = fails_with
        self.checked: list[tuple[str, GuardrailStage]] = []
        self._stages = stages
        self._words = [(word, re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.I)) for word in words]

    @effect
    async def check(
        self, text: str, stage: GuardrailStage, llm: LLM | None = None
    ) -> Result[GuardrailReport, ServiceFailed]:
        """Blocked as ``blocked-word`` with the first word that is found."""
        self.checked.append((text, stage))
        if self.fails_with is not None:
            return Failure(self.fails_with)
        if self._stages is None or stage in self._stages:
            for word, pattern in self._words:
                if pattern.search(text):
                    return Success(GuardrailReport(False, "blocked-word", f"The text contains {word!r}."))
        return Success(_ALLOWED)


class FixedRouter:
    """Implements ``CostRouter``: always the same model.

    Args:
        fails_with: every selection fails with it.

    Attributes:
        routed: the tasks that came.
    """

    def __init__(self, model: str, *, reason: str = "fixed", fails_with: ServiceFailed | None = None) -> None:
        self.fails_with = fails_with
        self.routed: list[Task] = []
        self._route = ModelRoute(model, reason)

    @effect
    async def select_model(self, task: Task, needs: RouteNeeds) -> Result[ModelRoute, ServiceFailed]:
        """The model."""
        self.routed.append(task)
        return Success(self._route) if self.fails_with is None else Failure(self.fails_with)


class RecordingCostTracker:
    """Implements ``CostTracker`` with a list.

    Args:
        fails_with: every method fails with it, and nothing is recorded.

    Attributes:
        records: what each run spent.
    """

    def __init__(self, *, fails_with: ServiceFailed | None = None) -> None:
        self.fails_with = fails_with
        self.records: list[SpendingRecord] = []

    @property
    def total_cost_usd(self) -> float:
        """What all runs spent together, in US dollars."""
        return sum(record.cost_usd for record in self.records)

    @effect
    async def record(self, spending: SpendingRecord) -> Result[None, ServiceFailed]:
        """Add what one run spent."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self.records.append(spending)
        return Success(None)


class FixedVerifier:
    """Implements ``Verifier``: always the same confidence.

    Args:
        confidence: 0 to 1.
        threshold: 0 to 1; the result is verified from there on.
        findings: what is not supported, one sentence each.
        fails_with: every verification fails with it.

    Attributes:
        verified: the results that came, each with its task.
    """

    def __init__(
        self,
        confidence: float,
        *,
        threshold: float = 0.7,
        findings: tuple[str, ...] = (),
        fails_with: ServiceFailed | None = None,
    ) -> None:
        self.fails_with = fails_with
        self.verified: list[tuple[Task, ReasoningResult]] = []
        self._report = VerificationReport(confidence, confidence >= threshold, findings)

    @effect
    async def verify(
        self, task: Task, result: ReasoningResult, *, llm: LLM, model: str | None = None
    ) -> Result[VerificationReport, ServiceFailed]:
        """The report."""
        self.verified.append((task, result))
        return Success(self._report) if self.fails_with is None else Failure(self.fails_with)


class RecordingAuditLog:
    """Implements ``AuditLog`` with a list.

    Args:
        fails_with: every method fails with it, and nothing is recorded.

    Attributes:
        entries: the lines of the log, in order.
    """

    def __init__(self, *, fails_with: ServiceFailed | None = None) -> None:
        self.fails_with = fails_with
        self.entries: list[AuditEntry] = []

    @effect
    async def append(self, entry: AuditEntry) -> Result[None, ServiceFailed]:
        """Add an entry."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self.entries.append(entry)
        return Success(None)
