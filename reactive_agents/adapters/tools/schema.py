"""The JSON Schema of a tool's arguments, and the compiled validator that converts them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from attrs import frozen

from reactive_agents.adapters.tools.class_bridge import bridge_classes
from reactive_agents.adapters.tools.object_shape import NO_DEFAULT, entry, object_shape
from reactive_agents.adapters.tools.signature import ResolvedSignature, ToolDefinitionError
from reactive_agents.core.json import JsonObject

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator


@frozen(eq=False)
class ArgumentSchema:
    """What a tool takes.

    Attributes:
        json_schema: for the model.
        validator: a JSON object in, the converted arguments by name out; arguments left out stay left out.
        names: of the arguments, in order.
    """

    json_schema: JsonObject
    validator: SchemaValidator
    names: tuple[str, ...]


def build_schema(name: str, signature: ResolvedSignature, descriptions: Mapping[str, str]) -> ArgumentSchema:
    """The schema of the arguments of the tool ``name``.

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
        json_schema = _json_schema(adapter)
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


def _json_schema(adapter: TypeAdapter[Any]) -> JsonObject:
    from pydantic.json_schema import GenerateJsonSchema

    class WithoutFieldTitles(GenerateJsonSchema):
        """A title that repeats the name of its field costs tokens and tells nothing."""

        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as the base has it

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    json_schema = adapter.json_schema(schema_generator=WithoutFieldTitles)
    json_schema.pop("title", None)
    return cast(JsonObject, json_schema)


def _culprit(name: str, entries: Mapping[str, Any], names: Mapping[str, Any]) -> tuple[str, Exception] | None:
    for argument, annotation in entries.items():
        try:
            _json_schema(_adapter(name, {argument: annotation}, names))
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
