"""Changes to the few large frozen values of which every step of a run makes a new one."""

from __future__ import annotations

from typing import Any, TypeVar

_T = TypeVar("_T")


def replaced(value: _T, **changes: Any) -> _T:
    """Return a copy with some fields changed, as ``attrs.evolve`` does, without calling ``__init__`` again.

    For ``attrs.frozen(slots=False)`` classes without validators and converters.

    Raises:
        TypeError: there is no field of that name.
    """
    fields = vars(value)
    if not changes.keys() <= fields.keys():
        raise TypeError(f"{type(value).__name__} has no field {', '.join(sorted(changes - fields.keys()))}.")
    made = object.__new__(type(value))
    made.__dict__.update(fields, **changes)
    return made
