"""The one codec: frozen values to JSON and back, strict on the way in.

A value of a union is written with a ``tag``, the name of its class. Decoding rejects unknown fields, missing
fields and wrong types, and names the path of each. ``decode(encode(x)) == x`` for every public type.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.errors import ForbiddenExtraKeysError
from cattrs.v import format_exception, transform_error
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import DecodeError, FieldProblem
from reactive_agents.core.json import Json

_T = TypeVar("_T")

TAG = "tag"


def encode(value: object, kind: Any = None) -> Json:
    """The value as JSON data.

    Args:
        value: an instance of any public type of ``core``, or a container of such.
        kind: the declared type, needed where ``value`` stands for a union whose tag must be written.
    """
    return cast(Json, _converter().unstructure(value, unstructure_as=kind))


def decode(data: object, kind: Any) -> Result[Any, DecodeError]:
    """The value of type ``kind`` that ``data`` describes, or ``DecodeError`` with a path for each problem."""
    try:
        return Success(_converter().structure(data, kind))
    except Exception as error:  # noqa: BLE001 - a decoder is total: whatever a hook raises is a problem of the data
        return Failure(DecodeError(_name_of(kind), _problems(error, kind)))


def to_json(value: object, kind: Any = None, *, indent: int | None = None) -> str:
    """The value as JSON text. Object keys keep the order of the fields, so equal values give equal text."""
    return json.dumps(encode(value, kind), ensure_ascii=False, allow_nan=False, indent=indent)


def from_json(text: str | bytes, kind: type[_T]) -> Result[_T, DecodeError]:
    """The value of type ``kind`` that JSON text describes, or ``DecodeError``."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Failure(DecodeError(_name_of(kind), (FieldProblem("$", f"not JSON: {error}"),)))
    return decode(data, kind)


@cache
def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    for kind in (bool, int, str):
        converter.register_structure_hook(kind, _strict(kind))
    converter.register_structure_hook(float, _structure_float)
    converter.register_structure_hook(datetime, _structure_datetime)
    converter.register_unstructure_hook(datetime, datetime.isoformat)
    converter.register_unstructure_hook(float, float)
    converter.register_structure_hook_func(lambda kind: kind is Json, lambda data, _: _json(data))
    converter.register_unstructure_hook_func(lambda kind: kind is Json, lambda data: data)
    converter.register_unstructure_hook_func(_is_frozenset, sorted)
    converter.register_structure_hook_func(_is_literal, _structure_literal)
    converter.register_structure_hook_factory(_is_tuple, _tuple_hook)
    converter.register_structure_hook_factory(_is_optional, _optional_hook)
    converter.register_unstructure_hook_factory(_is_tagged_union, _tagging_hook)
    converter.register_structure_hook_factory(_is_tagged_union, _untagging_hook)
    return converter


# --- scalars --------------------------------------------------------------------------------------------


class _WrongValue(ValueError):
    """Says what came and what was expected."""

    def __init__(self, value: object, expected: str) -> None:
        super().__init__(f"got {_shorten(value)}, expected {expected}")


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _strict(kind: type[_T]) -> Callable[[Any, Any], _T]:
    names = {bool: "true or false", int: "an integer", str: "a string"}

    def structure(data: Any, _: Any) -> _T:
        if type(data) is not kind:
            raise _WrongValue(data, names[kind])
        return data

    return structure


def _structure_float(data: Any, _: Any) -> float:
    if type(data) not in (int, float):
        raise _WrongValue(data, "a number")
    return float(data)


def _structure_datetime(data: Any, _: Any) -> datetime:
    if isinstance(data, str):
        try:
            return datetime.fromisoformat(data)
        except ValueError:
            pass
    raise _WrongValue(data, "a date and time in ISO 8601")


def _is_literal(kind: Any) -> bool:
    return bool(get_origin(kind) == Literal)


def _structure_literal(data: Any, kind: Any) -> Any:
    for choice in get_args(kind):
        if type(data) is type(choice) and data == choice:
            return choice
    raise _WrongValue(data, "one of " + ", ".join(map(repr, get_args(kind))))


def _json(data: Any) -> Any:
    if data is None or type(data) in (bool, int, str, float):
        return data
    if isinstance(data, list):
        return [_json(item) for item in data]
    if isinstance(data, dict) and all(isinstance(key, str) for key in data):
        return {key: _json(item) for key, item in data.items()}
    raise _WrongValue(data, "a JSON value")


# --- containers and unions ------------------------------------------------------------------------------


def _is_frozenset(kind: Any) -> bool:
    return kind is frozenset or get_origin(kind) is frozenset


def _is_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple and bool(get_args(kind)[1:] == (...,))


def _tuple_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], tuple[Any, ...]]:
    list_hook = converter.get_structure_hook(list[get_args(kind)[0]])  # type: ignore[misc]

    def structure(data: Any, _: Any) -> tuple[Any, ...]:
        if not isinstance(data, list | tuple):
            raise _WrongValue(data, "an array")
        return tuple(list_hook(data, kind))

    return structure


def _members(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) not in (Union, types.UnionType):
        return ()
    return tuple(member for member in get_args(kind) if member is not type(None))


def _is_tagged_union(kind: Any) -> bool:
    members = _members(kind)
    return len(members) > 1 and all(attrs.has(member) for member in members)


def _is_optional(kind: Any) -> bool:
    return len(_members(kind)) == 1 and type(None) in get_args(kind)


def _optional_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    (member,) = _members(kind)
    hook = converter.get_structure_hook(member)
    return lambda data, _: None if data is None else hook(data, member)


def _tagging_hook(kind: Any, converter: Converter) -> Callable[[Any], Any]:
    def unstructure(value: Any) -> Any:
        if value is None:
            return None
        return {TAG: type(value).__name__, **converter.unstructure(value, unstructure_as=type(value))}

    return unstructure


def _untagging_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    by_name = {member.__name__: member for member in _members(kind)}
    optional = type(None) in get_args(kind)

    def structure(data: Any, _: Any) -> Any:
        if data is None and optional:
            return None
        if not isinstance(data, dict):
            raise _WrongValue(data, f"an object with a {TAG!r}")
        member = by_name.get(data.get(TAG))
        if member is None:
            raise _WrongValue(data.get(TAG), f"one of these tags: {', '.join(sorted(by_name))}")
        return converter.structure({key: item for key, item in data.items() if key != TAG}, member)

    return structure


# --- problems -------------------------------------------------------------------------------------------


def _name_of(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


def _describe(error: BaseException, kind: Any) -> str:
    match error:
        case _WrongValue():
            return str(error)
        case KeyError():
            return "required field missing"
        case ForbiddenExtraKeysError():
            known = ", ".join(field.name for field in attrs.fields(error.cl))
            return f"unknown field {', '.join(sorted(error.extra_fields))}; known fields: {known}"
        case AttributeError():
            return "expected an object"
        case ValueError():
            return str(error)
        case _:
            return format_exception(error, kind)


def _problems(error: Exception, kind: Any) -> tuple[FieldProblem, ...]:
    lines = transform_error(error, path="$", format_exception=_describe)
    found = []
    for line in lines:
        problem, separator, path = line.rpartition(" @ ")
        found.append(FieldProblem(path, problem) if separator else FieldProblem("$", line))
    return tuple(found)
