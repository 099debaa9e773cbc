"""Views of long texts that fit a budget: the head and the tail of prose, the outline of JSON."""

from __future__ import annotations

import json

from reactive_agents.core.json import Json
from reactive_agents.kernel.json_outline import outline
from reactive_agents.kernel.text_cuts import cut_after, cut_before

LARGEST_OUTLINED = 2_000_000
"""Characters up to which a text is looked at as JSON."""


def preview(text: str, key: str | None, budget: int, *, head_share: float = 0.7, list_items: int = 50) -> str:
    """The text itself when it fits, else a view of it that says how long the whole is and how to read it.

    The same text and budget always give the same view, which is never longer than the budget, and a larger
    budget never shows less.

    Args:
        key: where the full text is stored; ``None`` for one that is stored nowhere, such as an error.
        budget: characters, 200 or more; below it, what is shown gets scarce, but the budget holds.
        head_share: 0 to 1, the part of prose that its start gets; its end gets the rest.
        list_items: items of a list of objects that are shown at most.
    """
    if len(text) <= budget:
        return text
    value = json_value(text) if text[:1] in ("{", "[") else None
    if value is None:
        return _prose(text, key, budget, head_share)
    note = f"\n[… shortened view of {len(text)} characters{_way_on(key, 'path, items, search or start')} …]"
    return outline(value, budget - len(note), list_items)[: max(0, budget - len(note))] + note[:budget]


def json_value(text: str) -> Json:
    """The value that the text is as JSON; ``None`` when it is none, or too long to be looked at."""
    if len(text) > LARGEST_OUTLINED:
        return None
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _prose(text: str, key: str | None, budget: int, head_share: float) -> str:
    total = len(text)

    def note(left_out: int, start: int) -> str:
        way_on = _way_on(key, f"start={start}")
        return f"\n[… {left_out} of {total} characters left out{way_on} …]\n"

    room = max(0, budget - len(note(total, total)))
    head_room = room * round(head_share * 1000) // 1000  # whole numbers: one more of room never takes away
    head = cut_before(text, head_room)
    tail = cut_after(text, room - head_room)
    told = note(total - head - tail, head)
    told = told[1:] if text[:head].endswith("\n") else told
    return (text[:head] + told + text[total - tail :])[:budget]


def _way_on(key: str | None, how: str) -> str:
    return "" if key is None else f'; more: recall(key="{key}", {how})'
