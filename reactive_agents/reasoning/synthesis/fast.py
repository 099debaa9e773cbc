"""Earlier turns put in short by templates: one line for each thing said and each call made."""

from __future__ import annotations

import json
from collections.abc import Mapping

from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall, ToolMessage
from reactive_agents.reasoning.synthesis.material import SynthesisMaterial
from reactive_agents.reasoning.synthesis.notes import LEFT_OUT, as_record, shortened

_LONGEST_EXCERPT, _SHORTEST_EXCERPT = 240, 60
_LONGEST_NAME = 60


def fast_records(material: SynthesisMaterial) -> tuple[str, ...]:
    """The records of the earlier turns; where they outgrow the budget, the oldest are left out.

    The same material always gives the same records.
    """
    excerpt = max(_SHORTEST_EXCERPT, min(_LONGEST_EXCERPT, material.budget // 8))
    return newest(material.records + _lines(material.dropped, material.keys, excerpt), material.budget)


def newest(records: tuple[str, ...], budget: int) -> tuple[str, ...]:
    """As many of the last records as fit; a record in their place says so where some are left out."""
    if sum(map(len, records)) + len(records) <= budget:
        return records
    room = budget - len(LEFT_OUT) - 1
    first = len(records)
    while first and len(records[first - 1]) + 1 <= room:
        first -= 1
        room -= len(records[first]) + 1
    return (LEFT_OUT, *records[first:])


def _lines(messages: tuple[Message, ...], keys: Mapping[CallId, str], excerpt: int) -> tuple[str, ...]:
    calls: dict[CallId, ToolCall] = {}
    lines: list[str] = []
    for message in messages:
        match message:
            case AssistantMessage(content, made):
                calls.update((call.id, call) for call in made)
                if content.strip():
                    lines.append(as_record(f"said: {shortened(content, excerpt)}"))
            case ToolMessage(call_id, tool_name):
                asked = _asked(calls.get(call_id), tool_name, excerpt // 2)
                key = keys.get(call_id)
                where = f"[{key}] " if key is not None else ""
                outcome = "failed" if message.is_error else "gave"
                told = shortened(message.content, excerpt) or "nothing"
                lines.append(as_record(f"{where}{asked} {outcome}: {told}"))
            case _:
                pass
    return tuple(lines)


def _asked(call: ToolCall | None, tool_name: str, length: int) -> str:
    name = shortened(tool_name, _LONGEST_NAME)
    if call is None:
        return name
    arguments = call.malformed or json.dumps(call.arguments, ensure_ascii=False)
    return name if arguments == "{}" else f"{name} {shortened(arguments, length)}"
