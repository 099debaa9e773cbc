"""The live clock and the live source of identifiers."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial


class SystemClock:
    """The machine's clocks; each is read a dozen times in a step, and so called without a detour.

    Attributes:
        now: the time of day in UTC, with its time zone.
        monotonic: seconds of ``time.monotonic``, the clock that asyncio goes by.
    """

    now = staticmethod(partial(datetime.now, UTC))
    monotonic = staticmethod(time.monotonic)


class UlidSource:
    """ULIDs: 26 characters that sort by time; safe to share between threads."""

    def __init__(self) -> None:
        # python-ulid reads its own package metadata when it is imported, which costs more than all else here
        from ulid import ULID

        self._ulid = ULID

    def new(self) -> str:
        """A new ULID; within one millisecond each is greater than the one before it."""
        return str(self._ulid())
