"""How memories lose strength with time, and how seeing one again renews it.

Strength halves with every half-life since the entry was last seen (the exponential forgetting curve of
H. Ebbinghaus, 1885, in its usual simplification). Facts outlive episodes; a person's words outlive the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from reactive_agents.core.memory import MemoryEntry, MemoryKind

HALF_LIFE: Mapping[MemoryKind, timedelta] = {
    "working": timedelta(hours=1),
    "episodic": timedelta(days=21),
    "semantic": timedelta(days=60),
    "procedural": timedelta(days=120),
    "critique": timedelta(days=60),
}
USER_FACTOR = 4
"""How many times longer the half-life of what a person said is."""

FORGOTTEN_BELOW = 0.05
"""The strength under which an entry is not recalled any more, and is deleted by the next flush."""

REINFORCEMENT = 0.1
"""The part of what is missing to full importance that an entry gains by being seen again."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = 2**62  # microseconds, far beyond the last year that a datetime can say, inside of an SQLite integer


def microseconds(moment: datetime) -> int:
    """Return a time as microseconds since 1970; without a time zone it is UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def moment_of(microseconds_: int) -> datetime:
    """The moment in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds_)


def half_life_of(entry: MemoryEntry) -> timedelta:
    """The time in which the entry loses half of its strength."""
    return HALF_LIFE[entry.kind] * (USER_FACTOR if entry.origin == "user" else 1)


def strength(entry: MemoryEntry, now: datetime) -> float:
    """Return the entry's decayed importance, 0 to 1; it never increases."""
    age = max(0, microseconds(now) - microseconds(entry.seen_at))
    halvings: float = age / (half_life_of(entry) // timedelta(microseconds=1))
    return float(entry.importance * 0.5**halvings)


def fades_at(entry: MemoryEntry) -> int:
    """Return when the entry expires, in microseconds since 1970.

    That is when its strength falls below :data:`FORGOTTEN_BELOW`."""
    seen = microseconds(entry.seen_at)
    if entry.importance <= FORGOTTEN_BELOW:
        return seen
    lives = math.log2(entry.importance / FORGOTTEN_BELOW)
    return min(_LAST, seen + int(lives * (half_life_of(entry) // timedelta(microseconds=1))))


def reinforced(known: float, seen_again: float) -> float:
    """The importance, 0 to 1, of an entry that is seen again; never less than either."""
    stronger = max(known, seen_again)
    return min(1.0, stronger + REINFORCEMENT * (1.0 - stronger))
