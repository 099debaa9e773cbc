"""Values without secrets: every text in them goes through the redactor before anything is made of it."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin

import attrs

from reactive_agents.core.json import Json
from reactive_agents.core.redaction import Redactor

_T = TypeVar("_T")


def without_secrets(value: _T, redactor: Redactor) -> _T:
    """The same value with its texts redacted, however deep they are.

    Left as they are: names that other records refer to (ids), words of a fixed list (a status, a kind),
    numbers and moments.
    """
    cleaned: _T = _cleaned(value, type(value), redactor)
    return cleaned


def _cleaned(value: Any, kind: Any, redactor: Redactor) -> Any:
    if isinstance(value, str) and kind is not Json:
        return value if _is_name(kind) else redactor.redact(value)
    if isinstance(value, dict | list) or kind is Json:
        return redactor.redact_json(value)
    if isinstance(value, tuple):
        return tuple(_cleaned(each, kind, redactor) for each in value)
    made: Any = type(value)
    if attrs.has(made):
        fields = {name: _cleaned(getattr(value, name), kind, redactor) for name, kind in _fields(made)}
        return attrs.evolve(value, **fields)
    return value


@cache
def _fields(kind: type) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.type) for field in attrs.fields(attrs.resolve_types(kind)))


def _is_name(kind: Any) -> bool:
    """Whether the declared type is an id or a word of a fixed list, or a tuple or union of such."""
    if get_origin(kind) is Literal or hasattr(kind, "__supertype__"):
        return True
    parts = [part for part in get_args(kind) if part not in (type(None), Ellipsis)]
    return bool(parts) and all(map(_is_name, parts))
