"""Vectors of memories in tables, and the search for those that are nearest to another one.

The search goes through all vectors of an agent, first by one bit for each number, then by the numbers of the
best (as I. Yamada, A. Asai and H. Hajishirzi do with learned bits, "Efficient Passage Retrieval with Hashing
for Open-domain Question Answering", 2021). So it reads a thirtieth of the data, and needs neither a library
nor an extension of SQLite, which many builds of Python cannot load.
"""

from __future__ import annotations

import math
import sqlite3
import struct
from collections.abc import Sequence
from datetime import datetime
from heapq import nsmallest

from attrs import frozen

from reactive_agents.adapters.memory import store
from reactive_agents.adapters.memory.embedding import Embedding
from reactive_agents.adapters.memory.fading import microseconds
from reactive_agents.core.ids import AgentId
from reactive_agents.core.memory import MemoryEntry, MemoryId, MemoryKind

CANDIDATES_FOR_EACH = 5
"""How many vectors are compared by their numbers for each that is wanted."""
MOST_NEAR = 200
"""Entries that one search finds by their vectors at most."""
LEAST_COSINE = 0.25
"""What two texts must have in common at least to count as similar; unrelated ones are near 0."""


@frozen
class Near:
    """An entry and the cosine between it and what was asked, :data:`LEAST_COSINE` to 1."""

    entry: MemoryEntry
    cosine: float


def put(connection: sqlite3.Connection, entry_id: MemoryId, embedding: Embedding) -> None:
    """Store the vector of an entry, in place of one that it may have; nothing for an unknown entry."""
    connection.execute(
        "INSERT OR IGNORE INTO embedding_spaces (model, dimension) VALUES (?, ?)",
        (embedding.model, embedding.dimension),
    )
    connection.execute(
        "INSERT OR REPLACE INTO memory_vectors (seq, space, agent_id, kind, signs, vector) "
        "SELECT seq, ?, agent_id, kind, ?, ? FROM memories WHERE id = ?",
        (_space(connection, embedding), embedding.signs, embedding.packed, entry_id),
    )


def nearest(
    connection: sqlite3.Connection,
    agent_id: AgentId,
    query: Embedding,
    now: datetime,
    *,
    kinds: Sequence[MemoryKind],
    limit: int,
) -> tuple[Near, ...]:
    """The agent's entries whose vectors are nearest to the query's, nearest first, the faded ones left out.

    Exact for up to five times ``limit`` vectors; of more, one that is near is missed where its signs tell
    otherwise.

    Args:
        limit: how many at most, 1 to :data:`MOST_NEAR`.
    """
    limit = min(limit, MOST_NEAR)
    rows = connection.execute(
        "SELECT signs, seq FROM memory_vectors WHERE space = ? AND agent_id = ? "
        f"AND kind IN ({', '.join('?' * len(kinds))})",
        (_space(connection, query), agent_id, *kinds),
    ).fetchall()
    signs, read = int.from_bytes(query.signs, "big"), int.from_bytes
    coarse = nsmallest(
        CANDIDATES_FOR_EACH * limit, [((read(each, "big") ^ signs).bit_count(), seq) for each, seq in rows]
    )
    unpack = struct.Struct(f"<{query.dimension}f").unpack
    vectors = connection.execute(
        f"SELECT seq, vector FROM memory_vectors WHERE seq IN ({', '.join('?' * len(coarse))})",
        [seq for _, seq in coarse],
    )
    # of vectors of length 1, the distance says the same as the angle, and is quicker to compute
    fine = nsmallest(limit, [(math.dist(query.values, unpack(vector)), seq) for seq, vector in vectors])
    cosines = {seq: 1.0 - distance * distance / 2.0 for distance, seq in fine}
    close = {seq: cosine for seq, cosine in cosines.items() if cosine >= LEAST_COSINE}
    entries = store.by_numbers(connection, tuple(close), now)
    return tuple(Near(entries[seq], cosine) for seq, cosine in close.items() if seq in entries)


def without_vector(
    connection: sqlite3.Connection, agent_id: AgentId, model: str, now: datetime, *, limit: int
) -> tuple[MemoryEntry, ...]:
    """Entries of the agent that the model has not embedded, those first that will fade last."""
    of_model = (
        "FROM memory_vectors WHERE space IN (SELECT id FROM embedding_spaces WHERE model = ?1) "
        "AND agent_id = ?2"
    )
    (lacking,) = connection.execute(
        f"SELECT (SELECT count(*) FROM memories WHERE agent_id = ?2) - (SELECT count(*) {of_model})",
        (model, agent_id),
    ).fetchone()
    if not lacking:  # to count them is quicker than to look for each
        return ()
    numbers = connection.execute(
        f"SELECT seq FROM memories WHERE agent_id = ?2 AND fades_at > ?3 "
        f"AND seq NOT IN (SELECT seq {of_model}) ORDER BY fades_at DESC LIMIT ?4",
        (model, agent_id, microseconds(now), limit),
    )
    return tuple(store.by_numbers(connection, tuple(seq for (seq,) in numbers), now).values())


def _space(connection: sqlite3.Connection, embedding: Embedding) -> int | None:
    """The number of the model and dimension; ``None`` when nothing of theirs is stored."""
    row = connection.execute(
        "SELECT id FROM embedding_spaces WHERE model = ? AND dimension = ?",
        (embedding.model, embedding.dimension),
    ).fetchone()
    return None if row is None else int(row[0])
