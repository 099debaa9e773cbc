"""A lazily computed attribute of a frozen object."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

__all__ = ["computed"]

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
