"""Finding words in a stored result: the lines of texts and the items of lists that hold them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.json import Json
from reactive_agents.kernel.json_path import below

EXCERPT = 240
"""Characters of a line or an item that are shown around the first of the words."""
_LEAD = 60
_WHOLE_ITEM = 1_000


@frozen
class _Unit:
    """What a hit is: a line of a text, or an item. ``start``: where the line begins in the text."""

    text: str
    path: str
    start: int | None = None
    line: int = 0


@frozen
class _Hit:
    unit: _Unit
    at: int


def search(
    value: Json, words: str, room: int, *, hits: int, path: str | None = "", name: str = "the result"
) -> Result[str, str]:
    """The places that hold all of the words, in their order; where none does, those that hold one of them.

    Each is given with what ``recall`` reads on there by: the path of an item, the start of a line.

    Args:
        words: separated by blanks; their case does not matter.
        room: characters of the answer.
        hits: places at most.
        path: where the value is in the result; ``None`` when it is not a part of it.
    """
    wanted = tuple(dict.fromkeys(words.casefold().split()))
    if not wanted:
        return Failure("The search has no words.")
    all_of, any_of, seen = _find(value, path or "", wanted, hits)
    found, total = (all_of, seen[0]) if all_of else (any_of, seen[1])
    kind = "all of the words" if all_of or len(wanted) == 1 else "one of the words"
    if not found:
        return Success(f"[… nothing in {name} holds any of the words …]")
    lines: list[str] = []
    room -= len(_note(total, total, kind, name))
    for hit in found:
        line = f"{_where(hit.unit, path is not None)}: {_excerpt(hit, room)}"
        if room < len(line) + 1 and lines:
            break
        room -= len(line) + 1
        lines.append(line)
    return Success("\n".join(lines) + _note(len(lines), total, kind, name))


def _find(
    value: Json, path: str, words: tuple[str, ...], hits: int
) -> tuple[list[_Hit], list[_Hit], tuple[int, int]]:
    """The first hits with all and with any of the words, and how many there are of each."""
    all_of: list[_Hit] = []
    any_of: list[_Hit] = []
    counts = [0, 0]
    for unit in _units(value, path):
        folded = unit.text.casefold()
        places = [folded.find(word) for word in words]
        at = min((place for place in places if place >= 0), default=-1)
        if at < 0:
            continue
        hit = _Hit(unit, at)
        counts[1] += 1
        if len(any_of) < hits:
            any_of.append(hit)
        if min(places) >= 0:
            counts[0] += 1
            if len(all_of) < hits:
                all_of.append(hit)
    return all_of, any_of, (counts[0], counts[1])


def _units(value: Json, path: str) -> Iterator[_Unit]:
    """What is searched: the lines of texts, short items of lists as a whole, and plain values."""
    waiting: list[tuple[Json, str]] = [(value, path)]
    while waiting:
        current, place = waiting.pop()
        if isinstance(current, dict | list) and place != path and place.endswith("]"):
            text = json.dumps(current, ensure_ascii=False)
            if len(text) <= _WHOLE_ITEM:
                yield _Unit(text, place)
                continue
        match current:
            case str():
                yield from _lines(current, place)
            case dict():
                waiting.extend((item, below(place, key)) for key, item in reversed(current.items()))
            case list():
                waiting.extend((current[at], below(place, at)) for at in reversed(range(len(current))))
            case _:
                yield _Unit(json.dumps(current), place)


def _lines(text: str, path: str) -> Iterator[_Unit]:
    start = 0
    for number, line in enumerate(text.split("\n"), start=1):
        yield _Unit(line, path, start, number)
        start += len(line) + 1


def _where(unit: _Unit, reachable: bool) -> str:
    place = unit.path if reachable else ""
    if unit.start is None or (unit.start == 0 and place):
        return place or "found"
    position = f"line {unit.line} (start={unit.start})"
    return f"{place}, {position}" if place else position


def _excerpt(hit: _Hit, room: int) -> str:
    text = hit.unit.text
    limit = max(20, min(EXCERPT, room - len(hit.unit.path) - 40))
    if len(text) <= limit:
        return text
    start = max(0, min(hit.at - _LEAD, len(text) - limit))
    end = start + limit
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def _note(shown: int, total: int, kind: str, name: str) -> str:
    rest = "" if shown == total else f"{shown} of "
    places, hold = ("place", "holds") if total == 1 else ("places", "hold")
    return f"\n[… {rest}{total} {places} in {name} {hold} {kind} …]"
