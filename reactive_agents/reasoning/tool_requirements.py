"""Required tools of a task: by the user, by rules, or by the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from attrs import frozen
from returns.result import Result, Success

from reactive_agents.core.errors import StructuredOutputError
from reactive_agents.core.events import ToolNeedsFound
from reactive_agents.core.requirements import ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import attempt
from reactive_agents.kernel.service_calls import definitions_in
from reactive_agents.reasoning.requirement_rules import may_require, requirements_in
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices
from reactive_agents.reasoning.structured_output import Question, ask_structured, shape_of

PURPOSE = "classify-tools"
MOST_CALLS = 20
_INSTRUCTIONS = (
    "Say which of the tools the task cannot be done without, with the least number of successful calls of "
    "each (one for each thing that has to be looked up by itself), and which tools may help besides. Name a "
    "tool as required only if an answer without it would be a guess."
)


@frozen
class RequiredTool:
    """A tool that the task cannot be done without.

    Attributes:
        calls: the least number of successful calls, 1 to 20.
    """

    tool: str
    calls: int = 1


@frozen
class ToolVerdict:
    """A model's judgement of the tools for a task."""

    required: tuple[RequiredTool, ...] = ()
    relevant: tuple[str, ...] = ()


async def find_tool_needs(strategy_input: StrategyInput, services: StrategyServices) -> ToolNeeds:
    """Return the required tools; those of the user stay required.

    Rules are used where the model fails; rules that find nothing change nothing.
    """
    given = strategy_input.needs
    mode = strategy_input.config.tool_classifier
    definitions = definitions_in(services.kernel.tools)
    if mode == "off" or not definitions:
        return given
    if mode != "model" and not may_require(strategy_input.task_description, definitions):
        return given
    method: Literal["model", "rules"] = "rules"
    found = requirements_in(strategy_input.task_description, definitions)
    if mode == "model":
        answered = await _ask(strategy_input, services, definitions)
        if isinstance(answered, Success):
            method, found = "model", answered.unwrap()
    needs = merge_tool_needs(given, found)
    if method == "rules" and not found.required:
        return given
    events = services.kernel.events.value_or(None)
    if events is not None:
        events.publish(ToolNeedsFound, method=method, required=needs.required, relevant=needs.relevant)
    return needs


def merge_tool_needs(given: ToolNeeds, found: ToolNeeds) -> ToolNeeds:
    """Return both together.

    Where both require a tool, the user's number of calls counts.
    """
    named = {requirement.name for requirement in given.required}
    added = tuple(requirement for requirement in found.required if requirement.name not in named)
    return ToolNeeds(given.required + added, given.relevant | found.relevant)


def needs_of_verdict(verdict: ToolVerdict, definitions: Sequence[ToolDefinition]) -> ToolNeeds:
    """Return the requirements of a model's verdict.

    Names that are no tools are ignored.
    """
    known = {definition.name for definition in definitions}
    calls: dict[str, int] = {}
    for call in verdict.required:
        if call.tool in known:
            calls[call.tool] = max(calls.get(call.tool, 0), min(max(call.calls, 1), MOST_CALLS))
    required = tuple(ToolRequirement(name, count) for name, count in calls.items())
    return ToolNeeds(required, frozenset(verdict.relevant) & known - calls.keys())


async def _ask(
    strategy_input: StrategyInput, services: StrategyServices, definitions: Sequence[ToolDefinition]
) -> Result[ToolNeeds, StructuredOutputError]:
    tools = [
        {"tool": definition.name, "description": definition.description.partition("\n")[0]}
        for definition in definitions
    ]
    content = f"Task:\n{strategy_input.task_description}\n\nTools:\n{json.dumps(tools, ensure_ascii=False)}"
    question = Question(shape_of(ToolVerdict), _INSTRUCTIONS, content, PURPOSE, max_retries=0)
    answered = await attempt(ask_structured(question, strategy_input, services))
    return answered.map(lambda structured: needs_of_verdict(structured.value, definitions))
