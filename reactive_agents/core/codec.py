"""JSON forms of frozen values, strict on the way in.

One codec serves files, memory, audit entries, events and the answers of models, so that a value has the same
form everywhere. A value of a union is written with a ``tag`` from the table in ``stored_forms``, which also
says how earlier forms are read. Decoding rejects unknown fields, missing fields, wrong types and values out
of range, and names the path of each, since its input was written by a person, a model or another version.
``decode(encode(x)) == x`` holds for every public type. Values that custom code made are checked by it too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import attrs
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import DecodeError, FieldProblem
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.json import abbreviated as abbreviated
from reactive_agents.core.persistent import PersistentList, PersistentMap, PersistentSet
from reactive_agents.core.stored_forms import VERSION, upgrade_of
from reactive_agents.core.texts import with_article
from reactive_agents.core.values import SHARE

if TYPE_CHECKING:
    from cattrs import Converter

_T = TypeVar("_T")


@cache
def json_converter() -> Converter:
    """Return the converter with all hooks; one per process, since building it is slow."""
    from reactive_agents.core.converter import build_converter  # and cattrs, which not every run needs

    return build_converter()


def encode(value: object, kind: Any = None) -> Json:
    """Return the value as JSON data.

    Args:
        value: an instance of any public type of ``core``, or a container of such.
        kind: the declared type, needed where ``value`` stands for a union whose tag must be written.
    """
    return cast(Json, json_converter().unstructure(value, unstructure_as=kind))


def decode(data: object, kind: Any) -> Result[Any, DecodeError]:
    """Decode JSON data to type ``kind``, or fail with ``DecodeError``.

    The error has a path for each problem."""
    try:
        return Success(json_converter().structure(data, kind))
    except Exception as error:  # noqa: BLE001 - a decoder is total: whatever a hook raises is a problem of the data
        from reactive_agents.core.converter import problems_of

        return _failure(kind, *problems_of(error))


def decode_fields(data: Mapping[str, object], kind: Any) -> Result[dict[str, Any], DecodeError]:
    """Decode some fields of a class, or fail with ``DecodeError``.

    The hooks of its other fields, which may hold many classes, are not made.

    Args:
        data: JSON data of fields that the class has.
    """
    from reactive_agents.core.converter import field_hook, problems_of

    decoded: dict[str, Any] = {}
    problems: list[FieldProblem] = []
    upgrade = upgrade_of(kind)
    if upgrade is not None:  # it may change what is inside of the fields
        data = upgrade(cast(JsonObject, dict(data)))
    known = attrs.fields_dict(attrs.resolve_types(kind))
    for name, value in data.items():
        try:
            decoded[name] = field_hook(known[name], json_converter())(value, known[name].type)
        except Exception as error:  # noqa: BLE001 - as in decode()
            problems += problems_of(error, f"$.{name}")
    return _failure(kind, *problems) if problems else Success(decoded)


def _failure(kind: Any, *problems: FieldProblem) -> Failure[DecodeError]:
    from reactive_agents.core.converter import name_of

    return Failure(DecodeError(name_of(kind), problems))


def to_json(value: object, kind: Any = None, *, indent: int | None = None) -> str:
    """Return the value as JSON text.

    Object keys keep the order of the fields, so equal values give equal text.

    The text can always be written as UTF-8: a lone surrogate, which models do send, is escaped.

    Raises:
        ValueError: when the value holds NaN or an infinity, which JSON cannot express, or an integer of more
            than 4300 digits.
    """
    is_data = kind is None and type(value) is dict  # of which only what is no JSON yet is encoded
    data = value if is_data else encode(value, kind)
    text = _writer(indent).encode(data)
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def data_to_json(data: JsonObject) -> str:
    """Return JSON data as text without spaces, faster than :func:`to_json` does."""
    try:
        text = _quick_writer()(data).decode()
    except ValueError:  # about a lone surrogate, or a value that is to be encoded
        return to_json(data)
    return to_json(data) if "NaN" in text or "Infinity" in text else text


@cache
def _quick_writer() -> Callable[[object], bytes]:
    from pydantic_core import to_json as write  # loaded by durable runs

    return write


@cache
def _writer(indent: int | None) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=indent, default=encode)


def encode_document(value: object, version: int) -> JsonObject:
    """Return the value as a JSON object with the version of its form."""
    return {VERSION: version, **cast(JsonObject, encode(value))}


def decode_document(data: object, kind: type[_T], *, newest: int) -> Result[_T, DecodeError]:
    """Return the value of an object with the version of its form, or ``DecodeError``.

    An object without a version has the first one. One of a newer version is refused by that name, since its
    fields would be reported as unknown ones.

    Args:
        newest: the newest version that this program knows, 1 or more.
    """
    if not isinstance(data, dict):
        return decode(data, kind)
    version = data.get(VERSION, 1)
    if type(version) is not int or not 1 <= version <= newest:
        expected = (
            f"got {abbreviated(version)}, expected a version from 1 to {newest}; a newer program wrote it"
        )
        return _failure(kind, FieldProblem(f"$.{VERSION}", expected))
    return decode({key: item for key, item in data.items() if key != VERSION}, kind)


@overload
def from_json(text: str | bytes, kind: type[_T]) -> Result[_T, DecodeError]: ...


@overload
def from_json(text: str | bytes, kind: object) -> Result[Any, DecodeError]: ...


def from_json(text: str | bytes, kind: Any) -> Result[Any, DecodeError]:
    """Decode JSON text to type ``kind``, or fail with ``DecodeError``.

    Stricter than ``json``: an object that names a key twice is refused, and so are NaN and the infinities.
    """
    try:
        data = json.loads(text, object_pairs_hook=_object_of, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return _failure(kind, FieldProblem("$", f"not JSON: {error}"))
    return decode(data, kind)


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, item in pairs:
        if key in made:
            raise ValueError(f"the key {key[:80]!r} occurs twice in one object")
        made[key] = item
    return made


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


# --- values that custom code made ------------------------------------------------------------------------
# They may hold anything, and would fail later, in a policy or when they are stored, far from who made them.
# Of a changed value only the changes are looked at, and of what grew only the new part, so that a check costs
# as much as the change.

_ABSENT: Final = object()
"""In place of the earlier value, where there is none."""


def wrong_value(old: _T, new: _T) -> FieldProblem | None:
    """Return the first changed value that is of a wrong type or has no JSON form.

    Its path begins with the name of a field.
    """
    return _in_fields(type(old), old, new, "")


def wrong_field(kind: type, value: object) -> FieldProblem | None:
    """Return the first field or item of custom code's value that is of a wrong type."""
    if attrs.has(kind):
        return _in_fields(kind, _ABSENT, value, "")
    return wrong_change(kind, _ABSENT, value, "items")


