"""The words of texts, and how alike two texts are by them."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """The words of a text, in small letters."""
    return _WORD.findall(text.lower())


def word_similarity(one: str, other: str) -> float:
    """Return the share of common words of two texts, 0 to 1 (P. Jaccard, 1912).

    Case, punctuation and order do not count; a text without words is similar to none.

    >>> word_similarity("Check the level first.", "First, check the LEVEL!")
    1.0
    >>> word_similarity("red green", "green blue")
    0.3333333333333333
    """
    words, others = frozenset(words_of(one)), frozenset(words_of(other))
    either = words | others
    return len(words & others) / len(either) if either else 0.0
