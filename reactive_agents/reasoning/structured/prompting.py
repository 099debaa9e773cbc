"""How a model is told what its answer has to look like: more by example, the smaller it is."""

from __future__ import annotations

import json
from typing import Any

from reactive_agents.core.config import ContextTier
from reactive_agents.core.errors import DecodeError
from reactive_agents.core.json import Json
from reactive_agents.reasoning.shapes import Shape

_RULES = (
    "Reply with one JSON value and nothing else: no explanation before or after it, no Markdown. "
    "Write every field that is required, and no field that is not listed."
)
_BRIEF_RULES = "Reply with one JSON value that fits this JSON Schema, and with nothing else."


def format_instructions(shape: Shape[Any], tier: ContextTier) -> str:
    """The part of a system prompt that says what the reply has to look like.

    Large models get the schema; those of tier ``mid`` also an example and the rules; local ones the example
    first, and the schema after it.
    """
    schema = f"JSON Schema of the reply:\n{_compact(shape.schema)}"
    example = "" if shape.example is None else f"An example of such a reply:\n{_compact(shape.example)}"
    match tier:
        case "large" | "frontier":
            parts = [f"{_BRIEF_RULES}\n{_compact(shape.schema)}"]
        case "mid":
            parts = [_RULES, schema, example]
        case "local":
            parts = [_RULES, example, schema, "Begin with { or [." if _is_nested(shape) else ""]
    return "\n\n".join(part for part in parts if part)


def correction(error: DecodeError, *, cut_off: bool) -> str:
    """What a model is told of a reply that could not be used."""
    if cut_off:
        return "Your reply was cut off before its end. Reply again with a shorter JSON value alone."
    problems = "\n".join(f"- {problem.path}: {problem.problem}" for problem in error.problems)
    return f"Your reply could not be used:\n{problems}\nReply again with the corrected JSON value alone."


def _is_nested(shape: Shape[Any]) -> bool:
    return shape.schema.get("type") in ("object", "array")


def _compact(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
