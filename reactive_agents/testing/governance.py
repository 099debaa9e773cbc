"""Fakes of approval, guardrails, routing, cost, verification, audit and budgets."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from returns.result import Failure, Result, Success

from reactive_agents.core import governance
from reactive_agents.core.errors import BudgetErrors, BudgetExceeded, BudgetPeriod, ServiceFailed
from reactive_agents.core.ids import RunId
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.tasks import Task
from reactive_agents.effects import effect
from reactive_agents.ports import LLM
from reactive_agents.testing.core import fake_effect

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


class AllowAll:
    """Implements ``Guardrail``: every text may pass.

    Args:
        fails_with: every check fails with it, which blocks a run.

    Attributes:
        checked: the checked texts, each with its stage.
    """

    def __init__(self, *, fails_with: ServiceFailed | None = None) -> None:
        self.fails_with = fails_with
        self.checked: list[tuple[str, governance.GuardrailStage]] = []

    @effect
    async def check(
        self, text: str, stage: governance.GuardrailStage, llm: LLM | None = None
    ) -> Result[governance.GuardrailReport, ServiceFailed]:
        """Return a report that allows the text."""
        self.checked.append((text, stage))
        return Success(_ALLOWED) if self.fails_with is None else Failure(self.fails_with)


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

    @fake_effect
    async def record(self, spending: governance.SpendingRecord) -> Result[None, ServiceFailed]:
        """Add the usage record of a run."""
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

    @fake_effect
    async def append(self, entry: governance.AuditEntry) -> Result[None, ServiceFailed]:
        """Append an entry."""
        self.entries.append(entry)
        return Success(None)

    def of(self, *actions: str) -> list[governance.AuditEntry]:
        """Return the entries of some actions, such as ``run`` for the ends of runs."""
        return [entry for entry in self.entries if entry.action in actions]


class InMemoryBudget:
    """Implements ``SpendingGuard`` for one process and one day.

    Args:
        run_usd: US dollars that each run may spend; ``None`` for no limit.
        daily_usd: US dollars that all runs may spend in a day; ``None`` for no limit.
        monthly_usd: US dollars that all runs may spend in a month; ``None`` for no limit.
        warn_at: shares of a limit to warn at, above 0 and up to 1.
        fails_with: every method fails with it, so that nothing may be spent.

    Attributes:
        reserved: every reservation that was made, in order.
        settled: US dollars spent, by the id of the reservation.
    """

    def __init__(
        self,
        *,
        run_usd: float | None = None,
        daily_usd: float | None = None,
        monthly_usd: float | None = None,
        warn_at: Collection[float] = (),
        fails_with: ServiceFailed | None = None,
    ) -> None:
        self.fails_with = fails_with
        self.reserved: list[governance.Reservation] = []
        self.settled: dict[int, float] = {}
        limits: Mapping[BudgetPeriod, float | None] = {"run": run_usd, "day": daily_usd, "month": monthly_usd}
        self._limits: dict[BudgetPeriod, float] = {
            period: limit for period, limit in limits.items() if limit is not None
        }
        self._warn_at = tuple(warn_at)
        self._of_run: dict[RunId, float] = {}
        self._of_all = 0.0

    @property
    def spent_usd(self) -> float:
        """Total of all runs, spent or reserved, in US dollars."""
        return self._of_all

    @fake_effect
    async def reserve(self, run_id: RunId, amount_usd: float) -> Result[governance.Reservation, BudgetErrors]:
        """Reserve an amount; fails with ``BudgetExceeded`` beyond a limit."""
        for period, limit in self._limits.items():
            spent = self._spent(period, run_id)
            if spent + amount_usd > limit:
                return Failure(BudgetExceeded(period, limit, spent, amount_usd))
        self._add(run_id, amount_usd)
        reservation = governance.Reservation(len(self.reserved) + 1, run_id, amount_usd)
        self.reserved.append(reservation)
        return Success(reservation)

    @fake_effect
    async def settle(
        self, reservation: governance.Reservation, actual_usd: float
    ) -> Result[tuple[governance.BudgetUse, ...], ServiceFailed]:
        """Replace a reservation by the actual amount."""
        if reservation.id not in self.settled:
            self.settled[reservation.id] = actual_usd
            self._add(reservation.run_id, actual_usd - reservation.amount_usd)
        return Success(self._uses(reservation.run_id))

    @fake_effect
    async def spend(
        self, run_id: RunId, amount_usd: float
    ) -> Result[tuple[governance.BudgetUse, ...], ServiceFailed]:
        """Add an amount that was not reserved."""
        self._add(run_id, amount_usd)
        return Success(self._uses(run_id))

    def _add(self, run_id: RunId, amount_usd: float) -> None:
        self._of_run[run_id] = self._of_run.get(run_id, 0.0) + amount_usd
        self._of_all += amount_usd

    def _spent(self, period: BudgetPeriod, run_id: RunId) -> float:
        return self._of_run.get(run_id, 0.0) if period == "run" else self._of_all

    def _uses(self, run_id: RunId) -> tuple[governance.BudgetUse, ...]:
        uses = []
        for period, limit in self._limits.items():
            spent = self._spent(period, run_id)
            reached = max((share for share in self._warn_at if spent >= share * limit), default=0.0)
            uses.append(governance.BudgetUse(period, limit, spent, reached))
        return tuple(uses)
