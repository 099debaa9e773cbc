"""Which tools a task needs, found by rules alone: words that the task and a tool share, and enumerations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from reactive_agents.core.requirements import ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition

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
    """What the task needs of the tools.

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
    """How many things the longest enumeration of the task names; 1 without one."""
    longest = 1
    for match in _LIST.finditer(task):
        items = [item for item in _SEPARATOR.split(_NEXT_JOB.sub("", match["items"])) if item.strip()]
        if all(len(item.split()) <= 4 for item in items):
            longest = max(longest, min(len(items), MOST_ITEMS))
    return longest


def stems(text: str) -> frozenset[str]:
    """The telling words of a text, without the commonest endings."""
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
