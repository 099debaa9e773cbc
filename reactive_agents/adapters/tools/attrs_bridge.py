"""Attrs classes in annotations, made known to pydantic, which has no notion of them."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Union

import attrs

from reactive_agents.adapters.tools.docstring import read_docstring
from reactive_agents.adapters.tools.object_shape import NO_DEFAULT, entry, object_shape
from reactive_agents.adapters.tools.signature import ToolDefinitionError


def bridge_attrs(annotation: Any, names: Mapping[str, Any], outer: tuple[type, ...] = ()) -> Any:
    """The annotation with each attrs class replaced by an object schema that ends in an instance of it.

    Args:
        names: what annotations that are strings may refer to, besides the class's own module.
        outer: the attrs classes around this annotation.

    Raises:
        ToolDefinitionError: a class contains itself, or an annotation in it cannot be resolved.
    """
    if isinstance(annotation, type) and attrs.has(annotation):
        if annotation in outer:
            raise ToolDefinitionError(
                f"The attrs class {annotation.__name__!r} contains itself: make it a dataclass instead."
            )
        return _bridge_class(annotation, names, (*outer, annotation))
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None or origin is typing.Literal:
        return annotation
    if origin is Annotated:
        return Annotated[(bridge_attrs(arguments[0], names, outer), *arguments[1:])]
    bridged = tuple(bridge_attrs(argument, names, outer) for argument in arguments)
    if all(new is old for new, old in zip(bridged, arguments, strict=True)):
        return annotation
    return Union[bridged] if origin is types.UnionType else origin[bridged]  # noqa: UP007


def _bridge_class(kind: type, names: Mapping[str, Any], outer: tuple[type, ...]) -> Any:
    from pydantic import AfterValidator

    documentation = read_docstring(kind.__doc__)
    try:
        hints = typing.get_type_hints(kind, localns=dict(names), include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ToolDefinitionError(
            f"An annotation of the attrs class {kind.__name__!r} cannot be resolved: {error}. "
            "Define or import the type at module level (not only under TYPE_CHECKING)."
        ) from error
    entries = {
        field.alias: entry(
            bridge_attrs(hints.get(field.name, Any), names, outer),
            description=documentation.arguments.get(field.name, ""),
            default=_default(field),
        )
        for field in attrs.fields(kind)
        if field.init
    }
    return Annotated[object_shape(kind.__name__, entries), AfterValidator(_maker(kind))]


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
