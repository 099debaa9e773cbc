"""What is said in a conversation with a model: four roles, each a frozen value."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TypeAlias

from attrs import field

from reactive_agents.core.frozen import frozen
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject

# made once: ``json.dumps`` would make an encoder for each call
_as_json = json.JSONEncoder(ensure_ascii=False).encode
_as_sorted_json = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode


@frozen
class ToolCall:
    """A model's request to run a tool.

    ``malformed`` is empty when the arguments were a JSON object; otherwise it holds the text that the model
    sent in their place, ``arguments`` is empty, and executing the call fails with ``InvalidToolArguments``.
    ``healings`` says, one sentence each, how the call differs from what the model sent.
    """

    id: CallId
    name: str
    arguments: JsonObject = field(factory=dict)
    malformed: str = ""
    healings: tuple[str, ...] = ()

    @cached_property
    def described(self) -> str:
        """The call as JSON text: the tool's name and its arguments."""
        arguments = self.malformed or self.arguments
        return _as_json({"tool": self.name, "arguments": arguments})

    @cached_property
    def fingerprint(self) -> str:
        """What two calls have in common when they ask the same: the tool and its arguments."""
        return f"{self.name} {self.malformed or _in_one_order(self.arguments)}"


def _in_one_order(arguments: JsonObject) -> str:
    """The arguments as text that does not depend on their order."""
    text = repr(sorted(arguments.items()))
    return _as_sorted_json(arguments) if "{" in text else text  # objects within have an order too


@frozen
class SystemMessage:
    """Trusted instructions. Never built from model output, tool results or recalled memory."""

    content: str


@frozen
class UserMessage:
    """The task, or guidance of the run for the model's next turn."""

    content: str


@frozen
class AssistantMessage:
    """A model's turn: text, tool calls or both; ``thinking`` is reasoning text that the provider exposed."""

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str = ""


@frozen
class ToolMessage:
    """The result of one tool call, as the model sees it."""

    call_id: CallId
    tool_name: str
    content: str
    is_error: bool = False


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage
