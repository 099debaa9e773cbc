"""Changing fields of the large values that every step of a run makes anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from reactive_agents.effects import open_class

_T = TypeVar("_T")

_copiers: dict[type, Callable[[Any], Any]] = {}


def replaced(value: _T, changes: Mapping[str, object]) -> _T:
    """The value with some fields changed: what ``attrs.evolve`` does, at a fifth of its cost.

    For frozen attrs classes with slots and without validators and converters, since nothing is passed through
    ``__init__`` again. The types of the changes are the caller's duty.

    Raises:
        TypeError: there is no field of that name.
    """
    kind = type(value)
    copier = _copiers.get(kind)
    if copier is None:
        copier = _copiers[kind] = _written(kind, ())
    made = copier(value)
    try:
        for name, new in changes.items():
            setattr(made, name, new)
    except AttributeError as error:
        raise TypeError(f"{error}") from None
    made.__class__ = kind
    return made  # type: ignore[no-any-return]


def replacer(cls: type[_T], *names: str) -> Callable[..., _T]:
    """A function of a value and of what those fields get, by position or name: twice as fast as ``replaced``.

    Raises:
        TypeError: there is no field of that name.
    """
    return _written(cls, names, "_made.__class__ = _cls")


def _written(cls: Any, names: tuple[str, ...], *ending: str) -> Callable[..., Any]:
    """A function that copies all other fields, written as source and compiled, as attrs does it."""
    fields = [each.name for each in attrs.fields(cls)]
    unknown = [name for name in names if name not in fields]
    if unknown:
        raise TypeError(f"{cls.__name__} has no field {', '.join(unknown)}.")
    source = [
        f"def made({', '.join(['_value', *names])}):",
        "_made = _open()",
        *(f"_made.{name} = {name if name in names else f'_value.{name}'}" for name in fields),
        *ending,
        "return _made",
    ]
    known: dict[str, Any] = {"_cls": cls, "_open": open_class(cls)}
    exec("\n ".join(source), known)
    return known["made"]  # type: ignore[no-any-return]
