"""Values of another type than the schema wants, converted where nothing is lost."""

from __future__ import annotations

import json
import re

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.kernel.calls.json_text import JsonReader
from reactive_agents.kernel.calls.schema_fit import (
    Schema,
    branches,
    choices_of,
    fits,
    properties_of,
    type_of,
    types_of,
)

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}(?:\.0{1,18})?")
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?")
_TEXTS = frozenset(
    {"answer", "body", "code", "content", "data", "input", "json", "message", "payload", "text"}
)
_MOMENTS = frozenset({"date", "date-time", "duration", "time"})
"""Formats of texts that no number is one of. Whether a number will do, such as of seconds, the tool knows."""
_EXACT = 2**53
_MAX_DEPTH = 16


def coerce(value: Json, schema: Schema, root: JsonObject, *, name: str = "", depth: int = 0) -> Json:
    """The value as the schema wants it, or as it is when it fits or a conversion would lose something.

    Converted are: texts of numbers, of booleans and of JSON; whole numbers with a point; numbers and booleans
    where text is wanted that is no date, time or duration; a choice in other case; and one value where an
    array of such is wanted.

    Args:
        root: the schema that ``$ref`` points into.
        name: of the argument. An object or array becomes JSON text only where the name says that the text
            may be anything, such as ``content``.
    """
    if depth > _MAX_DEPTH or fits(value, schema, root):
        return value
    alternatives = branches(schema, root)
    for conversions in (_converted, _wrapped):
        found: list[Json] = []
        for branch in alternatives:
            found.extend(
                candidate
                for candidate in conversions(value, branch, root, name, depth)
                if fits(candidate, branch, root) and fits(candidate, schema, root)
            )
        if found:
            same = all(type_of(found[0]) == type_of(each) and found[0] == each for each in found)
            return found[0] if same else value
    return _inside(value, alternatives[0], root, depth) if len(alternatives) == 1 else value


def _converted(value: Json, schema: JsonObject, root: JsonObject, name: str, depth: int) -> list[Json]:
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
        found = [_inside(value, schema, root, depth)]
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


def _wrapped(value: Json, schema: JsonObject, root: JsonObject, name: str, depth: int) -> list[Json]:
    if "array" not in types_of(schema) or isinstance(value, list) or value in (None, ""):
        return []
    return [[coerce(value, schema.get("items", True), root, depth=depth + 1)]]


def _inside(value: Json, schema: JsonObject, root: JsonObject, depth: int) -> Json:
    """The array or object with each of its parts converted where that is possible."""
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
