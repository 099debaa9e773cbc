"""JSON Schemas of the types of the codec, for structured output of models.

A class is described by its docstring: its first sentence, and the ``Attributes`` section for each field.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import attrs
from returns.result import Success
from typing_extensions import TypeVar

from reactive_agents.core.codec import decode, encode
from reactive_agents.core.converter import union_members
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.model_settings import OMIT, Unset
from reactive_agents.core.stored_forms import TAG, tag_of
from reactive_agents.core.values import LIVE

_SCALARS: Mapping[Any, JsonObject] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
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
    if kind is Unset:  # it is not written, and ``None`` is written so
        return {"const": OMIT}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
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
    is_tagged = len(members) > 1 and all(map(attrs.has, members))
    branches: list[Json] = [_tagged(member) if is_tagged else json_schema(member) for member in members]
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
        if field.metadata == LIVE:
            continue
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


# --- Results with an output of any type, for pydantic ---


def pydantic_schema(kind: Any, root: Any, source: Any, handler: Any) -> Any:
    """Return the schema by which pydantic reads and writes a result.

    All but the output has the form of the codec; the output has that of its type.

    Args:
        kind: the class of the result, whose field ``output`` is generic.
        root: its common base, which makes an instance of the class of the status.
        source: the same with the type of the output, as in ``TypedResult[City]``; texts without.
        handler: pydantic's, as of ``__get_pydantic_core_schema__``.
    """
    from pydantic_core import core_schema  # only pydantic calls this

    (output,) = get_args(source) or (str,)

    def read(data: Any, read_output: Callable[[Any], Any]) -> Any:
        if isinstance(data, kind):
            return data
        if not isinstance(data, dict):
            raise ValueError("expected an object with the fields of a result")
        decoded = decode({**data, "output": None}, root)
        if not isinstance(decoded, Success):
            raise ValueError(decoded.failure().message)
        result = decoded.unwrap()
        if not isinstance(result, kind):
            raise ValueError(f"status: got {result.status!r}, expected the status of a {kind.__name__}")
        given = data.get("output")
        if given is None and result.status != "completed":
            return result
        return attrs.evolve(result, output=read_output(given))

    def write(result: Any, write_output: Callable[[Any], Any]) -> Any:
        data = cast("JsonObject", encode(attrs.evolve(result, output=None), type(result)))
        said = result.output is not None or result.status == "completed"
        return {**data, "output": write_output(result.output)} if said else data

    inner = handler.generate_schema(output)
    writing = core_schema.wrap_serializer_function_ser_schema(write, schema=inner)
    return core_schema.no_info_wrap_validator_function(read, inner, serialization=writing)


def pydantic_json_schema(kind: Any, core_schema: Any, handler: Any) -> Any:
    """Return the JSON Schema of a result, as pydantic's schema of it reads it."""
    schema = json_schema(kind)
    fields = cast("dict[str, Any]", schema["properties"])
    fields["output"] = {"anyOf": [handler(core_schema["schema"]), {"type": "null"}]}
    return schema
