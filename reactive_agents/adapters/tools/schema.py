"""The JSON Schema of a tool's arguments, and the validator that converts them."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Required, Union, cast

import attrs
from attrs import frozen
from returns.result import Result

from reactive_agents.adapters.tools.signature import ResolvedSignature, ToolDefinitionError, read_docstring
from reactive_agents.core.errors import InvalidToolArguments
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.json_schema import limits_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator


@frozen(eq=False)
class ArgumentSchema:
    """The arguments of a tool.

    Attributes:
        json_schema: the schema for the model.
        validator: converts a JSON object to arguments by name, without defaults.
        names: the names of the arguments, in order.
        check: validates the arguments of a given schema, instead of the validator.
    """

    json_schema: JsonObject
    validator: SchemaValidator | None
    names: tuple[str, ...]
    check: Callable[[str, JsonObject], Result[None, InvalidToolArguments]] | None = None


def build_schema(name: str, signature: ResolvedSignature, descriptions: Mapping[str, str]) -> ArgumentSchema:
    """Return the schema of the arguments of a tool.

    Raises:
        ToolDefinitionError: an annotation is of a type that JSON cannot express.
    """
    entries: dict[str, Any] = {}
    for parameter in signature.parameters:
        annotation = bridge_classes(signature.annotations[parameter.name], signature.names)
        default = NO_DEFAULT if parameter.default is inspect.Parameter.empty else parameter.default
        _refuse_field(name, parameter.name, default)
        entries[parameter.name] = entry(
            annotation, description=descriptions.get(parameter.name, ""), default=default
        )
    try:
        adapter = _adapter(name, entries, signature.names)
        json_schema = schema_without_titles(adapter)
    except Exception as error:
        culprit, reason = _culprit(name, entries, signature.names) or ("", error)
        cause = str(reason).partition("\n")[0].rstrip(".")
        raise ToolDefinitionError(
            f"The tool {name!r} cannot describe its argument {culprit!r} as JSON: {cause}. "
            "Use builtins, Literal, enums, dataclasses, TypedDict, attrs or pydantic classes, "
            "or a type that is defined at module level."
        ) from error
    return ArgumentSchema(json_schema, cast("SchemaValidator", adapter.validator), tuple(entries))


def _adapter(name: str, entries: Mapping[str, Any], names: Mapping[str, Any]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(object_shape(name, entries, defer_build=True))
    adapter.rebuild(force=True, raise_errors=True, _types_namespace=dict(names))
    return adapter


def schema_without_titles(adapter: TypeAdapter[Any]) -> JsonObject:
    """Return the JSON Schema of a type, without titles that repeat names."""
    from pydantic.json_schema import GenerateJsonSchema

    class WithoutFieldTitles(GenerateJsonSchema):
        """Generates schemas without titles, which cost tokens and only repeat field names."""

        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as the base has it

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    json_schema = adapter.json_schema(schema_generator=WithoutFieldTitles)
    json_schema.pop("title", None)
    return cast(JsonObject, json_schema)


def _culprit(name: str, entries: Mapping[str, Any], names: Mapping[str, Any]) -> tuple[str, Exception] | None:
    for argument, annotation in entries.items():
        try:
            schema_without_titles(_adapter(name, {argument: annotation}, names))
        except Exception as error:  # noqa: BLE001 - a type may say by code of its own what it looks like
            return argument, error
    return None


def _refuse_field(name: str, argument: str, default: object) -> None:
    from pydantic.fields import FieldInfo

    if isinstance(default, FieldInfo):
        raise ToolDefinitionError(
            f"The argument {argument!r} of the tool {name!r} has a pydantic Field as its default: "
            f"write {argument}: Annotated[<type>, Field(…)] = <default> instead."
        )


NO_DEFAULT = object()
"""Marks a missing default, since ``None`` is a possible default."""


def entry(
    annotation: Any, *, description: str, default: object, limits: Iterable[tuple[str, Json]] = ()
) -> Any:
    """Return an entry of a ``TypedDict``: described, required unless it has a default.

    Default and limits are for the model only; the function or class applies them itself.
    """
    from pydantic import Field
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    extra: dict[str, Any] = {}
    for name, shown in (*limits, ("default", default)):
        if shown is not NO_DEFAULT:
            # omits values without JSON form
            with suppress(PydanticSerializationError, ValueError, RecursionError):
                extra[name] = to_jsonable_python(shown)
    described: Any = Annotated[
        annotation,
        Field(description=_own_description(annotation) or description or None, json_schema_extra=extra),
    ]
    return described if default is NO_DEFAULT else NotRequired[described]


def _own_description(annotation: Any) -> str | None:
    """Return the description in ``Annotated`` or ``Field``, before the docstring's."""
    if typing.get_origin(annotation) is not Annotated:
        return None
    for extra in typing.get_args(annotation)[1:]:
        description = extra if isinstance(extra, str) else getattr(extra, "description", None)
        if isinstance(description, str):
            return description
    return None


