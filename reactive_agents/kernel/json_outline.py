"""JSON in a given space: the first items, the first keys and the beginnings of texts, as deep as it goes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice

from attrs import frozen

from reactive_agents.core.json import Json
from reactive_agents.kernel.text_cuts import cut_before

LINE = 100
"""Characters of a line that holds several things."""
LONGEST_LINE = 300
"""Characters of a line that holds an object of plain values alone."""
_PROBED = 50
_PLAIN_ITEMS = 10


@frozen
class _Detail:
    """How much of each value is shown."""

    characters: int
    items: int
    plain_items: int
    keys: int
    depth: int


def outline(value: Json, room: int, list_items: int) -> str:
    """As much of the value as there is room for; what is left out is counted where it was.

    Values are shown in more and more detail, all of them alike, until the next degree no longer fits. So
    whatever is shown in some room is shown in a larger one too.

    Args:
        room: characters; where not even the least detail fits, its beginning is shown.
        list_items: items of a list of objects or lists at most; of plain values ten times as many.
    """
    best, degree = "", 0
    while True:
        detail = _detail(degree, list_items)
        shown = _render(value, detail, 0)
        if len(shown) > room:
            return best or _whole_lines(shown, max(0, room))
        if detail.characters > room:
            return shown
        best, degree = shown, degree + 1


def _detail(degree: int, list_items: int) -> _Detail:
    items = 1 + degree + degree * degree // 8
    return _Detail(
        characters=int(24 * 1.2**degree),
        items=min(items, list_items),
        plain_items=min(items * (1 + degree // 2), list_items * _PLAIN_ITEMS),
        keys=4 * (1 + degree),
        depth=1 if degree == 0 else 3 + degree // 3,
    )


def _render(value: Json, detail: _Detail, depth: int) -> str:
    match value:
        case str():
            return _text(value, detail.characters)
        case {} | [] if not value:
            return "{}" if isinstance(value, dict) else "[]"
        case list() if depth >= detail.depth:
            return f"[… {_counted(len(value), 'item')}]"
        case dict() if depth >= detail.depth:
            return f"{{… {_counted(len(value), 'key')}}}"
        case list():
            plain = _is_plain(islice(value, _PROBED))
            parts = [
                _render(item, detail, depth + 1)
                for item in value[: detail.plain_items if plain else detail.items]
            ]
            return _joined("[", parts, len(value), "item", "]", plain=plain)
        case dict():
            parts = [
                f"{_text(key, detail.characters)}: {_render(item, detail, depth + 1)}"
                for key, item in islice(value.items(), detail.keys)
            ]
            plain = depth > 0 and _is_plain(islice(value.values(), _PROBED))
            return _joined("{", parts, len(value), "key", "}", plain=plain)
    return json.dumps(value)


def _is_plain(values: Iterable[Json]) -> bool:
    return not any(isinstance(value, list | dict) for value in values)


def _text(text: str, limit: int) -> str:
    if len(text) <= limit:
        return json.dumps(text, ensure_ascii=False)
    end = cut_before(text, limit)
    return f"{json.dumps(text[:end], ensure_ascii=False)} …{len(text) - end} more characters"


def _joined(opening: str, parts: list[str], total: int, kind: str, closing: str, *, plain: bool) -> str:
    if len(parts) < total:
        parts = [*parts, f"… {total - len(parts)} more of {_counted(total, kind)}"]
    line = ", ".join(parts)
    if len(line) <= (LONGEST_LINE if plain else LINE) and "\n" not in line:
        return f"{opening}{line}{closing}"
    lines = _filled(parts) if plain else parts
    body = ",\n".join(lines).replace("\n", "\n ")
    return f"{opening}\n {body}\n{closing}"


def _filled(parts: list[str]) -> list[str]:
    """The parts, as many on a line as it holds."""
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 2 <= LINE:
            lines[-1] += f", {part}"
        else:
            lines.append(part)
    return lines


def _counted(count: int, kind: str) -> str:
    return f"{count} {kind}" if count == 1 else f"{count} {kind}s"


def _whole_lines(text: str, room: int) -> str:
    cut = text[:room]
    whole = cut.rpartition("\n")[0]
    return whole or cut
