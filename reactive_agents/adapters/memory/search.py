"""Full-text queries, fingerprints of equal memories, and search in Postgres.

Postgres stores words as arrays in the normal form of SQLite's index, so that both find the same. They are
ranked by BM25, computed here from counts of the server, with the constants of FTS5.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from reactive_agents.adapters.sql import Transaction

MOST_QUERY_WORDS = 12
"""Words of a task in a memory search; the longest are the most specific."""

LONGEST_WORD = 64

MOST_PAIRS = 32
"""Pairs of characters of a task in a memory search."""

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "[\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""Chinese and Japanese: without spaces, so that the index has whole clauses as words."""
_HIRAGANA = re.compile("[\u3041-\u309f]")
_ACCENTS = dict.fromkeys(range(0x300, 0x332))  # combining ones, which the index omits too
_JOINERS = "\u200c\u200d"  # invisible, but part of the spelling in some scripts
_COMMON = frozenset(
    _WORD.findall(
        """
    a about after all also an and any are as at be because been before but by can could did do does
    done for from get give go had has have he her here him his how i if in into is it its just let
    like make many may me more most much must my new no not now of on one only or other our out over
    please she should so some such tell than that the their them then there these they this those to
    two up us use was we were what when where which who why will with would you your
        """
    )
)


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text in order, in lower case: runs of letters and digits."""
    plain = unicodedata.normalize("NFC", text).translate(_ACCENTS)
    return tuple(word.lower() for word in _WORD.findall(plain))


def keywords_of(text: str) -> tuple[str, ...]:
    """Return the significant words of a text, longest first, each once."""
    keywords = dict.fromkeys(
        word for word in words_of(text) if word not in _COMMON and 1 < len(word) <= LONGEST_WORD
    )
    return tuple(sorted(keywords, key=len, reverse=True)[:MOST_QUERY_WORDS])


def unspaced_words(text: str) -> tuple[str, ...]:
    """Return the words with Chinese or Japanese characters, indexed only as a whole."""
    return tuple(dict.fromkeys(word for word in words_of(text) if _UNSPACED.search(word)))


def keyword_pairs(text: str, most: int | None = MOST_PAIRS) -> tuple[str, ...]:
    """Return adjacent pairs of Chinese or Japanese characters, each once.

    They replace words, which have no written boundaries; pairs without hiragana come first. Pairs of
    hiragana, mostly grammar, are omitted. ``most``: maximum of pairs; ``None`` for all.
    """
    if _UNSPACED.search(text) is None:
        return ()
    runs = (run for word in words_of(text) for run in _UNSPACED.findall(word))
    pairs = dict.fromkeys(run[at : at + 2] for run in runs for at in range(len(run) - 1))
    by_hiragana = {pair: len(_HIRAGANA.findall(pair)) for pair in pairs}
    keywords = (pair for pair, count in by_hiragana.items() if count < 2)
    return tuple(sorted(keywords, key=by_hiragana.__getitem__)[:most])


def indexed_form(word: str) -> str:
    """Return a word in the form of the index: in lower case and without accents."""
    parts = unicodedata.normalize("NFD", word.lower())
    return unicodedata.normalize("NFC", "".join(part for part in parts if not unicodedata.combining(part)))


def full_text_query(words: Iterable[str], *, every: bool) -> str:
    """Return a query for all or any of the words; empty without words."""
    quoted = (f'"{word}"' for word in dict.fromkeys(words))  # so that none is a query operator
    return (" AND " if every else " OR ").join(quoted)


def one_line(text: str) -> str:
    """Return a text on one line without control characters, so that it can be stored."""
    if not text.isprintable():
        text = "".join(map(_plain, text))
    return " ".join(text.split())


def fingerprint(content: str) -> str:
    """Return a key that ignores case, white space and final punctuation."""
    plain = one_line(content).casefold().rstrip(".!?… ")
    return hashlib.sha256(plain.encode()).hexdigest()


def _plain(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    return " " if character.isspace() else ""


# --- Postgres, whose statements differ from those of SQLite ----------------------------------------------

_K1, _B = 1.2, 0.75
Condition: TypeAlias = tuple[str, Sequence[object]]
"""A condition in SQL on the columns of ``memories``, with its values."""


def postgres_add_words(connection: Transaction, entry_id: str, content: str) -> None:
    """Add the words of an entry to the index."""
    words = [indexed_form(word) for word in words_of(content)]
    connection.execute(
        "INSERT INTO memory_words (seq, words) SELECT seq, CAST(? AS text[]) FROM memories WHERE id = ?",
        (words, entry_id),
    )


def postgres_by_words(
    connection: Transaction, among: Condition, words: Sequence[str], *, every: bool, most: int
) -> list[int]:
    """Return the row numbers of entries with all or any of the words, best first.

    Args:
        among: the condition on the entries, with its values.
        most: the number of newest entries to compare.
    """
    condition, values = among
    asked = list(dict.fromkeys(map(indexed_form, words)))
    rows = connection.execute(
        "SELECT seq, cardinality(words), ARRAY(SELECT cardinality(array_positions(words, word))"
        " FROM unnest(CAST(? AS text[])) WITH ORDINALITY AS asked (word, place) ORDER BY place)"
        " FROM memory_words JOIN memories USING (seq)"
        f" WHERE words {'@>' if every else '&&'} CAST(? AS text[]) AND {condition}"
        " ORDER BY seen_at DESC, seq DESC LIMIT ?",
        (asked, asked, *values, most),
    ).fetchall()
    if not rows:
        return []
    usual = sum(length for _, length, _ in rows) / len(rows)
    (all_,) = connection.execute(f"SELECT count(*) FROM memories WHERE {condition}", values).fetchone()
    weights = [_weight(all_, sum(1 for *_, found in rows if found[at])) for at in range(len(asked))]

    def worth(row: tuple[int, int, list[int]]) -> float:
        _, length, found = row
        shrink: float = _K1 * (1 - _B + _B * length / usual)
        pairs = zip(weights, found, strict=True)
        return sum(weight * count * (_K1 + 1) / (count + shrink) for weight, count in pairs)

    return [row[0] for row in sorted(rows, key=lambda row: (-worth(row), -row[0]))]


def postgres_counted(
    connection: Transaction, among: Condition, words: Sequence[str], *, most: int
) -> list[tuple[int, str]]:
    """Return each occurring word with the number of its entries.

    Args:
        most: the maximum to count; a larger number is returned as one more.
    """
    condition, values = among
    forms = {indexed_form(word): word for word in reversed(words)}
    rows = connection.execute(
        "SELECT form, (SELECT count(*) FROM (SELECT 1 FROM memory_words JOIN memories USING (seq)"
        f" WHERE words @> ARRAY[form] AND {condition} LIMIT ?) AS found)"
        " FROM unnest(CAST(? AS text[])) WITH ORDINALITY AS asked (form, place) ORDER BY place",
        (*values, most + 1, [indexed_form(word) for word in words]),
    )
    return [(count, forms[form]) for form, count in rows if count]


def _weight(all_: int, with_word: int) -> float:
    """Return the inverse document frequency, as FTS5 computes it."""
    return max(1e-6, math.log((all_ - with_word + 0.5) / (with_word + 0.5))) if all_ > with_word else 1e-6
