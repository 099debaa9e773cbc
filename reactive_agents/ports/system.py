"""The ports to the clock and to randomness: what pure code may never reach for by itself."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """The time of day in UTC, with its time zone."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back. For durations and deadlines."""
        ...


class IdSource(Protocol):
    """Makes identifiers."""

    def new(self) -> str:
        """A new identifier, unique; in the live service a ULID, so that ids sort by time."""
        ...
