"""The one codec: frozen values to JSON and back, strict on the way in.

A value of a union is written with a ``tag``, the name of its class. Decoding rejects unknown fields, missing
fields, wrong types and values out of their range, and names the path of each. ``decode(encode(x)) == x`` for
every public type.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar, cast, get_args, get_origin, overload

from returns.result import Failure, Result, Success

from reactive_agents.core.converter import json_converter, union_members
from reactive_agents.core.decode_problems import problems_of
from reactive_agents.core.errors import DecodeError, FieldProblem
from reactive_agents.core.json import Json

_T = TypeVar("_T")


def encode(value: object, kind: Any = None) -> Json:
    """The value as JSON data.

    Args:
        value: an instance of any public type of ``core``, or a container of such.
        kind: the declared type, needed where ``value`` stands for a union whose tag must be written.
    """
    return cast(Json, json_converter().unstructure(value, unstructure_as=kind))


def decode(data: object, kind: Any) -> Result[Any, DecodeError]:
    """The value of type ``kind`` that ``data`` describes, or ``DecodeError`` with a path for each problem."""
    try:
        return Success(json_converter().structure(data, kind))
    except Exception as error:  # noqa: BLE001 - a decoder is total: whatever a hook raises is a problem of the data
        return Failure(DecodeError(_name_of(kind), problems_of(error)))


def to_json(value: object, kind: Any = None, *, indent: int | None = None) -> str:
    """The value as JSON text. Object keys keep the order of the fields, so equal values give equal text.

    The text can always be written as UTF-8: half of a surrogate pair, which models do send, is escaped.

    Raises:
        ValueError: when the value holds NaN or an infinity, which JSON cannot say, or an integer of more than
            4300 digits.
    """
    text = json.dumps(encode(value, kind), ensure_ascii=False, allow_nan=False, indent=indent)
    return text.encode(errors="backslashreplace").decode()


@overload
def from_json(text: str | bytes, kind: type[_T]) -> Result[_T, DecodeError]: ...


@overload
def from_json(text: str | bytes, kind: object) -> Result[Any, DecodeError]: ...


def from_json(text: str | bytes, kind: Any) -> Result[Any, DecodeError]:
    """The value of type ``kind`` that JSON text describes, or ``DecodeError``.

    Stricter than ``json``: an object that names a key twice is refused, and so are NaN and the infinities.
    """
    try:
        data = json.loads(text, object_pairs_hook=_object_of, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return Failure(DecodeError(_name_of(kind), (FieldProblem("$", f"not JSON: {error}"),)))
    return decode(data, kind)


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, item in pairs:
        if key in made:
            raise ValueError(f"the key {key[:80]!r} occurs twice in one object")
        made[key] = item
    return made


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _name_of(kind: Any) -> str:
    members = union_members(kind)
    if members:
        return " | ".join(map(_name_of, members))
    if kind is ...:
        return "..."
    if get_args(kind):
        return f"{get_origin(kind).__name__}[{', '.join(map(_name_of, get_args(kind)))}]"
    return str(getattr(kind, "__name__", kind))
