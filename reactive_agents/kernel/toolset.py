"""Which tools a model is shown and may call, each with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from attrs import Factory, field, frozen

from reactive_agents.core.config import SchemaDetail
from reactive_agents.core.tools import FINAL_ANSWER as FINAL_ANSWER
from reactive_agents.core.tools import RECALL as RECALL
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.json_query import LONGEST_QUERY
from reactive_agents.kernel.schema_detail import fit_definitions

FINAL_ANSWER_TOOL = ToolDefinition(
    name=FINAL_ANSWER,
    description=(
        "Deliver the answer to the task and end the work. Call it alone, once everything that the answer "
        "rests on has been seen."
    ),
    parameters={
        "type": "object",
        "properties": {"answer": {"type": "string", "description": "The complete answer to the task."}},
        "required": ["answer"],
        "additionalProperties": False,
    },
)

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


@frozen
class ToolChoice:
    """A tool and why it is offered or withheld."""

    definition: ToolDefinition
    offered: bool
    reason: str


@frozen
class Toolset:
    """The tools of a kernel run.

    Attributes:
        offered: what the model is shown, in a stable order.
        with_recall: the same once a result was shown in part.
    """

    choices: tuple[ToolChoice, ...]
    offered: tuple[ToolDefinition, ...]
    with_recall: tuple[ToolDefinition, ...]
    _by_name: Mapping[str, ToolDefinition] = field(
        init=False,
        repr=False,
        eq=False,
        default=Factory(lambda self: {each.name: each for each in self.offered}, takes_self=True),
    )

    def available(self, *, recall: bool) -> tuple[ToolDefinition, ...]:
        """The tools for the next request. ``recall``: whether a result was shown in part."""
        return self.with_recall if recall else self.offered

    def permits(self, name: str, *, recall: bool = False) -> bool:
        """Whether the model may call the tool."""
        return name in self._by_name or (recall and name == RECALL)

    def definition(self, name: str) -> ToolDefinition | None:
        """The definition of a tool that the model may call, now or once a result was shown in part."""
        return RECALL_TOOL if name == RECALL else self._by_name.get(name)


def build_toolset(
    definitions: Iterable[ToolDefinition], *, allowed: frozenset[str] | None, answers_by_tool: bool
) -> Toolset:
    """Decide on every tool.

    Args:
        definitions: what the tool service has. The names ``final-answer`` and ``recall`` belong to the
            kernel: a tool of such a name is never offered.
        allowed: the only names to offer; ``None`` offers all.
        answers_by_tool: whether the kernel takes its answer from the ``final-answer`` tool, which is offered
            whenever there is another tool to choose.
    """
    choices = [_choose(definition, allowed) for definition in definitions]
    if answers_by_tool and any(choice.offered for choice in choices):
        choices.append(ToolChoice(FINAL_ANSWER_TOOL, True, "delivers the answer"))
    offered = tuple(choice.definition for choice in choices if choice.offered)
    return Toolset(tuple(choices), offered, (*offered, RECALL_TOOL))


def toolset_for(
    definitions: Iterable[ToolDefinition],
    detail: SchemaDetail,
    *,
    allowed: frozenset[str] | None,
    answers_by_tool: bool,
) -> Toolset:
    """The toolset of definitions as a model of some size is shown them; made once for the same definitions.

    Args:
        detail: as for :func:`~reactive_agents.kernel.schema_detail.fit_definitions`; the rest as for
            :func:`build_toolset`.
    """
    return _made_once(_Same(definitions), detail, allowed, answers_by_tool)


class _Same:
    """Definitions that equal no others but themselves: schemas have no hash, and are slow to compare."""

    __slots__ = ("definitions", "ids")

    def __init__(self, definitions: Iterable[ToolDefinition]) -> None:
        self.definitions = tuple(definitions)
        self.ids = tuple(map(id, self.definitions))

    def __hash__(self) -> int:
        return hash(self.ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.ids == other.ids


@lru_cache(maxsize=64)
def _made_once(
    same: _Same, detail: SchemaDetail, allowed: frozenset[str] | None, answers_by_tool: bool
) -> Toolset:
    fitted = fit_definitions(same.definitions, detail)
    return build_toolset(fitted, allowed=allowed, answers_by_tool=answers_by_tool)


def _choose(definition: ToolDefinition, allowed: frozenset[str] | None) -> ToolChoice:
    if definition.name == FINAL_ANSWER:
        return ToolChoice(definition, False, "the name belongs to the tool that delivers the answer")
    if definition.name == RECALL:
        return ToolChoice(definition, False, "the name belongs to the tool that reads stored results")
    if allowed is not None and definition.name not in allowed:
        return ToolChoice(definition, False, "outside the scope of this step")
    return ToolChoice(definition, True, "provided")
