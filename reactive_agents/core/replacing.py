"""Changing fields of the large states that every step of a run makes anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

_T = TypeVar("_T")
_new, _set = object.__new__, object.__setattr__


def replaced(value: _T, changes: Mapping[str, object]) -> _T:
    """The value with some fields changed: what ``attrs.evolve`` does, at a fifth of its cost.

    ``changes``: a plain ``dict``, or one that is typed.

    For attrs classes without slots, validators and converters, since the fields that stay are not passed
    through ``__init__`` again. The types of the changes are the caller's duty.

    Raises:
        TypeError: there is no field of that name.
    """
    fields: dict[str, object] = value.__dict__
    merged = fields | changes  # type: ignore[operator]  # a typed dictionary is a ``dict``, which no type says
    if len(merged) != len(fields):
        raise TypeError(f"{type(value).__name__} has no field {', '.join(changes.keys() - fields.keys())}.")
    new = _new(type(value))
    _set(new, "__dict__", merged)
    return new
