"""Several orders of the same things made into one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

_T = TypeVar("_T", bound=Hashable)

SMOOTHING = 60
"""How little the first places count for more than the next; the value that its authors found to do well."""


def fused(*rankings: Sequence[_T]) -> tuple[_T, ...]:
    """All that occurs in the rankings, best first, each once: what several rank high comes before the rest.

    Reciprocal rank fusion, by G. V. Cormack, C. L. A. Clarke and S. Büttcher, "Reciprocal rank fusion
    outperforms Condorcet and individual rank learning methods", SIGIR 2009. Of equal ones, that of an earlier
    ranking and place comes first; nothing occurs twice in one ranking.

    >>> fused(["a", "b", "c"], ["c", "a"])
    ('a', 'c', 'b')
    """
    scores: dict[_T, float] = {}
    for ranking in rankings:
        for place, each in enumerate(ranking, start=1):
            scores[each] = scores.get(each, 0.0) + 1.0 / (SMOOTHING + place)
    return tuple(sorted(scores, key=lambda each: -scores[each]))
