"""What a model is asked and what it answers."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen

from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import Message, ToolCall
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.core.usage import RunUsage, answer_usage
from reactive_agents.core.usage import Usage as Usage

FinishReason: TypeAlias = Literal["stop", "tool_calls", "length", "content_filter", "other"]
Purpose: TypeAlias = str
"""Why a model is called: ``think`` for a kernel's turn, else the name of the part that asks."""


@frozen
class ModelRequest:
    """One question to a model.

    Attributes:
        messages: the conversation, oldest first.
        tools: the tools that the model may call.
        purpose: why it is asked; part of ``ModelCallCompleted``.
        model: overrides the service's own model.
        temperature: 0 to 2; ``None`` leaves it to the provider.
        max_tokens: upper bound of the answer in tokens; ``None`` leaves it to the provider.
        parallel_tool_calls: whether one answer may hold several calls; ``None`` leaves it to the provider.
        response_schema: JSON Schema that the answer's text must be an instance of.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    purpose: Purpose = "think"
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    parallel_tool_calls: bool | None = None
    response_schema: JsonObject | None = None


@frozen
class ModelResponse:
    """A model's complete answer.

    Attributes:
        content: the text; empty when it only calls tools.
        thinking: reasoning text that the provider exposed; empty when there is none.
        model: the model that answered, which may be a fallback.
        cost_usd: US dollars; ``None`` when the price of the model is unknown.
        refused: the attempts before this answer that are, or may be, charged for and came to nothing.
    """

    content: str
    model: str
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str = ""
    finish_reason: FinishReason = "stop"
    usage: Usage = field(factory=lambda: Usage(reported=False))
    cost_usd: float | None = None
    refused: tuple[RunUsage, ...] = ()

    @property
    def spent(self) -> tuple[RunUsage, ...]:
        """What the call came to, attempt by attempt."""
        return (*self.refused, answer_usage(self.model, self.usage, self.cost_usd))


@frozen
class TokenPrice:
    """What a model costs at most, by the dearest of its tariffs.

    Attributes:
        input_usd: US dollars for a token that it reads, 0 or more.
        output_usd: US dollars for a token that it writes, 0 or more.
        max_output_tokens: the longest answer; ``None`` when it is not known.
    """

    input_usd: float
    output_usd: float
    max_output_tokens: int | None = None


@frozen
class TextDelta:
    """The next piece of the answer's text."""

    text: str


@frozen
class ThinkingDelta:
    """The next piece of the model's exposed reasoning."""

    text: str


@frozen
class ToolCallDelta:
    """The next piece of a tool call; ``name`` comes with the first piece, ``arguments`` is JSON text."""

    index: int
    name: str
    arguments: str


@frozen
class StreamRestarted:
    """The stream broke and the request is sent again: what was streamed so far is void."""

    reason: str


@frozen
class StreamCompleted:
    """The last chunk: the whole answer, assembled, with usage and cost."""

    response: ModelResponse


ModelChunk: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta | StreamRestarted | StreamCompleted
