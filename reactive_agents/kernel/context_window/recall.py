"""Recall of stored results: paths in JSON, search, slices and queries.

A result that was shown in part is read on by a path, a search, a position or a JMESPath expression. Paths are
not JMESPath: a path says where it leaves the data and which keys are there, tells a null from nothing, and
takes what models write (``$.items[0]``, ``items.0.id``, ``prices['2026-01']``), all of which JMESPath refuses
or answers with null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.config import ContextProfile, ResultCompressionConfig
from reactive_agents.core.errors import ArgumentProblem, InvalidToolArguments
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.texts import shortened
from reactive_agents.core.tools import ToolResult
from reactive_agents.kernel.call_parsing.argument_schema import properties_of
from reactive_agents.kernel.context_window import previews
from reactive_agents.kernel.context_window.tool_results import result_budget, result_text
from reactive_agents.kernel.toolset import RECALL, RECALL_TOOL

_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*\Z")
_PART = re.compile(r"""\[\s*(-?\d{1,9})\s*\]|\[\s*("(?:[^"\\]|\\.)*"|'[^']*')\s*\]|\.?([^.\[\]"']+)""")
_SHOWN_PART = 60
_SHOWN_KEYS = 12


def value_at(value: Json, path: str) -> Result[Json, str]:
    """Return the value at a path; fails with a sentence about the wrong part.

    Args:
        path: keys after dots or in brackets with quotes, positions in brackets, counted from 0, or from the
            end when negative. A ``$`` before the first is allowed.
    """
    rest = path.strip().removeprefix("$")
    position = 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None:
            return Failure(f"The path cannot be read from {_in_quotes(rest[position:])} on.")
        done = _in_quotes(rest[:position]) if position else "the result"
        found = _step(value, part, done)
        if isinstance(found, Failure):
            return found
        value, position = found.unwrap(), part.end()
    return Success(value)


def below(path: str, key: str | int) -> str:
    """The path of an item or of a key's value in what is at a path."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if _PLAIN_KEY.match(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{json.dumps(key, ensure_ascii=False)}]"


def _step(value: Json, part: re.Match[str], done: str) -> Result[Json, str]:
    index, quoted, plain = part.groups()
    if isinstance(value, list):
        number = index if index is not None else (plain or "").strip()
        if not re.fullmatch(r"-?\d{1,9}", number):
            return Failure(f"There is a list of {len(value)} items at {done}: give a position in it.")
        at = int(number)
        if -len(value) <= at < len(value):
            return Success(value[at])
        return Failure(f"The list at {done} has {len(value)} items: there is none at {at}.")
    if isinstance(value, dict):
        key = index if index is not None else _key(quoted, plain)
        if key in value:
            return Success(value[key])
        known = ", ".join(_in_quotes(each) for each in list(value)[:_SHOWN_KEYS])
        more = f" and {len(value) - _SHOWN_KEYS} more" if len(value) > _SHOWN_KEYS else ""
        return Failure(f"There is no key {_in_quotes(key)} at {done}. Keys there: {known or 'none'}{more}.")
    return Failure(f"There is no list and no object at {done}, so the path cannot go on there.")


def _key(quoted: str | None, plain: str) -> str:
    if quoted is None:
        return plain.strip()
    if quoted.startswith("'"):
        return quoted[1:-1]
    try:
        return str(json.loads(quoted, strict=False))
    except ValueError:  # an escape that JSON does not have
        return quoted[1:-1]


def _in_quotes(text: str) -> str:
    return repr(shortened(text, _SHOWN_PART))


# --- Finding words in a stored result: the lines of texts and the items of lists that hold them ---


EXCERPT = 240
"""Characters of a line or an item that are shown around the first of the words."""
_LEAD = 60
_WHOLE_ITEM = 1_000


@frozen
class _Unit:
    """A searched unit: a line of a text, or an item. ``start``: position of the line."""

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
    """Return the hits with all words, or else with any of them, in order.

    Each has the path of an item or the start of a line, with which ``recall`` continues.

    Args:
        words: separated by blanks, in any case.
        room: maximum characters of the answer.
        hits: maximum number of hits.
        path: the path of the value in the result; ``None`` when it is not a part of it.
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
    """Return the first hits with all and with any of the words, and their numbers."""
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
    """Yield the searched units: lines of texts, short list items, plain values."""
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


# --- What a call of ``recall`` asks for: its arguments, read with the leniency that models need ---


