"""Fast copies of large frozen values, and lazily computed attributes of them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

_T = TypeVar("_T")

OMITTED: Final = {"omitted": True}
"""Metadata of a field that is not written to JSON while it has its default."""


def replaced(value: _T, **changes: Any) -> _T:
    """Return a copy with some fields changed, without calling ``__init__``.

    For ``attrs.frozen(slots=False)`` classes without validators; converters are not called.

    Raises:
        TypeError: there is no field of that name.
    """
    known: dict[str, Any] = value.__dict__
    for name in changes:
        if name not in known:
            unknown = sorted(changes.keys() - known.keys())
            raise TypeError(f"{type(value).__name__} has no field {', '.join(unknown)}.")
    made = object.__new__(type(value))
    object.__setattr__(made, "__dict__", known | changes)
    return made


# --- lazily computed attributes -------------------------------------------------------------------------

__all__ = ["OMITTED", "computed", "replaced"]

if TYPE_CHECKING:
    from functools import cached_property as computed
else:

    class computed(cached_property):
        """``functools.cached_property`` without its lock of Python 3.11, at half the cost.

        Two threads may both compute the value, with the same result.
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            instance.__dict__[self.attrname] = value = self.func(instance)
            return value
