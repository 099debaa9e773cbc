"""Repair of calls: names, and values of a wrong type, converted without loss."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial

from attrs import evolve, field, frozen

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.texts import shortened
from reactive_agents.core.tools import FINAL_ANSWER, ToolDefinition
from reactive_agents.kernel.call_parsing.argument_schema import (
    Schema,
    branches,
    choices_of,
    fits,
    fits_exactly,
    properties_of,
    required_of,
    type_of,
    types_of,
)
from reactive_agents.kernel.call_parsing.json_extraction import JsonReader
from reactive_agents.kernel.call_parsing.tagged_calls import TOKENS
from reactive_agents.kernel.call_parsing.tool_names import are_synonyms, find_tool, squash

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}(?:\.0{1,18})?")
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?")
_SEVERAL = re.compile(r"[,;\n、，；]")
_TEXTS = frozenset(
    {"answer", "body", "code", "content", "data", "input", "json", "message", "payload", "text"}
)
_MOMENTS = frozenset({"date", "date-time", "duration", "time"})
"""Formats of texts that a number cannot have. Whether a number of seconds is valid, the tool decides."""
_EXACT = 2**53
_MAX_DEPTH = 16


def coerce(value: Json, schema: Schema, root: JsonObject, *, name: str = "", depth: int = 0) -> Json:
    """Return a value converted to its schema, unless the conversion would lose data.

    Converts texts of numbers, booleans and JSON; whole floats; numbers and booleans to text other than a
    date, time or duration; enumeration values in another case; and a single value to an array, unless it is a
    text that may list several.

    Args:
        name: the name of the argument. An object or array becomes JSON text only if the name allows any text,
            such as ``content``.
    """
    if depth > _MAX_DEPTH or fits(value, schema, root):
        return value
    alternatives = branches(schema, root)
    insides: dict[int, Json] = {}  # converts each once: twice per level would double the work with each level

    def inside(branch: JsonObject) -> Json:
        if id(branch) not in insides:
            insides[id(branch)] = _inside(value, branch, root, depth)
        return insides[id(branch)]

    for conversions in (_converted, _wrapped):
        found: list[Json] = []
        for branch in alternatives:
            found.extend(
                candidate
                for candidate in conversions(value, branch, root, name, depth, inside)
                if fits(candidate, branch, root) and fits(candidate, schema, root)
            )
        if found:
            same = all(type_of(found[0]) == type_of(each) and found[0] == each for each in found)
            return found[0] if same else value
    return inside(alternatives[0]) if len(alternatives) == 1 else value


def _converted(
    value: Json, schema: JsonObject, root: JsonObject, name: str, depth: int, inside: Callable[..., Json]
) -> list[Json]:
    wanted = types_of(schema)
    found: list[Json] = []
    if isinstance(value, str):
        found = _from_text(value, schema, root, depth)
    elif isinstance(value, float) and value.is_integer() and "integer" in wanted and abs(value) < _EXACT:
        found = [int(value)]
    elif "string" in wanted and isinstance(value, bool | int | float):
        found = [] if schema.get("format") in _MOMENTS else [json.dumps(value)]
    elif "string" in wanted and isinstance(value, dict | list) and name.casefold() in _TEXTS:
        found = [json.dumps(value, ensure_ascii=False)]
    elif isinstance(value, dict | list):
        found = [inside(schema)]
    return found


def _from_text(text: str, schema: JsonObject, root: JsonObject, depth: int) -> list[Json]:
    wanted, stripped = types_of(schema), text.strip()
    lowered = stripped.casefold()
    choices = choices_of(schema) or ()
    found: list[Json] = [
        choice for choice in choices if isinstance(choice, str) and choice.casefold() == lowered
    ]
    if len(found) > 1:
        return []
    if wanted & {"integer", "number"} and _INTEGER.fullmatch(stripped):
        found.append(int(stripped.partition(".")[0]))
    elif "number" in wanted and _NUMBER.fullmatch(stripped):
        found.append(float(stripped))
    if "boolean" in wanted and lowered in ("true", "false"):
        found.append(lowered == "true")
    if "null" in wanted and lowered in ("null", "none"):
        found.append(None)
    if wanted & {"array", "object"} and stripped[:1] in ("{", "["):
        read = JsonReader().read(stripped, 0)
        if read is not None and not stripped[read.end :].strip():
            found.append(coerce(read.value, schema, root, depth=depth + 1))
    return found


def _wrapped(
    value: Json, schema: JsonObject, root: JsonObject, name: str, depth: int, _: Callable[..., Json]
) -> list[Json]:
    if "array" not in types_of(schema) or isinstance(value, list) or value in (None, ""):
        return []
    if isinstance(value, str) and _SEVERAL.search(value):  # one item or several: only the model knows
        return []
    return [[coerce(value, schema.get("items", True), root, depth=depth + 1)]]


def _inside(value: Json, schema: JsonObject, root: JsonObject, depth: int) -> Json:
    """Return the array or object with its parts converted if possible."""
    if isinstance(value, list) and type_of(value) in (types_of(schema) or {"array"}):
        items = schema.get("items", True)
        return [coerce(item, items, root, depth=depth + 1) for item in value]
    if isinstance(value, dict):
        properties = properties_of(schema)
        return {
            key: coerce(item, properties[key], root, name=key, depth=depth + 1) if key in properties else item
            for key, item in value.items()
        }
    return value


# --- Arguments under another name than the schema has, brought to the name that was meant ---


_SYNONYMS = tuple(
    frozenset(group.split())
    for group in (
        "path filepath filename file pathname",
        "query q searchquery searchterm search question keywords",
        "content contents text body data",
        "expression expr formula equation",
        "command cmd commandline",
        "url uri link",
        "limit maxresults topk numresults count",
        "directory dir folder",
        "code script source",
        "answer finalanswer response",
    )
)
_ANSWERS = frozenset(["answer", "response", "result", "value", "output", "text", "content", "message"])
"""Names that only an answer has for the same: a tool may take a value and a message."""
_NAMES = frozenset({"function", "name", "tool", "tool_name"})
_ENVELOPES = frozenset({"arguments", "args", "parameters", "params", "input", "kwargs"})


def rename_arguments(arguments: JsonObject, definition: ToolDefinition) -> tuple[JsonObject, tuple[str, ...]]:
    """Return arguments renamed to those of a tool, with the changes.

    Renames only unknown arguments, to missing names: first another spelling, then a synonym, then, for a tool
    that only looks something up, the only unknown argument to the only missing required one if its value has
    the right type. For other tools that would be a guess with effects: `delete(keep="a")` would delete it.
    Unwraps an object around all arguments; a JSON text of all arguments is not used as one of them.
    """
    schema = definition.parameters
    unwrapped = _unwrapped(arguments, schema)
    if unwrapped is not None:
        return unwrapped, (f"The arguments were taken out of {next(iter(arguments))!r}.",)
    unknown = [key for key in arguments if key not in properties_of(schema)]
    if not unknown or _holds_arguments(arguments, schema):
        return arguments, ()
    renamed: dict[str, str] = {}
    groups = (*_SYNONYMS, _ANSWERS) if definition.name == FINAL_ANSWER else _SYNONYMS
    for means in (_is_variant, partial(are_synonyms, groups=groups)):
        renamed |= _claims(arguments, schema, renamed, means)
    left = _only_one_left(arguments, schema, renamed)
    if left and _is_harmless(definition):
        renamed |= left
    if not renamed:
        return arguments, ()
    repaired = {renamed.get(key, key): value for key, value in arguments.items()}
    return repaired, tuple(f"The argument {old!r} was taken as {new!r}." for old, new in renamed.items())


def _claims(
    arguments: JsonObject, schema: JsonObject, renamed: dict[str, str], means: Callable[[str, str], bool]
) -> dict[str, str]:
    """Return the pairs of names that match uniquely in both directions."""
    missing = _missing(arguments, schema, renamed)
    unknown = [key for key in arguments if key not in properties_of(schema) and key not in renamed]
    targets = {key: [name for name in missing if means(key, name)] for key in unknown}
    claimed = [names[0] for names in targets.values() if len(names) == 1]
    return {
        key: names[0] for key, names in targets.items() if len(names) == 1 and claimed.count(names[0]) == 1
    }


def _only_one_left(arguments: JsonObject, schema: JsonObject, renamed: dict[str, str]) -> dict[str, str]:
    unknown = [key for key in arguments if key not in properties_of(schema) and key not in renamed]
    missing = [name for name in _missing(arguments, schema, renamed) if name in required_of(schema)]
    if len(unknown) != 1 or len(missing) != 1:
        return {}
    wanted = properties_of(schema)[missing[0]]
    value = arguments[unknown[0]]
    typed = any("type" in branch or "enum" in branch for branch in branches(wanted, schema))
    matches = fits(coerce(value, wanted, schema, name=missing[0]), wanted, schema)
    return {unknown[0]: missing[0]} if typed and matches and value not in (None, "") else {}


def _is_harmless(definition: ToolDefinition) -> bool:
    """Return whether a call of a tool with a wrong argument does no harm."""
    from reactive_agents.kernel.ordered_acts import is_lookup  # its tables are large

    return definition.name != FINAL_ANSWER and is_lookup(definition)


def _missing(arguments: JsonObject, schema: JsonObject, renamed: dict[str, str]) -> list[str]:
    """Return the absent names; only required ones if any name is allowed."""
    closed = schema.get("additionalProperties") is False
    required = required_of(schema)
    taken = set(renamed.values())
    return [
        name
        for name in properties_of(schema)
        if name not in arguments and name not in taken and (closed or name in required)
    ]


def _is_variant(written: str, name: str) -> bool:
    return squash(written) == squash(name)


def _unwrapped(arguments: JsonObject, schema: JsonObject) -> JsonObject | None:
    """Return the object that wraps all arguments, as the only, unknown one."""
    if len(arguments) != 1:
        return None
    ((key, value),) = arguments.items()
    properties = properties_of(schema)
    if key in properties or key.casefold() not in _ENVELOPES or not isinstance(value, dict):
        return None
    complete = required_of(schema) <= value.keys()
    return value if value and value.keys() <= properties.keys() and complete else None


def _holds_arguments(arguments: JsonObject, schema: JsonObject) -> bool:
    """Return whether the only argument is a JSON text of all required ones."""
    (only,) = arguments.values() if len(arguments) == 1 else (None,)
    if not isinstance(only, str) or only.lstrip()[:1] != "{" or not required_of(schema):
        return False
    read = JsonReader().read_object(only)
    return read is not None and isinstance(read.value, dict) and required_of(schema) <= read.value.keys()


# --- A call that nearly fits its tool, made to fit where it is certain what was meant ---


_MARKS_AT_END = re.compile(rf"(?<=[}}`])(?:[\s;]|{TOKENS.pattern}){{1,8}}\Z")
"""What a chat template leaves behind the arguments."""
_SHOWN_CHARS = 40
_MOST_ROUNDS = 8
_NOTHING = ("", "null", "none")


@frozen
class RepairedCall:
    """A call after repair, with the changes, a sentence each, and its tool, if any."""

    call: ToolCall
    repairs: tuple[str, ...] = field(default=())
    definition: ToolDefinition | None = None


def repair_call(call: ToolCall, definitions: Sequence[ToolDefinition]) -> RepairedCall:
    """Repair the name, the argument names and the types of a call.

    Pure, total and idempotent. Never changes a call that fits the schema, invents a required value, or loses
    information: parts that cannot be repaired stay unchanged.
    """
    by_name = {definition.name: definition for definition in reversed(definitions)}
    if fits_exactly(call, definitions):
        return RepairedCall(call, (), by_name[call.name])
    name = call.name if call.name in by_name else find_tool(call.name, tuple(by_name))
    if name is None:
        return RepairedCall(call)
    repairs: list[str] = []
    if name != call.name:
        repairs.append(f"The tool {shortened(call.name, _SHOWN_CHARS)!r} was taken as {name!r}.")
        call = evolve(call, name=name)
    if call.malformed:
        read = JsonReader().read_object(_unfenced(call.malformed))
        if read is None or not isinstance(read.value, dict):
            return RepairedCall(call, tuple(repairs), by_name[name])
        repairs.append("The text of the arguments was read as a JSON object.")
        call = evolve(call, arguments=read.value, malformed="")
    given = _without_own_name(call.arguments, by_name[name])
    arguments, repaired = _repair_arguments(given, by_name[name])
    if repaired:
        call = evolve(call, arguments=arguments)
    return RepairedCall(call, (*repairs, *repaired), by_name[name])


def _without_own_name(arguments: JsonObject, definition: ToolDefinition) -> JsonObject:
    """Return the arguments, without the tool's name beside an object of all of them."""
    if len(arguments) != 2 or not _NAMES.isdisjoint(properties_of(definition.parameters)):
        return arguments
    names = [key for key in arguments if key in _NAMES]
    rest = {key: value for key, value in arguments.items() if key not in _NAMES}
    is_own = len(names) == 1 and squash(str(arguments[names[0]])) == squash(definition.name)
    return rest if is_own and _unwrapped(rest, definition.parameters) is not None else arguments


