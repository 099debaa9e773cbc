"""An instance of a JSON Schema, made of quotations and of the least that the schema allows."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor
from typing import Any, TypeAlias, cast

from reactive_agents.core.json import Json, JsonObject

Quote: TypeAlias = Callable[[str, int], str]
"""The text that fits a description best, or the one at the given place of the ranking."""

MAX_DEPTH = 40
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


class _NoInstance(Exception):
    """The schema, or this branch of it, has no instance that can be built."""


def instance(schema: JsonObject, quote: Quote) -> Json:
    """An instance of the schema; ``None`` when there is none, as of a schema that only refers to itself.

    Understood are types, ``enum``, ``const``, local ``$ref``, ``anyOf``, ``oneOf`` (as ``anyOf``), ``allOf``,
    required properties, ``prefixItems`` and ``items`` with ``minItems``, lengths of strings, and bounds and
    steps of numbers. ``pattern`` and ``format`` are not looked at.
    """
    try:
        return _build(schema, schema, quote, "", 0, 0)
    except _NoInstance:
        return None


def _build(schema: Any, root: JsonObject, quote: Quote, about: str, place: int, depth: int) -> Json:
    if depth > MAX_DEPTH or schema is False:
        raise _NoInstance
    if not isinstance(schema, dict):
        return None
    own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", "anyOf", "oneOf")}
    about = f"{about} {own.get('description', '')}"
    if "$ref" in schema:
        return _build(_merged(own, _resolve(schema["$ref"], root)), root, quote, about, place, depth + 1)
    for part in schema.get("allOf", ()):
        own = _merged(own, part)
    if "allOf" in schema:
        branches = {key: schema[key] for key in ("anyOf", "oneOf") if key in schema}
        return _build(_merged(own, branches), root, quote, about, place, depth + 1)
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            for branch in schema[choice]:
                try:
                    return _build(_merged(own, branch), root, quote, about, place, depth + 1)
                except _NoInstance:
                    continue
            raise _NoInstance
    if "const" in own:
        return cast(Json, own["const"])
    kinds = own.get("type") or ("object" if "properties" in own else "array" if "items" in own else "string")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "enum" in own:
        return _choose(own["enum"], kinds if "type" in own else list(_TYPES), quote(about, place))
    match kinds[0]:
        case "object":
            known = own.get("properties", {})
            other = own.get("additionalProperties", {})
            return {
                name: _build(known.get(name, other), root, quote, _spaced(name), 0, depth + 1)
                for name in own.get("required", ())
            }
        case "array":
            first = own.get("prefixItems", ())
            parts = [*first, *([own.get("items", {})] * (own.get("minItems", 0) - len(first)))]
            wanted = parts[: own.get("minItems", 0)]
            return [_build(part, root, quote, about, i, depth + 1) for i, part in enumerate(wanted)]
        case "string":
            text = quote(about, place)[: own.get("maxLength")]
            return text.ljust(own.get("minLength", 0), "-")
        case "integer" | "number":
            return _number(own, whole=kinds[0] == "integer")
        case "boolean":
            return False
        case _:
            return None


def _merged(one: Any, other: Any) -> Any:
    """What both schemas ask for, the second one's word standing where they differ."""
    if other is False or one is False:
        return False
    if not isinstance(other, dict):
        return one
    merged = {**one, **other}
    if "properties" in one and "properties" in other:
        merged["properties"] = {**one["properties"], **other["properties"]}
    if "required" in one and "required" in other:
        merged["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    for bound, stricter in (("minimum", max), ("minItems", max), ("minLength", max), ("maximum", min)):
        if bound in one and bound in other:
            merged[bound] = stricter(one[bound], other[bound])
    return merged


def _resolve(reference: Any, root: JsonObject) -> Any:
    node: Any = root
    for part in str(reference).removeprefix("#").split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, dict) or key not in node:
            raise _NoInstance
        node = node[key]
    return node


def _choose(values: Any, kinds: list[str], sentence: str) -> Json:
    allowed = [v for v in values if any(_is_a(v, kind) for kind in kinds)]
    if not allowed:
        raise _NoInstance
    said = f" {_spaced(sentence).lower()} "
    named = [value for value in allowed if isinstance(value, str) and f" {_spaced(value).lower()} " in said]
    return cast(Json, (named or allowed)[0])


def _is_a(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES.get(kind, ())) and (kind == "boolean" or not isinstance(value, bool))


def _spaced(name: str) -> str:
    return " ".join("".join(char if char.isalnum() else " " for char in name).split())


def _number(schema: JsonObject, *, whole: bool) -> Json:
    bounds = cast(dict[str, float], schema)
    step = bounds.get("multipleOf", 1 if whole else None)
    low, above = bounds.get("minimum"), bounds.get("exclusiveMinimum")
    high, below = bounds.get("maximum"), bounds.get("exclusiveMaximum")
    top = min((bound for bound in (high, below) if bound is not None), default=None)
    if low is None and above is None:
        if top is None or top > 0 or (top == 0 and below != 0):
            return 0
        if step is None:
            return top - 1 if top == below else top
        return _exact((ceil(top / step) - 1 if top == below else floor(top / step)) * step)
    if above is None or (low is not None and low > above):
        least = cast(float, low)
        return _exact(least if step is None else ceil(least / step) * step)
    if step is not None:
        return _exact((floor(above / step) + 1) * step)
    return (above + top) / 2 if top is not None else above + 1


def _exact(number: float) -> Json:
    return int(number) if number == int(number) else number
