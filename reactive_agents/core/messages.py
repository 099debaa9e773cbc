"""Messages of a conversation with a model: one frozen class for each role."""

from __future__ import annotations

import json
from typing import TypeAlias

from attrs import evolve, field, frozen

from reactive_agents.core.content import Content
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonFields, JsonObject
from reactive_agents.core.values import OMITTED, Value, computed

# made once: ``json.dumps`` would make an encoder for each call
_as_json = json.JSONEncoder(ensure_ascii=False).encode
_EDITED = "An approver changed the arguments, which were "
_as_sorted_json = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode


@frozen(slots=False, eq=False, repr=False)
class ToolCall(Value):
    """A model's request to run a tool.

    ``malformed`` is empty when the arguments were a JSON object; otherwise it holds the text that the model
    sent in their place, ``arguments`` is empty, and executing the call fails with ``InvalidToolArguments``.
    ``repairs`` says, one sentence each, how the call differs from what the model sent. ``written`` is whether
    the model wrote the call in its text. ``copied`` says, one sentence each, which arguments of a high-risk
    call were copied from a tool result or a recalled note.
    """

    id: CallId
    name: str
    arguments: JsonFields = field(factory=dict)
    malformed: str = ""
    repairs: tuple[str, ...] = ()
    written: bool = False
    copied: tuple[str, ...] = ()

    @computed
    def arguments_text(self) -> str:
        """Return the arguments as JSON text."""
        return _as_json(self.arguments)

    @property
    def sent_arguments(self) -> str:
        """Return the arguments as the model sent them, also where they are no JSON object."""
        return self.malformed or self.arguments_text

    @computed
    def described(self) -> str:
        """Return the call as JSON text: the tool's name and its arguments."""
        arguments = _as_json(self.malformed) if self.malformed else self.arguments_text
        return f'{{"tool": {_as_json(self.name)}, "arguments": {arguments}}}'

    @computed
    def fingerprint(self) -> str:
        """Return a key that is equal for calls of one tool with equal arguments."""
        return f"{self.name} {self.malformed or self._arguments_in_one_order()}"

    def edited(self, arguments: JsonObject) -> ToolCall:
        """Return the call as it was made, with the arguments that an approver gave."""
        told = f"{_EDITED}{self.arguments_text}."
        return evolve(self, arguments=arguments, repairs=(*self.repairs, told), copied=())

    @property
    def is_edited(self) -> bool:
        """Return whether an approver changed the arguments."""
        return any(each.startswith(_EDITED) for each in self.repairs)

    def _arguments_in_one_order(self) -> str:
        """Return the arguments as text with sorted names."""
        arguments, text = self.arguments, self.arguments_text
        has_objects = text.count("{") > 1  # or a text with a brace, which does no harm
        ordered = not has_objects and (len(arguments) < 2 or [*arguments] == sorted(arguments))
        return text if ordered else _as_sorted_json(arguments)


@frozen(eq=False, repr=False)
class SystemMessage(Value):
    """Trusted instructions; never made from model output, tool results or memory."""

    content: str


@frozen(eq=False, repr=False)
class UserMessage(Value):
    """The task, or guidance for the model's next turn.

    Attributes:
        parts: images, audio and documents, in the order of their labels in the text.
    """

    content: str
    parts: tuple[Content, ...] = field(default=(), metadata=OMITTED)


@frozen(eq=False, repr=False)
class AssistantMessage(Value):
    """A model's turn: text, tool calls or both.

    Attributes:
        thinking: reasoning text that the provider exposed."""

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str = ""


@frozen(eq=False, repr=False)
class ToolMessage(Value):
    """The result of one tool call, as the model is shown it.

    Attributes:
        parts: images, audio and documents, in the order of their labels in the text.
    """

    call_id: CallId
    tool_name: str
    content: str
    is_error: bool = False
    parts: tuple[Content, ...] = field(default=(), metadata=OMITTED)


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage
"""A message of a conversation: the instructions, the user's, the model's, or the result of a tool."""
