"""Embedders without a model: texts with the same or related words have vectors of similar direction."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import cache
from random import Random

from attrs import define, field

DIMENSION = 64
RELATED = {
    "car": "vehicle",
    "automobile": "vehicle",
    "doctor": "physician",
    "purchase": "buy",
    "bought": "buy",
}


@cache
def vector_of_word(word: str, dimension: int = DIMENSION) -> tuple[float, ...]:
    """A direction of its own for each word."""
    chance = Random(zlib.crc32(word.encode()))
    return tuple(chance.gauss(0.0, 1.0) for _ in range(dimension))


def toy_vector(text: str, dimension: int = DIMENSION) -> list[float]:
    """The sum of the directions of the text's words; related words count as the same."""
    words = [RELATED.get(word, word) for word in re.findall(r"\w+", text.lower()) if len(word) > 2]
    rows = [vector_of_word(word, dimension) for word in words]
    return [sum(column) for column in zip(*rows, strict=True)] if rows else [0.0] * dimension


@define
class ToyEmbedder:
    """Implements ``Embedder``.

    Attributes:
        asked: the texts of each question.
        problem: raised instead of an answer.
    """

    model: str = "toy/words"
    dimension: int = DIMENSION
    problem: Exception | None = None
    asked: list[tuple[str, ...]] = field(factory=list)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text."""
        self.asked.append(tuple(texts))
        if self.problem is not None:
            raise self.problem
        return [toy_vector(text, self.dimension) for text in texts]