def object_shape(
    name: str, entries: Mapping[str, Any], *, description: str = "", defer_build: bool = False
) -> Any:
    """Return a ``TypedDict`` with exactly these entries.

    Unlike a pydantic model, it allows any name for them.

    Args:
        defer_build: whether the caller compiles the validator.
    """
    from pydantic import ConfigDict
    from typing_extensions import TypedDict

    make: Any = TypedDict  # type checkers require literal entries
    shape = make(name, dict(entries))
    shape.__doc__ = description or None
    shape.__pydantic_config__ = ConfigDict(extra="forbid", defer_build=defer_build, allow_inf_nan=False)
    return shape


# --- classes that pydantic does not know ----------------------------------------------------------------


def bridge_classes(annotation: Any, names: Mapping[str, Any], outer: tuple[type, ...] = ()) -> Any:
    """Replace classes that pydantic does not know by object schemas.

    The schema creates an instance of an attrs class, or a plain dictionary for a ``typing.TypedDict``.

    Iterables become lists, since pydantic would validate their items only while the tool runs.

    Args:
        names: names for string annotations, besides those of the class's module.
        outer: the bridged classes around this annotation.

    Raises:
        ToolDefinitionError: a class contains itself, or an annotation in it cannot be resolved.
    """
    if isinstance(annotation, type) and _is_unknown(annotation):
        if annotation in outer:
            known = (
                "make it a dataclass" if attrs.has(annotation) else "import TypedDict from typing_extensions"
            )
            raise ToolDefinitionError(f"The class {annotation.__name__!r} contains itself: {known} instead.")
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
        if typing.get_origin(arguments[0]) in (Iterator, Generator):  # its annotations apply to the list
            items, one_by_one = typing.get_args(inner)
            return Annotated[(items, *arguments[1:], one_by_one)]
        return Annotated[(inner, *arguments[1:])]
    bridged = tuple(bridge_classes(argument, names, outer) for argument in arguments)
    if all(new is old for new, old in zip(bridged, arguments, strict=True)):
        return annotation
    return Union[bridged] if origin is types.UnionType else origin[bridged]  # noqa: UP007


def _is_unknown(kind: type) -> bool:
    """Return whether pydantic does not know a class that has fields."""
    if hasattr(kind, "__get_pydantic_core_schema__"):
        return False
    return attrs.has(kind) or _is_typed_dict_of_typing(kind)


def _bridge_lazy(kind: type, item: Any) -> Any:
    from pydantic import AfterValidator

    items: Any = list[item]
    return items if kind is Iterable else Annotated[items, AfterValidator(_one_by_one)]


def _one_by_one(items: list[Any]) -> Generator[Any, None, None]:
    yield from items


def _bridge_attrs(kind: type, names: Mapping[str, Any], outer: tuple[type, ...]) -> Any:
    from pydantic import AfterValidator, WrapSerializer

    documentation = read_docstring(kind.__doc__)
    hints = _hints(kind, names)
    entries = {
        field.alias: entry(
            bridge_classes(hints.get(field.name, Any), names, outer),
            description=documentation.arguments.get(field.name, ""),
            default=_default(field),
            limits=limits_of(field.validator, of_text=hints.get(field.name) is str),
        )
        for field in attrs.fields(kind)
        if field.init
    }
    shape = object_shape(kind.__name__, entries, description=documentation.text)
    return Annotated[shape, AfterValidator(_maker(kind)), WrapSerializer(_writer(kind))]


def _is_typed_dict_of_typing(kind: type) -> bool:
    # pydantic supports these from Python 3.12 on, but without descriptions of keys and attrs classes
    return typing.is_typeddict(kind) and type(kind).__module__ == "typing"


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


def _writer(kind: type) -> Callable[[Any, Callable[[Any], Any]], Any]:
    names = [(field.alias, field.name) for field in attrs.fields(kind) if field.init]

    def write(value: Any, inner: Callable[[Any], Any]) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"got {type(value).__name__}, expected {kind.__name__}")
        return inner({alias: getattr(value, name) for alias, name in names})

    return write


def _maker(kind: type) -> Callable[[dict[str, Any]], Any]:
    def make(values: dict[str, Any]) -> Any:
        try:
            return kind(**values)
        except TypeError as error:  # of attrs validators; pydantic would let it through
            raise ValueError(str(error)) from error

    return make
