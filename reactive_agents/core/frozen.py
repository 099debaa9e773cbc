"""Frozen attrs classes whose objects are made at half the usual cost."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import attrs

from reactive_agents.effects import open_class

_P = ParamSpec("_P")
_T = TypeVar("_T")


def maker(cls: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function that makes objects of a frozen class as calling the class does, once more at half the cost.

    For the classes of which every step of a run makes objects. Written as source and compiled, as attrs does
    it.

    Raises:
        TypeError: the ``__init__`` of the class does more than take the fields.
    """
    made: Callable[_P, _T] = maker_of_packed(cls, 0)
    return made


def maker_of_packed(cls: Any, packed: int) -> Any:
    """The same, for a caller that has the values of so many of the first fields in a tuple."""
    if not _is_plain(cls):
        raise TypeError(f"{cls} does more than take its fields, and has to be called.")
    parameters, values, known = _fields_as_source(cls, "_made")
    assigned = [f"_made.{name} = {value}" for name, value in values[packed:]]
    if packed:
        parameters[:packed] = ["_packed"]
        assigned.insert(0, f"{', '.join(f'_made.{name}' for name, _ in values[:packed])} = _packed")
    source = [
        f"def made({', '.join(parameters)}):",
        "_made = _open()",
        *assigned,
        "_made.__class__ = _cls",
        "return _made",
    ]
    exec("\n ".join(source), known)
    return known["made"]


if TYPE_CHECKING:
    from attrs import frozen as frozen
else:

    def frozen(cls: type | None = None, /, **options: Any) -> Any:
        """What ``attrs.frozen`` makes, but made faster: a step of a run makes some thirty such objects.

        A frozen class refuses assignment, also to the ``__init__`` of attrs, which therefore has to go
        through ``object.__setattr__`` for each field. Here the new object belongs, until it has its fields,
        to a subclass that allows it; without slots it gets them all at once, in a dictionary of its own, as
        one that shares its keys is slow to read. A class with validators, converters or other work in its
        ``__init__`` keeps that of attrs.
        """

        def decorate(cls: type) -> type:
            made = attrs.frozen(cls, **options)
            if options.get("init", True):
                _prepare(made)
            return made

        return decorate if cls is None else decorate(cls)


def _prepare(cls: Any) -> None:
    """Let the first object of the class write its ``__init__``: many a class never has any."""
    by_attrs = cls.__init__

    @wraps(by_attrs)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__ = _fast_init(cls, by_attrs) if _is_plain(cls) else by_attrs
        cls.__init__(self, *args, **kwargs)

    cls.__init__ = __init__


def _is_plain(cls: Any) -> bool:
    """Whether the ``__init__`` does nothing but take the fields in their order."""
    has_slots = "__slots__" in vars(cls)
    return not (hasattr(cls, "__attrs_pre_init__") or hasattr(cls, "__attrs_post_init__")) and all(
        not (each.validator or each.converter or each.kw_only)
        and each.init != getattr(each.default, "takes_self", False)  # what is not given follows from the rest
        and (each.init or has_slots)
        for each in attrs.fields(cls)
    )


def _fast_init(cls: Any, by_attrs: Any) -> Any:
    parameters, values, known = _fields_as_source(cls, "self")
    given = ", ".join(["self", *(each.alias for each in attrs.fields(cls) if each.init)])
    if "__slots__" in vars(cls):
        fields = [f"self.{name} = {value}" for name, value in values]
        assigned = ["_set_class(self, _open)", *fields, "self.__class__ = _cls"]
    else:
        fields = [f"'{name}': {value}" for name, value in values]
        assigned = [f"_set(self, '__dict__', {{{', '.join(fields)}}})"]
    source = [
        f"def __init__({', '.join(['self', *parameters])}):",
        "if self.__class__ is not _cls:",  # of a subclass that attrs does not know
        f" return _by_attrs({given})",
        *assigned,
    ]
    known |= {
        "_by_attrs": by_attrs,
        "_set_class": object.__dict__["__class__"].__set__,
        "_set": object.__setattr__,
    }
    exec("\n ".join(source), known)
    made = known["__init__"]
    made.__qualname__, made.__module__ = by_attrs.__qualname__, cls.__module__
    made.__doc__ = by_attrs.__doc__
    made.__annotations__ = by_attrs.__annotations__
    return made


def _fields_as_source(cls: Any, made: str) -> tuple[list[str], list[tuple[str, str]], dict[str, Any]]:
    """The parameters, each field with what it gets, and what both refer to. ``made``: the object's name."""
    known: dict[str, Any] = {"_cls": cls, "_open": open_class(cls), "_NOTHING": attrs.NOTHING}
    parameters, values = [], []
    for index, each in enumerate(attrs.fields(cls)):
        parameter = given = each.alias
        default = f"_default_{index}"
        if isinstance(each.default, attrs.Factory):  # type: ignore[arg-type]
            known[default] = each.default.factory
            if not each.init:
                values.append((each.name, f"{default}({made})"))
                continue
            parameter = f"{given}=_NOTHING"
            given = f"{default}() if {given} is _NOTHING else {given}"
        elif each.default is not attrs.NOTHING:
            known[default] = each.default
            parameter = f"{given}={default}"
        parameters.append(parameter)
        values.append((each.name, given))
    return parameters, values, known
