"""From what an embedder returns to unit vectors that can be stored and compared."""

from __future__ import annotations

import inspect
import math
import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import anyio.to_thread
from attrs import frozen
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.effects import attempt
from reactive_agents.ports.memory import Embedder

LONGEST_EMBEDDED = 8_000
"""Characters of a text that an embedder is given at most."""


@frozen(slots=False)
class Embedding:
    """What a text means to a model, as a vector of length 1.

    Attributes:
        model: what made the vector; it is compared with vectors of the same model and dimension alone.
    """

    model: str
    values: tuple[float, ...]

    @property
    def dimension(self) -> int:
        """How many numbers the vector has."""
        return len(self.values)

    @cached_property
    def packed(self) -> bytes:
        """The vector as it is stored: 32-bit floats, the least byte first."""
        return struct.pack(f"<{self.dimension}f", *self.values)

    @cached_property
    def signs(self) -> bytes:
        """One bit for each number, set where it is above 0: vectors of similar direction share most bits."""
        bits = "".join("1" if value > 0 else "0" for value in self.values)
        return int(bits, 2).to_bytes((self.dimension + 7) // 8, "big")


async def embedded(embedder: Embedder, texts: Sequence[str]) -> Result[tuple[Embedding | None, ...], str]:
    """The embedding of each text, ``None`` for a vector without a direction; or what went wrong, in a clause.

    An embedder is not asked about no texts.
    """
    if not texts:
        return Success(())
    try:
        answer = await _asked(embedder, tuple(texts))
        if isinstance(answer, Failure):
            return Failure(str(answer.failure().message).rstrip("."))
        return Success(_read(embedder.model, answer.unwrap(), len(texts)))
    except Exception as error:  # noqa: BLE001 - an embedder is arbitrary user code
        return Failure(f"{type(error).__name__}: {error}".rstrip(". "))


async def _asked(embedder: Embedder, texts: tuple[str, ...]) -> Result[Any, Any]:
    on_loop = inspect.iscoroutinefunction(inspect.unwrap(embedder.embed))
    answer: Any = embedder.embed(texts) if on_loop else await anyio.to_thread.run_sync(embedder.embed, texts)
    if isinstance(answer, FutureResult):
        return await attempt(answer)
    return Success(await answer if inspect.isawaitable(answer) else answer)


def _read(model: str, vectors: Any, count: int) -> tuple[Embedding | None, ...]:
    rows = [tuple(map(float, vector)) for vector in vectors]
    dimensions = {len(row) for row in rows}
    if len(rows) != count or len(dimensions) != 1 or 0 in dimensions:
        raise ValueError(
            f"it returned {len(rows)} vectors of {' and '.join(map(str, sorted(dimensions))) or 'no'} "
            f"numbers for {count} texts"
        )
    return tuple(_unit(model, row) for row in rows)


def _unit(model: str, row: tuple[float, ...]) -> Embedding | None:
    length = math.hypot(*row)
    if not math.isfinite(length):
        raise ValueError("it returned a number that is not finite")
    return Embedding(model, tuple(value / length for value in row)) if length else None
