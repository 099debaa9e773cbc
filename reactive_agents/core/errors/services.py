"""What goes wrong with memory and with the other optional services."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen


@frozen
class MemoryUnavailable:
    """The memory cannot be read or written. ``operation``: what was tried."""

    message: str
    operation: str


MemoryErrors: TypeAlias = MemoryUnavailable


@frozen
class ApprovalNotPending:
    """Nobody waits for a decision on that call: it does not exist, or it was decided already."""

    run_id: str
    call_id: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"No approval is pending for call {self.call_id!r} of run {self.run_id!r}."


@frozen
class ServiceFailed:
    """A guardrail, cost, verification or audit service could not do its work."""

    message: str
    service: str
    operation: str


BudgetPeriod: TypeAlias = Literal["day", "month"]


@frozen
class BudgetExceeded:
    """A reservation would take a shared budget past its limit, so nothing was reserved.

    Attributes:
        period: the budget that is too small: that of the day or of the month, both in UTC.
        limit_usd: US dollars that may be spent in the period.
        spent_usd: US dollars that are spent or reserved in it already.
    """

    period: BudgetPeriod
    limit_usd: float
    spent_usd: float

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return (
            f"The budget of the {self.period} is exhausted: "
            f"{self.spent_usd:.6g} of {self.limit_usd:.6g} US dollars are spent or reserved."
        )


BudgetErrors: TypeAlias = BudgetExceeded | ServiceFailed


@frozen
class AuditBroken:
    """An audit log was tampered with, or lost something.

    Attributes:
        sequence: number of the first entry that is wrong or missing; the first of a log is 1.
        problem: what is wrong with it, in a clause.
    """

    sequence: int
    problem: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"Entry {self.sequence} of the audit log is broken: {self.problem.rstrip('.')}."


AuditErrors: TypeAlias = AuditBroken | ServiceFailed
