"""Unit vectors from an embedder, their storage and comparison.

A file has the signs of vectors in an index, by which candidates are found. In Postgres, pgvector compares all
vectors exactly: a user has thousands of memories, and an approximate index over all users would miss some.
"""

from __future__ import annotations

import inspect
import math
import sqlite3
import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from heapq import nsmallest
from threading import Lock
from typing import Any

import anyio.to_thread
from attrs import frozen
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.adapters.memory import store
from reactive_agents.adapters.memory.store import microseconds
from reactive_agents.adapters.sql import Rows, Transaction, marks
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.core.ids import AgentId
from reactive_agents.core.memory import MemoryEntry, MemoryId
from reactive_agents.core.redaction import Redactor
from reactive_agents.effects import attempt, effect
from reactive_agents.ports import Embedder

LONGEST_EMBEDDED = 8_000
"""The maximum of characters of a text to embed."""


@frozen(slots=False)
class Embedding:
    """The embedding of a text: a vector of length 1.

    Attributes:
        model: the embedding model; only vectors of the same model and dimension are compared.
    """

    model: str
    values: tuple[float, ...]

    @property
    def dimension(self) -> int:
        """The number of components."""
        return len(self.values)

    @cached_property
    def packed(self) -> bytes:
        """The stored form of the vector: 32-bit little-endian floats."""
        return struct.pack(f"<{self.dimension}f", *self.values)

    @cached_property
    def signs(self) -> bytes:
        """Return the signs of a vector as bits, mostly equal for similar directions."""
        bits = "".join("1" if value > 0 else "0" for value in self.values)
        return int(bits, 2).to_bytes((self.dimension + 7) // 8, "big")


async def embedded(embedder: Embedder, texts: Sequence[str]) -> Result[tuple[Embedding | None, ...], str]:
    """Return the embedding of each text, or the problem, in a clause.

    The embedding is ``None`` for a zero vector; without texts the embedder is not called.
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


CANDIDATES_FOR_EACH = 5
"""The number of vectors to compare exactly for each result."""
MOST_NEAR = 200
"""The maximum of results of a vector search."""
LEAST_COSINE = 0.25
"""The lowest cosine of similar texts; unrelated ones are near 0."""


@frozen
class Near:
    """An entry and its cosine with the query, :data:`LEAST_COSINE` to 1."""

    entry: MemoryEntry
    cosine: float


def put(connection: Transaction, entry_id: MemoryId, embedding: Embedding) -> None:
    """Store the vector of an entry, replacing an earlier one."""
    connection.execute(
        "INSERT INTO embedding_spaces (model, dimension) VALUES (?, ?) ON CONFLICT DO NOTHING",
        (embedding.model, embedding.dimension),
    )
    space = _space(connection, embedding)
    if isinstance(connection, sqlite3.Connection):
        connection.execute(
            "INSERT OR REPLACE INTO memory_vectors (seq, space, agent_id, kind, signs, vector, owner) "
            "SELECT seq, ?, agent_id, kind, ?, ?, owner FROM memories WHERE id = ?",
            (space, embedding.signs, embedding.packed, entry_id),
        )
        return
    connection.execute(
        "INSERT INTO memory_vectors (seq, space, vector) SELECT seq, ?, CAST(? AS vector) FROM memories"
        " WHERE id = ? ON CONFLICT (seq) DO UPDATE SET space = excluded.space, vector = excluded.vector",
        (space, _as_text(embedding), entry_id),
    )


def nearest(
    connection: Transaction, among: store.Living, query: Embedding, *, limit: int
) -> tuple[Near, ...]:
    """Return the entries nearest to the query, nearest first.

    Exact for up to five times ``limit`` vectors; among more, the comparison of signs may miss one.

    Args:
        limit: maximum number of entries, 1 to :data:`MOST_NEAR`.
    """
    limit = min(limit, MOST_NEAR)
    cosines = _cosines(connection, among, query, limit)
    close = {seq: cosine for seq, cosine in cosines.items() if cosine >= LEAST_COSINE}
    entries = store.by_numbers(connection, tuple(close), among.now)
    return tuple(Near(entries[seq], cosine) for seq, cosine in close.items() if seq in entries)


def _cosines(connection: Transaction, among: store.Living, query: Embedding, limit: int) -> dict[int, float]:
    space = _space(connection, query)
    if not isinstance(connection, sqlite3.Connection):
        found = connection.execute(
            "SELECT seq, 1 - distance FROM (SELECT seq, vector <=> CAST(? AS vector) AS distance"
            " FROM memory_vectors JOIN memories USING (seq)"
            f" WHERE space = ? AND {among.condition}) AS found ORDER BY distance, seq LIMIT ?",
            (_as_text(query), space, *among.values, limit),
        )
        return dict(found.fetchall())
    rows = connection.execute(
        f"SELECT signs, seq FROM memory_vectors WHERE space = ? AND kind IN ({marks(among.kinds)})"
        f"{among.reach.condition}",
        (space, *among.kinds, *among.reach.values),
    )

    def vectors(some: Sequence[int]) -> Rows:
        return connection.execute(
            f"SELECT seq, vector FROM memory_vectors WHERE seq IN ({marks(some)})", some
        )

    return closest(query, rows, limit, vectors)


def _as_text(embedding: Embedding) -> str:
    """Return a vector in the notation of pgvector."""
    return f"[{','.join(map(repr, embedding.values))}]"


def closest(
    query: Embedding,
    rows: Iterable[tuple[bytes, int]],
    limit: int,
    vectors: Callable[[Sequence[int]], Iterable[tuple[int, bytes]]],
) -> dict[int, float]:
    """Return the numbers of the closest vectors with their cosines, closest first.

    Args:
        rows: the signs and the number of each vector.
        vectors: returns the vectors of some numbers.
    """
    signs, read = int.from_bytes(query.signs, "big"), int.from_bytes
    coarse = nsmallest(
        CANDIDATES_FOR_EACH * limit, [((read(each, "big") ^ signs).bit_count(), seq) for each, seq in rows]
    )
    unpack = struct.Struct(f"<{query.dimension}f").unpack
    # for unit vectors, the distance gives the same order as the angle, and is faster
    some = vectors([seq for _, seq in coarse])
    fine = nsmallest(limit, [(math.dist(query.values, unpack(vector)), seq) for seq, vector in some])
    return {seq: 1.0 - distance * distance / 2.0 for distance, seq in fine}


def without_vector(
    connection: Transaction, agent_id: AgentId, model: str, now: datetime, *, limit: int
) -> tuple[MemoryEntry, ...]:
    """Return the agent's entries without embedding, the last to expire first."""
    of_model = "FROM memory_vectors WHERE space IN (SELECT id FROM embedding_spaces WHERE model = ?)"
    of: tuple[str, ...] = (model,)
    if isinstance(connection, sqlite3.Connection):
        of_model, of = f"{of_model} AND agent_id = ?", (model, agent_id)
        (lacking,) = connection.execute(
            f"SELECT (SELECT count(*) FROM memories WHERE agent_id = ?) - (SELECT count(*) {of_model})",
            (agent_id, *of),
        ).fetchone()
        if not lacking:  # counting is faster than searching for each
            return ()
    of_entry = of_model.replace("WHERE", "WHERE memory_vectors.seq = memories.seq AND")
    numbers = connection.execute(
        "SELECT seq FROM memories WHERE agent_id = ? AND fades_at > ?"
        f" AND NOT EXISTS (SELECT 1 {of_entry}) ORDER BY fades_at DESC LIMIT ?",
        (agent_id, microseconds(now), *of, limit),
    )
    return tuple(store.by_numbers(connection, tuple(seq for (seq,) in numbers), now).values())


def _space(connection: Transaction, embedding: Embedding) -> int | None:
    row = connection.execute(
        "SELECT id FROM embedding_spaces WHERE model = ? AND dimension = ?",
        (embedding.model, embedding.dimension),
    ).fetchone()
    return None if row is None else int(row[0])


VECTORS_KEPT = 2_000
"""The maximum of cached vectors; the least recently used are dropped."""


class VectorComparison:
    """Implements ``TextComparison`` with an embedder, called once for each text.

    Args:
        redactor: removes secrets from the texts before they are embedded.
    """

    def __init__(self, embedder: Embedder, *, redactor: Redactor | None = None) -> None:
        self._embedder = embedder
        self._redactor = redactor or Redactor()
        self._vectors: dict[str, Embedding | None] = {}
        self._lock = Lock()  # runs of several threads compare at once

    @effect
    async def compare(self, text: str, others: Sequence[str]) -> Result[tuple[float, ...], MemoryErrors]:
        """Return the similarity to each of the others, 0 to 1; 0 for zero vectors.

        Fails with ``MemoryUnavailable`` when the embedder does.
        """
        if not others:
            return Success(())
        clean = [self._redactor.redact(each)[:LONGEST_EMBEDDED] for each in (text, *others)]
        with self._lock:
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
        with self._lock:
            for each in vectors:
                self._vectors.pop(each, None)
            self._vectors.update(vectors)
            for oldest in tuple(self._vectors)[:-VECTORS_KEPT]:
                del self._vectors[oldest]


def _cosine(one: Embedding | None, other: Embedding | None) -> float:
    if one is None or other is None or one.dimension != other.dimension:
        return 0.0
    # for unit vectors, the distance gives the same order as the angle, and is faster
    return max(0.0, 1.0 - math.dist(one.values, other.values) ** 2 / 2.0)
