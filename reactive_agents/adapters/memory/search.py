"""Full-text queries of a text, and fingerprints of equal memories."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

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


def keyword_pairs(text: str) -> tuple[str, ...]:
    """Return adjacent pairs of Chinese or Japanese characters, each once.

    They replace words, which have no written boundaries; pairs without hiragana come first. Pairs of
    hiragana, mostly grammar, are omitted.
    """
    if _UNSPACED.search(text) is None:
        return ()
    runs = (run for word in words_of(text) for run in _UNSPACED.findall(word))
    pairs = dict.fromkeys(run[at : at + 2] for run in runs for at in range(len(run) - 1))
    by_hiragana = {pair: len(_HIRAGANA.findall(pair)) for pair in pairs}
    keywords = (pair for pair, count in by_hiragana.items() if count < 2)
    return tuple(sorted(keywords, key=by_hiragana.__getitem__)[:MOST_PAIRS])


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
