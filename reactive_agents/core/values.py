"""Fast copies of large frozen values that every step of a run changes."""

from __future__ import annotations

from typing import Any, TypeVar

_T = TypeVar("_T")


def replaced(value: _T, **changes: Any) -> _T:
    """Return a copy with some fields changed, without calling ``__init__``.

    For ``attrs.frozen(slots=False)`` classes without validators; converters are not called.

    Raises:
        TypeError: there is no field of that name.
    """
    made = object.__new__(type(value))
    fields = vars(made)
    fields.update(vars(value))
    known = len(fields)
    fields.update(changes)
    if len(fields) != known:
        unknown = sorted(changes.keys() - vars(value).keys())
        raise TypeError(f"{type(value).__name__} has no field {', '.join(unknown)}.")
    return made
