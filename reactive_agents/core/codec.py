"""JSON forms of frozen values, strict on the way in.

One codec serves files, memory, audit entries, events and the answers of models, so that a value has the same
form everywhere. A value of a union is written with a ``tag`` from the table in ``stored_forms``, which also
says how earlier forms are read. Decoding rejects unknown fields, missing fields, wrong types and values out
of range, and names the path of each, since its input was written by a person, a model or another version.
``decode(encode(x)) == x`` holds for every public type.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import attrs
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import DecodeError, FieldProblem
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.json import abbreviated as abbreviated
from reactive_agents.core.stored_forms import VERSION, upgrade_of

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
