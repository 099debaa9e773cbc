"""Sums of money as whole numbers, so that many small amounts add up exactly."""

from __future__ import annotations

from collections.abc import Iterable

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


def sum_usd(amounts_usd: Iterable[float]) -> float:
    """The sum of amounts of US dollars that were billionths before, to the billionth."""
    return usd(sum(round(amount_usd * NANO) for amount_usd in amounts_usd))


def usd(nano: int) -> float:
    """Billionths as US dollars."""
    return nano / NANO