def _in_fields(kind: type, before: object, after: object, path: str) -> FieldProblem | None:
    for name, field_kind in _kinds(kind).items():
        inner = f"{path}.{name}" if path else name
        value = getattr(after, name)
        problem = wrong_change(field_kind, getattr(before, name, _ABSENT), value, inner)
        if problem is None and name in _shares(kind) and value is not None and not 0 <= value <= 1:
            problem = FieldProblem(inner, f"got {value}, expected 0 to 1")
        if problem is not None:
            return problem
    return None


@cache
def _shares(kind: type) -> frozenset[str]:
    return frozenset(each.name for each in attrs.fields(kind) if each.metadata == SHARE)


@cache
def _kinds(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in attrs.fields(kind)}


def wrong_change(kind: Any, before: object, after: object, path: str) -> FieldProblem | None:
    """Return why custom code may not replace a value of this kind so, or ``None``."""
    if after is before:
        return None
    if attrs.has(kind):
        if type(after) is kind:
            return _in_fields(kind, before, after, path)
        return FieldProblem(path, f"got {abbreviated(after)}, expected {_named(kind)}")
    try:
        added = _added(kind, before, after)
        decoded = decode(encode(added, kind), kind)
        equal = isinstance(decoded, Failure) or bool(decoded.unwrap() == added)
    except Exception:  # noqa: BLE001 - the value is an arbitrary object, which may raise on any use
        return FieldProblem(path, f"got {abbreviated(after)}, expected {_named(kind)}")
    if isinstance(decoded, Failure):
        problem = decoded.failure().problems[0]
        return FieldProblem(path + problem.path.removeprefix("$"), problem.problem)
    return None if equal else FieldProblem(path, f"got {abbreviated(after)}, expected {_named(kind)}")


def _added(kind: Any, before: Any, after: Any) -> Any:
    """Return the items added to a growing collection; any other value unchanged."""
    origin = get_origin(kind)
    if before is _ABSENT:  # where nothing is added to it, a list does for a tuple, and a StrEnum for a text
        if isinstance(after, str):
            return str.__str__(after)
        return tuple(after) if origin is tuple and isinstance(after, list) else after
    if origin is PersistentList:
        after = tuple(after) if isinstance(after, list) else after
        return (
            after[len(before) :] if isinstance(after, PersistentList) and after.starts_with(before) else after
        )
    if isinstance(after, PersistentMap | PersistentSet):
        return after.added_to(before)
    if origin is tuple and isinstance(after, tuple) and isinstance(before, tuple):
        return after[len(before) :] if after[: len(before)] == before else after
    return after


def _named(kind: Any) -> str:
    arguments = get_args(kind)
    if kind is type(None):
        return "None"
    if not arguments:
        return getattr(kind, "__name__", str(kind))
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return " or ".join(_named(each) for each in arguments)
    parts = ", ".join(_named(each) for each in arguments if each is not ...)
    return f"{with_article(origin.__name__)} of {parts}"
