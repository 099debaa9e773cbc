"""Deltas of a streamed run: its answer, its thinking, arguments of its calls.

A reader prints one text, whether the answer arrives as the model's text or as the argument of
``final-answer``. So at any time one text stands for the answer. An event retracts a text that a later one
replaces, or that the run does not accept as its answer. Before the last event of a run, the text that stands
is made equal to the result. Without readers none of this happens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Concatenate, Final, Literal, ParamSpec, Protocol, TypeAlias

from attrs import define

from reactive_agents.core import models
from reactive_agents.core.events import (
    ModelStreamRestarted,
    ModelTextRetracted,
    ModelTextStreamed,
    ModelThinkingStreamed,
    ToolArgumentsStreamed,
)
from reactive_agents.core.ids import RunId, TaskId
from reactive_agents.core.json import SurrogateFilter
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.tools import FINAL_ANSWER
from reactive_agents.kernel.answer_form import FINAL_ANSWER_TOOL
from reactive_agents.kernel.call_parsing.parser import ThinkingFilter

if TYPE_CHECKING:
    from reactive_agents.core.events import AgentEvent
    from reactive_agents.core.redaction import StreamRedactor

_P = ParamSpec("_P")

ANSWER: Final = "answer"
"""The argument of ``final-answer`` that holds an answer in words."""
_BESIDE: Final = "calls"


class Publisher(Protocol):
    """Publishes the events of a run, as ``RunEvents`` does."""

    def publish(
        self,
        kind: Callable[Concatenate[RunId, TaskId, int, datetime, _P], AgentEvent],
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> None:
        """Publish an event of the kind with these fields."""


class AnswerStream:
    """The text of a streamed run that stands for its answer.

    Of several model calls at the same time only one is streamed, since their texts would be mixed up.

    Args:
        redactor: removes the secrets, even if they are split.
        above: after a handoff, the stream of the run that has the same answer.
    """

    def __init__(
        self, events: Publisher, redactor: Redactor | None, above: AnswerStream | None = None
    ) -> None:
        self._events = events
        self._redactor = redactor
        self._above = above
        self._numbers_above: dict[int, int] = {}
        self._standing: list[str] = []
        self._origin = (0, "")
        """The model call and the part of it that the standing text comes from."""
        self._streaming = 0
        """The model call that is being streamed; 0 for none."""
        self._calls = 0

    @property
    def standing(self) -> str:
        """The text that was streamed and not retracted, without secrets."""
        return "".join(self._standing)

    def begin_call(self) -> int:
        """Return the number of a model call that begins."""
        self._calls += 1
        if self._above is not None:
            self._numbers_above[self._calls] = self._above.begin_call()
        return self._calls

    def add(self, text: str, purpose: str, model_call: int, part: str = "text") -> None:
        """Publish a delta; the text of another origin that stands is retracted."""
        if not text or self._streaming not in (0, model_call):
            return
        if self._origin != (model_call, part):
            self.retract(_BESIDE if self._origin[0] == model_call else "superseded")
            self._origin = (model_call, part)
        self._streaming = model_call
        self._standing.append(text)
        self._events.publish(ModelTextStreamed, purpose, text, model_call)
        if self._above is not None:
            self._above.add(text, purpose, self._numbers_above[model_call], part)

    def end_call(self, model_call: int) -> None:
        """Let another model call be streamed."""
        if self._streaming == model_call:
            self._streaming = 0
        if self._above is not None:
            self._above.end_call(self._numbers_above[model_call])

    def restart(self, purpose: str, reason: str, model_call: int) -> None:
        """Publish that a model call starts from the beginning."""
        if self._origin[0] == model_call:
            self._standing.clear()
        self._events.publish(ModelStreamRestarted, purpose, reason, model_call)
        if self._above is not None:
            self._above.restart(purpose, reason, self._numbers_above[model_call])

    def retract(self, policy: str) -> None:
        """Publish that the standing text is not the answer, if one stands."""
        if self._standing:
            self._standing.clear()
            self._events.publish(ModelTextRetracted, policy)
            if self._above is not None:
                self._above.retract(policy)

    def settle(self, text: str, otherwise: str = _BESIDE) -> None:
        """Make the streamed text equal to the text of a turn, or the result of the run.

        Args:
            text: empty for a turn or run without an answer.
            otherwise: why another text is retracted.
        """
        if self._streaming:  # a kernel beside this one
            return
        shown = text if self._redactor is None else self._redactor.redact(text)
        if _is_same(self.standing, shown):
            return
        self.retract(otherwise)
        if shown.strip():
            self._origin = (self._calls, otherwise)
            self._standing.append(shown)
            self._events.publish(ModelTextStreamed, otherwise, shown, self._calls)
            if self._above is not None:
                self._above.settle(text, otherwise)


class ModelDeltas:
    """The deltas of one model call on their way to the events.

    Args:
        answer: what the run's answer is streamed with.
    """

    def __init__(
        self, request: models.ModelRequest, events: Publisher, answer: AnswerStream, redactor: Redactor | None
    ) -> None:
        self._purpose = request.purpose
        self._events = events
        self._answer = answer
        self._redactor = redactor
        self._answers = request.purpose in models.ANSWERING
        self._has_text_argument = any(tool is FINAL_ANSWER_TOOL for tool in request.tools)
        self._number = answer.begin_call()
        self._begin()

    def _begin(self) -> None:
        self._written = ThinkingFilter()
        self._text = _stream_redactor(self._redactor)
        self._thinking = _stream_redactor(self._redactor)
        self._calls: dict[int, _CallDeltas] = {}
        self._delivering: int | None = None
        """The index of the call of ``final-answer`` whose argument is streamed."""

    def add(self, chunk: models.ModelChunk) -> None:
        """Publish a chunk before the last, as far as it may be shown by now."""
        match chunk:
            case models.TextDelta(text):
                self._add_written(*self._written.feed(text))
            case models.ThinkingDelta(text):
                self._add_thinking(text)
            case models.ToolCallDelta():
                self._add_arguments(chunk)
            case models.StreamRestarted(reason):
                self._begin()
                self._answer.restart(self._purpose, reason, self._number)

    def _add_thinking(self, text: str) -> None:
        self._think(text if self._thinking is None else self._thinking.feed(text))

    def _add_arguments(self, delta: models.ToolCallDelta) -> None:
        call = self._calls.get(delta.index)
        begins = call is None
        if call is None:
            self._end_text()
            is_answer = delta.name.casefold().replace("_", "-") == FINAL_ANSWER
            delivers = self._answers and self._delivering is None and is_answer
            if delivers:
                self._delivering = delta.index
            decoded = MemberText(ANSWER) if delivers and self._has_text_argument else PlainEscapes()
            call = _CallDeltas(delta.name, delivers, decoded, _stream_redactor(self._redactor))
            self._calls[delta.index] = call
        self._publish(delta.index, call, call.feed(delta.arguments), begins=begins)

    def end(self) -> None:
        """Publish what was held back."""
        self._end_text()
        if self._thinking is not None:
            self._think(self._thinking.finish())
        for index, call in self._calls.items():
            self._publish(index, call, call.finish())
        self._answer.end_call(self._number)

    def _add_written(self, text: str, thinking: str) -> None:
        if thinking:
            self._add_thinking(thinking)
        if text:
            self._say(text if self._text is None else self._text.feed(text))

    def _end_text(self) -> None:
        self._add_written(*self._written.finish())
        if self._text is not None:
            self._say(self._text.finish())

    def _say(self, text: str) -> None:
        if not self._answers:
            self._think(text)
        else:
            self._answer.add(text, self._purpose, self._number)

    def _think(self, text: str) -> None:
        if text:
            self._events.publish(ModelThinkingStreamed, self._purpose, text, self._number)

    def _publish(self, index: int, call: _CallDeltas, text: str, *, begins: bool = False) -> None:
        if call.delivers:
            self._answer.add(text, self._purpose, self._number, FINAL_ANSWER)
        elif text or begins:
            events = self._events
            events.publish(ToolArgumentsStreamed, self._purpose, index, call.name, text, self._number)


@define(eq=False)
class _CallDeltas:
    """The arguments of one tool call, as they are shown."""

    name: str
    delivers: bool
    _decoded: MemberText | PlainEscapes
    _redacted: StreamRedactor | None

    def feed(self, delta: str) -> str:
        text = self._decoded.feed(delta)
        return text if self._redacted is None else self._redacted.feed(text)

    def finish(self) -> str:
        rest = self._decoded.finish()
        return rest if self._redacted is None else self._redacted.feed(rest) + self._redacted.finish()


def _is_same(streamed: str, text: str) -> bool:
    """Return whether a text that was streamed is the text of an answer.

    The JSON of fields may be written otherwise, and around a value that is no object.
    """
    if streamed.strip() == text.strip():
        return True
    if not streamed.lstrip().startswith("{"):
        return False
    try:
        fields = json.loads(streamed)
    except ValueError:
        return False
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return bool(fields in (value, {"value": value}))


def _stream_redactor(redactor: Redactor | None) -> StreamRedactor | None:
    if redactor is None:
        return None
    from reactive_agents.core.redaction import StreamRedactor  # its library takes a while to import

    return StreamRedactor(redactor)


# --- JSON text that arrives in deltas: a string of an object, needless escapes ---


_Place: TypeAlias = Literal[
    "start", "name", "in name", "colon", "value", "in text", "skipped", "after", "end"
]

_PLAIN: Final = re.compile(r'[^"\\]*')
_SKIPPED: Final = re.compile(r'[^"\\{}\[\],]*')
_ESCAPES: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_BLANK: Final = " \t\r\n"
_LONGEST_NAME: Final = 200


class MemberText:
    """Decodes a member of a JSON object as far as its text has arrived.

    The time is linear in the text, however it is cut. A member that is no string, and whatever comes after a
    mistake in the JSON, gives no text: only the complete object says what it holds.

    >>> answer = MemberText("answer")
    >>> [answer.feed(delta) for delta in ('{"n": [1, "answer"], "ans', 'wer": "It is', ' 3."}')]
    ['', 'It is', ' 3.']

    Args:
        name: the name of the member; the first of several with that name counts.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._place: _Place = "start"
        self._escape = ""
        """The beginning of an escape sequence that has not ended yet."""
        self._read: list[str] = []
        self._depth = 0
        self._quoted = False
        self._repaired = SurrogateFilter()

    def feed(self, delta: str) -> str:
        """Return the text that the next part of the JSON adds."""
        found: list[str] = []
        at = 0
        while at < len(delta) and self._place != "end":
            match self._place:
                case "in text" | "in name":
                    at = self._take_string(delta, at, found)
                case "skipped":
                    at = self._skip(delta, at)
                case _:
                    at += delta[at] in _BLANK or self._take_sign(delta[at])
        return self._repaired.take("".join(found)) + (self.finish() if self._place == "end" else "")

    def finish(self) -> str:
        """Return what was held back: half of a surrogate pair, as U+FFFD."""
        return self._repaired.end()

    def _take_sign(self, sign: str) -> bool:
        """Go on by a sign; return whether it is not also a part of what begins."""
        match self._place, sign:
            case "start", "{":
                self._place = "name"
            case "name", '"':
                self._place = "in name"
            case "colon", ":":
                self._place = "value"
            case "after", ",":
                self._place = "name"
            case "value", '"' if "".join(self._read) == self._name:
                self._place = "in text"
            case "value", _ if sign not in ",:}]" and "".join(self._read) != self._name:
                self._place, self._depth, self._quoted, self._read = "skipped", 0, False, []
            case _:  # its end, a mistake, or a member of the name that is no string
                self._place = "end"
        return self._place != "skipped"

    def _take_string(self, delta: str, at: int, found: list[str]) -> int:
        """Take a part of a string; return the position after it."""
        if self._escape:
            self._escape += delta[at]
            self._take_escape(found)
            return at + 1
        plain = _PLAIN.match(delta, at)
        end = at if plain is None else plain.end()
        self._add(delta[at:end], found)
        if end == len(delta):
            return end
        if delta[end] == "\\":
            self._escape = "\\"
        elif self._place == "in name":
            self._place = "colon"
        else:
            self._place = "end"
        return end + 1

    def _take_escape(self, found: list[str]) -> None:
        kind, digits = self._escape[1], self._escape[2:]
        if kind == "u" and len(digits) < 4 and all(each in "0123456789abcdefABCDEF" for each in digits):
            return
        self._escape = ""
        try:
            self._add(chr(int(digits, 16)) if kind == "u" else _ESCAPES[kind], found)
        except (KeyError, ValueError):
            self._place = "end"

    def _add(self, text: str, found: list[str]) -> None:
        if self._place == "in text":
            found.append(text)
        elif len(self._read) < _LONGEST_NAME:
            self._read.append(text)

    def _skip(self, delta: str, at: int) -> int:
        """Skip a part of a value of another member; return the position after it."""
        if self._escape:
            self._escape = ""
            return at + 1
        other = (_PLAIN if self._quoted else _SKIPPED).match(delta, at)
        at = at if other is None else other.end()
        if at == len(delta):
            return at
        sign = delta[at]
        if sign == "\\":
            self._escape = sign if self._quoted else ""
        elif sign == '"':
            self._quoted = not self._quoted
        elif sign in "{[":
            self._depth += 1
        elif self._depth:
            self._depth -= sign in "}]"
        else:  # it has ended before this sign
            self._place = "name" if sign == "," else "end"
        return at + 1


_WHOLE: Final = re.compile(r"(?:[^\\]+|\\u[0-9a-fA-F]{4}|\\[^u])*")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_LONGEST_ESCAPE: Final = 6


class PlainEscapes:
    """Writes out characters that are escaped without need: ``s`` for ``\\u0073``.

    What is looked for in the text is then found however it was written.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, delta: str) -> str:
        """Return the JSON text so far; the beginning of an escape is held back."""
        text = self._held + delta
        if "\\" not in text:
            return text
        whole = _WHOLE.match(text)
        end = len(text) if whole is None else whole.end()
        if len(text) - end >= _LONGEST_ESCAPE:  # it is no escape
            end = len(text)
        self._held = text[end:]
        return _ESCAPE.sub(_written_out, text[:end])

    def finish(self) -> str:
        """Return what was held back."""
        held, self._held = self._held, ""
        return held


def _written_out(escape: re.Match[str]) -> str:
    if escape[0] == "\\/":
        return "/"
    sign = chr(int(escape[1], 16)) if escape[1] else ""
    return sign if " " <= sign <= "~" and sign not in '"\\' else escape[0]
