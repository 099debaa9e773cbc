"""Puts an answer together from the chunks of a stream."""

from __future__ import annotations

from typing import Any, TypeAlias

from returns.result import Failure, Result, Success

from reactive_agents.adapters.llm.responses import (
    CallText,
    RawAnswer,
    read_answer,
    read_text,
    read_thinking,
    text_of,
)
from reactive_agents.core.codec import from_json
from reactive_agents.core.errors import MalformedResponse
from reactive_agents.core.json import JsonObject
from reactive_agents.core.models import ModelResponse, TextDelta, ThinkingDelta, ToolCallDelta, Usage
from reactive_agents.core.surrogates import MendedStream, mended

Piece: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta


class _OpenCall:
    """A tool call that is still arriving."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments = ""
        self.shown = MendedStream()


def _begins_another(call: _OpenCall, part: Any, identity: str) -> bool:
    """Whether a piece of the same number is of another call: some providers number every call 0."""
    if identity and call.id:
        return identity != call.id
    # neither do some give ids, but then they send each call whole
    named = text_of(part.function.name) and text_of(part.function.arguments)
    return bool(named) and isinstance(from_json(call.arguments, JsonObject), Success)


class Assembly:
    """Collects the chunks of one stream.

    Args:
        model: the model that was asked, as ``provider/model``.
        calls_before: tool calls that the conversation held before this answer.
    """

    def __init__(self, model: str, *, calls_before: int) -> None:
        self._model = model
        self._calls_before = calls_before
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_OpenCall] = []
        self._shown_text = MendedStream()
        self._shown_thinking = MendedStream()
        self._latest: dict[int, _OpenCall] = {}
        self._finish_reason = ""

    def absorb(self, chunk: Any) -> tuple[Piece, ...]:
        """Take in a litellm chunk; returns what it adds to the answer."""
        if not chunk.choices:
            return ()
        choice = chunk.choices[0]
        self._finish_reason = text_of(choice.finish_reason) or self._finish_reason
        pieces: list[Piece] = []
        if thought := read_thinking(choice.delta):
            self._thinking.append(thought)
            if shown := self._shown_thinking.take(thought):
                pieces.append(ThinkingDelta(shown))
        if text := read_text(choice.delta):
            self._text.append(text)
            if shown := self._shown_text.take(text):
                pieces.append(TextDelta(shown))
        pieces.extend(self._absorb_call(part) for part in getattr(choice.delta, "tool_calls", None) or ())
        return tuple(pieces)

    def _absorb_call(self, part: Any) -> ToolCallDelta:
        call = self._latest.get(part.index or 0)
        identity = text_of(part.id)
        if call is None or _begins_another(call, part, identity):
            call = _OpenCall(len(self._calls))
            self._calls.append(call)
            self._latest[part.index or 0] = call
        name = "" if call.name else text_of(part.function.name)
        arguments = text_of(part.function.arguments)
        call.id = call.id or identity
        call.name = call.name or name
        call.arguments += arguments
        return ToolCallDelta(call.index, mended(name), call.shown.take(arguments))

    def rest(self) -> tuple[Piece, ...]:
        """What was held back of the pieces, for the half of a surrogate pair at their end."""
        pieces: list[Piece] = []
        if thought := self._shown_thinking.end():
            pieces.append(ThinkingDelta(thought))
        if text := self._shown_text.end():
            pieces.append(TextDelta(text))
        ends = ((call.index, call.shown.end()) for call in self._calls)
        pieces.extend(ToolCallDelta(index, "", end) for index, end in ends if end)
        return tuple(pieces)

    def finish(
        self, *, usage: Usage, cost_usd: float | None, native_reason: str | None, closed: bool
    ) -> Result[ModelResponse, MalformedResponse]:
        """The whole answer, or ``MalformedResponse`` when the stream was none or broke off.

        Args:
            usage: the counts that the provider sent.
            cost_usd: US dollars; ``None`` when the price is unknown.
            native_reason: why the answer ended, as the provider said; ``None`` when it did not say.
            closed: the stream ended with a chunk of usage alone, as some providers end one without a reason.
        """
        if native_reason is None:
            if not (self._text or self._thinking or self._calls):
                return Failure(MalformedResponse(f"The stream of {self._model} was empty.", self._model))
            if not closed:
                message = f"The stream of {self._model} broke off before the answer was complete."
                return Failure(MalformedResponse(message, self._model))
        return read_answer(
            RawAnswer(
                model=self._model,
                content="".join(self._text),
                thinking="".join(self._thinking),
                calls=tuple(CallText(call.id, call.name, call.arguments) for call in self._calls),
                finish_reason=self._finish_reason if native_reason is not None else "",
                native_reason=native_reason or "",
                usage=usage,
                cost_usd=cost_usd,
                calls_before=self._calls_before,
            )
        )
