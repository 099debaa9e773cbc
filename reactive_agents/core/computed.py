"""Values that an object works out once, when it is first asked for them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

__all__ = ["computed"]

if TYPE_CHECKING:
    from functools import cached_property as computed
else:

    class computed(cached_property):
        """``functools.cached_property`` without the lock that it has before Python 3.12, at half the cost.

        Two threads may both work the value out, which is the same then.
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            instance.__dict__[self.attrname] = value = self.func(instance)
            return value
