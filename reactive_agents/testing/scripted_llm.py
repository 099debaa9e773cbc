"""A scripted model, which plays turns in order, or by a text in the prompt."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Never, TypeAlias, TypedDict, Unpack, assert_never

import anyio
import anyio.lowlevel
from attrs import evolve, field, frozen
from attrs.validators import ge
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.core import models
from reactive_agents.core.errors import LLMErrors, ScriptExhausted
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from reactive_agents.core.texts import shortened
from reactive_agents.core.tools import FINAL_ANSWER
from reactive_agents.effects import Effect, effect

TURN_USAGE = models.Usage(input_tokens=10, output_tokens=5, total_tokens=15)
"""The usage that a turn reports by default."""


@frozen
class ScriptedCall:
    """A tool call of a script; it gets its id when it is played."""

    name: str
    arguments: JsonObject
    malformed: str = ""


@frozen
class Turn:
    """One turn of a script.

    Made by :func:`say`, :func:`answer`, :func:`call`, :func:`calls` and :func:`fail`.

    Attributes:
        error: the failure of the turn; the other contents are then ignored.
        when: text that the request must contain for the turn to fit; empty fits every request.
        delay: seconds before the answer, 0 or more.
        usage: the tokens that the turn reports.
        cost_usd: US dollars; ``None`` for a model whose price is unknown.
        endless: whether it stays in the script after it was played.
        chunks: the chunks that a stream yields before the whole answer; by default a word at a time.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    finish_reason: models.FinishReason = "stop"
    error: LLMErrors | None = None
    when: str = ""
    delay: float = field(default=0.0, validator=ge(0.0))
    usage: models.Usage = TURN_USAGE
    cost_usd: float | None = 0.0
    endless: bool = False
    chunks: tuple[models.ModelChunk, ...] | None = None


class TurnOptions(TypedDict, total=False):
    """Fields of a :class:`Turn`; ``thinking``: reasoning text that the model exposes."""

    thinking: str
    when: str
    delay: float
    usage: models.Usage
    cost_usd: float | None


def say(text: str, *, finish_reason: models.FinishReason = "stop", **options: Unpack[TurnOptions]) -> Turn:
    """Return a turn of text without a call.

    It is the answer if ``final-answer`` is not offered; otherwise :func:`answer` delivers one.

    Args:
        finish_reason: why the model stopped; ``length`` scripts a truncated answer.
    """
    return Turn(text, finish_reason=finish_reason, **options)


def answer(text: str | JsonObject, **options: Unpack[TurnOptions]) -> Turn:
    """Return a turn that delivers the answer with the ``final-answer`` tool.

    >>> answer("It is 3.").calls[0].arguments
    {'answer': 'It is 3.'}
    >>> answer({"sum": 3}).calls[0].arguments
    {'sum': 3}

    Args:
        text: the answer; for an agent with an output type its fields, or ``{"value": …}`` if the type is not
            an object.
    """
    fields = JsonObject(answer=text) if isinstance(text, str) else text
    return _calling(say("", **options), (ScriptedCall(FINAL_ANSWER, fields),))


def call(
    tool: str,
    arguments: JsonObject | None = None,
    /,
    *,
    when: str = "",
    delay: float = 0.0,
    usage: models.Usage = TURN_USAGE,
    cost_usd: float | None = 0.0,
    **named: Json,
) -> Turn:
    """Return a turn that calls one tool.

    >>> call("file-read", path="notes.md").calls[0].arguments
    {'path': 'notes.md'}
    >>> call("sensor", {"when": "now", "two words": 2}).calls[0].arguments
    {'when': 'now', 'two words': 2}

    Args:
        arguments: the tool's arguments; needed for names that are not Python names, or that this function
            has itself (``when``, ``delay``, ``usage``, ``cost_usd``).
        when, delay, usage, cost_usd: as in :class:`Turn`.
    """
    said = say("", when=when, delay=delay, usage=usage, cost_usd=cost_usd)
    return _calling(said, (ScriptedCall(tool, {**(arguments or {}), **named}),))


