"""Which tools a task needs: told by the user, found by rules, or asked of the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, Never

from attrs import field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.codec import from_json
from reactive_agents.core.errors import DecodeError
from reactive_agents.core.events import ToolNeedsFound
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import SystemMessage, UserMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.requirements import ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import attempt, effect
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices
from reactive_agents.reasoning.tool_rules import needs_by_rules

PURPOSE = "classify-tools"
MOST_CALLS = 20
_INSTRUCTIONS = (
    "Say which of the tools the task cannot be done without, with the least number of successful calls of "
    "each (one for each thing that has to be looked up by itself), and which tools may help besides. Name a "
    "tool as required only if an answer without it would be a guess. Reply with JSON alone."
)
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "required": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "tool": {"type": "string"},
                    "calls": {"type": "integer", "minimum": 1, "maximum": MOST_CALLS},
                },
                "required": ["tool", "calls"],
                "additionalProperties": False,
            },
        },
        "relevant": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["required", "relevant"],
    "additionalProperties": False,
}


@frozen
class _Call:
    tool: str
    calls: int = 1


@frozen
class _Verdict:
    required: tuple[_Call, ...] = ()
    relevant: tuple[str, ...] = field(default=())


@effect
async def find_needs(strategy_input: StrategyInput, services: StrategyServices) -> Result[ToolNeeds, Never]:
    """What the task needs; what the user required stays required. Rules stand in for a model that fails."""
    given = strategy_input.needs
    mode = strategy_input.config.tool_classifier
    definitions = services.kernel.tools.map(lambda tools: tools.definitions()).value_or(())
    if mode == "off" or not definitions:
        return Success(given)
    method: Literal["model", "rules"] = "rules"
    found = needs_by_rules(strategy_input.task_description, definitions)
    if mode == "model":
        answered = await _ask(strategy_input, services, definitions)
        if isinstance(answered, Success):
            method, found = "model", answered.unwrap()
    needs = merge_needs(given, found)
    events = services.kernel.events.value_or(None)
    if events is not None:
        events.publish(
            ToolNeedsFound(*events.stamp(), method=method, required=needs.required, relevant=needs.relevant)
        )
    return Success(needs)


def merge_needs(given: ToolNeeds, found: ToolNeeds) -> ToolNeeds:
    """Both together; where both require a tool, the user's number of calls holds."""
    named = {requirement.name for requirement in given.required}
    added = tuple(requirement for requirement in found.required if requirement.name not in named)
    return ToolNeeds(given.required + added, given.relevant | found.relevant)


def read_needs(text: str, definitions: Sequence[ToolDefinition]) -> Result[ToolNeeds, DecodeError]:
    """The needs that a model's reply describes; names that are no tools are passed over."""
    start, end = text.find("{"), text.rfind("}")
    read = from_json(text[start : end + 1] if 0 <= start < end else text, _Verdict)
    if isinstance(read, Failure):
        return Failure(read.failure())
    verdict = read.unwrap()
    known = {definition.name for definition in definitions}
    calls: dict[str, int] = {}
    for call in verdict.required:
        if call.tool in known:
            calls[call.tool] = max(calls.get(call.tool, 0), min(max(call.calls, 1), MOST_CALLS))
    required = tuple(ToolRequirement(name, count) for name, count in calls.items())
    return Success(ToolNeeds(required, frozenset(verdict.relevant) & known - calls.keys()))


async def _ask(
    strategy_input: StrategyInput, services: StrategyServices, definitions: Sequence[ToolDefinition]
) -> Result[ToolNeeds, object]:
    tools = [
        {"tool": definition.name, "description": definition.description.partition("\n")[0]}
        for definition in definitions
    ]
    question = f"Task:\n{strategy_input.task_description}\n\nTools:\n{json.dumps(tools, ensure_ascii=False)}"
    request = ModelRequest(
        (SystemMessage(_INSTRUCTIONS), UserMessage(question)),
        purpose=PURPOSE,
        model=strategy_input.model,
        temperature=0.0,
        response_schema=_SCHEMA,
    )
    answered = await attempt(services.kernel.llm.complete(request))
    if isinstance(answered, Failure):
        return Failure(answered.failure())
    return read_needs(answered.unwrap().content, definitions)
