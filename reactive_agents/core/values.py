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
    made = object.__new__(type(value))
    fields = vars(made)
    fields.update(vars(value))
    known = len(fields)
    fields.update(changes)
    if len(fields) != known:
        unknown = sorted(changes.keys() - vars(value).keys())
        raise TypeError(f"{type(value).__name__} has no field {', '.join(unknown)}.")
    return made
