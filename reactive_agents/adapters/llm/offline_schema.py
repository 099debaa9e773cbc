"""An instance of a JSON Schema, made of quotations and of the least that the schema allows."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor
from typing import Any, TypeAlias, cast

from attrs import frozen

from reactive_agents.core.json import Json, JsonObject

Quote: TypeAlias = Callable[[str], str]
"""The sentence that fits a description best; empty when there is none."""

MAX_DEPTH = 40
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


class _NoInstance(Exception):
    """This branch of the schema has no instance that can be built."""


def instance(schema: JsonObject, quote: Quote) -> Json:
    """An instance of the schema; ``None`` when there is none, as of one that requires itself within itself.

    Understood are types, ``enum``, ``const``, local ``$ref``, ``anyOf`` and ``oneOf`` (the first that can be
    built), required properties, ``items`` and ``prefixItems`` with ``minItems``, lengths of strings and
    bounds of numbers; nothing is looked at besides, such as ``pattern``.
    """
    try:
        return _Builder(schema, quote).build(schema, "", 0)
    except _NoInstance:
        return None


@frozen
class _Builder:
    root: JsonObject
    quote: Quote

    def build(self, schema: Any, about: str, depth: int) -> Json:
        if depth > MAX_DEPTH or schema is False:
            raise _NoInstance
        if schema is True:
            return None
        about = f"{about} {schema.get('description', '')}"
        branches = [self._target(schema["$ref"])] if "$ref" in schema else []
        branches = branches or schema.get("anyOf") or schema.get("oneOf") or []
        if branches:
            return self._first(schema, branches, about, depth)
        if "const" in schema:
            return cast(Json, schema["const"])
        implied = "object" if "properties" in schema else "array" if "items" in schema else "string"
        named = schema.get("type", implied)
        kind = named[0] if isinstance(named, list) else named
        if "enum" in schema:
            kinds = named if isinstance(named, list) else [named]
            return self._choice(schema["enum"], kinds if "type" in schema else [], about)
        if kind == "object":
            known, other = schema.get("properties", {}), schema.get("additionalProperties", {})
            return {
                name: self.build(known.get(name, other), _spaced(name), depth + 1)
                for name in schema.get("required", ())
            }
        if kind == "array":
            parts = [*schema.get("prefixItems", ()), *[schema.get("items", {})] * schema.get("minItems", 0)]
            return [self.build(part, about, depth + 1) for part in parts[: schema.get("minItems", 0)]]
        if kind == "string":
            text = self.quote(about)[: schema.get("maxLength")]
            return text.ljust(schema.get("minLength", 0), "-")
        if kind in ("integer", "number"):
            return _number(schema, whole=kind == "integer")
        return False if kind == "boolean" else None

    def _first(self, schema: Any, branches: list[Any], about: str, depth: int) -> Json:
        own = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf", "oneOf")}
        for branch in branches:
            try:
                return self.build({**own, **branch} if isinstance(branch, dict) else branch, about, depth + 1)
            except _NoInstance:
                continue
        raise _NoInstance

    def _target(self, reference: str) -> Any:
        node: Any = self.root
        for part in reference.split("/")[1:]:
            node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        return False if node is None else node

    def _choice(self, values: list[Json], kinds: list[str], about: str) -> Json:
        fitting = [value for value in values if not kinds or any(_is_a(value, kind) for kind in kinds)]
        sentence = f" {_spaced(self.quote(about)).lower()} "
        said = [v for v in fitting if isinstance(v, str) and f" {_spaced(v).lower()} " in sentence]
        if not fitting:
            raise _NoInstance
        return (said or fitting)[0]


def _is_a(value: Json, kind: str) -> bool:
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _spaced(name: str) -> str:
    return " ".join("".join(char if char.isalnum() else " " for char in name).split())


def _number(schema: JsonObject, *, whole: bool) -> Json:
    """The least number that the bounds allow; without a lower bound the one nearest to 0 from below."""
    bounds = cast(dict[str, float], schema)
    low, above = bounds.get("minimum"), bounds.get("exclusiveMinimum")
    high, below = bounds.get("maximum"), bounds.get("exclusiveMaximum")
    ceilings = [bound for bound in (high, below) if bound is not None]
    candidates: list[float] = [] if low is None else [ceil(low) if whole else low]
    if above is not None:
        candidates += [floor(above) + 1, *((above + top) / 2 for top in ceilings if not whole)]
    if low is None and above is None:
        candidates += [0, *(floor(top) for top in ceilings), *(ceil(top) - 1 for top in ceilings)]
    for number in candidates:
        fits = (low is None or number >= low) and (above is None or number > above)
        if fits and (high is None or number <= high) and (below is None or number < below):
            return number
    raise _NoInstance
