"""Changing fields of the large states that every step of a run makes anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from reactive_agents.core.frozen import open_class

_T = TypeVar("_T")

_open: dict[type, Any] = {}
"""Of each class that was seen, the one that its new objects begin in."""


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
    kind = type(value)
    if len(merged) != len(fields):
        raise TypeError(f"{kind.__name__} has no field {', '.join(changes.keys() - fields.keys())}.")
    new = (_open.get(kind) or _open.setdefault(kind, open_class(kind)))()
    new.__dict__ = merged
    new.__class__ = kind
    return new  # type: ignore[no-any-return]
