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
class ServiceFailed:
    """A guardrail, cost, verification or audit service could not do its work."""

    message: str
    service: str
    operation: str
