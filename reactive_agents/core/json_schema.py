"""JSON Schemas of the types of the codec, for structured output of models.

A class is described by its docstring: its first sentence, and the ``Attributes`` section for each field.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import attrs
from typing_extensions import TypeVar

from reactive_agents.core.codec import union_members
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.stored_forms import TAG, tag_of

_SCALARS: Mapping[Any, JsonObject] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    Path: {"type": "string"},
    datetime: {"type": "string", "format": "date-time"},
}
_BOUNDS = {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum"}


def json_schema(kind: Any) -> JsonObject:
    """Return the schema of a type of the codec; it admits all that the codec decodes.

    Nested classes are inlined, so a recursive class has no schema.

    Raises:
        TypeError: the codec does not know the type.
        RecursionError: the class is recursive.
    """
    kind = getattr(kind, "__supertype__", kind)  # of a NewType
    kind = kind.__default__ if isinstance(kind, TypeVar) else kind
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if kind in (Json, Any, object):
        return {}
    if attrs.has(kind):
        return _of_class(kind)
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    if members := union_members(kind):
        return _of_union(kind, members)
    return _of_container(kind)


def _of_container(kind: Any) -> JsonObject:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (list, frozenset) or (origin is tuple and len(parts) == 2 and parts[1] is ...):
        return {"type": "array", "items": json_schema(parts[0])}
    if origin in (dict, Mapping) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return {"type": "object", "additionalProperties": json_schema(parts[1]) or True}
    raise TypeError(f"There is no JSON Schema for {kind!r}.")


def _of_union(kind: Any, members: tuple[Any, ...]) -> JsonObject:
    branches: list[Json] = [
        _tagged(member) if len(members) > 1 and attrs.has(member) else json_schema(member)
        for member in members
    ]
    if type(None) in get_args(kind):
        branches.append({"type": "null"})
    return {"anyOf": branches}


def _tagged(kind: Any) -> JsonObject:
    schema = _of_class(kind)
    properties: JsonObject = {TAG: {"const": tag_of(kind)}, **typing.cast(JsonObject, schema["properties"])}
    required = [TAG, *typing.cast("list[Json]", schema["required"])]
    return {**schema, "properties": properties, "required": required}


def _of_class(kind: Any) -> JsonObject:
    from docstring_parser import parse

    said = parse(kind.__doc__ or "")
    about = {each.arg_name: " ".join((each.description or "").split()) for each in said.params}
    hints = typing.get_type_hints(kind)
    properties: JsonObject = {}
    required: list[Json] = []
    for field in attrs.fields(kind):
        schema = json_schema(hints[field.name])
        schema |= dict(limits_of(field.validator, of_text=schema.get("type") == "string"))
        if about.get(field.name):
            schema["description"] = about[field.name]
        properties[field.name] = schema
        if field.default is attrs.NOTHING:
            required.append(field.name)
    head: JsonObject = {"description": said.short_description} if said.short_description else {}
    return {
        **head,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def limits_of(validator: Any, *, of_text: bool) -> Iterator[tuple[str, Json]]:
    """Return limits of numbers and lengths from validators, except of optional fields."""
    for inner in getattr(validator, "_validators", ()):  # of ``and_``
        yield from limits_of(inner, of_text=of_text)
    operator = getattr(validator, "compare_op", None)
    if operator in _BOUNDS:
        yield _BOUNDS[operator], validator.bound
    for name in ("min_length", "max_length"):
        if hasattr(validator, name):
            yield f"{name[:3]}{'Length' if of_text else 'Items'}", getattr(validator, name)
