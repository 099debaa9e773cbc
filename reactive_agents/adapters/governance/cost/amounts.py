"""Sums of money as whole numbers, so that many small amounts add up exactly."""

from __future__ import annotations

NANO = 1_000_000_000
_MOST_USD = 1_000_000_000.0


def nano_usd(amount_usd: float) -> int:
    """US dollars in billionths, rounded to the nearest.

    Raises:
        ValueError: the amount is below 0, above a billion dollars, or not a number.
    """
    if not 0 <= amount_usd <= _MOST_USD:
        raise ValueError(f"an amount of {amount_usd!r} US dollars, expected 0 to {_MOST_USD:.0f}")
    return round(amount_usd * NANO)


def usd(nano: int) -> float:
    """Billionths as US dollars."""
    return nano / NANO
