"""The calls of a model's response: those that it made natively, or wrote as text.

Parsing and repair are imported for the first response that has any sign of needing them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.models import ModelResponse
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.call_parsing.argument_schema import fits_exactly

if TYPE_CHECKING:
    from reactive_agents.kernel.call_parsing.json_calls import ParsedCall

_SIGNS = ("{", "[", "<", "(", "Action")
_WRITTEN_AS_TEXT = "The call was written as text"


def may_hold_calls(text: str) -> bool:
    """Return whether a text has any sign of a call or of thinking."""
    return any(sign in text for sign in _SIGNS)


def read_calls(response: ModelResponse, definitions: Sequence[ToolDefinition]) -> ModelResponse:
    """Return the response with repaired calls, or with those of its text.

    Blocks of thinking in the text count as thinking, not as text.
    """
    if not response.tool_calls and may_hold_calls(response.content):
        response = _read_text(response, definitions)
    calls = response.tool_calls
    for call in calls:
        if not fits_exactly(call, definitions):
            return evolve(response, tool_calls=tuple(_repaired(each, definitions) for each in calls))
    return response


def to_tool_call(parsed: ParsedCall) -> ToolCall:
    """The call that a text held; its id is still to be given."""
    repaired = ", its JSON repaired" if parsed.repaired else ""
    said = f"{_WRITTEN_AS_TEXT} ({parsed.source}{repaired})."
    return ToolCall(CallId(""), parsed.name, parsed.arguments, repairs=(said,))


def was_written_as_text(call: ToolCall) -> bool:
    """Return whether the model wrote the call in its text."""
    return any(each.startswith(_WRITTEN_AS_TEXT) for each in call.repairs)


def _read_text(response: ModelResponse, definitions: Sequence[ToolDefinition]) -> ModelResponse:
    from reactive_agents.kernel.call_parsing.parser import parse_calls

    parsed = parse_calls(response.content, [definition.name for definition in definitions])
    if not parsed.calls and not parsed.thinking:
        return response
    thinking = "\n\n".join(part for part in (response.thinking, parsed.thinking) if part)
    calls = tuple(map(to_tool_call, parsed.calls))
    finish = "tool_calls" if calls else response.finish_reason
    return evolve(response, content=parsed.prose, thinking=thinking, tool_calls=calls, finish_reason=finish)


def _repaired(call: ToolCall, definitions: Sequence[ToolDefinition]) -> ToolCall:
    from reactive_agents.kernel.call_parsing.repair import repair_call

    repaired = repair_call(call, definitions)
    if not repaired.repairs:
        return call
    return evolve(repaired.call, repairs=(*call.repairs, *repaired.repairs))
