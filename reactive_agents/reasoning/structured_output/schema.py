"""Shapes: the JSON Schema of an answer, and how it is read into a value."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Generic, TypeVar

from attrs import frozen
from returns.result import Result

from reactive_agents.core.codec import decode, encode
from reactive_agents.core.errors import DecodeError
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.json_schema import json_schema

T = TypeVar("T")
_Written = TypeVar("_Written")

_schema_of = cache(json_schema)
"""Read out of docstrings, which is slow, and the same for each question."""


@frozen(eq=False)
class Shape(Generic[T]):
    """The required form of an answer.

    Attributes:
        name: of the type, for prompts and messages.
        schema: the JSON Schema that a model is shown.
        read: the value that JSON data describes, or ``DecodeError`` with a path for each problem.
        example: an instance of the schema, for models that learn better from one.
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
    shown = None if example is None else encode(example, kind)
    return Shape(kind.__name__, _schema_of(described), read, shown)