_SHOWN_VALUE = 80
_TEXTS = ("key", "search", "path", "query")


@frozen
class RecallArguments:
    """The arguments of a call; ``None`` for those that it does not give."""

    key: str
    search: str | None = None
    path: str | None = None
    query: str | None = None
    items: tuple[int, int] | None = None
    start: int | None = None
    length: int | None = None


def read_arguments(call: ToolCall) -> Result[RecallArguments, InvalidToolArguments]:
    """Read the arguments of a call; fails with ``InvalidToolArguments``.

    Whole numbers may be written as text, and ``null`` or an empty text counts as not given.
    """
    if call.malformed:
        return _refused(_problem("arguments", call.malformed, "a JSON object"))
    given = {name: value for name, value in call.arguments.items() if value not in (None, "", [])}
    known = properties_of(RECALL_TOOL.parameters).keys()
    problems = [_problem(name, given[name], f"one of {', '.join(known)}") for name in given.keys() - known]
    problems += [
        _problem(name, given[name], "a text") for name in _TEXTS if not isinstance(given.get(name, ""), str)
    ]
    start, length = _number(given.get("start", 0)), _number(given.get("length", 1))
    if start is None or start < 0:
        problems.append(_problem("start", given["start"], "a whole number of 0 or more"))
    if length is None or length < 1:
        problems.append(_problem("length", given["length"], "a whole number of 1 or more"))
    items = _items(given["items"]) if "items" in given else None
    if "items" in given and items is None:
        problems.append(_problem("items", given["items"], "two whole numbers, such as [20, 40]"))
    if "path" in given and "query" in given:
        problems.append(_problem("query", given["query"], "either path or query"))
    if "items" in given and "search" in given:
        problems.append(_problem("search", given["search"], "either items or search"))
    if "key" not in given:
        problems.append(_problem("key", None, "the key of a stored result"))
    if problems:
        return _refused(*problems)
    search, path, query = (str(given[name]) if name in given else None for name in _TEXTS[1:])
    return Success(
        RecallArguments(
            str(given["key"]),
            search,
            path,
            query,
            items,
            start if "start" in given else None,
            length if "length" in given else None,
        )
    )


def _refused(*problems: ArgumentProblem) -> Result[RecallArguments, InvalidToolArguments]:
    return Failure(InvalidToolArguments(RECALL, problems))


def _problem(name: str, got: Json, expected: str) -> ArgumentProblem:
    told = shortened(json.dumps(got, ensure_ascii=False), _SHOWN_VALUE)
    return ArgumentProblem(name[:_SHOWN_VALUE], told, expected)


def _number(value: Json) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and len(value) <= 15 and value.strip().isdecimal():
        return int(value)
    return value if isinstance(value, int) else None


def _items(value: Json) -> tuple[int, int] | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    first, end = map(_number, value)
    return None if first is None or end is None or not 0 <= first < end else (first, end)


# --- The ``recall`` tool: reading on in the results of a run that were shown in part ---


_KNOWN_KEYS = 20
_SHOWN_KEY = 80


@frozen
class _Place:
    """A value to read from: the whole result, or a part of it."""

    value: Json
    name: str
    path: str | None


def recall(
    call: ToolCall,
    scratchpad: Mapping[str, str],
    profile: ContextProfile,
    compression: ResultCompressionConfig,
) -> ToolResult:
    """Return what a call reads of the stored results; an error names alternatives."""
    room = result_budget(profile, compression)
    wanted = read_arguments(call)
    if isinstance(wanted, Failure):
        return ToolResult(call.id, call.name, error=wanted.failure().message)
    read = _answer(wanted.unwrap(), scratchpad, room, profile.search_hits)
    if isinstance(read, Failure):
        return ToolResult(call.id, call.name, error=read.failure())
    return ToolResult(call.id, call.name, read.unwrap()[:room])


def _answer(wanted: RecallArguments, scratchpad: Mapping[str, str], room: int, hits: int) -> Result[str, str]:
    if wanted.query is not None and not _is_json(scratchpad.get(wanted.key, "")):
        wanted = evolve(wanted, search=wanted.query, query=None)
    try:
        return _located(wanted, scratchpad).bind(lambda place: _read(place, wanted, room, hits))
    except RecursionError:
        return Failure(f"The result {wanted.key} is nested too deeply for paths: use start.")


