"""Required tools of a task: by the user, by rules, or by the model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Literal, Never

from attrs import frozen
from returns.result import Result, Success

from reactive_agents.core.errors import StructuredOutputError
from reactive_agents.core.events import ToolNeedsFound
from reactive_agents.core.requirements import ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import attempt, effect
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices
from reactive_agents.reasoning.structured_output import Question, ask_structured, shape_of

MOST_ITEMS = 20
_WORD = re.compile(r"[^\W_]+")
_LIST = re.compile(r"\b(?:for|of|about|on|between|compare|among)\s+(?P<items>[^.?!;:\n]+)", re.IGNORECASE)
_NEXT_JOB = re.compile(r",?\s+(?:and|then)\s+(?:then\s+)?(?:write|save|tell|give|make|send|put)\b.*", re.I)
_SEPARATOR = re.compile(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or|&|vs\.?|versus)\s+", re.IGNORECASE)
_ARITHMETIC = re.compile(r"\d\s*[-+*/^×÷%]\s*\d|\d\s*%\s+of\b|\b(?:calculate|compute)\b", re.IGNORECASE)
_URL = re.compile(r"https?://\S+")
_FILE = re.compile(r"[\w./-]*\w\.(?:md|rst|txt|py|toml|json|ya?ml|csv|html)\b")
_SAVE = re.compile(r"\b(?:write|save|store|put)\b.*\b(?:file|report|(?:to|as|into)\s+\S+\.\w+)", re.I | re.S)
_LOOK_UP = """
search latest news price weather today current recent happened stock rate forecast
"""
_GENERIC = """
a all an and any as at by data do does file find for from get give gives given how in into is it its list look
make name number of on one or read return returns run set show take takes text that the this to tool two use
value what which with write your
"""
_GENERIC_WORDS = frozenset(_GENERIC.split())


def needs_by_rules(task: str, definitions: Sequence[ToolDefinition]) -> ToolNeeds:
    """Return the required and relevant tools by the words of the task.

    A tool is required when the task uses a telling word of its name, or what the built-in tool of that name
    is for; an enumeration ("prices for XRP, XLM, ETH and Bitcoin") asks for one call for each item. A tool is
    relevant when its description shares a telling word with the task.
    """
    asked = stems(task)
    items = count_items(task)
    required: list[ToolRequirement] = []
    relevant: set[str] = set()
    for definition in definitions:
        if _is_required(definition, task, asked):
            single = definition.output or definition.name in ("calculator", "file-search", "shell")
            required.append(ToolRequirement(definition.name, 1 if single else items))
        elif stems(definition.description) & asked:
            relevant.add(definition.name)
    return ToolNeeds(tuple(required), frozenset(relevant))


def count_items(task: str) -> int:
    """Return how many items the longest enumeration of the task has; 1 without one."""
    longest = 1
    for match in _LIST.finditer(task):
        items = [item for item in _SEPARATOR.split(_NEXT_JOB.sub("", match["items"])) if item.strip()]
        if all(len(item.split()) <= 4 for item in items):
            longest = max(longest, min(len(items), MOST_ITEMS))
    return longest


def stems(text: str) -> frozenset[str]:
    """Return the significant words of a text, without the commonest endings."""
    return frozenset(_stem(word) for word in _words(text) if word not in _GENERIC_WORDS and len(word) > 2)


def _is_required(definition: ToolDefinition, task: str, asked: frozenset[str]) -> bool:
    match definition.name:
        case "calculator":
            return bool(_ARITHMETIC.search(task))
        case "http-get":
            return bool(_URL.search(task))
        case "file-read":
            return bool(_FILE.search(task)) and not _SAVE.search(task)
        case "file-write":
            return bool(_SAVE.search(task))
        case "web-search":
            return bool(asked & {_stem(word) for word in _LOOK_UP.split()})
        case "file-search" | "shell":
            return False
        case _:
            return bool(stems(definition.name) & asked)


def _words(text: str) -> Iterable[str]:
    return _WORD.findall(text.lower().replace("_", " ").replace("-", " "))


def _stem(word: str) -> str:
    for ending in ("ing", "ies", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


# --- all sources together -------------------------------------------------------------------------------


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


@effect
async def find_tool_needs(
    strategy_input: StrategyInput, services: StrategyServices
) -> Result[ToolNeeds, Never]:
    """Find the required tools; those of the user stay required.

    Rules are used where the model fails.
    """
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
    needs = merge_tool_needs(given, found)
    events = services.kernel.events.value_or(None)
    if events is not None:
        events.publish(ToolNeedsFound, method=method, required=needs.required, relevant=needs.relevant)
    return Success(needs)


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
