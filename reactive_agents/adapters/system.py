"""The live clock and the live source of identifiers."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """The time of day in UTC, with its time zone."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds of ``time.monotonic``, the clock that asyncio goes by."""
        return time.monotonic()


class UlidSource:
    """ULIDs: 26 characters that sort by time; safe to share between threads."""

    def __init__(self) -> None:
        # python-ulid reads its own package metadata when it is imported, which costs more than all else here
        from ulid import ULID

        self._ulid = ULID

    def new(self) -> str:
        """A new ULID; within one millisecond each is greater than the one before it."""
        return str(self._ulid())
