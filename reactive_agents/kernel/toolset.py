"""Toolsets: tool definitions in the detail that a model's profile allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Generic, Self, TypeVar

from attrs import evolve, field, frozen

from reactive_agents.core.config import SchemaDetail
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.tools import FINAL_ANSWER as FINAL_ANSWER
from reactive_agents.core.tools import LOAD_SKILL, RESERVED_NAMES, ToolDefinition, TurnChanges
from reactive_agents.core.tools import RECALL as RECALL
from reactive_agents.core.values import Value, computed, lazy_pattern
from reactive_agents.kernel.answer_form import COULD_NOT as COULD_NOT
from reactive_agents.kernel.answer_form import FINAL_ANSWER_TOOL as FINAL_ANSWER_TOOL
from reactive_agents.kernel.context_window.previews import LONGEST_QUERY

_T = TypeVar("_T")

LONGEST_SENTENCE = 300
"""Characters of a first sentence that are kept at most."""
LONGEST_TRIMMED = 1_200
_SENTENCE_END = lazy_pattern(r"(?<!e\.g)(?<!i\.e)(?<!etc)[.!?](?=\s+[A-Z\"'`(\[]|\s*\Z)|\n\s*\n")
_ONE_SCHEMA = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if"}
)
_ONE_SCHEMA |= {"items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
_SCHEMA_LISTS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_SCHEMAS_BY_NAME = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
_ANNOTATIONS = frozenset({"$comment", "examples", "example", "title"})


@frozen(eq=False, repr=False)
class _Rules(Value):
    """Rules for omitting annotations, which do not affect validity."""

    dropped: frozenset[str]
    dropped_within: frozenset[str]
    short: bool


_RULES: dict[SchemaDetail, _Rules] = {
    "trimmed": _Rules(_ANNOTATIONS, _ANNOTATIONS, short=False),
    "compact": _Rules(_ANNOTATIONS | {"default"}, _ANNOTATIONS | {"default", "description"}, short=True),
}


def fit_definitions(
    definitions: Iterable[ToolDefinition], detail: SchemaDetail
) -> tuple[ToolDefinition, ...]:
    """Return the definitions in some detail; each schema admits the same arguments.

    Args:
        detail: ``full`` changes nothing. ``trimmed`` leaves out titles, examples and comments, and of
            descriptions what goes beyond 1200 characters at the top and the first sentence further in.
            ``compact`` also leaves out defaults and all descriptions except the first sentences of those of
            the tool and its arguments. The list of skills is kept, for ``compact`` with first sentences.
    """
    if detail == "full":
        return tuple(definitions)
    return tuple(_fitted(definition, _RULES[detail]) for definition in definitions)


def _fitted(definition: ToolDefinition, rules: _Rules) -> ToolDefinition:
    description = definition.description
    if definition.name != LOAD_SKILL:
        description = first_sentence(description) if rules.short else _trimmed(description)
    elif rules.short:
        told, *skills = description.split("\n")
        description = "\n".join([told, *map(first_sentence, skills)])
    parameters = definition.parameters
    if not _refers_into_annotations(parameters, rules.dropped_within):
        parameters = _schema(parameters, rules, 0)
    if (description, parameters) == (definition.description, definition.parameters):
        return definition
    return evolve(definition, description=description, parameters=parameters)


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, at most 300 characters of it."""
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
    """Return a schema without annotations; ``depth`` 0 is that of all arguments."""
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
    """Return a nested schema without annotations; booleans and lists are unchanged."""
    return _schema(schema, rules, depth) if isinstance(schema, dict) else schema


def _refers_into_annotations(schema: Json, annotations: frozenset[str]) -> bool:
    """Return whether a reference leads through annotations, as ``#/examples/0``."""
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


# --- Which tools a model is shown and may call ---


RECALL_TOOL = ToolDefinition(
    name=RECALL,
    description=(
        "Read more of a tool result that was shown in part. Give its key, and what to read: a search for "
        "words, a path into JSON, items of a list, or a start. What does not fit ends with how to go on."
    ),
    parameters={
        "type": "object",
        "properties": {
            "key": {"type": "string", "description": "The key that the shortened result names."},
            "search": {"type": "string", "description": "Words to look for, whatever their case."},
            "path": {
                "type": "string",
                "description": "A place in a JSON result, such as matches[3].text; the rest applies to it.",
            },
            "query": {
                "type": "string",
                "maxLength": LONGEST_QUERY,
                "description": "Instead of a path, a JMESPath expression, such as matches[*].path.",
            },
            "items": {
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
                "minItems": 2,
                "maxItems": 2,
                "description": "Of a list, the items from the first number, up to but without the second.",
            },
            "start": {"type": "integer", "minimum": 0, "description": "The character to read from."},
            "length": {"type": "integer", "minimum": 1, "description": "Characters to read at most."},
        },
        "required": ["key"],
        "additionalProperties": False,
    },
    idempotent=True,
)


