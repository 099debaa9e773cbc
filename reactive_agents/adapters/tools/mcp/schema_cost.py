"""Upper bounds of what checking a value against a JSON Schema costs.

A schema of a stranger can take exponential time without being large: each definition refers twice to the one
before it, or a definition refers twice to itself and the value is deep. So the number of checks is bounded
before any is made, from the schema and from the depth and the size of the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import define, field

from reactive_agents.core.json import Json, JsonObject

MOST_CHECKS = 100_000
"""Checks of subschemas that one validation may take; each takes some ten microseconds."""
CHECKS_ON_LOOP = 5_000
"""Checks that are made on the event loop; more are made in a worker thread."""
MOST_NODES = 20_000
"""Values of a schema, objects and lists with what they hold."""
MOST_LEVELS = 64

_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("not", "if", "then", "else")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_OF_ITEMS = ("items", "additionalItems", "contains", "unevaluatedItems")
_OF_NAMES = ("additionalProperties", "propertyNames", "unevaluatedProperties")


@define
class SchemaCost:
    """The cost of one schema, by the depth of the value.

    Raises:
        ValueError: the schema is too large or too deep, or a reference leads back to itself.
    """

    schema: JsonObject
    _known: dict[tuple[int, int], int] = field(factory=dict, init=False)
    _anchors: dict[str, JsonObject] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        """Check the schema itself."""
        nodes = 0
        waiting: list[tuple[Json, int]] = [(self.schema, 0)]
        while waiting:
            value, level = waiting.pop()
            nodes += 1
            if nodes > MOST_NODES or level > MOST_LEVELS:
                raise ValueError(f"its schema has more than {MOST_NODES} values or {MOST_LEVELS} levels")
            if isinstance(value, dict):
                for key in ("$anchor", "$dynamicAnchor"):
                    anchor = value.get(key)
                    if isinstance(anchor, str):
                        self._anchors[f"#{anchor}"] = value
                waiting += [(item, level + 1) for item in value.values()]
            elif isinstance(value, list):
                waiting += [(item, level + 1) for item in value]
        self._checks(self.schema, MOST_LEVELS, frozenset())

    def of_value(self, value: Json) -> int:
        """Return how many checks a value takes at most."""
        return self.of(*_extent(value))

    def of(self, depth: int, nodes: int) -> int:
        """Return how many checks a value of this depth with so many parts takes at most."""
        try:
            return self._checks(self.schema, depth, frozenset()) * nodes
        except (RecursionError, ValueError):
            return MOST_CHECKS * nodes + 1

    def _checks(self, schema: Json, depth: int, within: frozenset[int]) -> int:
        if not isinstance(schema, dict):
            return 1
        key = (id(schema), depth)
        if key in self._known:
            return self._known[key]
        if id(schema) in within:
            raise ValueError("a reference in its schema leads back to itself")
        inside = within | {id(schema)}
        total = 1 + sum(self._checks(each, depth, inside) for each in self._in_place(schema))
        if depth:
            items = sum(self._checks(each, depth - 1, frozenset()) for each in _items(schema))
            named = _properties(schema)
            own = max((self._checks(each, depth - 1, frozenset()) for each in named), default=0)
            others = sum(self._checks(each, depth - 1, frozenset()) for each in _other_names(schema))
            total += max(items, own + others)
        self._known[key] = min(total, MOST_CHECKS + 1)
        return self._known[key]

    def _in_place(self, schema: JsonObject) -> Iterator[Json]:
        for keyword in _IN_PLACE_LISTS:
            branches = schema.get(keyword)
            yield from branches if isinstance(branches, list) else ()
        for keyword in _IN_PLACE:
            if keyword in schema:
                yield schema[keyword]
        for keyword in ("dependentSchemas", "dependencies"):
            dependent = schema.get(keyword)
            yield from dependent.values() if isinstance(dependent, dict) else ()
        for keyword in _REFERENCES:
            reference = schema.get(keyword)
            if isinstance(reference, str):
                yield self._resolved(reference)

    def _resolved(self, reference: str) -> Json:
        """Return the part that a reference means; the whole schema if that is not clear."""
        if reference in self._anchors:
            return self._anchors[reference]
        here: Any = self.schema
        for step in reference.partition("#")[2].split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(here, dict):
                here = here.get(step)
            elif isinstance(here, list) and step.isdecimal() and int(step) < len(here):
                here = here[int(step)]
            else:
                return self.schema
        return self.schema if here is None else here


def _items(schema: JsonObject) -> Iterator[Json]:
    for keyword in (*_OF_ITEMS, "prefixItems"):
        value = schema.get(keyword)
        yield from value if isinstance(value, list) else () if value is None else (value,)


def _properties(schema: JsonObject) -> Iterator[Json]:
    named = schema.get("properties")
    yield from named.values() if isinstance(named, dict) else ()


def _other_names(schema: JsonObject) -> Iterator[Json]:
    patterns = schema.get("patternProperties")
    yield from patterns.values() if isinstance(patterns, dict) else ()
    for keyword in _OF_NAMES:
        if keyword in schema:
            yield schema[keyword]


def _extent(value: Json) -> tuple[int, int]:
    """Return the depth of a value, and how many values it has."""
    depth = nodes = 0
    level: list[Json] = [value]
    while level:
        nodes += len(level)
        following: list[Json] = []
        for item in level:
            if isinstance(item, dict):
                following += item.values()
            elif isinstance(item, list):
                following += item
        depth += bool(following)
        level = following
    return depth, nodes
