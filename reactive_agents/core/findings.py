"""How what checks found is taken out of a text, and out of JSON data."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

from attrs import evolve

from reactive_agents.core.governance import GuardrailFinding
from reactive_agents.core.json import Json

_SEPARATOR = "\n"
_HEAD = 4  # characters of a text by which it is looked for


def within(finding: GuardrailFinding, text: str) -> GuardrailFinding:
    """The finding with its span held inside the text and its score inside of 0 to 1."""
    start = min(max(finding.start, 0), len(text))
    end = min(max(finding.end, start), len(text))
    return evolve(finding, start=start, end=end, score=min(max(finding.score, 0.0), 1.0))


def redact(text: str, findings: Sequence[GuardrailFinding]) -> str:
    """The text with every span replaced by its category in brackets; spans that overlap become one.

    >>> redact("write to a@b.org!", [GuardrailFinding("email", 9, 16, 1.0, "redact")])
    'write to [email]!'
    """
    kept: list[str] = []
    done = 0
    open_span: GuardrailFinding | None = None
    for finding in sorted(findings, key=lambda each: (each.start, -each.end)):
        if finding.start >= finding.end:
            continue
        if open_span is not None and finding.start < open_span.end:
            open_span = evolve(open_span, end=max(open_span.end, finding.end))
            continue
        if open_span is not None:
            kept += (text[done : open_span.start], f"[{open_span.category}]")
            done = open_span.end
        open_span = finding
    if open_span is not None:
        kept += (text[done : open_span.start], f"[{open_span.category}]")
        done = open_span.end
    return "".join((*kept, text[done:]))


def joined_texts(value: Json) -> str:
    """A text as it is; of other data every text and number, also names of fields, each on its own line."""
    return value if isinstance(value, str) else _SEPARATOR.join(_texts(value))


def redact_texts(value: Json, findings: Iterable[GuardrailFinding]) -> Json:
    """The data without the spans, which are of its joined texts. A number that has one becomes a text."""
    given = tuple(findings)
    if isinstance(value, str):
        return redact(value, given)
    waiting = deque(sorted(enumerate(given), key=lambda each: each[1].start))
    reached: list[tuple[int, GuardrailFinding]] = []
    made: list[str] = []
    start = 0
    for text in _texts(value):
        end = start + len(text)
        while waiting and waiting[0][1].start < end:
            reached.append(waiting.popleft())
        reached = [each for each in reached if each[1].end > start]
        inside = (
            evolve(each, start=max(each.start, start) - start, end=min(each.end, end) - start)
            for _, each in sorted(reached, key=itemgetter(0))
        )
        made.append(redact(text, tuple(inside)))
        start = end + len(_SEPARATOR)
    return _rebuilt(value, iter(made))


def replacing(pairs: Iterable[tuple[str, str]]) -> Callable[[str], str]:
    """What replaces short texts wherever they occur, in a time that does not grow with their number.

    Occurrences that overlap become one, in whose place comes what is for the longest of them.

    Args:
        pairs: a text that is not empty, and what comes in its place; of the same text the first pair counts.

    >>> replacing([("ann@b.org", "[email]"), ("b.org", "[host]")])("write to ann@b.org or c@b.org")
    'write to [email] or c@[host]'
    """
    known: dict[str, str] = {}
    for old, new in pairs:
        known.setdefault(old, new)
    if not known:
        return str
    size = min(_HEAD, *map(len, known))
    lengths: dict[str, set[int]] = {}
    for old in known:
        lengths.setdefault(old[:size], set()).add(len(old))
    longest_first = {head: sorted(each, reverse=True) for head, each in lengths.items()}
    starts = re.compile("[" + "".join(sorted({re.escape(old[0]) for old in known})) + "]")

    def occurrences(text: str) -> Iterator[tuple[int, str]]:
        for match in starts.finditer(text):
            at = match.start()
            for length in longest_first.get(text[at : at + size], ()):
                if text[at : at + length] in known:
                    yield at, text[at : at + length]
                    break

    def replaced(text: str) -> str:
        kept: list[str] = []
        done = end = 0
        longest = ""
        for at, old in occurrences(text):
            if longest and at >= end:
                kept.append(known[longest])
                done, longest = end, ""
            if not longest:
                kept.append(text[done:at])
            end = max(end, at + len(old))
            longest = max(longest, old, key=len)
        if not longest:
            return text
        return "".join((*kept, known[longest], text[end:]))

    return replaced


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif value is not None and not isinstance(value, bool):
        yield json.dumps(value)


def _rebuilt(value: Json, texts: Iterator[str]) -> Json:
    """The data with the texts in the place of its own, in their order."""
    if isinstance(value, str):
        return next(texts)
    if isinstance(value, list):
        return [_rebuilt(item, texts) for item in value]
    if isinstance(value, dict):
        made: dict[str, Json] = {}
        for item in value.values():
            name = unique = next(texts)
            while unique in made:
                unique = f"{name} ({len(made) + 1})"
            made[unique] = _rebuilt(item, texts)
        return made
    if value is None or isinstance(value, bool):
        return value
    text = next(texts)
    return value if text == json.dumps(value) else text