@frozen(slots=False, eq=False, repr=False)
class Toolset(Value):
    """The tools of a kernel run.

    Attributes:
        offered: the definitions that the model is shown, in a stable order.
        prepared: those among them, by name, that are shown in place of the tools' own in this turn.
    """

    offered: tuple[ToolDefinition, ...]
    prepared: Mapping[str, ToolDefinition] = field(factory=dict)

    @computed
    def _with_recall(self) -> tuple[ToolDefinition, ...]:
        return (*self.offered, RECALL_TOOL)

    @computed
    def _by_name(self) -> Mapping[str, ToolDefinition]:
        return {each.name: each for each in self.offered}

    @computed
    def descriptions(self) -> Mapping[str, str]:
        """The descriptions of the offered tools by name; the kernel's own tool has none."""
        return {each.name: "" if each.name == FINAL_ANSWER else each.description for each in self.offered}

    @computed
    def is_empty(self) -> bool:
        """Whether there is no tool besides the kernel's own."""
        return RESERVED_NAMES.issuperset(self.descriptions)

    @computed
    def returns_directly(self) -> bool:
        """Whether the result of a tool may be the answer."""
        return any(each.return_direct for each in self.offered)

    def available(self, *, recall: bool) -> tuple[ToolDefinition, ...]:
        """Return the next request's tools, with ``recall`` if a result was shown in part."""
        return self._with_recall if recall else self.offered

    def of_turn(self, changes: TurnChanges, detail: SchemaDetail, before: Toolset) -> Toolset:
        """Return the toolset of a turn.

        Args:
            detail: as in :func:`fit_definitions`.
            before: that of the turn before; definitions that are equal in both are the same objects.
        """
        changed = fit_definitions([each for each in changes if isinstance(each, ToolDefinition)], detail)
        known = [before.prepared.get(each.name) for each in changed]
        pairs = zip(known, changed, strict=True)
        prepared = {new.name: new if old is None or old != new else old for old, new in pairs}
        withheld = {each for each in changes if isinstance(each, str)}
        kept = (prepared.get(each.name, each) for each in self.offered if each.name not in withheld)
        return Toolset(tuple(kept), prepared)

    def permits(self, name: str) -> bool:
        """Return whether the model may call the tool, other than ``recall``."""
        return name in self._by_name

    def delivers(self, name: str) -> bool:
        """Return whether a tool delivers the result of the task."""
        known = self._by_name.get(name)
        return name == FINAL_ANSWER or (known is not None and known.output)

    def definition(self, name: str) -> ToolDefinition | None:
        """Return the definition of a tool of the run, also of ``recall``."""
        return RECALL_TOOL if name == RECALL else self._by_name.get(name)


def build_toolset(
    definitions: Iterable[ToolDefinition],
    *,
    allowed: frozenset[str] | None,
    answers_by_tool: bool,
    answer: ToolDefinition = FINAL_ANSWER_TOOL,
) -> Toolset:
    """Return the toolset of some definitions.

    Args:
        definitions: the definitions of the tool service. The names ``final-answer`` and ``recall`` belong to
            the kernel: a tool of such a name is never offered.
        allowed: the only names to offer; ``None`` offers all.
        answers_by_tool: whether the kernel takes its answer from the ``final-answer`` tool, which is offered
            whenever there is another tool to choose.
    """
    offered = tuple(
        each
        for each in definitions
        if each.name not in (FINAL_ANSWER, RECALL) and (allowed is None or each.name in allowed)
    )
    return Toolset((*offered, answer) if answers_by_tool and offered else offered)


def toolset_for(
    definitions: Iterable[ToolDefinition],
    detail: SchemaDetail,
    *,
    allowed: frozenset[str] | None,
    answers_by_tool: bool,
    answer: ToolDefinition = FINAL_ANSWER_TOOL,
) -> Toolset:
    """Return the toolset of definitions in some detail, cached by the definitions.

    Args:
        detail: as in :func:`fit_definitions`; the other arguments are those of :func:`build_toolset`.
    """
    return _made_once(SameObjects((answer, *definitions)), detail, allowed, answers_by_tool)


class SameObjects(tuple[int, ...], Generic[_T]):
    """The identities of objects, as the key of a cache; it keeps the objects.

    Definitions of tools have no hash, and are slow to compare; a policy may have none either.
    """

    objects: tuple[_T, ...]

    def __new__(cls, objects: Iterable[_T]) -> Self:
        """Return the key of the objects, in their order."""
        given = tuple(objects)
        made = super().__new__(cls, map(id, given))
        made.objects = given
        return made


@lru_cache(maxsize=64)
def _made_once(
    same: SameObjects[ToolDefinition],
    detail: SchemaDetail,
    allowed: frozenset[str] | None,
    answers_by_tool: bool,
) -> Toolset:
    answer, *fitted = fit_definitions(same.objects, detail)
    return build_toolset(fitted, allowed=allowed, answers_by_tool=answers_by_tool, answer=answer)
