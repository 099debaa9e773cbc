"""The ``recall`` tool: reading on in the results of a run that were shown in part."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.config import ContextProfile, ResultCompressionConfig
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolResult
from reactive_agents.kernel.json_path import value_at
from reactive_agents.kernel.json_query import compile_query, run_query
from reactive_agents.kernel.previews import LARGEST_OUTLINED, json_value
from reactive_agents.kernel.recall_arguments import Wanted, read_arguments
from reactive_agents.kernel.recall_search import search
from reactive_agents.kernel.tool_results import result_budget, result_text

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
    """What a call reads of the stored results, no longer than one result may be shown.

    An error, which is a result too, says what can be asked for instead.
    """
    room = result_budget(profile, compression)
    wanted = read_arguments(call)
    if isinstance(wanted, Failure):
        return ToolResult(call.id, call.name, error=wanted.failure().message)
    read = _answer(wanted.unwrap(), scratchpad, room, profile.search_hits)
    if isinstance(read, Failure):
        return ToolResult(call.id, call.name, error=read.failure())
    return ToolResult(call.id, call.name, read.unwrap()[:room])


def _answer(wanted: Wanted, scratchpad: Mapping[str, str], room: int, hits: int) -> Result[str, str]:
    try:
        return _located(wanted, scratchpad).bind(lambda place: _read(place, wanted, room, hits))
    except RecursionError:
        return Failure(f"The result {wanted.key} is nested too deeply for paths: use start.")


def _located(wanted: Wanted, scratchpad: Mapping[str, str]) -> Result[_Place, str]:
    text = scratchpad.get(wanted.key)
    if text is None:
        return Failure(_unknown_key(wanted.key, scratchpad))
    if wanted.query is None and (wanted.path or wanted.items) and _is_too_large(text):
        return Failure(
            f"The result {wanted.key} has {len(text)} characters: paths and items are there for results of "
            f"up to {LARGEST_OUTLINED}. Use search or start."
        )
    if wanted.path is None and wanted.query is None:
        data = json_value(text) if wanted.items or wanted.search else None
        return Success(_Place(data if isinstance(data, list | dict) else text, wanted.key, ""))
    if wanted.query is not None:
        query = compile_query(wanted.query).bind(lambda compiled: run_query(compiled, text))
        return query.map(lambda found: _Place(found, "what the query found", None)).alt(
            lambda problem: f"The query was not answered: {problem}."
        )
    path = wanted.path or ""
    whole = json_value(text)
    if not isinstance(whole, list | dict):
        return Failure(f"The result {wanted.key} is no JSON that has paths: use search or start.")
    return value_at(whole, path).map(lambda found: _Place(found, "this part", path))


def _is_too_large(text: str) -> bool:
    """Whether a text, which may be JSON, is too long to be looked at as such."""
    return len(text) > LARGEST_OUTLINED and text.lstrip()[:1] in ("{", "[")


def _read(place: _Place, wanted: Wanted, room: int, hits: int) -> Result[str, str]:
    if wanted.search is not None:
        return search(place.value, wanted.search, room, hits=hits, path=place.path, name=place.name)
    if wanted.items is None:
        return slice_of(result_text(place.value), wanted.start or 0, wanted.length, room, place.name)
    if isinstance(place.value, list):
        return items_of(place.value, wanted.items, room, place.name)
    return Failure(f"There is no list at {place.name}: give the path of one, or use search or start.")


def slice_of(text: str, start: int, length: int | None, room: int, name: str) -> Result[str, str]:
    """Characters of a text from ``start`` on, as many as are wanted and fit, and where to go on."""
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
    shown = key if len(key) <= _SHOWN_KEY else key[:_SHOWN_KEY] + "…"
    return f"There is no stored result {shown!r}. Known keys: {', '.join(known) or 'none'}{more}."
