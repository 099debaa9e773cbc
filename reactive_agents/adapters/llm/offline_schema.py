"""An instance of a JSON Schema, made of quotations and of the least that the schema allows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any

from attrs import frozen

from reactive_agents.core.json import Json, JsonObject


class _NoInstance(Exception):
    """This branch of the schema has no instance that can be built."""


def instance(schema: JsonObject, quote: Callable[[str], str]) -> Json:
    """An instance of the schema, with what ``quote`` gives for descriptions; ``None`` when it has none.

    Understood are types, ``enum``, ``const``, ``$ref`` into ``$defs``, ``anyOf`` (the first that can be
    built), required properties, ``items`` with ``minItems``, lengths of strings and bounds of numbers;
    nothing is looked at besides, such as ``pattern`` or what stands next to ``$ref`` and ``anyOf``.
    """
    try:
        return _Builder(schema.get("$defs", {}), quote).build(schema, "")
    except _NoInstance:
        return None


@frozen
class _Builder:
    definitions: Any
    quote: Callable[[str], str]

    def build(self, schema: Any, about: str, within: tuple[str, ...] = ()) -> Json:
        """An instance; ``about`` says what it stands for, ``within`` are the references that led to it."""
        if not isinstance(schema, dict):
            raise _NoInstance
        about = f"{about} {schema.get('description', '')}"
        if "$ref" in schema:
            reference = schema["$ref"]
            target = None if reference in within else self.definitions.get(reference.removeprefix("#/$defs/"))
            return self.build(target, about, (*within, reference))
        for branch in schema.get("anyOf", ()):
            with suppress(_NoInstance):
                return self.build(branch, about, within)
        if "anyOf" in schema:
            raise _NoInstance
        if "const" in schema or schema.get("enum"):
            values: list[Json] = schema.get("enum") or [schema["const"]]
            sentence = self.quote(about).lower()
            said = [value for value in values if isinstance(value, str) and value.lower() in sentence]
            return (said or values)[0]
        kind = schema.get("type", "object" if "properties" in schema else "string")
        match kind[0] if isinstance(kind, list) else kind:
            case "object":
                known, required = schema.get("properties", {}), schema.get("required", ())
                return {n: self.build(known.get(n, {}), n.replace("_", " "), within) for n in required}
            case "array":
                count = schema.get("minItems", 0)
                return [self.build(schema.get("items", {}), about, within) for _ in range(count)]
            case "string":
                return self.quote(about)[: schema.get("maxLength")].ljust(schema.get("minLength", 0), "-")
            case "integer" | "number":
                return _nearest_to_zero(schema)
            case other:
                return False if other == "boolean" else None


def _nearest_to_zero(schema: dict[str, Any]) -> Json:
    low: float = max(schema.get("minimum", -inf), schema.get("exclusiveMinimum", -inf) + 1)
    high: float = min(schema.get("maximum", inf), schema.get("exclusiveMaximum", inf) - 1)
    if low > high:
        raise _NoInstance
    return max(low, min(0, high))