def malformed_call(tool: str, text: str) -> Turn:
    """Return a turn that calls one tool with malformed arguments.

    Args:
        text: the text in place of the JSON object.
    """
    return _calling(Turn(), (ScriptedCall(tool, {}, malformed=text),))


def calls(*turns: Turn, text: str = "", **options: Unpack[TurnOptions]) -> Turn:
    """Return one turn with several tool calls.

    Args:
        turns: the calls, each made by :func:`call`. Their own ``when``, ``delay``, ``usage`` and
            ``cost_usd`` do not count; a turn has those once.
        text: text of the model beside the calls.

    Raises:
        ValueError: one of the turns calls no tool.
    """
    if not turns or not all(turn.calls for turn in turns):
        raise ValueError("calls() takes one or more turns made by call().")
    return _calling(say(text, **options), tuple(made for turn in turns for made in turn.calls))


def fail(error: LLMErrors, *, when: str = "", delay: float = 0.0) -> Turn:
    """Return a turn that fails.

    Args:
        error: the failure that the caller gets.
        when, delay: as in :class:`Turn`.
    """
    return Turn(error=error, when=when, delay=delay)


def streamed(turn: Turn, *chunks: models.ModelChunk | str) -> Turn:
    """Return the turn with the chunks that it is streamed in, as they are.

    >>> streamed(say("It is 3."), "It ", "is 3.").chunks
    (TextDelta(text='It '), TextDelta(text='is 3.'))

    Args:
        chunks: chunks such as ``ToolCallDelta(0, "final-answer", '{"answer": "It')``; a text is a delta of
            the turn's text. The whole answer of the turn follows.
    """
    given = (models.TextDelta(each) if isinstance(each, str) else each for each in chunks)
    return evolve(turn, chunks=tuple(given))


def forever(turn: Turn) -> Turn:
    """Return the turn as one that answers every request that it fits.

    Turns after one without a ``when`` are never reached.
    """
    return evolve(turn, endless=True)


def _calling(said: Turn, made: tuple[ScriptedCall, ...]) -> Turn:
    return evolve(said, calls=made, finish_reason="tool_calls")


# --- A model that plays a script: no network, no chance, and a record of what it was asked ---


SHOWN_MESSAGES = 4
SHOWN_CHARACTERS = 600
_WORD = re.compile(r"\s*\S+|\s+")


TurnOfRequest: TypeAlias = Callable[[models.ModelRequest], Turn]


def _checked(turn: object) -> Turn:
    if not isinstance(turn, Turn):
        raise TypeError(f"ScriptedLLM: got {type(turn).__name__}, expected turns, as say and call make them")
    return turn


