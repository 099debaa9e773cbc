"""Frozen attrs classes whose objects are made at half the usual cost."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any


def open_class(cls: type) -> type:
    """A class for objects of a frozen class until they have their fields: made without any, by assignment."""
    plain = {name: getattr(object, name) for name in ("__init__", "__setattr__", "__delattr__")}
    return type(cls)(cls.__name__, (cls,), {"__slots__": (), **plain})


if TYPE_CHECKING:
    from attrs import frozen as frozen
else:
    import attrs

    def frozen(cls: type | None = None, /, **options: Any) -> Any:
        """What ``attrs.frozen`` makes, but made faster: a step of a run makes some thirty such objects.

        A frozen class refuses assignment, also to the ``__init__`` of attrs, which therefore has to go
        through ``object.__setattr__`` for each field. Here the new object belongs, until it has its fields,
        to a subclass that allows it. A class with validators, converters or other work in its ``__init__``
        keeps that of attrs, and so does one without slots.
        """

        def decorate(cls: type) -> type:
            made = attrs.frozen(cls, **options)
            if options.get("slots", True) and options.get("init", True):
                _prepare(made)
            return made

        return decorate if cls is None else decorate(cls)

    _set_class = object.__dict__["__class__"].__set__

    def _prepare(cls: Any) -> None:
        """Let the first object of the class write its ``__init__``: many a class never has any."""
        by_attrs = cls.__init__

        @wraps(by_attrs)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            cls.__init__ = _fast_init(cls, by_attrs) if _is_plain(cls) else by_attrs
            cls.__init__(self, *args, **kwargs)

        cls.__init__ = __init__

    def _is_plain(cls: type) -> bool:
        """Whether the ``__init__`` does nothing but take the fields in their order."""
        return not (hasattr(cls, "__attrs_pre_init__") or hasattr(cls, "__attrs_post_init__")) and all(
            each.init
            and not (each.validator or each.converter or each.kw_only)
            and not getattr(each.default, "takes_self", False)
            for each in attrs.fields(cls)
        )

    def _fast_init(cls: type, by_attrs: Any) -> Any:
        """Written as source and compiled, as attrs does it."""
        known = {"_cls": cls, "_open": open_class(cls), "_set_class": _set_class, "_by_attrs": by_attrs}
        parameters, names, assignments = ["self"], [], []
        for index, each in enumerate(attrs.fields(cls)):
            parameter = given = each.alias
            default = f"_default_{index}"
            if isinstance(each.default, attrs.Factory):
                known[default], known["_NOTHING"] = each.default.factory, attrs.NOTHING
                parameter = f"{given}=_NOTHING"
                given = f"{default}() if {given} is _NOTHING else {given}"
            elif each.default is not attrs.NOTHING:
                known[default] = each.default
                parameter = f"{given}={default}"
            parameters.append(parameter)
            names.append(each.alias)
            assignments.append(f"self.{each.name} = {given}")
        source = [
            f"def __init__({', '.join(parameters)}):",
            "if self.__class__ is not _cls:",  # of a subclass that attrs does not know
            f" return _by_attrs({', '.join(['self', *names])})",
            "_set_class(self, _open)",
            *assignments,
            "self.__class__ = _cls",
        ]
        exec("\n ".join(source), known)
        made = known["__init__"]
        made.__qualname__, made.__module__ = by_attrs.__qualname__, cls.__module__
        made.__doc__ = by_attrs.__doc__
        made.__annotations__ = by_attrs.__annotations__
        return made
