"""What goes wrong with memory and with the other optional services."""

from __future__ import annotations

from typing import TypeAlias

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
