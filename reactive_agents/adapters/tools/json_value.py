"""Conversion of a tool's return value to JSON, and values as errors show them."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Collection, Mapping, Set
from datetime import date, datetime, time
from enum import Enum
from math import isfinite
from pathlib import PurePath
from typing import Any

import attrs
from returns.maybe import Maybe

from reactive_agents.core.content import Audio, Document, Image
from reactive_agents.core.errors import ArgumentProblem
from reactive_agents.core.json import Json, without_surrogates
from reactive_agents.core.texts import shortened

SHOWN_CHARS = 80
_SHOWN_PROBLEMS = 10
_MAX_DEPTH = 100
_MAX_ITEMS = 1_000_000
_SMALL = 2**63  # integers below this work with every JSON reader and with Python's limit on digits


def to_json_value(value: object) -> Json:
    """Return the value as JSON data that shares no list or dictionary with it.

    Never fails, and ``json.dumps`` accepts the result.

    Attrs classes, dataclasses, pydantic models and named tuples become objects; enums their value; dates ISO
    8601; paths, decimals and UUIDs text; bytes text when they are UTF-8, else ``{"base64": …}``; sets sorted
    arrays; infinities and NaN text. Other values become ``str(value)``, a cycle ``"<cycle>"``.
    """
    return _convert(value, ())


def _convert(value: Any, parents: tuple[int, ...]) -> Json:
    kind = type(value)
    if value is None or kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is str:
        return value if value.isascii() else without_surrogates(value)
    if kind is int:
        return value if -_SMALL < value < _SMALL else _large(value)
    if kind is float:
        return value if isfinite(value) else str(value)
    if len(parents) >= _MAX_DEPTH:
        return "<nested too deep>"
    if id(value) in parents:
        return "<cycle>"
    parents = (*parents, id(value))
    if kind is list:
        return [_convert(item, parents) for item in value]
    if kind is dict:
        return {_key(key): _convert(item, parents) for key, item in value.items()}
    try:
        return _of_other_type(value, parents)
    except Exception:  # noqa: BLE001 - properties, iterators and serializers of the value are arbitrary code
        return as_text(value)


def _of_other_type(value: Any, parents: tuple[int, ...]) -> Json:
    match value:
        case Enum():
            return _convert(value.value, parents)
        case str():
            return without_surrogates(str.__str__(value))
        case int():
            return _convert(int.__int__(value), parents)
        case float():
            return _convert(float.__float__(value), ())
        case datetime() | date() | time():
            return str(value.isoformat())
        case bytes() | bytearray() | memoryview():
            return _of_bytes(bytes(value))
        case PurePath() | type() | Image() | Audio() | Document():
            return as_text(value)
        case _ if attrs.has(type(value)) or dataclasses.is_dataclass(value):
            fields = attrs.fields(type(value)) if attrs.has(type(value)) else dataclasses.fields(value)
            names = [field.name for field in fields]
            return {name: _convert(getattr(value, name), parents) for name in names if hasattr(value, name)}
        case _ if _has(value, "model_dump"):
            return _convert(value.model_dump(), parents)
        case Maybe():
            return _convert(value.value_or(None), parents)
        case _ if _has(value, "_asdict"):
            return _convert(value._asdict(), parents)
        case Mapping():
            return {_key(key): _convert(item, parents) for key, item in value.items()}
        case Set():
            return sorted((_convert(item, parents) for item in value), key=json.dumps)
        case _ if _has(value, "tolist"):
            return _convert(value.tolist(), parents)
        case Collection() if len(value) <= _MAX_ITEMS:
            return [_convert(item, parents) for item in value]
        case _:
            return as_text(value)


def _has(value: object, method: str) -> bool:
    return callable(getattr(value, method, None))


def _key(key: object) -> str:
    if type(key) is str:
        return key if key.isascii() else without_surrogates(key)
    converted = _convert(key, ())
    if isinstance(converted, str):
        return converted
    return json.dumps(converted) if isinstance(converted, bool | int | float | None) else as_text(key)


def _large(value: int) -> Json:
    try:
        str(value)
    except ValueError:  # longer than the interpreter's limit on digits
        return hex(value)
    return value


def as_text(value: object) -> str:
    """Return ``str(value)`` as valid UTF-8; the name of its class if ``str`` fails."""
    try:
        return without_surrogates(str(value))
    except Exception:  # noqa: BLE001 - __str__ of the value is arbitrary code
        return f"<{type(value).__name__}>"


def _of_bytes(content: bytes) -> Json:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode("ascii"), "bytes": len(content)}


def shorten(value: object) -> str:
    """Return the value as JSON text of at most 80 characters."""
    return shortened(json.dumps(to_json_value(value), ensure_ascii=False), SHOWN_CHARS)


def first_problems(problems: tuple[ArgumentProblem, ...]) -> tuple[ArgumentProblem, ...]:
    """Return the first ten problems, and how many more there are."""
    if len(problems) <= _SHOWN_PROBLEMS:
        return problems
    more = f"{len(problems) - _SHOWN_PROBLEMS} more problems"
    return (*problems[:_SHOWN_PROBLEMS], ArgumentProblem("further arguments", more, "valid values"))
