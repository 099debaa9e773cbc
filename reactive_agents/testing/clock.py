"""Fakes of the clock and of the source of ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """Implements ``Clock``.

    Time passes by :meth:`advance`, and by ``step_s`` with each reading.

    Args:
        start: the time of day at the first reading, with its time zone.
        step_s: seconds that pass after each reading, 0 or more; the monotonic time starts at 0.

    Raises:
        ValueError: ``start`` has no time zone, or ``step_s`` is negative.
    """

    def __init__(self, start: datetime = START, step_s: float = 0.0) -> None:
        if start.tzinfo is None:
            raise ValueError("FakeClock: start needs a time zone.")
        if step_s < 0:
            raise ValueError(f"FakeClock: step_s: got {step_s}, expected 0 or more.")
        self._start = start.astimezone(UTC)
        self._step = step_s
        self._passed = 0.0

    def now(self) -> datetime:
        """Return the time of day in UTC."""
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        passed = self._passed
        self._passed += self._step
        return passed

    def advance(self, seconds: float) -> None:
        """Move the clock forward.

        Raises:
            ValueError: ``seconds`` is negative; a clock never goes back.
        """
        if seconds < 0:
            raise ValueError(f"FakeClock: advance: got {seconds}, expected 0 or more seconds.")
        self._passed += seconds


class SequentialIds:
    """Implements ``IdSource``: ``id-0001``, ``id-0002``, ….

    Like live ids, they sort by time.
    """

    def __init__(self, prefix: str = "id-") -> None:
        self._prefix = prefix
        self._count = 0

    def new(self) -> str:
        """Return the next id."""
        self._count += 1
        return f"{self._prefix}{self._count:04}"
