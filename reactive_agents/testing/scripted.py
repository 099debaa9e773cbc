"""A model that plays a script: no network, no chance, and a record of what it was asked."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import AsyncIterator
from typing import Never, assert_never

import anyio
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import LLMErrors, ScriptExhausted
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from reactive_agents.core.models import (
    ModelChunk,
    ModelRequest,
    ModelResponse,
    StreamCompleted,
    TextDelta,
    ThinkingDelta,
    TokenPrice,
    ToolCallDelta,
)
from reactive_agents.effects import Effect
from reactive_agents.testing.turns import Turn

SHOWN_MESSAGES = 4
SHOWN_CHARACTERS = 600
_WORD = re.compile(r"\s*\S+|\s+")


class ScriptedLLM:
    """Plays its turns: each request takes the first unused turn that fits.

    A turn without ``when`` fits every request; a turn with ``when`` fits a request whose messages contain
    that text. So a plain script is played in order, and concurrent calls, which may come in any order, are
    scripted by what their prompts say. A request that no turn fits fails with ``ScriptExhausted``.

    A turn is taken when the effect is awaited, in one uninterrupted step: one object serves any number of
    concurrent runs of one event loop.

    Args:
        turns: the script, from :func:`say`, :func:`call`, :func:`calls`, :func:`fail` and :func:`forever`.
        model: the model's name, for requests that name none.
        price: what a token of any model costs at most; ``None`` for models whose price is unknown, which no
            budget in dollars allows.

    Attributes:
        requests: every request so far, in order, also those that failed.

    Raises:
        TypeError: something of the script is no turn.
    """

    def __init__(self, *turns: Turn, model: str = "scripted/test", price: TokenPrice | None = None) -> None:
        for turn in turns:
            if not isinstance(turn, Turn):
                raise TypeError(
                    f"ScriptedLLM: got {type(turn).__name__}, expected turns, as say and call make them"
                )
        self.requests: list[ModelRequest] = []
        self._model = model
        self._price = price
        self._unused = deque(turns)
        self._turn_count = len(turns)
        self._call_count = 0

    @property
    def model(self) -> str:
        """The model's name."""
        return self._model

    @property
    def remaining(self) -> int:
        """How many turns are unused; an endless turn counts for none."""
        return sum(not turn.endless for turn in self._unused)

    def price(self, model: str | None) -> Effect[TokenPrice | None, Never]:
        """The price that it was given."""
        return FutureResult.from_value(self._price)

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        """The next turn that fits. Fails as the turn says, or with ``ScriptExhausted`` when none fits."""
        return FutureResult(self._play(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """The next turn that fits, word by word: thinking, text, calls, then the whole."""
        played = await self._play(request)
        if isinstance(played, Failure):
            yield Failure(played.failure())
            return
        response = played.unwrap()
        for word in _WORD.findall(response.thinking):
            yield Success(ThinkingDelta(word))
        for word in _WORD.findall(response.content):
            yield Success(TextDelta(word))
        for index, made in enumerate(response.tool_calls):
            text = made.malformed or json.dumps(made.arguments, ensure_ascii=False)
            middle = len(text) // 2
            yield Success(ToolCallDelta(index, made.name, text[:middle]))
            yield Success(ToolCallDelta(index, "", text[middle:]))
        yield Success(StreamCompleted(response))

    async def _play(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        self.requests.append(request)
        turn = self._take(request)
        if turn is None:
            return Failure(self._exhausted(request))
        if turn.delay:
            await anyio.sleep(turn.delay)
        if turn.error is not None:
            return Failure(turn.error)
        return Success(
            ModelResponse(
                turn.text,
                request.model or self._model,
                self._numbered_calls(turn) if turn.calls else (),
                turn.thinking,
                turn.finish_reason,
                turn.usage,
                turn.cost_usd,
            )
        )

    def _take(self, request: ModelRequest) -> Turn | None:
        prompt: str | None = None
        for position, turn in enumerate(self._unused):
            if turn.when:
                if prompt is None:  # rendering a long conversation is dear: only for turns that look at it
                    prompt = render_messages(request.messages)
                if turn.when not in prompt:
                    continue
            if not turn.endless:
                del self._unused[position]
            return turn
        return None

    def _numbered_calls(self, turn: Turn) -> tuple[ToolCall, ...]:
        numbered = []
        for scripted in turn.calls:
            self._call_count += 1
            call_id = CallId(f"call-{self._call_count}")
            numbered.append(ToolCall(call_id, scripted.name, scripted.arguments, scripted.malformed))
        return tuple(numbered)

    def _exhausted(self, request: ModelRequest) -> ScriptExhausted:
        asked = f"request {len(self.requests)} (purpose {request.purpose!r})"
        rendered = [_shorten(render_message(message)) for message in request.messages[-SHOWN_MESSAGES:]]
        if not self._unused:
            message = f"The script is used up: {asked} came after its last turn, number {self._turn_count}."
        else:
            message = f"No turn of the script fits {asked}; turns unused: {len(self._unused)}."
            rendered.extend(f"unused turn: wants {turn.when!r}" for turn in self._unused)
        return ScriptExhausted(message, "\n".join(rendered))


def render_messages(messages: tuple[Message, ...]) -> str:
    """The conversation as text: what a turn's ``when`` is looked for in."""
    return "\n".join(map(render_message, messages))


def render_message(message: Message) -> str:
    """One message as text: who speaks, then the content, the calls with their arguments as JSON."""
    match message:
        case SystemMessage(content):
            return f"system: {content}"
        case UserMessage(content):
            return f"user: {content}"
        case AssistantMessage(content, tool_calls):
            made = [f"{one.name}({json.dumps(one.arguments, ensure_ascii=False)})" for one in tool_calls]
            return "assistant: " + "\n".join(part for part in (content, *made) if part)
        case ToolMessage(_, tool_name, content):
            return f"tool {tool_name}: {content}"
    assert_never(message)


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
