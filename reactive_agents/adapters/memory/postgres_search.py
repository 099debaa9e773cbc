"""Keyword and vector search in Postgres, whose statements differ from SQLite's.

Words are stored as arrays in the normal form of SQLite's index, so that both find the same. They are ranked
by BM25, computed here from counts of the server, with the constants of FTS5. pgvector compares vectors
exactly: a user has thousands of memories, and an approximate index over all users would miss some of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from reactive_agents.adapters.memory.search import indexed_form, words_of
from reactive_agents.adapters.sql import Transaction

_K1, _B = 1.2, 0.75


def add_words(connection: Transaction, entry_id: str, content: str) -> None:
    """Add the words of an entry to the index."""
    words = [indexed_form(word) for word in words_of(content)]
    connection.execute(
        "INSERT INTO memory_words (seq, words) SELECT seq, CAST(? AS text[]) FROM memories WHERE id = ?",
        (words, entry_id),
    )


def by_words(
    connection: Transaction,
    words: Sequence[str],
    *,
    every: bool,
    condition: str,
    values: Sequence[object],
    most: int,
) -> list[int]:
    """Return the row numbers of entries with all or any of the words, best first.

    Args:
        condition: the condition on the entries, with its values.
        most: the number of newest entries to compare.
    """
    asked = list(dict.fromkeys(map(indexed_form, words)))
    counts = ", ".join(["cardinality(array_positions(words, CAST(? AS text)))"] * len(asked))
    rows = connection.execute(
        f"SELECT seq, cardinality(words), {counts} FROM memory_words JOIN memories USING (seq)"
        f" WHERE words {'@>' if every else '&&'} CAST(? AS text[]) AND {condition}"
        " ORDER BY seen_at DESC, seq DESC LIMIT ?",
        (*asked, asked, *values, most),
    ).fetchall()
    if not rows:
        return []
    usual = sum(length for _, length, *_ in rows) / len(rows)
    (all_,) = connection.execute(f"SELECT count(*) FROM memories WHERE {condition}", values).fetchone()
    weights = [_weight(all_, sum(1 for row in rows if row[2 + at])) for at in range(len(asked))]

    def worth(row: Sequence[int]) -> float:
        _, length, *found = row
        shrink: float = _K1 * (1 - _B + _B * length / usual)
        pairs = zip(weights, found, strict=True)
        return sum(weight * count * (_K1 + 1) / (count + shrink) for weight, count in pairs)

    return [row[0] for row in sorted(rows, key=lambda row: (-worth(row), -row[0]))]


def counted(
    connection: Transaction, words: Sequence[str], *, condition: str, values: Sequence[object], most: int
) -> list[tuple[int, str]]:
    """Return each occurring word with the number of its entries.

    Args:
        most: the maximum to count; a larger number is returned as one more.
    """
    forms = {indexed_form(word): word for word in reversed(words)}
    rows = connection.execute(
        "SELECT form, (SELECT count(*) FROM (SELECT 1 FROM memory_words JOIN memories USING (seq)"
        f" WHERE words @> ARRAY[form] AND {condition} LIMIT ?) AS found)"
        " FROM unnest(CAST(? AS text[])) WITH ORDINALITY AS asked (form, place) ORDER BY place",
        (*values, most + 1, [indexed_form(word) for word in words]),
    )
    return [(count, forms[form]) for form, count in rows if count]


def put_vector(connection: Transaction, entry_id: str, space: int | None, vector: Sequence[float]) -> None:
    """Store the vector of an entry, replacing an earlier one."""
    connection.execute(
        "INSERT INTO memory_vectors (seq, space, vector) SELECT seq, ?, CAST(? AS vector) FROM memories"
        " WHERE id = ? ON CONFLICT (seq) DO UPDATE SET space = excluded.space, vector = excluded.vector",
        (space, _text(vector), entry_id),
    )


def by_vector(
    connection: Transaction,
    space: int | None,
    vector: Sequence[float],
    *,
    condition: str,
    values: Sequence[object],
    limit: int,
) -> dict[int, float]:
    """Return row numbers of entries with their cosines, nearest first."""
    rows = connection.execute(
        "SELECT seq, 1 - distance FROM (SELECT seq, vector <=> CAST(? AS vector) AS distance"
        f" FROM memory_vectors JOIN memories USING (seq) WHERE space = ? AND {condition}) AS found"
        " ORDER BY distance, seq LIMIT ?",
        (_text(vector), space, *values, limit),
    )
    return dict(rows.fetchall())


def _weight(all_: int, with_word: int) -> float:
    """Return the inverse document frequency, as FTS5 computes it."""
    return max(1e-6, math.log((all_ - with_word + 0.5) / (with_word + 0.5))) if all_ > with_word else 1e-6


def _text(vector: Sequence[float]) -> str:
    return f"[{','.join(map(repr, vector))}]"
