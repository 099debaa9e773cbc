"""What a model is told about a call that could not be healed."""

from __future__ import annotations

import json

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.calls.schema_fit import (
    Schema,
    branches,
    choices_of,
    properties_of,
    required_of,
    types_of,
)

_PROBLEM_CHARS = 300
_SIGNATURE_CHARS = 380
_VALUE_CHARS = 40
_SHOWN_CHOICES = 8


def explain_schema(definition: ToolDefinition, problem: str) -> str:
    """What is wrong with a call and how the tool is called, in fewer than 800 characters.

    Args:
        problem: what is wrong, in a sentence; shortened to 300 characters.
    """
    wrong = clip(" ".join(problem.split()), _PROBLEM_CHARS) or "The call does not fit the tool."
    return f"{wrong}\nCall it as: {signature(definition)}\nSend the call again with arguments that fit."


def signature(definition: ToolDefinition) -> str:
    """The tool and its arguments, in 380 characters: ``file-read(path: string, start_line: integer = 1)``.

    An argument that may be left out shows its default, or a question mark when it has none.
    """
    schema = definition.parameters
    required = required_of(schema)
    shown: list[str] = []
    room = _SIGNATURE_CHARS - len(definition.name[:64]) - 4
    properties = properties_of(schema)
    for name in sorted(properties, key=lambda each: each not in required):
        argument = _argument(name, properties[name], schema, needed=name in required)
        if room < len(argument) + 2:
            shown.append("…")
            break
        room -= len(argument) + 2
        shown.append(argument)
    return f"{definition.name[:64]}({', '.join(shown)})"


def _argument(name: str, schema: Schema, root: JsonObject, *, needed: bool) -> str:
    kind = _type(schema, root)
    if needed:
        return f"{name}: {kind}"
    if isinstance(schema, dict) and schema.get("default") is not None:
        return f"{name}: {kind} = {_json(schema['default'])}"
    return f"{name}?: {kind}"


def _type(schema: Schema, root: JsonObject, depth: int = 0) -> str:
    kinds = [_branch(branch, root, depth) for branch in branches(schema, root)]
    return " | ".join(dict.fromkeys(kinds)) or "any"


def _branch(schema: JsonObject, root: JsonObject, depth: int) -> str:
    choices = choices_of(schema)
    if choices is not None:
        more = ["…"] if len(choices) > _SHOWN_CHOICES else []
        return " | ".join([*map(_json, choices[:_SHOWN_CHOICES]), *more])
    kinds = sorted(types_of(schema)) or ["any"]
    if kinds == ["array"] and depth == 0 and isinstance(schema.get("items"), dict):
        return f"array of {_type(schema['items'], root, depth + 1)}"
    return " | ".join(kinds)


def _json(value: Json) -> str:
    return clip(json.dumps(value, ensure_ascii=False), _VALUE_CHARS)


def clip(text: str, chars: int) -> str:
    """The text, cut off where it is longer than that many characters."""
    return text if len(text) <= chars else f"{text[: chars - 1]}…"
