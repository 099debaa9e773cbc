"""Finding a tool call that a model wrote as text instead of making it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall

_DECODER = json.JSONDecoder()
_CALL_START = re.compile(
    r"(?:^|\n|final answer:)[ \t]*`{0,3}(?P<name>[A-Za-z][\w-]{0,63})[ \t]*\((?=\s*[{)])", re.I
)
_AFTER_CALL = re.compile(r"\s*\)[\s`.;]*$")


def embedded_call(text: str, names: Collection[str]) -> ToolCall | None:
    """The bare call that a text ends with, such as ``web-search({"query": "test"})``, if there is one.

    Args:
        text: an answer. A call counts when nothing follows it and it begins a line or comes right after the
            words "final answer:"; a call that is mentioned within a sentence does not.
        names: the tools that may be called; other names are prose.
    """
    for match in _CALL_START.finditer(text):
        if match["name"] not in names:
            continue
        arguments: object = {}
        start = re.compile(r"\s*").match(text, match.end())
        position = start.end() if start else match.end()
        if text[position : position + 1] == "{":
            try:
                # a slice, as the decoder's errors count the lines of all that comes before them
                arguments, length = _DECODER.raw_decode(text[position:])
            except (ValueError, RecursionError):
                continue
            position += length
        if isinstance(arguments, dict) and _AFTER_CALL.match(text, position):
            return ToolCall(CallId("embedded-1"), match["name"], arguments)
    return None
