"""Fakes of approval, guardrails, routing, cost, verification and audit."""

from __future__ import annotations

import re
from collections.abc import Collection

from returns.result import Failure, Result, Success

from reactive_agents.core import governance
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.tasks import Task
from reactive_agents.effects import effect
from reactive_agents.ports import LLM

_ALLOWED = governance.GuardrailReport(allowed=True)


class FixedApprover:
    """Implements ``Approver``: always the same decision.

    Args:
        reason: why a call is denied.
        fails_with: every decision fails with it, which denies the call.

    Attributes:
        requests: the approval requests so far.
    """

    def __init__(
        self, approved: bool = True, reason: str = "", *, fails_with: ServiceFailed | None = None
    ) -> None:
        self.fails_with = fails_with
        self.requests: list[governance.ApprovalRequest] = []
        self._decision = governance.ApprovalDecision(approved, reason)

    @effect
    async def decide(
        self, request: governance.ApprovalRequest
    ) -> Result[governance.ApprovalDecision, ServiceFailed]:
        """Return the fixed decision."""
        self.requests.append(request)
        return Success(self._decision) if self.fails_with is None else Failure(self.fails_with)


class BlockWords:
    """Implements ``Guardrail``: a text with one of the words may not pass.

    Args:
        words: each blocked as a whole word, in any case.
        stages: the stages that are checked; ``None`` for all.
        fails_with: every check fails with it, which blocks a run.

    Attributes:
        checked: the checked texts, each with its stage.
    """

    def __init__(
        self,
        *words: str,
        stages: Collection[governance.GuardrailStage] | None = None,
        fails_with: ServiceFailed | None = None,
    ) -> None:
        self.fails_with = fails_with
        self.checked: list[tuple[str, governance.GuardrailStage]] = []
        self._stages = stages
        self._words = [(word, re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.I)) for word in words]

    @effect
    async def check(
        self, text: str, stage: governance.GuardrailStage, llm: LLM | None = None
    ) -> Result[governance.GuardrailReport, ServiceFailed]:
        """Return a report that blocks a text with one of the words."""
        self.checked.append((text, stage))
        if self.fails_with is not None:
            return Failure(self.fails_with)
        if self._stages is None or stage in self._stages:
            for word, pattern in self._words:
                if pattern.search(text):
                    return Success(
                        governance.GuardrailReport(False, "blocked-word", f"The text contains {word!r}.")
                    )
        return Success(_ALLOWED)


class AllowAll(BlockWords):
    """Implements ``Guardrail``: every text may pass.

    Args:
        fails_with: every check fails with it, which blocks a run.

    Attributes:
        checked: the checked texts, each with its stage.
    """

    def __init__(self, *, fails_with: ServiceFailed | None = None) -> None:
        super().__init__(fails_with=fails_with)


class FixedRouter:
    """Implements ``CostRouter``: always the same model.

    Attributes:
        routed: the tasks so far.
    """

    def __init__(self, model: str, *, reason: str = "fixed", fails_with: ServiceFailed | None = None) -> None:
        self.fails_with = fails_with
        self.routed: list[Task] = []
        self._route = governance.ModelRoute(model, reason)

    @effect
    async def select_model(
        self, task: Task, needs: governance.RouteNeeds
    ) -> Result[governance.ModelRoute, ServiceFailed]:
        """Return the fixed route."""
        self.routed.append(task)
        return Success(self._route) if self.fails_with is None else Failure(self.fails_with)


class RecordingCostTracker:
    """Implements ``CostTracker`` with a list.

    Args:
        fails_with: every method fails with it, and nothing is recorded.

    Attributes:
        records: the usage record of each run.
    """

    def __init__(self, *, fails_with: ServiceFailed | None = None) -> None:
        self.fails_with = fails_with
        self.records: list[governance.SpendingRecord] = []

    @effect
    async def record(self, spending: governance.SpendingRecord) -> Result[None, ServiceFailed]:
        """Add the usage record of a run."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self.records.append(spending)
        return Success(None)


class FixedVerifier:
    """Implements ``Verifier``: always the same confidence.

    Args:
        confidence: 0 to 1.
        threshold: 0 to 1; the result is verified from there on.
        findings: unsupported statements, one sentence each.
        fails_with: every verification fails with it.

    Attributes:
        verified: the verified results, each with its task.
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
        self._report = governance.VerificationReport(confidence, confidence >= threshold, findings)

    @effect
    async def verify(
        self, task: Task, result: ReasoningResult, *, llm: LLM, model: str | None = None
    ) -> Result[governance.VerificationReport, ServiceFailed]:
        """Return the fixed report."""
        self.verified.append((task, result))
        return Success(self._report) if self.fails_with is None else Failure(self.fails_with)


class RecordingAuditLog:
    """Implements ``AuditLog`` with a list.

    Args:
        fails_with: every method fails with it, and nothing is recorded.

    Attributes:
        entries: the entries of the log, in order.
    """

    def __init__(self, *, fails_with: ServiceFailed | None = None) -> None:
        self.fails_with = fails_with
        self.entries: list[governance.AuditEntry] = []

    @effect
    async def append(self, entry: governance.AuditEntry) -> Result[None, ServiceFailed]:
        """Append an entry."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self.entries.append(entry)
        return Success(None)

    def of(self, *actions: str) -> list[governance.AuditEntry]:
        """Return the entries of some actions, such as ``run`` for the ends of runs."""
        return [entry for entry in self.entries if entry.action in actions]
