"""The calls of a model's turn, native or written as text, as they can be executed."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.models import ModelResponse
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.calls.healing import fits_plainly, heal_call
from reactive_agents.kernel.calls.parsed import ParsedCall
from reactive_agents.kernel.calls.parsing import parse_calls

_SIGNS = ("{", "[", "<", "(", "Action")


def may_hold_calls(text: str) -> bool:
    """Whether the text has any of the signs that a call or a block of thinking cannot be written without."""
    return any(sign in text for sign in _SIGNS)


def read_calls(response: ModelResponse, definitions: Sequence[ToolDefinition]) -> ModelResponse:
    """The response with its calls healed; if it has none, with those that its text holds.

    Blocks of thinking in the text count as thinking, not as text.
    """
    if not response.tool_calls and may_hold_calls(response.content):
        response = _read_text(response, definitions)
    calls = response.tool_calls
    for call in calls:
        if not fits_plainly(call, definitions):
            return evolve(response, tool_calls=tuple(_healed(each, definitions) for each in calls))
    return response


def made_call(parsed: ParsedCall) -> ToolCall:
    """The call that a text held; its id is still to be given."""
    repaired = ", its JSON repaired" if parsed.repaired else ""
    said = f"The call was written as text ({parsed.source}{repaired})."
    return ToolCall(CallId(""), parsed.name, parsed.arguments, healings=(said,))


def _read_text(response: ModelResponse, definitions: Sequence[ToolDefinition]) -> ModelResponse:
    parsed = parse_calls(response.content, [definition.name for definition in definitions])
    if not parsed.calls and not parsed.thinking:
        return response
    thinking = "\n\n".join(part for part in (response.thinking, parsed.thinking) if part)
    calls = tuple(map(made_call, parsed.calls))
    finish = "tool_calls" if calls else response.finish_reason
    return evolve(response, content=parsed.prose, thinking=thinking, tool_calls=calls, finish_reason=finish)


def _healed(call: ToolCall, definitions: Sequence[ToolDefinition]) -> ToolCall:
    healed = heal_call(call, definitions)
    if not healed.healings:
        return call
    return evolve(healed.call, healings=(*call.healings, *healed.healings))
