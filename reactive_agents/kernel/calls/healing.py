"""A call that nearly fits its tool, made to fit where it is certain what was meant."""

from __future__ import annotations

import json
from collections.abc import Sequence

from attrs import evolve, field, frozen

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.calls.argument_names import rename_arguments
from reactive_agents.kernel.calls.coercion import coerce
from reactive_agents.kernel.calls.explaining import clip
from reactive_agents.kernel.calls.json_text import JsonReader
from reactive_agents.kernel.calls.schema_fit import fits, properties_of, required_of
from reactive_agents.kernel.calls.tool_aliases import find_tool

_SHOWN_CHARS = 40
_MOST_ROUNDS = 8
_NOTHING = ("", "null", "none")


@frozen
class HealedCall:
    """A call as it may be executed.

    Attributes:
        call: with the same id; unchanged where nothing could be healed.
        healings: what was changed, one sentence each; empty when the call is untouched.
        definition: of the tool that is called; ``None`` when there is no such tool.
    """

    call: ToolCall
    healings: tuple[str, ...] = field(default=())
    definition: ToolDefinition | None = None


def heal_call(call: ToolCall, definitions: Sequence[ToolDefinition]) -> HealedCall:
    """Bring a call to the name, the argument names and the types of its tool.

    Pure, total and idempotent. A call that fits the schema is never changed, a required value is never made
    up, and nothing is guessed that would lose what the model said: what cannot be healed stays as it is.

    Args:
        definitions: the tools that may be called.
    """
    called = _called(call, definitions)
    if called is not None and _plainly_fits(call, called):
        return HealedCall(call, (), called)
    by_name = {definition.name: definition for definition in definitions}
    name = call.name if call.name in by_name else find_tool(call.name, tuple(by_name))
    if name is None:
        return HealedCall(call)
    healings: list[str] = []
    if name != call.name:
        healings.append(f"The tool {clip(call.name, _SHOWN_CHARS)!r} was taken as {name!r}.")
        call = evolve(call, name=name)
    if call.malformed:
        read = JsonReader().read_object(_unfenced(call.malformed))
        if read is None or not isinstance(read.value, dict):
            return HealedCall(call, tuple(healings), by_name[name])
        healings.append("The text of the arguments was read as a JSON object.")
        call = evolve(call, arguments=read.value, malformed="")
    arguments, healed = _heal_arguments(call.arguments, by_name[name].parameters)
    if healed:
        call = evolve(call, arguments=arguments)
    return HealedCall(call, (*healings, *healed), by_name[name])


def fits_plainly(call: ToolCall, definitions: Sequence[ToolDefinition]) -> bool:
    """Whether a call surely has nothing to be healed, as most calls; false says nothing."""
    called = _called(call, definitions)
    return called is not None and _plainly_fits(call, called)


def _called(call: ToolCall, definitions: Sequence[ToolDefinition]) -> ToolDefinition | None:
    for definition in definitions:
        if definition.name == call.name:
            return definition
    return None


def _plainly_fits(call: ToolCall, definition: ToolDefinition) -> bool:
    """Whether a call fits a schema of plain types: what most calls do, found out without the whole check."""
    types, arguments = definition.plain_types, call.arguments
    if types is None or call.malformed or not required_of(definition.parameters).issubset(arguments):
        return False
    return all(type(value) in types.get(name, ()) for name, value in arguments.items())


def _heal_arguments(arguments: JsonObject, schema: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    """Rename, convert and drop until nothing changes: what one of them does may let another do its part."""
    healings: tuple[str, ...] = ()
    for _ in range(_MOST_ROUNDS):
        if fits(arguments, schema, schema):
            break
        arguments, renamed = rename_arguments(arguments, schema)
        arguments, converted = _convert(arguments, schema)
        if not renamed and not converted:
            break
        healings = (*healings, *renamed, *converted)
    return arguments, healings


def _convert(arguments: JsonObject, schema: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    healed: JsonObject = {}
    healings: list[str] = []
    properties, required = properties_of(schema), required_of(schema)
    for name, value in arguments.items():
        wanted = properties.get(name, True)
        converted = coerce(value, wanted, schema, name=name)
        if name not in required and _is_nothing(converted) and not fits(converted, wanted, schema):
            healings.append(f"The empty argument {name!r} was left out.")
            continue
        if converted is not value and not _same(converted, value):
            healings.append(
                f"The argument {name!r} was converted from {_shown(value)} to {_shown(converted)}."
            )
        healed[name] = converted
    return (healed, tuple(healings)) if healings else (arguments, ())


def _is_nothing(value: Json) -> bool:
    return value is None or (isinstance(value, str) and value.strip().casefold() in _NOTHING)


def _same(one: Json, other: Json) -> bool:
    return type(one) is type(other) and _shown(one, chars=None) == _shown(other, chars=None)


def _unfenced(text: str) -> str:
    stripped = text.strip()
    if not (stripped.startswith("```") and stripped.endswith("```")) or "\n" not in stripped:
        return text
    return stripped[stripped.index("\n") + 1 : -3]


def _shown(value: Json, *, chars: int | None = _SHOWN_CHARS) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if chars is None else clip(text, chars)
