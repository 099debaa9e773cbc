"""What goes wrong with memory and with the other optional services."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from reactive_agents.core.errors.budgets import BudgetExceeded


@frozen
class MemoryUnavailable:
    """The memory cannot be read or written. ``operation``: what was tried."""

    message: str
    operation: str


MemoryErrors: TypeAlias = MemoryUnavailable


@frozen
class ApprovalNotPending:
    """Nobody waits for that decision: the request does not exist, or it was decided already."""

    run_id: str
    approval_id: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"No approval {self.approval_id!r} is pending in run {self.run_id!r}."


@frozen
class ServiceFailed:
    """A guardrail, cost, verification or audit service could not do its work."""

    message: str
    service: str
    operation: str


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
