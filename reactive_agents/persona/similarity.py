"""How alike two texts are by their words (P. Jaccard, 1912): the common ones, of all that either has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

Similarity: TypeAlias = Callable[[str, str], float]
"""Of two texts, 0 to 1; the same for the texts the other way round. Embeddings would be another one."""

_T = TypeVar("_T")
_WORD = re.compile(r"\w+")


def word_similarity(one: str, other: str) -> float:
    """The share of common words, 0 to 1, without regard to case and punctuation; 0 for texts without words.

    >>> word_similarity("Check the level first.", "First, check the LEVEL!")
    1.0
    >>> word_similarity("red green", "green blue")
    0.3333333333333333
    """
    words, others = _words(one), _words(other)
    either = words | others
    return len(words & others) / len(either) if either else 0.0


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


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