def _located(wanted: RecallArguments, scratchpad: Mapping[str, str]) -> Result[_Place, str]:
    text = scratchpad.get(wanted.key)
    if text is None:
        return Failure(_unknown_key(wanted.key, scratchpad))
    if wanted.query is None and (wanted.path or wanted.items) and _is_too_large(text):
        return Failure(
            f"The result {wanted.key} has {len(text)} characters: paths and items are there for results of "
            f"up to {previews.LARGEST_OUTLINED}. Use search or start."
        )
    if wanted.path is None and wanted.query is None:
        data = previews.json_value(text) if wanted.items or wanted.search else None
        return Success(_Place(data if isinstance(data, list | dict) else text, wanted.key, ""))
    if wanted.query is not None:
        query = previews.compile_query(wanted.query).bind(lambda compiled: previews.run_query(compiled, text))
        return query.map(lambda found: _Place(found, "what the query found", None)).alt(
            lambda problem: f"The query was not answered: {problem}. Use search to look for words."
        )
    path = wanted.path or ""
    whole = previews.json_value(text)
    if not isinstance(whole, list | dict):
        return Failure(f"The result {wanted.key} is no JSON that has paths: use search or start.")
    return value_at(whole, path).map(lambda found: _Place(found, "this part", path))


def _is_json(text: str) -> bool:
    """Return whether a text is JSON with parts, or too long to be looked at as such."""
    return _is_too_large(text) or isinstance(previews.json_value(text), list | dict)


def _is_too_large(text: str) -> bool:
    """Whether a text, which may be JSON, is too long to be looked at as such."""
    return len(text) > previews.LARGEST_OUTLINED and text.lstrip()[:1] in ("{", "[")


def _read(place: _Place, wanted: RecallArguments, room: int, hits: int) -> Result[str, str]:
    if wanted.search is not None:
        return search(place.value, wanted.search, room, hits=hits, path=place.path, name=place.name)
    if wanted.items is None:
        return slice_of(result_text(place.value), wanted.start or 0, wanted.length, room, place.name)
    if isinstance(place.value, list):
        return items_of(place.value, wanted.items, room, place.name)
    return Failure(f"There is no list at {place.name}: give the path of one, or use search or start.")


def slice_of(text: str, start: int, length: int | None, room: int, name: str) -> Result[str, str]:
    """Return characters of a text from ``start`` on, and where to continue."""
    total = len(text)
    if start >= total > 0:
        return Failure(f"There are {total} characters in {name}: start must be below that.")
    end = total if length is None else min(total, start + length)
    if start == 0 and end == total <= room:
        return Success(text)
    end = min(end, start + max(1, room - len(_slice_note(total, total - 1, total, name))))
    return Success(text[start:end] + _slice_note(start, end, total, name))


def items_of(values: list[Json], wanted: tuple[int, int], room: int, name: str) -> Result[str, str]:
    """Items of a list, as many as are wanted and fit, one a line, and where to go on."""
    first, end = wanted[0], min(wanted[1], len(values))
    if first >= len(values):
        return Failure(f"The list at {name} has {len(values)} items: there is none at {first}.")
    room -= len(_items_note(len(values), len(values) - 1, len(values), name))
    lines: list[str] = []
    for position in range(first, end):
        line = f"[{position}] {result_text(values[position])}"
        if room < len(line) + 1:
            break
        room -= len(line) + 1
        lines.append(line)
    if lines:
        return Success("\n".join(lines) + _items_note(first, first + len(lines), len(values), name))
    text = result_text(values[first])
    note = f"\n[… the beginning of item {first}, which has {len(text)} characters: read on by its path …]"
    return Success(text[: max(0, room - len(note))] + note)


def _slice_note(start: int, end: int, total: int, name: str) -> str:
    way_on = f"go on with start={end}" if end < total else "the end"
    return f"\n[… characters {start} to {end} of {total} of {name}; {way_on} …]"


def _items_note(first: int, end: int, total: int, name: str) -> str:
    way_on = f"go on with items=[{end}, {min(total, 2 * end - first)}]" if end < total else "the end"
    return f"\n[… items {first} to {end - 1} of {total} of {name}; {way_on} …]"


def _unknown_key(key: str, scratchpad: Mapping[str, str]) -> str:
    known = list(scratchpad)[-_KNOWN_KEYS:]
    more = f" and {len(scratchpad) - len(known)} earlier ones" if len(scratchpad) > len(known) else ""
    named = f"{', '.join(known) or 'none'}{more}"
    return f"There is no stored result {shortened(key, _SHOWN_KEY)!r}. Known keys: {named}."
