"""How alike texts are by what they mean: the cosine between their vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from returns.result import Failure, Result, Success

from reactive_agents.adapters.memory.embedding import LONGEST_EMBEDDED, Embedding, embedded
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.core.redaction import Redactor
from reactive_agents.effects import effect
from reactive_agents.ports.memory import Embedder

VECTORS_KEPT = 2_000
"""Texts whose vectors are kept in the process, those that were asked about last; the others are made anew."""


class VectorComparison:
    """Implements ``TextComparison`` with an embedder, which is asked once about a text.

    Args:
        redactor: takes the secrets out of the texts before the embedder sees them.
    """

    def __init__(self, embedder: Embedder, *, redactor: Redactor | None = None) -> None:
        self._embedder = embedder
        self._redactor = redactor or Redactor()
        self._vectors: dict[str, Embedding | None] = {}

    @effect
    async def compare(self, text: str, others: Sequence[str]) -> Result[tuple[float, ...], MemoryErrors]:
        """How alike the text is to each of the others, 0 to 1; 0 where a vector has no direction.

        Fails with ``MemoryUnavailable`` when the embedder does.
        """
        if not others:
            return Success(())
        clean = [self._redactor.redact(each)[:LONGEST_EMBEDDED] for each in (text, *others)]
        known = {each: self._vectors[each] for each in clean if each in self._vectors}
        asked = [each for each in dict.fromkeys(clean) if each not in known]
        found = await embedded(self._embedder, asked)
        if isinstance(found, Failure):
            why = self._redactor.redact(found.failure())
            message = f"Texts are compared by their words alone, since the embedder failed ({why})."
            return Failure(MemoryUnavailable(message, "compare"))
        known.update(zip(asked, found.unwrap(), strict=True))
        self._keep(known)
        return Success(tuple(_cosine(known[clean[0]], known[each]) for each in clean[1:]))

    def _keep(self, vectors: dict[str, Embedding | None]) -> None:
        for each in vectors:
            self._vectors.pop(each, None)
        self._vectors.update(vectors)
        for oldest in tuple(self._vectors)[:-VECTORS_KEPT]:
            del self._vectors[oldest]


def _cosine(one: Embedding | None, other: Embedding | None) -> float:
    if one is None or other is None or one.dimension != other.dimension:
        return 0.0
    # of vectors of length 1, the distance says the same as the angle, and is quicker to compute
    return max(0.0, 1.0 - math.dist(one.values, other.values) ** 2 / 2.0)
