"""Fake models: one plays a script, the other calls each tool once and answers."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from math import ceil, floor, inf, isfinite
from typing import Any, Never, TypeAlias, TypedDict, Unpack, assert_never, cast

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
from reactive_agents.core.tools import ASK_USER, FINAL_ANSWER, RECALL, ToolDefinition
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


def answer(text: str | Mapping[str, Any], **options: Unpack[TurnOptions]) -> Turn:
    """Return a turn that delivers the answer with the ``final-answer`` tool.

    >>> answer("It is 3.").calls[0].arguments
    {'answer': 'It is 3.'}
    >>> answer({"sum": 3}).calls[0].arguments
    {'sum': 3}

    Args:
        text: the answer; for an agent with an output type its fields, or ``{"value": …}`` if the type is not
            an object.
    """
    fields = JsonObject(answer=text) if isinstance(text, str) else JsonObject(text)
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


def _is_text(schema: JsonObject) -> bool:
    """Return whether a schema is that of ``final-answer`` without an output type."""
    properties = schema.get("properties")
    return isinstance(properties, dict) and properties.keys() == {"answer", "could_not"}


class _NotGenerated(Exception):
    """No value can be generated for a schema."""


_FORMATS: Mapping[str, str] = {
    "date": "2024-01-01",
    "date-time": "2024-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "P1D",
    "email": "a@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
}
_DEEPEST = 32


def _generated(schema: JsonObject, whose: str) -> Json:
    """Return a value for a schema, or raise ``_NotGenerated``; it is validated."""
    import jsonschema_rs  # of the tests that have such a model

    value = _value(schema, schema, f"the schema of {whose}", 0)
    try:
        jsonschema_rs.validator_for(schema).validate(value)
    except ValueError as error:
        problem = f"no value could be generated for the schema of {whose}: {shortened(str(error), 200)}"
        raise _NotGenerated(f"{problem}; give it with arguments= or answer=") from error
    return value


def _value(schema: Json, root: JsonObject, place: str, depth: int) -> Json:
    if not isinstance(schema, dict):
        return "a"  # of any value
    if depth > _DEEPEST:
        raise _NotGenerated(f"{place[:200]}… contains itself; give a value with arguments= or answer=")
    for keyword in ("const", "default"):
        if keyword in schema:
            return schema[keyword]
    for keyword in ("enum", "examples"):
        if isinstance(listed := schema.get(keyword), list) and listed:
            return listed[0]
    if isinstance(reference := schema.get("$ref"), str):
        found: Json = root
        for part in reference.removeprefix("#").split("/")[1:]:
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return _value(found, root, place, depth + 1)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if isinstance(parts := schema.get(keyword), list) and parts:
            shared = {key: item for key, item in schema.items() if key != keyword}
            first = parts[0] if isinstance(parts[0], dict) else {}
            joined = {**shared, **first} if keyword != "allOf" else _joined([shared, *parts])
            return _value(joined, root, place, depth + 1)
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object":
            return _object(schema, root, place, depth)
        case "array":
            listed = schema.get("prefixItems")
            first_items = listed if isinstance(listed, list) else []
            more = max(0, int(_number(schema, "minItems", 0)) - len(first_items))
            items = [*first_items, *[schema.get("items")] * more]
            return [_value(each, root, f"{place}[{n}]", depth + 1) for n, each in enumerate(items)]
        case "integer" | "number":
            return _least(schema)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            made = _FORMATS.get(str(schema.get("format")), "a")
            return made.ljust(int(_number(schema, "minLength", 0)), "a")


def _object(schema: JsonObject, root: JsonObject, place: str, depth: int) -> JsonObject:
    properties, required = schema.get("properties"), schema.get("required")
    known = properties if isinstance(properties, dict) else {}
    names = [each for each in required if isinstance(each, str)] if isinstance(required, list) else []
    return {name: _value(known.get(name), root, f"{place}.{name}", depth + 1) for name in names}


def _joined(parts: Sequence[Json]) -> JsonObject:
    joined: JsonObject = {}
    for part in parts:
        for key, item in part.items() if isinstance(part, dict) else ():
            known = joined.get(key)
            if isinstance(known, dict) and isinstance(item, dict):
                item = {**known, **item}
            elif isinstance(known, list) and isinstance(item, list) and key == "required":
                item = [*known, *item]
            joined[key] = item
    return joined


def _number(schema: JsonObject, keyword: str, default: float) -> float:
    given = schema.get(keyword)
    return given if isinstance(given, int | float) and not isinstance(given, bool) else default


def _least(schema: JsonObject) -> int | float:
    """Return the number nearest to 0 that limits allow, as far as they are simple."""
    step = _number(schema, "multipleOf", 1)
    low = max(_number(schema, "minimum", -inf), _number(schema, "exclusiveMinimum", -inf))
    high = min(_number(schema, "maximum", inf), _number(schema, "exclusiveMaximum", inf))
    near = min(max(0.0, low), high)
    near = (ceil(near / step) if low >= 0 else floor(near / step)) * step
    halfway = (low + high) / 2 if isfinite(low + high) else near
    excluded = (schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum"))
    tried = (near, near + step, near - step, halfway)
    number = next((each for each in tried if low <= each <= high and each not in excluded), near)
    return int(number) if number == int(number) else number


# --- A model without a script: calls each tool once, then answers -----------------------------------------


_ONLY_IF_NAMED = frozenset({ASK_USER, "file-write", "shell"})
"""Built-in tools that change files, run programs or wait for a person."""


class TestModel(ScriptedLLM):
    """A fake model without a script: it calls each tool once, then answers.

    Arguments, and the fields of an answer with a type, are generated from the JSON Schema: the required ones
    alone, with the first value of an enumeration, the default or the smallest value. An answer of text has
    the results of the tools. A schema for which no value can be generated, such as one with a pattern, fails
    with ``ScriptExhausted``, which names the tool and the place.

    Args:
        tools: names of the tools to call; by default all that the model is offered, except ``file-write``,
            ``shell`` and ``ask-user``, which are called if they are named here or in ``arguments``.
        arguments: the arguments of tools, by their names, in place of generated ones.
        answer: the answer, in place of a generated one; as for :func:`answer`.
        model: the model's name.
    """

    __test__ = False  # of pytest

    def __init__(
        self,
        *,
        tools: Collection[str] | None = None,
        arguments: Mapping[str, JsonObject] | None = None,
        answer: str | JsonObject | None = None,
        model: str = "scripted/test",
    ) -> None:
        super().__init__(self._turn_of, model=model)
        self._tools = tools
        self._arguments = dict(arguments or {})
        self._answer = answer

    def _turn_of(self, request: models.ModelRequest) -> Turn:
        results = [each for each in request.messages if isinstance(each, ToolMessage)]
        called = {FINAL_ANSWER, RECALL, *(each.tool_name for each in results)}
        called |= {
            made.name
            for each in request.messages
            if isinstance(each, AssistantMessage)
            for made in each.tool_calls
        }
        left = [each for each in request.tools if each.name not in called and self._is_to_call(each.name)]
        try:
            if left:
                made = [call(each.name, self._arguments_of(each)) for each in left]
                return made[0] if request.parallel_tool_calls is False else calls(*made)
            return self._answer_to(request, results)
        except _NotGenerated as error:
            return fail(ScriptExhausted(f"TestModel: {error}", render_messages(request.messages[-1:])))

    def _is_to_call(self, name: str) -> bool:
        if self._tools is not None:
            return name in self._tools
        return name not in _ONLY_IF_NAMED or name in self._arguments

    def _arguments_of(self, tool: ToolDefinition) -> JsonObject:
        given = self._arguments.get(tool.name)
        if given is not None:
            return given
        return cast(JsonObject, _generated(tool.parameters, f"the tool {tool.name!r}"))

    def _answer_to(self, request: models.ModelRequest, results: Sequence[ToolMessage]) -> Turn:
        told = "\n".join(f"{each.tool_name}: {each.content}" for each in results) or "This is a test."
        offered = next((each for each in request.tools if each.name == FINAL_ANSWER), None)
        schema = request.response_schema if offered is None else offered.parameters
        given: Json = self._answer
        if given is None:
            is_text = schema is None or (offered is not None and _is_text(schema))
            given = told if schema is None or is_text else _generated(schema, "the answer")
        if offered is not None:
            return answer(given if isinstance(given, str | dict) else {"value": given})
        return say(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False))


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
