"""Which of several texts is most like another one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from attrs import frozen

Similarity: TypeAlias = Callable[[str, str], float]
"""Of two texts, 0 to 1; the same for the texts the other way round."""

_T = TypeVar("_T")


@frozen(eq=False)
class Measure:
    """A way to compare texts.

    Attributes:
        likeness: how alike two texts are.
        same_above: 0 to 1; texts that are more alike than this say the same.
    """

    likeness: Similarity
    same_above: float


def most_similar(
    text: str, among: Iterable[_T], text_of: Callable[[_T], str], *, above: float, by: Similarity
) -> _T | None:
    """The one most like the text, by more than ``above``; of equal ones the first; ``None`` for none."""
    best: _T | None = None
    for candidate in among:
        likeness = by(text, text_of(candidate))
        if likeness > above:
            best, above = candidate, likeness
    return best