class ScriptedLLM:
    """A fake model: each request takes the first unused turn that fits.

    A turn without ``when`` fits every request; a turn with ``when`` fits a request whose messages contain
    that text. So a plain script is played in order, and concurrent calls, which may come in any order, are
    scripted by the texts in their prompts. A request that no turn fits fails with ``ScriptExhausted``.

    A turn is taken when the effect is awaited, in one uninterrupted step, so that one object serves any
    number of concurrent runs of one event loop.

    Args:
        turns: the script, from :func:`say`, :func:`answer`, :func:`call`, :func:`calls`, :func:`fail`,
            :func:`streamed` and :func:`forever`; and functions from a request to a turn, which answer
            every request that no turn before them fits.
        model: the model's name, for requests that name none.
        price: the price of a token of any model; ``None`` for an unknown price, which no budget in dollars
            allows.

    Attributes:
        requests: every request so far, in order, including failed ones.

    Raises:
        TypeError: an item of the script is not a turn.
    """

    def __init__(
        self,
        *turns: Turn | TurnOfRequest,
        model: str = "scripted/test",
        price: models.TokenPrice | None = None,
    ) -> None:
        for turn in turns:
            if not callable(turn):
                _checked(turn)
        self.requests: list[models.ModelRequest] = []
        self._model = model
        self._price = price
        self._unused = deque(turns)
        self._turn_count = len(turns)
        self._call_count = 0

    @property
    def model(self) -> str:
        """Name of the model."""
        return self._model

    @property
    def remaining(self) -> int:
        """Number of unused turns, without endless ones."""
        return sum(isinstance(turn, Turn) and not turn.endless for turn in self._unused)

    def price(self, model: str | None) -> Effect[models.TokenPrice | None, Never]:
        """Return the price given at construction."""
        return FutureResult.from_value(self._price)

    @effect
    async def complete(self, request: models.ModelRequest) -> Result[models.ModelResponse, LLMErrors]:
        """Return the next turn that fits.

        Fails as the turn says, or with ``ScriptExhausted`` when none fits.
        """
        return await self._play(request, self._take(request))

    async def stream(
        self, request: models.ModelRequest
    ) -> AsyncIterator[Result[models.ModelChunk, LLMErrors]]:
        """Yield the next turn that fits in its chunks, then the full response.

        The chunks are those of :func:`streamed`, or of a word each.
        """
        turn = self._take(request)
        played = await self._play(request, turn)
        for chunk in () if turn is None or turn.chunks is None else turn.chunks:
            await anyio.lowlevel.checkpoint()  # as where it comes over a network
            yield Success(chunk)
        if isinstance(played, Failure):
            yield Failure(played.failure())
            return
        response = played.unwrap()
        if turn is None or turn.chunks is not None:
            yield Success(models.StreamCompleted(response))
            return
        for word in _WORD.findall(response.thinking):
            yield Success(models.ThinkingDelta(word))
        for word in _WORD.findall(response.content):
            yield Success(models.TextDelta(word))
        for index, made in enumerate(response.tool_calls):
            text = made.sent_arguments
            for number, word in enumerate(_WORD.findall(text)):
                yield Success(models.ToolCallDelta(index, "" if number else made.name, word))
        yield Success(models.StreamCompleted(response))

    async def _play(
        self, request: models.ModelRequest, turn: Turn | None
    ) -> Result[models.ModelResponse, LLMErrors]:
        if turn is None:
            return Failure(self._exhausted(request))
        if turn.delay:
            await anyio.sleep(turn.delay)
        if turn.error is not None:
            return Failure(turn.error)
        return Success(
            models.ModelResponse(
                turn.text,
                request.model or self._model,
                self._numbered_calls(turn) if turn.calls else (),
                turn.thinking,
                turn.finish_reason,
                turn.usage,
                turn.cost_usd,
            )
        )

    def _take(self, request: models.ModelRequest) -> Turn | None:
        self.requests.append(request)
        prompt: str | None = None
        for position, turn in enumerate(self._unused):
            if not isinstance(turn, Turn):
                return _checked(turn(request))
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

    def _exhausted(self, request: models.ModelRequest) -> ScriptExhausted:
        asked = f"request {len(self.requests)} (purpose {request.purpose!r})"
        rendered = [
            shortened(render_message(message), SHOWN_CHARACTERS)
            for message in request.messages[-SHOWN_MESSAGES:]
        ]
        if not self._unused:
            message = f"The script is used up: {asked} came after its last turn, number {self._turn_count}."
        else:
            message = f"No turn of the script fits {asked}; turns unused: {len(self._unused)}."
            wanted = [turn.when for turn in self._unused if isinstance(turn, Turn)]
            rendered.extend(f"unused turn: wants {when!r}" for when in wanted)
        for last in request.messages[-1:]:
            message += f" The request ends with: {shortened(render_message(last), SHOWN_CHARACTERS // 2)}"
        return ScriptExhausted(message, "\n".join(rendered))


def render_messages(messages: tuple[Message, ...]) -> str:
    """Return the conversation as text, in which the ``when`` of turns is searched."""
    return "\n".join(map(render_message, messages))


def render_message(message: Message) -> str:
    """Return a message as text: role, content, and calls with arguments as JSON."""
    match message:
        case SystemMessage(content):
            return f"system: {content}"
        case UserMessage(content):
            return f"user: {content}"
        case AssistantMessage(content, tool_calls):
            made = [f"{one.name}({one.arguments_text})" for one in tool_calls]
            return "assistant: " + "\n".join(part for part in (content, *made) if part)
        case ToolMessage(_, tool_name, content):
            return f"tool {tool_name}: {content}"
    assert_never(message)
