"""Passages of text and how well they match a question: BM25 (Robertson and Zaragoza, 2009) over sentences."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log

from attrs import frozen

SATURATION, LENGTH_SHARE, HEADING_SHARE = 1.2, 0.75, 0.5
_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“(\[*`]?[A-Z0-9])")
_HEADING = re.compile(r"#{1,6}\s+(?P<title>.*)")
_BLOCK = re.compile(r"[-*+|>]\s?|\d+[.)]\s")
_PROSE = re.compile(r"(?:^|/)[^./]*$|\.(?:md|rst|txt)$", re.I)
STOPWORDS = frozenset(
    "a about after all also am an and any are as at be been before between but by calculate can could did do "
    "does each find for from get give go had has have her here him his how i if in into is it its itself just "
    "know let list look made make many may me more most much must my no not of on only or other our out over "
    "please quote read s said say says search see shall she should show since so some such t tell than that "
    "the their them then there these they this those through to too under until up us very was we were what "
    "when where whether which while who whom whose why will with would you your".split()
)


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


def stems(text: str) -> list[str]:
    """The stem of each word of a text that carries meaning."""
    return [stem(word) for word in words(text)]


def passages(path: str, text: str, *, first_line: int = 1) -> list[Passage]:
    """The sentences of a prose file, without its headings, or the lines of any other."""
    found: list[Passage] = []
    paragraph: list[tuple[int, str]] = []
    heading, in_code, prose = "", False, bool(_PROSE.search(path))

    def flush() -> None:
        found.extend(Passage(path, line, sentence, heading) for line, sentence in _sentences(paragraph))
        paragraph.clear()

    for line, raw in enumerate(text.split("\n"), first_line):
        content = raw.strip()
        title = _HEADING.match(content) if prose and not in_code else None
        marks_code = prose and content.startswith("```")
        if title or marks_code or in_code or not prose or not content or _BLOCK.match(content):
            flush()
        if title:
            heading = title["title"]
        elif marks_code:
            in_code = not in_code
        elif content and prose and not in_code:
            paragraph.append((line, content))
        elif content:
            found.append(Passage(path, line, content, heading))
    flush()
    return found


def _sentences(paragraph: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    starts, joined = [], ""
    for _, content in paragraph:
        starts.append(len(joined))
        joined += content + " "
    sentences, position = [], 0
    for match in (*_SENTENCE_END.finditer(joined.rstrip()), None):
        end = match.start() if match else len(joined)
        if sentence := joined[position:end].strip():
            sentences.append((paragraph[bisect_right(starts, position) - 1][0], sentence))
        position = match.end() if match else end
    return sentences


def rank(candidates: Iterable[Passage], query: Iterable[str]) -> list[tuple[float, Passage]]:
    """The passages that share a stem with the query, each with its score, best first; of equal ones the earlier.

    A word that is only in the heading above a passage counts for half.
    """
    unique = {(one.path, one.text): one for one in reversed(list(candidates))}
    pool = list(reversed(unique.values()))
    counts = [Counter(stems(one.text)) for one in pool]
    titles = [frozenset(stems(one.heading)) for one in pool]
    wanted = sorted(set(query))
    present = {term: sum(term in own for own in counts) for term in wanted}
    rarity = {term: log(1 + (len(pool) - n + 0.5) / (n + 0.5)) for term, n in present.items()}
    mean = sum(own.total() for own in counts) / len(pool) if pool else 0.0
    scored = []
    for position, (one, own, title) in enumerate(zip(pool, counts, titles, strict=True)):
        damping = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * own.total() / (mean or 1.0))
        score = 0.0
        for term in wanted:
            if own[term]:
                score += rarity[term] * own[term] * (SATURATION + 1) / (own[term] + damping)
            elif term in title:
                score += rarity[term] * HEADING_SHARE
        if score > 0:
            scored.append((-score, position, one))
    return [(-score, one) for score, _, one in sorted(scored, key=lambda entry: entry[:2])]
