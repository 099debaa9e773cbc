"""Which tools a model is shown and may call, each with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from reactive_agents.core.tools import ToolDefinition

FINAL_ANSWER = "final-answer"

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


@frozen
class ToolChoice:
    """A tool and why it is offered or withheld."""

    definition: ToolDefinition
    offered: bool
    reason: str


@frozen
class Toolset:
    """The tools of a kernel run. ``offered``: what the model is shown, in a stable order."""

    choices: tuple[ToolChoice, ...]
    offered: tuple[ToolDefinition, ...]
    _by_name: Mapping[str, ToolDefinition] = field(init=False, repr=False, eq=False)

    @_by_name.default
    def _index(self) -> Mapping[str, ToolDefinition]:
        return {definition.name: definition for definition in self.offered}

    def permits(self, name: str) -> bool:
        """Whether the model may call the tool."""
        return name in self._by_name

    def definition(self, name: str) -> ToolDefinition | None:
        """The definition of a tool that the model may call."""
        return self._by_name.get(name)


def build_toolset(
    definitions: Iterable[ToolDefinition], *, allowed: frozenset[str] | None, answers_by_tool: bool
) -> Toolset:
    """Decide on every tool.

    Args:
        definitions: what the tool service has. The name ``final-answer`` belongs to the kernel: a tool of
            that name is never offered.
        allowed: the only names to offer; ``None`` offers all.
        answers_by_tool: whether the kernel takes its answer from the ``final-answer`` tool, which is offered
            whenever there is another tool to choose.
    """
    choices = [_choose(definition, allowed) for definition in definitions]
    if answers_by_tool and any(choice.offered for choice in choices):
        choices.append(ToolChoice(FINAL_ANSWER_TOOL, True, "delivers the answer"))
    return Toolset(tuple(choices), tuple(choice.definition for choice in choices if choice.offered))


def _choose(definition: ToolDefinition, allowed: frozenset[str] | None) -> ToolChoice:
    if definition.name == FINAL_ANSWER:
        return ToolChoice(definition, False, "the name belongs to the tool that delivers the answer")
    if allowed is not None and definition.name not in allowed:
        return ToolChoice(definition, False, "outside the scope of this step")
    return ToolChoice(definition, True, "provided")
