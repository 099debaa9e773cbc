"""The base class of frozen values, fast copies, and what its first use computes.

The values of this package share one equality, one hash and one representation. attrs would write these three
out as source and compile them for each class, which takes longer than everything else about the class: with
some three hundred classes it is a quarter of the start of a process. Constructors, which run far more often,
are those of attrs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from attrs import fields

_T = TypeVar("_T")

OMITTED: Final = {"omitted": True}
"""Metadata of a field that is not written to JSON while it has its default."""
LIVE: Final = {"live": True}
"""Metadata of a field that is never written to JSON, such as a function."""
SHARE: Final = {"share": True}
"""Metadata of a field that custom code sets to 0 to 1, or ``None``."""


class Value:
    """Equality, hash and representation by the fields of an attrs class.

    For classes that are ``frozen(eq=False, repr=False)``; as attrs would make them: values of different
    classes are never equal, and fields with ``eq=False`` or ``repr=False`` are left out.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        kind: Any = type(self)
        compared = _compared(kind)
        return bool(compared(self) == compared(other))

    def __hash__(self) -> int:
        kind: Any = type(self)
        return hash((kind, _compared(kind)(self)))

    def __repr__(self) -> str:
        """Return the class and its fields, as its call would be written."""
        shown = (
            f"{each.name}={(repr if each.repr is True else each.repr)(getattr(self, each.name))}"
            for each in _fields(self)
            if each.repr
        )
        return f"{type(self).__qualname__.rpartition('>.')[2]}({', '.join(shown)})"


def _fields(value: object) -> Any:
    return fields(cast(Any, type(value)))


@cache
def _compared(kind: Any) -> Callable[[object], Any]:
    """Return the function that reads what makes values of a class equal."""
    names = [each.name for each in fields(kind) if each.eq]
    return attrgetter(*names) if names else lambda _: ()


def replaced(value: _T, **changes: Any) -> _T:
    """Return a copy with some fields changed, without calling ``__init__``.

    For ``attrs.frozen(slots=False)`` classes without validators; converters are not called. What was
    :class:`computed` is copied as it is, also if it depends on a changed field. CPython before 3.13 reads a
    copy faster than a value that its constructor made, so that a constant is better a copy.

    Raises:
        TypeError: there is no field of that name.
    """
    known: dict[str, Any] = value.__dict__
    # not known | changes: a copy of the dictionary that a constructor filled is read as slowly as that
    fields = {**known, **changes}
    if len(fields) > len(known):
        unknown = sorted(changes.keys() - known.keys())
        raise TypeError(f"{type(value).__name__} has no field {', '.join(unknown)}.")
    made = object.__new__(type(value))
    object.__setattr__(made, "__dict__", fields)
    return made


__all__ = ["LIVE", "OMITTED", "SHARE", "Value", "computed", "lazy_pattern", "replaced"]

if TYPE_CHECKING:
    from functools import cached_property as computed
    from re import compile as lazy_pattern
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

    def _method(name: str) -> computed:
        return computed(lambda self: getattr(re.compile(self.pattern, self.flags), name))

    class lazy_pattern:
        """A regular expression that is compiled when it is first used.

        Most runs use few of them; compiling all was a tenth of the time until the first answer.
        """

        def __init__(self, pattern: str | bytes, flags: int = 0) -> None:
            self.pattern = pattern
            self.flags = flags

        search, match, fullmatch = map(_method, ("search", "match", "fullmatch"))
        findall, finditer, split, sub = map(_method, ("findall", "finditer", "split", "sub"))
