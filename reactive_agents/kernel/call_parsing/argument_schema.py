"""Checks of a JSON value against a JSON Schema: types, names and enumerations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.texts import shortened
from reactive_agents.core.tools import ToolDefinition

Schema = Json
"""A JSON Schema: an object, or ``true`` for anything and ``false`` for nothing."""

_MAX_DEPTH = 32


def fits(value: Json, schema: Schema, root: JsonObject, depth: int = 0) -> bool:
    """Return whether a value matches a schema in type, enumeration and shape.

    Args:
        depth: nesting of the value below the root; from 32 levels on a value matches.
    """
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return True
    return (
        _fits_type(value, schema)
        and _fits_choice(value, schema)
        and _fits_parts(value, schema, root, depth)
        and all(fits(value, part, root, depth + 1) for part in _list(schema, "allOf"))
        and ("$ref" not in schema or fits(value, resolve(schema, root), root, depth + 1))
        and all(
            any(fits(value, part, root, depth + 1) for part in _list(schema, key))
            for key in ("anyOf", "oneOf")
            if _list(schema, key)
        )
    )


def branches(schema: Schema, root: JsonObject, depth: int = 0) -> tuple[JsonObject, ...]:
    """Return the alternatives of a schema, or itself, with references resolved."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return ()
    if "$ref" in schema:
        return branches(resolve(schema, root), root, depth + 1)
    parts = [*_list(schema, "anyOf"), *_list(schema, "oneOf")]
    if not parts and len(_list(schema, "allOf")) == 1:
        parts = _list(schema, "allOf")
    if not parts:
        return (schema,)
    return tuple(branch for part in parts for branch in branches(part, root, depth + 8))


def types_of(schema: JsonObject) -> frozenset[str]:
    """Return the names of the types in a schema; empty for any."""
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    nullable = ["null"] if schema.get("nullable") is True else []
    return frozenset(name for name in [*kinds, *(nullable if kind else [])] if isinstance(name, str))


def choices_of(schema: JsonObject) -> tuple[Json, ...] | None:
    """Return the enumeration of a schema; ``None`` if it has none."""
    if "const" in schema:
        return (schema["const"],)
    choices = schema.get("enum")
    return tuple(choices) if isinstance(choices, list) else None


def properties_of(schema: JsonObject) -> Mapping[str, Schema]:
    """Return the properties of an object schema."""
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def required_of(schema: JsonObject) -> frozenset[str]:
    """Return the names of the required properties."""
    return frozenset([name for name in _list(schema, "required") if isinstance(name, str)])


def resolve(schema: JsonObject, root: JsonObject) -> Schema:
    """Return the target of a local ``$ref``; ``true`` if there is none."""
    reference = schema.get("$ref")
    here: Json = root
    if not isinstance(reference, str) or not reference.startswith("#"):
        return True
    for step in reference.lstrip("#/").split("/") if reference != "#" else ():
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(here, dict) or key not in here:
            return True
        here = here[key]
    return here


def type_of(value: Json) -> str:
    """Return the JSON Schema type of a value; a float is never an integer."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _fits_type(value: Json, schema: JsonObject) -> bool:
    wanted, kind = types_of(schema), type_of(value)
    return not wanted or kind in wanted or (kind == "integer" and "number" in wanted)


def _fits_choice(value: Json, schema: JsonObject) -> bool:
    choices = choices_of(schema)
    return choices is None or any(
        choice == value and isinstance(choice, bool) == isinstance(value, bool) for choice in choices
    )


def _fits_parts(value: Json, schema: JsonObject, root: JsonObject, depth: int) -> bool:
    if isinstance(value, list):
        items = schema.get("items", True)
        first = _list(schema, "prefixItems")
        pairs = zip(value, [*first, *[items] * (len(value) - len(first))], strict=False)
        return all(fits(item, part, root, depth + 1) for item, part in pairs)
    if isinstance(value, dict):
        properties, other = properties_of(schema), schema.get("additionalProperties", True)
        return required_of(schema) <= value.keys() and all(
            fits(item, properties.get(key, other), root, depth + 1) for key, item in value.items()
        )
    return True


def _list(schema: JsonObject, key: str) -> list[Json]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


# --- Messages for the model about a call that could not be repaired ---


_PROBLEM_CHARS = 300
_SIGNATURE_CHARS = 380
_VALUE_CHARS = 40
_SHOWN_CHOICES = 8


CALL_AGAIN = "Call it again as:"
"""The beginning of the last line of an error about invalid arguments."""


def explain_schema(definition: ToolDefinition, problem: str) -> str:
    """Return the error of a call with the tool's signature, below 800 characters.

    Args:
        problem: the error, in a sentence; shortened to 300 characters.
    """
    wrong = shortened(" ".join(problem.split()), _PROBLEM_CHARS) or "The call does not fit the tool."
    return wrong + how_to_call(definition)


def how_to_call(definition: ToolDefinition) -> str:
    """Return the end of an error, which explains how the tool is called."""
    return f"\n{CALL_AGAIN} {signature(definition)}"


def signature(definition: ToolDefinition) -> str:
    """Return a tool's signature: ``file-read(path: string, start_line: integer = 1)``.

    At most 380 characters. An optional argument shows its default, or a question mark without one.
    """
    schema = definition.parameters
    required = required_of(schema)
    shown: list[str] = []
    room = _SIGNATURE_CHARS - len(definition.name[:64]) - 4
    properties = properties_of(schema)
    for name in sorted(properties, key=lambda each: each not in required):
        argument = _argument(name, properties[name], schema, needed=name in required)
        if room < len(argument) + 2:
            shown.append("…")
            break
        room -= len(argument) + 2
        shown.append(argument)
    return f"{definition.name[:64]}({', '.join(shown)})"


def _argument(name: str, schema: Schema, root: JsonObject, *, needed: bool) -> str:
    kind = _type(schema, root)
    if needed:
        return f"{name}: {kind}"
    if isinstance(schema, dict) and schema.get("default") is not None:
        return f"{name}: {kind} = {_json(schema['default'])}"
    return f"{name}?: {kind}"


def _type(schema: Schema, root: JsonObject, depth: int = 0) -> str:
    kinds = [_branch(branch, root, depth) for branch in branches(schema, root)]
    return " | ".join(dict.fromkeys(kinds)) or "any"


def _branch(schema: JsonObject, root: JsonObject, depth: int) -> str:
    choices = choices_of(schema)
    if choices is not None:
        more = ["…"] if len(choices) > _SHOWN_CHOICES else []
        return " | ".join([*map(_json, choices[:_SHOWN_CHOICES]), *more])
    kinds = sorted(types_of(schema)) or ["any"]
    if kinds == ["array"] and depth == 0 and isinstance(schema.get("items"), dict):
        return f"array of {_type(schema['items'], root, depth + 1)}"
    return " | ".join(kinds)


def _json(value: Json) -> str:
    return shortened(json.dumps(value, ensure_ascii=False), _VALUE_CHARS)


def fits_exactly(call: ToolCall, definitions: Sequence[ToolDefinition]) -> bool:
    """Whether a call matches a schema of simple types; ``False`` leaves it open."""
    for definition in definitions:
        if definition.name == call.name:
            types, arguments = definition.plain_types, call.arguments
            if types is None or call.malformed or not required_of(definition.parameters).issubset(arguments):
                return False
            return all(type(value) in types.get(name, ()) for name, value in arguments.items())
    return False