def _repair_arguments(
    arguments: JsonObject, definition: ToolDefinition
) -> tuple[JsonObject, tuple[str, ...]]:
    schema = definition.parameters
    repairs: tuple[str, ...] = ()
    for _ in range(_MOST_ROUNDS):
        if fits(arguments, schema, schema):
            break
        arguments, renamed = rename_arguments(arguments, definition)
        arguments, converted = _convert(arguments, schema)
        if not renamed and not converted:
            break
        repairs = (*repairs, *renamed, *converted)
    return arguments, repairs


def _convert(arguments: JsonObject, schema: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    repaired: JsonObject = {}
    repairs: list[str] = []
    properties, required = properties_of(schema), required_of(schema)
    for name, value in arguments.items():
        wanted = properties.get(name, True)
        converted = coerce(value, wanted, schema, name=name)
        match value:
            case [dict() | str() | int() | float() as alone] if not fits(converted, wanted, schema):
                only = coerce(alone, wanted, schema, name=name)
                converted = only if fits(only, wanted, schema) else converted
        if name not in required and _is_nothing(converted) and not fits(converted, wanted, schema):
            repairs.append(f"The empty argument {name!r} was left out.")
            continue
        if converted is not value and not _same(converted, value):
            repairs.append(
                f"The argument {name!r} was converted from {_shown(value)} to {_shown(converted)}."
            )
        repaired[name] = converted
    return (repaired, tuple(repairs)) if repairs else (arguments, ())


def _is_nothing(value: Json) -> bool:
    return value is None or (isinstance(value, str) and value.strip().casefold() in _NOTHING)


def _same(one: Json, other: Json) -> bool:
    return type(one) is type(other) and _shown(one, chars=None) == _shown(other, chars=None)


def _unfenced(text: str) -> str:
    stripped = text = _MARKS_AT_END.sub("", text.strip())
    if not (stripped.startswith("```") and stripped.endswith("```")) or "\n" not in stripped:
        return text
    return stripped[stripped.index("\n") + 1 : -3]


def _shown(value: Json, *, chars: int | None = _SHOWN_CHARS) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if chars is None else shortened(text, chars)
