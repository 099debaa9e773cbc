"""Tool definitions for models of different sizes: the same arguments, described in fewer words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from attrs import evolve, frozen

from reactive_agents.core.config import SchemaDetail
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.tools import ToolDefinition

LONGEST_SENTENCE = 300
"""Characters of a first sentence that are kept at most."""
LONGEST_TRIMMED = 1_200
_SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!etc)[.!?](?=\s+[A-Z\"'`(\[]|\s*\Z)|\n\s*\n")
_ONE_SCHEMA = frozenset(
    [
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
_SCHEMA_LISTS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_SCHEMAS_BY_NAME = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)


@frozen
class _Rules:
    """What is left out: annotations, which say nothing about what is valid."""

    dropped: frozenset[str]
    dropped_within: frozenset[str]
    short: bool


_RULES: dict[SchemaDetail, _Rules] = {
    "trimmed": _Rules(
        frozenset({"$comment", "examples", "example", "title"}),
        frozenset({"$comment", "examples", "example", "title"}),
        short=False,
    ),
    "compact": _Rules(
        frozenset({"$comment", "examples", "example", "title", "default"}),
        frozenset({"$comment", "examples", "example", "title", "default", "description"}),
        short=True,
    ),
}


def fit_definitions(
    definitions: Iterable[ToolDefinition], detail: SchemaDetail
) -> tuple[ToolDefinition, ...]:
    """The definitions as a model of some size is shown them; each schema accepts what it did before.

    Args:
        detail: ``full`` changes nothing. ``trimmed`` leaves out titles, examples and comments, and of
            descriptions what goes beyond 1200 characters at the top and the first sentence further in.
            ``compact`` also leaves out defaults and all descriptions but those of the tool and of its
            arguments, of which it keeps the first sentence.
    """
    if detail == "full":
        return tuple(definitions)
    return tuple(_fitted(definition, _RULES[detail]) for definition in definitions)


def _fitted(definition: ToolDefinition, rules: _Rules) -> ToolDefinition:
    description = first_sentence(definition.description) if rules.short else _trimmed(definition.description)
    parameters = definition.parameters
    if not _refers_into_annotations(parameters, rules.dropped_within):
        parameters = _schema(parameters, rules, 0)
    if (description, parameters) == (definition.description, definition.parameters):
        return definition
    return evolve(definition, description=description, parameters=parameters)


def first_sentence(text: str) -> str:
    """The first sentence of a text, at most 300 characters of it."""
    text = text.strip()
    end = _SENTENCE_END.search(text)
    sentence = text if end is None else text[: end.end()].strip()
    return _cut(" ".join(sentence.split()), LONGEST_SENTENCE)


def _trimmed(text: str) -> str:
    return _cut(text, LONGEST_TRIMMED)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    kept = text[: limit - 1]
    return (kept.rpartition(" ")[0] or kept).rstrip() + "…"


def _schema(schema: JsonObject, rules: _Rules, depth: int) -> JsonObject:
    """A schema without annotations; ``depth`` 0 is the arguments as a whole, 1 a single argument."""
    dropped = rules.dropped if depth <= 1 else rules.dropped_within
    fitted: JsonObject = {}
    for keyword, value in schema.items():
        if keyword in dropped:
            continue
        if keyword == "description" and isinstance(value, str):
            fitted[keyword] = first_sentence(value) if rules.short or depth > 1 else _trimmed(value)
        elif keyword in _SCHEMAS_BY_NAME and isinstance(value, dict):
            inner = 1 if keyword == "properties" and depth == 0 else depth + 2
            fitted[keyword] = {name: _inner(each, rules, inner) for name, each in value.items()}
        elif keyword in _SCHEMA_LISTS and isinstance(value, list):
            fitted[keyword] = [_inner(each, rules, depth + 2) for each in value]
        elif keyword in _ONE_SCHEMA:
            fitted[keyword] = _inner(value, rules, depth + 2)
        else:
            fitted[keyword] = value
    return fitted


def _inner(schema: Json, rules: _Rules, depth: int) -> Json:
    """The same of a schema within another; ``true``, ``false`` and lists of names stay as they are."""
    return _schema(schema, rules, depth) if isinstance(schema, dict) else schema


def _refers_into_annotations(schema: Json, annotations: frozenset[str]) -> bool:
    """Whether a reference leads through what would be left out, such as ``#/examples/0``."""
    return any(annotations & set(reference.split("/")) for reference in _references(schema))


def _references(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        for keyword, item in value.items():
            if keyword in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(item, str):
                yield item
            else:
                yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
