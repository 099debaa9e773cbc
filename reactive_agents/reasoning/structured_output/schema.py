"""Shapes: the JSON Schema of an answer, and how it is read into a value."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Generic, TypeVar

from attrs import frozen
from returns.result import Result

from reactive_agents.core.codec import decode, encode
from reactive_agents.core.errors import DecodeError
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.json_schema import json_schema
from reactive_agents.kernel.call_parsing.argument_schema import (
    branches,
    choices_of,
    properties_of,
    required_of,
    types_of,
)

T = TypeVar("T")
_Written = TypeVar("_Written")

_DEEPEST = 8
_schema_of = cache(json_schema)
"""Read out of docstrings, which is slow, and the same for each question."""


@frozen(eq=False)
class Shape(Generic[T]):
    """The required form of an answer.

    Attributes:
        name: of the type, for prompts and messages.
        schema: the JSON Schema that a model is shown.
        read: the value that JSON data describes, or ``DecodeError`` with a path for each problem.
        example: an instance of the schema, for small models; without optional fields that are empty.
    """

    name: str
    schema: JsonObject
    read: Callable[[Json], Result[T, DecodeError]]
    example: Json = None


def shape_of(kind: type[T], *, example: T | None = None) -> Shape[T]:
    """Return the shape of a class of the codec.

    Raises:
        TypeError: the class has a field that the codec does not know.
    """

    def read(data: Json) -> Result[T, DecodeError]:
        return decode(data, kind)

    return shape_read_by(kind, read, example=example)


def shape_read_by(
    kind: type[_Written], read: Callable[[Json], Result[T, DecodeError]], *, example: _Written | None = None
) -> Shape[T]:
    """Return the shape of a class of the codec that is read into something else.

    Raises:
        TypeError: the class has a field that the codec does not know.
    """
    described: type = kind
    schema = _schema_of(described)
    shown = None if example is None else _without_empty(encode(example, kind), schema)
    return Shape(kind.__name__, schema, read, shown)


def _without_empty(value: Json, schema: Json) -> Json:
    """Return an example without optional fields that say nothing."""
    if isinstance(value, list):
        items = schema.get("items") if isinstance(schema, dict) else None
        return [_without_empty(each, items) for each in value]
    if not isinstance(value, dict) or not isinstance(schema, dict) or "properties" not in schema:
        return value
    known, required = properties_of(schema), required_of(schema)
    return {
        name: _without_empty(each, known.get(name))
        for name, each in value.items()
        if name in required or each not in (None, "", [], {})
    }


# --- the form of a value in few words -------------------------------------------------------------------


def outline(schema: Json, root: JsonObject, *, depth: int = 0) -> str:
    """Return a schema as JSON with types for values; ``?`` marks optional fields.

    That a value may be null is left out.
    """
    alternatives = branches(schema, root)
    values = [each for each in alternatives if types_of(each) != {"null"}]
    forms = [_form(each, root, depth) for each in values or alternatives]
    return " | ".join(dict.fromkeys(forms)) or "any"


def _form(schema: JsonObject, root: JsonObject, depth: int) -> str:
    choices, known, required = choices_of(schema), properties_of(schema), required_of(schema)
    if choices is not None:
        return " | ".join(json.dumps(each, ensure_ascii=False) for each in choices)
    if known and depth < _DEEPEST:
        fields = (
            f"{json.dumps(name)}{'' if name in required else '?'}: {outline(each, root, depth=depth + 1)}"
            for name, each in known.items()
        )
        return f"{{{', '.join(fields)}}}"
    if "items" in schema and depth < _DEEPEST:
        return f"[{outline(schema['items'], root, depth=depth + 1)}, …]"
    low, high = schema.get("minimum"), schema.get("maximum")
    limits = f" {low:g} to {high:g}" if isinstance(low, int | float) and isinstance(high, int | float) else ""
    return (" | ".join(sorted(types_of(schema))) or "any") + limits
