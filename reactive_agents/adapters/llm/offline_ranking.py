"""Passages of text and how well they match a question: BM25 (Robertson and Zaragoza, 2009) over sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from math import log

from attrs import frozen

SATURATION, LENGTH_SHARE, HEADING_SHARE = 1.2, 0.75, 0.5
_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“(\[*`]?[A-Z0-9])")
_HEADING = re.compile(r"#{1,6}\s+(?P<title>.*)")
_BLOCK = re.compile(r"(?P<bullet>[-*+]\s+)|\||>\s|\d+[.)]\s")
_PROSE = re.compile(r"(?:^|/)[^./]*$|\.(?:md|rst|txt)$", re.I)
_STOPWORDS = """
a about after all also am an and any are as at be been before between but by calculate can compute could
describe did do does each explain find for from get give go had has have her here him his how i if in
into is it its just know let list long look made make many may me more most much must my no not of on
only or other our out over please quote read s said say says search see shall she should show since so
some such summarise summarize t take takes tell than that the their them then there these they this those
through to too under until up us very was we were what when where whether which while who whom whose why
will with would you your
"""
STOPWORDS = frozenset(_STOPWORDS.split())


@frozen
class Passage:
    """A sentence or line: where it begins, and the heading above it."""

    path: str
    line: int
    text: str
    heading: str = ""


def words(text: str) -> list[str]:
    """The words of a text that carry meaning, in their order."""
    return [word for word in _WORD.findall(text) if word.lower() not in STOPWORDS]


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """What a word shares with its plural and its other common forms, roughly."""
    word = word.lower()
    if word.endswith("ies") and len(word) > 5:
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def beginning(word: str) -> str:
    """The letters that a word begins with in all its forms."""
    shared = stem(word)
    return shared if word.lower().startswith(shared) else shared[:-1]  # studies, study: stud


def stems(text: str) -> list[str]:
    """The stem of each word of a text that carries meaning."""
    return [stem(word) for word in words(text)]


def passages(path: str, text: str, *, first_line: int = 1) -> list[Passage]:
    """The sentences of a prose file, without its headings, or the lines of any other."""
    found: list[Passage] = []
    lines = text.split("\n")
    heading, joins, prose = "", False, bool(_PROSE.search(path))
    marks = [raw.strip() for raw in lines if raw.lstrip().startswith("```")]
    in_code = first_line > 1 and marks[:1] == ["```"]  # the part begins within a block of code
    for line, raw in enumerate(lines, first_line):
        content = raw.strip()
        title = _HEADING.match(content) if prose and not in_code else None
        if title or (prose and content.startswith("```")):
            heading = title["title"] if title else heading
            in_code, joins = in_code != (title is None), False
            continue
        if not _WORD.search(content):
            content = ""  # a rule, or the line under the head of a table
        block = _BLOCK.match(content) if prose and not in_code else None
        if block and block["bullet"]:
            content = content[block.end() :]
        if joins and content and not block:
            last = found.pop()  # it may go on here, and then keeps the line where it began
            start, content = last.line, f"{last.text} {content}"
        else:
            start = line
        for index, sentence in enumerate(_SENTENCE_END.split(content) if content else ()):
            found.append(Passage(path, line if index else start, sentence, heading))
        joins = prose and not in_code and bool(content)
    return found


def rank(candidates: Iterable[Passage], query: Iterable[str]) -> list[tuple[float, Passage]]:
    """The passages that share a stem with the query, with their scores, best first; of equals the earlier.

    A word that is only in the heading above a passage counts for half.
    """
    pool = list({(one.path, one.text): one for one in candidates}.values())
    counts = [Counter(stems(one.text)) for one in pool]
    titles = [stems(one.heading) for one in pool]
    mean = sum(own.total() for own in counts) / max(len(pool), 1) or 1.0
    scores = [0.0] * len(pool)
    for term in sorted(set(query)):
        having = sum(term in own for own in counts)
        rarity = log(1 + (len(pool) - having + 0.5) / (having + 0.5))
        for position, own in enumerate(counts):
            if own[term]:
                damping = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * own.total() / mean)
                scores[position] += rarity * own[term] * (SATURATION + 1) / (own[term] + damping)
            elif term in titles[position]:
                scores[position] += rarity * HEADING_SHARE
    best = sorted((position for position, score in enumerate(scores) if score), key=lambda p: -scores[p])
    return [(scores[position], pool[position]) for position in best]
