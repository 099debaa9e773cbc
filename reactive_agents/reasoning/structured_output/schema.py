"""Shapes: the JSON Schema of an answer, and how it is read into a value."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Generic, TypeVar

from attrs import frozen
from returns.result import Result

from reactive_agents.core.codec import decode, encode
from reactive_agents.core.errors import DecodeError
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.json_schema import json_schema
from reactive_agents.kernel.call_parsing.argument_schema import properties_of, required_of

T = TypeVar("T")
_Written = TypeVar("_Written")

WRAPPED = "value"
"""The one field around a value that is not an object with fields, when an object is asked for."""

_schema_of = cache(json_schema)
"""Read out of docstrings, which is slow, and the same for each question."""


@frozen(eq=False)
class Shape(Generic[T]):
    """The required form of an answer.

    Attributes:
        name: the name of the type, for prompts and messages.
        schema: the JSON Schema that a model is shown.
        read: returns the value of JSON data, or ``DecodeError`` with a path for each problem.
        example: an instance of the schema, for small models; without optional fields that are empty.
        kind: the output type; ``None`` if the values do not have a type of the program.
        write: returns the JSON data of a value; it may raise for a wrong value. ``None`` if no value is
            written.
        is_fitted: whether JSON data is fitted to the schema before it is read.
    """

    name: str
    schema: JsonObject
    read: Callable[[Json], Result[T, DecodeError]]
    example: Json = None
    kind: Any = None
    write: Callable[[Any], Json] | None = None
    is_fitted: bool = True


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
    """Return the shape of a class of the codec, read into a value of another type.

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


def has_fields(schema: JsonObject) -> bool:
    """Return whether a value is an object with named fields, as arguments are."""
    return schema.get("type") == "object" and bool(properties_of(schema))


def without_descriptions(schema: Json) -> Json:
    """Return a schema of the codec without the descriptions of its fields."""
    if isinstance(schema, list):
        return [without_descriptions(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {field: without_descriptions(each) for field, each in value.items()}
        if name == "properties" and isinstance(value, dict)
        else without_descriptions(value)
        for name, value in schema.items()
        if name != "description"
    }
