"""Annotations that pydantic does not know, or would check too late, as ones that it checks before a call."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Annotated, Any, NotRequired, Required, Union

import attrs

from reactive_agents.adapters.tools.docstring import read_docstring
from reactive_agents.adapters.tools.object_shape import NO_DEFAULT, entry, object_shape
from reactive_agents.adapters.tools.signature import ToolDefinitionError


def bridge_classes(annotation: Any, names: Mapping[str, Any], outer: tuple[type, ...] = ()) -> Any:
    """The annotation with each class that pydantic does not know replaced by an object schema.

    That schema ends in an instance of the class: of an attrs class, or before Python 3.12 a plain dictionary
    for a ``typing.TypedDict``, of which pydantic takes the one of ``typing_extensions`` only.

    What is iterated over becomes a list, since pydantic would check its items one by one while the tool runs
    already.

    Args:
        names: what annotations that are strings may refer to, besides the class's own module.
        outer: the bridged classes around this annotation.

    Raises:
        ToolDefinitionError: a class contains itself, or an annotation in it cannot be resolved.
    """
    if isinstance(annotation, type) and (attrs.has(annotation) or _is_foreign_typed_dict(annotation)):
        if annotation in outer:
            raise ToolDefinitionError(
                f"The class {annotation.__name__!r} contains itself: make it a dataclass instead."
            )
        bridge = _bridge_attrs if attrs.has(annotation) else _bridge_typed_dict
        return bridge(annotation, names, (*outer, annotation))
    origin: Any = typing.get_origin(annotation) or annotation
    arguments = typing.get_args(annotation)
    if origin in (Iterable, Iterator, Generator):
        return _bridge_lazy(origin, bridge_classes(arguments[0], names, outer) if arguments else Any)
    if not arguments or origin is typing.Literal:
        return annotation
    if origin is Annotated:
        inner = bridge_classes(arguments[0], names, outer)
        if typing.get_origin(arguments[0]) in (Iterator, Generator):  # what is said of it holds for the list
            items, one_by_one = typing.get_args(inner)
            return Annotated[(items, *arguments[1:], one_by_one)]
        return Annotated[(inner, *arguments[1:])]
    bridged = tuple(bridge_classes(argument, names, outer) for argument in arguments)
    if all(new is old for new, old in zip(bridged, arguments, strict=True)):
        return annotation
    return Union[bridged] if origin is types.UnionType else origin[bridged]  # noqa: UP007


def _bridge_lazy(kind: type, item: Any) -> Any:
    from pydantic import AfterValidator

    items: Any = list[item]
    return items if kind is Iterable else Annotated[items, AfterValidator(_one_by_one)]


def _one_by_one(items: list[Any]) -> Generator[Any, None, None]:
    yield from items


def _bridge_attrs(kind: type, names: Mapping[str, Any], outer: tuple[type, ...]) -> Any:
    from pydantic import AfterValidator

    documentation = read_docstring(kind.__doc__)
    hints = _hints(kind, names)
    entries = {
        field.alias: entry(
            bridge_classes(hints.get(field.name, Any), names, outer),
            description=documentation.arguments.get(field.name, ""),
            default=_default(field),
        )
        for field in attrs.fields(kind)
        if field.init
    }
    shape = object_shape(kind.__name__, entries, description=documentation.text)
    return Annotated[shape, AfterValidator(_maker(kind))]


def _is_foreign_typed_dict(kind: type) -> bool:
    return sys.version_info < (3, 12) and typing.is_typeddict(kind) and type(kind).__module__ == "typing"


def _bridge_typed_dict(kind: Any, names: Mapping[str, Any], outer: tuple[type, ...]) -> Any:
    documentation = read_docstring(kind.__doc__)
    entries = {}
    for name, hint in _hints(kind, names).items():
        required, inner = name in kind.__required_keys__, hint
        if typing.get_origin(hint) in (Required, NotRequired):
            required, inner = typing.get_origin(hint) is Required, typing.get_args(hint)[0]
        described = entry(
            bridge_classes(inner, names, outer),
            description=documentation.arguments.get(name, ""),
            default=NO_DEFAULT,
        )
        entries[name] = described if required else NotRequired[described]
    return object_shape(kind.__name__, entries, description=documentation.text)


def _hints(kind: type, names: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, localns=dict(names), include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ToolDefinitionError(
            f"An annotation of the class {kind.__name__!r} cannot be resolved: {error}. "
            "Define or import the type at module level (not only under TYPE_CHECKING)."
        ) from error


def _default(field: attrs.Attribute[Any]) -> object:
    if field.default is attrs.NOTHING:
        return NO_DEFAULT
    default: Any = field.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return default if default.takes_self else default.factory()
    return default


def _maker(kind: type) -> Callable[[dict[str, Any]], Any]:
    def make(values: dict[str, Any]) -> Any:
        try:
            return kind(**values)
        except (
            TypeError
        ) as error:  # attrs validators raise it for a wrong type; pydantic would let it through
            raise ValueError(str(error)) from error

    return make
