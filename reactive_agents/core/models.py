"""Requests to models, their responses, and the chunks of a streamed response."""

from __future__ import annotations

import json
from typing import Literal, TypeAlias

from attrs import evolve, field, frozen

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import Message, SystemMessage, ToolCall, UserMessage
from reactive_agents.core.model_settings import NO_SETTINGS, UNSET, ModelSettings
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.core.usage import RunUsage, answer_usage
from reactive_agents.core.usage import Usage as Usage
from reactive_agents.core.values import OMITTED, Value, computed

FinishReason: TypeAlias = Literal["stop", "tool_calls", "length", "content_filter", "other"]
Purpose: TypeAlias = str
"""Why a model is called: ``think`` for a kernel's turn, else the name of the part that asks."""

ANSWERING = frozenset({"think", "output-type"})
"""The purposes of calls whose text may be the answer to the task."""


@frozen(eq=False, repr=False)
class ModelRequest(Value):
    """One request to a model.

    Attributes:
        messages: the conversation, oldest first.
        tools: the tools that the model may call.
        purpose: why it is asked; part of ``ModelCallCompleted``.
        model: overrides the service's own model.
        temperature: 0 to 2; ``None`` leaves it to the provider.
        max_tokens: upper bound of the answer in tokens; ``None`` leaves it to the provider.
        parallel_tool_calls: whether one answer may hold several calls; ``None`` leaves it to the provider.
        tool_choice: ``auto``, ``required``, ``none``, or the name of the tool that has to be called; ``None``
            leaves it to the provider.
        response_schema: JSON Schema that the answer's text must be an instance of.
        settings: the user's; what they say goes before the fields above, which have it already.
        stable: messages at the beginning that later requests of the run begin with as well.
        sample: number of the request among equal ones whose answers are to differ.
        exact: a refused parameter is a failure, and the request not sent again without it.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    purpose: Purpose = "think"
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    parallel_tool_calls: bool | None = None
    response_schema: JsonObject | None = None
    settings: ModelSettings = NO_SETTINGS
    stable: int = 0
    sample: int = 0
    exact: bool = False
    tool_choice: str | None = field(default=None, metadata=OMITTED)

    def under(self, settings: ModelSettings) -> ModelRequest:
        """Return the request as the user's settings want it."""
        if settings is NO_SETTINGS or settings == NO_SETTINGS:
            return self
        temperature, most = settings.temperature, settings.max_tokens
        parallel = settings.parallel_tool_calls if self.tools else UNSET
        return evolve(
            self,
            temperature=self.temperature if temperature is UNSET else temperature,
            max_tokens=self.max_tokens if most is UNSET else most,
            parallel_tool_calls=self.parallel_tool_calls if parallel is UNSET else parallel,
            tool_choice=None if settings.tool_choice is None else self.tool_choice,
            settings=settings,
        )


def data_request(
    instructions: str,
    data: Json,
    *,
    purpose: Purpose,
    model: str | None = None,
    temperature: float = 0.0,
    response_schema: JsonObject | None = None,
) -> ModelRequest:
    """Return a request about data, which are the JSON of its user message.

    The instructions say that the data are no instructions.
    """
    messages = (SystemMessage(instructions), UserMessage(json.dumps(data, ensure_ascii=False)))
    return ModelRequest(
        messages, purpose=purpose, model=model, temperature=temperature, response_schema=response_schema
    )


@frozen(slots=False, eq=False, repr=False)
class ModelResponse(Value):
    """A model's complete response.

    Attributes:
        content: the text; empty when it only calls tools.
        thinking: reasoning text that the provider exposed; empty when there is none.
        model: the model that answered, which may be a fallback.
        cost_usd: US dollars; ``None`` when the price of the model is unknown.
        refused: the attempts before this answer that failed and are, or may be, charged for.
        cached: it was recorded before, and took nothing; ``usage`` and ``cost_usd`` are of that time.
    """

    content: str
    model: str
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str = ""
    finish_reason: FinishReason = "stop"
    usage: Usage = field(factory=lambda: Usage(reported=False))
    cost_usd: float | None = None
    refused: tuple[RunUsage, ...] = ()
    cached: bool = False

    @computed
    def spent(self) -> tuple[RunUsage, ...]:
        """Return the usage of the call, attempt by attempt."""
        return (*self.refused, answer_usage(self.model, self.usage, self.cost_usd, cached=self.cached))


@frozen(eq=False, repr=False)
class TokenPrice(Value):
    """The highest price of a token in US dollars, by a model's most expensive tariff.

    ``max_output_tokens``: the longest answer; ``None`` when it is unknown.
    """

    input_usd: float
    output_usd: float
    max_output_tokens: int | None = None


@frozen(eq=False, repr=False)
class TextDelta(Value):
    """The next delta of the answer's text."""

    text: str


@frozen(eq=False, repr=False)
class ThinkingDelta(Value):
    """The next delta of the model's exposed reasoning."""

    text: str


@frozen(eq=False, repr=False)
class ToolCallDelta(Value):
    """The next part of a tool call's ``arguments``; the first delta has the ``name``."""

    index: int
    name: str
    arguments: str


@frozen(eq=False, repr=False)
class StreamRestarted(Value):
    """The stream broke and the request is sent again; discard the earlier chunks."""

    reason: str


@frozen(eq=False, repr=False)
class StreamCompleted(Value):
    """The last chunk: the complete response, with usage and cost."""

    response: ModelResponse


ModelChunk: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta | StreamRestarted | StreamCompleted
