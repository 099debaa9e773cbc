"""Translation of requests and answers to and from OpenAI's chat completions."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

from attrs import define, evolve, field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core import models
from reactive_agents.core.codec import from_json
from reactive_agents.core.errors import MalformedResponse
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject, SurrogateFilter, json_without_surrogates, without_surrogates
from reactive_agents.core.message_formats import messages_to_openai
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall
from reactive_agents.core.model_settings import NO_SETTINGS, TOOL_CHOICES, UNSET, ModelSettings
from reactive_agents.core.tools import ToolDefinition


def chat_arguments(
    request: models.ModelRequest,
    *,
    schema_supported: bool,
    json_supported: bool,
    parts_in_results: bool = False,
) -> JsonObject:
    """Return the arguments of a request; options left to the provider are omitted.

    Args:
        schema_supported: whether the provider enforces a JSON Schema.
        json_supported: whether the provider has a JSON mode.
        parts_in_results: whether the provider accepts images and documents in tool results.
    """
    messages = messages_to_openai(joined_texts(request.messages), parts_in_results=parts_in_results)
    arguments: JsonObject = {"messages": list(messages)}
    if request.tools:
        arguments["tools"] = [_tool(tool) for tool in request.tools]
        if request.parallel_tool_calls is not None:
            arguments["parallel_tool_calls"] = request.parallel_tool_calls
        if (choice := request.tool_choice) is not None:
            named: JsonObject = {"type": "function", "function": {"name": choice}}
            arguments["tool_choice"] = choice if choice in TOOL_CHOICES else named
    limits = {"temperature": request.temperature, "max_tokens": request.max_tokens}
    arguments |= {name: value for name, value in limits.items() if value is not None}
    if request.response_schema is not None:
        if schema_supported:  # not strict: strict mode refuses schemas with optional properties
            schema: JsonObject = {"name": "answer", "schema": request.response_schema, "strict": False}
            arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif json_supported and any("json" in each.content.lower() for each in request.messages):
            arguments["response_format"] = {"type": "json_object"}
    return arguments if request.settings is NO_SETTINGS else {**arguments, **_further(request.settings)}


def joined_texts(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Join a text of the model with its next message, after a rejected answer.

    The chat templates of several open models refuse two messages of the assistant in a row.
    """
    joined: list[Message] = []
    for message in messages:
        before = joined[-1] if joined else None
        if (
            isinstance(message, AssistantMessage)
            and isinstance(before, AssistantMessage)
            and not before.tool_calls
        ):
            texts = [each.content for each in (before, message) if each.content]
            message = evolve(message, content="\n\n".join(texts))
            joined.pop()
        joined.append(message)
    return tuple(joined)


def _further(settings: ModelSettings) -> JsonObject:
    """Return the arguments of the user's settings that are not fields of a request."""
    arguments: JsonObject = {}
    for name in ("top_p", "seed", "reasoning_effort"):
        value = getattr(settings, name)
        if value is not UNSET and value is not None:
            arguments[name] = value
    if isinstance(settings.stop, tuple):
        arguments["stop"] = list(settings.stop)
    budget = settings.thinking_budget
    if isinstance(budget, int):
        enabled: JsonObject = {"type": "enabled", "budget_tokens": budget}
        arguments["thinking"] = enabled if budget else {"type": "disabled"}
    if settings.headers:
        arguments["extra_headers"] = dict(settings.headers)
    if settings.extra_body:
        arguments["extra_body"] = dict(settings.extra_body)
    return arguments


def count_tool_calls(messages: Sequence[Message]) -> int:
    """Return the number of tool calls in the conversation."""
    return sum(len(message.tool_calls) for message in messages if isinstance(message, AssistantMessage))


def _tool(tool: ToolDefinition) -> JsonObject:
    """Return a tool for a request, without ``additionalProperties: false``.

    That would cost tokens, some servers reject it, and arguments are validated anyway.
    """
    closed = tool.parameters.get("additionalProperties") is False
    sent = {key: value for key, value in tool.parameters.items() if key != "additionalProperties"}
    function: JsonObject = {
        "name": tool.name,
        "description": tool.description,
        "parameters": sent if closed else tool.parameters,
    }
    return {"type": "function", "function": function}


# --- responses ------------------------------------------------------------------------------------------


_REASONS: Final[dict[str, models.FinishReason]] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
}
_NATIVE_STOPS: Final = frozenset(
    {"", "stop", "end_turn", "stop_sequence", "complete", "eos", "eos_token", "finish_reason_unspecified"}
)
_INVENTED_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""litellm gives a call without an id a random UUID."""
_MOST_TOKENS: Final = 10**8
"""The largest plausible count; a higher one counts as not reported."""


@frozen
class CallText:
    """A raw tool call: ``arguments`` is the text that should be a JSON object.

    Lone surrogates are replaced.
    """

    id: str = field(converter=without_surrogates)
    name: str = field(converter=without_surrogates)
    arguments: str = field(converter=json_without_surrogates)


def read_answer(
    *,
    model: str,
    content: str,
    thinking: str,
    calls: tuple[CallText, ...],
    finish_reason: str,
    native_reason: str,
    usage: models.Usage,
    cost_usd: float | None,
    calls_before: int,
) -> Result[models.ModelResponse, MalformedResponse]:
    """Return a complete answer; ``MalformedResponse`` for a tool call without a name.

    Args:
        finish_reason: litellm's finish reason.
        native_reason: the provider's finish reason; empty if unknown.
        calls_before: the number of tool calls in the conversation before this answer.
    """
    if any(not call.name for call in calls):
        message = f"The answer of {model} has a tool call without a name."
        return Failure(MalformedResponse(message, model, str(calls)[:200]))
    return Success(
        models.ModelResponse(
            content=without_surrogates(content),
            model=model,
            tool_calls=read_calls(calls, calls_before),
            thinking=without_surrogates(thinking),
            finish_reason=read_finish_reason(finish_reason, native_reason, bool(calls)),
            usage=usage,
            cost_usd=cost_usd if usage.reported else None,
        )
    )


def read_calls(calls: Sequence[CallText], calls_before: int) -> tuple[ToolCall, ...]:
    """Return the tool calls; one without an id becomes ``call-<n>``."""
    given = {call.id for call in calls}
    free = (name for n in count(calls_before + 1) if (name := f"call-{n}") not in given)
    taken: set[str] = set()
    read: list[ToolCall] = []
    for call in calls:
        known = call.id and call.id not in taken and not _INVENTED_ID.fullmatch(call.id)
        identity = call.id if known else next(free)
        taken.add(identity)
        read.append(_read_call(CallId(identity), call))
    return tuple(read)


def _read_call(identity: CallId, call: CallText) -> ToolCall:
    if not call.arguments.strip():
        return ToolCall(identity, call.name)
    arguments = from_json(call.arguments, JsonObject)
    if isinstance(arguments, Success):
        return ToolCall(identity, call.name, arguments.unwrap())
    return ToolCall(identity, call.name, malformed=call.arguments)


def read_finish_reason(reason: str, native_reason: str, has_calls: bool) -> models.FinishReason:
    """Return the finish reason; ``other`` for a reason unknown to litellm."""
    understood = _REASONS.get(reason, "other")
    if understood != "stop":
        return understood
    if has_calls:
        return "tool_calls"
    return "stop" if native_reason.lower() in _NATIVE_STOPS else "other"


def read_usage(usage: Any) -> models.Usage:
    """Return the counts of a litellm usage, unreported if missing, zero or impossible."""
    counts = read, written, total = _totals(usage)
    if not any(counts) or min(counts) < 0 or max(counts) > _MOST_TOKENS:
        return models.Usage(reported=False)
    details = getattr(usage, "prompt_tokens_details", None)
    cached, stored = _count(details, "cached_tokens"), _count(usage, "cache_creation_input_tokens")
    stored = stored or _count(details, "cache_creation_tokens")
    reasoned = _count(getattr(usage, "completion_tokens_details", None), "reasoning_tokens")
    return models.Usage(
        read,
        written,
        max(total, read + written),
        cached_tokens=cached if 0 < cached <= read else 0,
        cache_write_tokens=stored if 0 < stored <= read else 0,
        reasoning_tokens=reasoned if 0 < reasoned <= written else 0,
    )


def impossible_count(usage: Any) -> str:
    """Return the first count of a litellm usage that cannot be; empty if all can.

    A part, such as the cached tokens, is at most what it is a part of.
    """
    read, written, total = _totals(usage)
    checked = [("prompt_tokens", read, _MOST_TOKENS), ("completion_tokens", written, _MOST_TOKENS)]
    checked.append(("total_tokens", total, _MOST_TOKENS))
    out = max(written, total - read)  # some providers count reasoning in the total alone
    for details, most in (("prompt_tokens_details", read), ("completion_tokens_details", out)):
        parts = dict(getattr(usage, details, None) or ())
        checked += [(name, count, most) for name, count in parts.items() if isinstance(count, int)]
    return next((f"{name} is {count}" for name, count, most in checked if not 0 <= count <= most), "")


def _totals(usage: Any) -> tuple[int, int, int]:
    """Return the tokens of the prompt, of the answer, and in all."""
    return _count(usage, "prompt_tokens"), _count(usage, "completion_tokens"), _count(usage, "total_tokens")


def _count(usage: Any, name: str) -> int:
    count = getattr(usage, name, None)
    return count if isinstance(count, int) else 0


def read_thinking(part: Any) -> str:
    """Return the exposed reasoning of a litellm message or delta."""
    if text := text_of(getattr(part, "reasoning_content", None)):
        return text
    blocks = getattr(part, "thinking_blocks", None) or ()
    return "".join(text_of(block.get("thinking")) for block in blocks if isinstance(block, dict))


def read_text(part: Any) -> str:
    """Return the text of a litellm message or delta: its content or its refusal."""
    if text := text_of(getattr(part, "content", None)):
        return text
    further = getattr(part, "provider_specific_fields", None) or {}
    return text_of(further.get("refusal"))


def text_of(value: Any) -> str:
    """Return the value if it is a text, else an empty text."""
    return value if isinstance(value, str) else ""


def read_completion(
    completion: Any, *, model: str, cost_usd: float | None, calls_before: int
) -> Result[models.ModelResponse, MalformedResponse]:
    """Return the answer of a litellm ``ModelResponse``, or ``MalformedResponse``."""
    if not completion.choices:
        return Failure(MalformedResponse(f"The answer of {model} has no choices.", model))
    choice = completion.choices[0]
    native = getattr(choice, "provider_specific_fields", None) or {}
    return read_answer(
        model=model,
        content=read_text(choice.message),
        thinking=read_thinking(choice.message),
        calls=tuple(
            CallText(text_of(call.id), text_of(call.function.name), text_of(call.function.arguments))
            for call in _call_parts(choice.message)
        ),
        finish_reason=text_of(choice.finish_reason),
        native_reason=text_of(native.get("native_finish_reason")),
        usage=read_usage(getattr(completion, "usage", None)),
        cost_usd=cost_usd,
        calls_before=calls_before,
    )


def _call_parts(said: Any) -> Sequence[Any]:
    """Return the calls of a litellm message or delta, also a ``function_call``."""
    calls = getattr(said, "tool_calls", None) or ()
    former = getattr(said, "function_call", None)
    is_empty = former is None or not (former.name or former.arguments)
    return calls if calls or is_empty else (SimpleNamespace(id=None, index=0, function=former),)


# --- contents that are lists of parts, and refusals -----------------------------------------------------


_NO_PLAIN_CONTENT: Final = re.compile(rb'"content"\s*:\s*[\[{]|"refusal"\s*:\s*"')
_NO_COUNT: Final = re.compile(
    rb'"usage"\s*:\s*(?![{n])|"\w*tokens_details"\s*:\s*(?![{n])|"\w*tokens"\s*:\s*(?!-?\d{1,18}\s*[,}]|null)'
)
_MOST_DIGITS: Final = 4_000
_TEXTS: Final = frozenset({"text", "output_text", "input_text", "refusal"})
_THOUGHTS: Final = frozenset({"thinking", "reasoning", "reasoning_text", "summary_text"})
_SHOWN: Final = {
    "image_url": "image",
    "image": "image",
    "input_audio": "audio",
    "audio": "audio",
    "file": "file",
}


def with_plain_content(body: bytes) -> bytes:
    """Return the JSON of an answer in OpenAI's format with contents as texts.

    Some servers send lists of parts, which litellm cannot read. Thinking parts become exposed reasoning. A
    refusal without content becomes the text, since litellm drops refusals in streams. A usage with counts
    that are no integers becomes an empty one, since litellm would lose the whole answer. Everything else
    stays byte for byte.
    """
    if _NO_PLAIN_CONTENT.search(body) is None and _NO_COUNT.search(body) is None:
        return body
    try:
        answer = json.loads(
            body, parse_int=lambda digits: int(digits) if len(digits) <= _MOST_DIGITS else math.inf
        )
    except (ValueError, RecursionError):
        return body
    choices = answer.get("choices") if isinstance(answer, dict) else None
    changed = isinstance(answer, dict) and not _is_usage(answer.get("usage"))
    if changed:
        answer["usage"] = {}
    for choice in choices if isinstance(choices, list) else ():
        for name in ("message", "delta"):
            said = choice.get(name) if isinstance(choice, dict) else None
            if isinstance(said, dict) and isinstance(said.get("content"), list | dict):
                _make_plain(said)
                changed = True
            if isinstance(said, dict) and not said.get("content") and text_of(said.get("refusal")):
                said["content"] = said["refusal"]
                changed = True
    return json.dumps(answer).encode() if changed else body


def _is_usage(usage: Any) -> bool:
    """Return whether all counts of a usage, and of its details, are integers."""
    if not isinstance(usage, dict):
        return usage is None
    counts = [count for name, count in usage.items() if name.endswith("tokens")]
    details = (each for name, each in usage.items() if name.endswith("tokens_details"))
    whole = all(count is None or isinstance(count, int) for count in counts)
    return whole and all(map(_is_usage, details))


def _make_plain(said: dict[str, Any]) -> None:
    content = said["content"]
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content if isinstance(content, list) else (content,):
        kind = part.get("type", "text") if isinstance(part, dict) else "text"
        if kind in _THOUGHTS:
            thoughts.append(_text_within(part))
        elif kind in _TEXTS:
            texts.append(_text_within(part))
        elif kind in _SHOWN:
            texts.append(f"[{_SHOWN[kind]}]")
    said["content"] = "".join(texts)
    if any(thoughts) and not said.get("reasoning_content"):
        said["reasoning_content"] = said["reasoning"] = "".join(thoughts)  # OpenRouter's name is the second


_IN_TAG: Final = re.compile("(?<=<)(?=/?think>)")


def with_tags_apart(line: bytes) -> bytes:
    """Return a line of a stream, or lines that break its ``<think>`` tags.

    In the streams of Ollama, litellm removes whole tags, and takes the text around them for reasoning until
    the next chunk. Tags in two chunks stay in the text, where the kernel reads them.
    """
    if b"think" not in line:
        return line
    try:
        chunk = json.loads(line)
        message = chunk["message"]
        *begun, last = _IN_TAG.split(message["content"])
    except (ValueError, RecursionError, TypeError, KeyError):
        return line
    if not begun:
        return line
    model = chunk.get("model")  # the other fields of the line, which may be long, are in the last one
    said = [
        {"model": model, "message": {"role": "assistant", "content": text}, "done": False} for text in begun
    ]
    lines = [*said, {**chunk, "message": {**message, "content": last}}]
    return b"".join(json.dumps(each).encode() + b"\n" for each in lines)


def _text_within(part: Any) -> str:
    """Return the text of a part: a text, an object or a list of these."""
    if isinstance(part, list):
        return "".join(map(_text_within, part))
    if not isinstance(part, dict):
        return text_of(part)
    names = ("text", "refusal", "thinking", "reasoning", "summary", "value")
    return next((text for name in names if (text := _text_within(part.get(name)))), "")


Delta: TypeAlias = models.TextDelta | models.ThinkingDelta | models.ToolCallDelta


@define(eq=False)
class _OpenCall:
    """A tool call that is still arriving."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    shown: SurrogateFilter = field(factory=SurrogateFilter)


def _begins_another(call: _OpenCall, part: Any, identity: str) -> bool:
    """Return whether a delta begins another call, since some providers number all 0."""
    name, arguments = text_of(part.function.name), text_of(part.function.arguments)
    if identity and call.id and identity != call.id:
        return bool(name or not arguments)  # some give each delta a new id
    # those without ids, or with one id for all, complete each call before the next
    named = name and (arguments.strip() or name != call.name)
    return bool(named) and isinstance(from_json(call.arguments, JsonObject), Success)


class Assembly:
    """Collects the chunks of one stream.

    Args:
        model: the model that was asked, as ``provider/model``.
        calls_before: the number of tool calls in the conversation before this answer.
    """

    def __init__(self, model: str, *, calls_before: int) -> None:
        self._model = model
        self._calls_before = calls_before
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_OpenCall] = []
        self._shown_text = SurrogateFilter()
        self._shown_thinking = SurrogateFilter()
        self._latest: dict[int, _OpenCall] = {}
        self._finish_reason = ""

    def absorb(self, chunk: Any) -> tuple[Delta, ...]:
        """Add a litellm chunk; return the resulting deltas."""
        if not chunk.choices:
            return ()
        choice = chunk.choices[0]
        self._finish_reason = text_of(choice.finish_reason) or self._finish_reason
        deltas: list[Delta] = []
        if thought := read_thinking(choice.delta):
            self._thinking.append(thought)
            if shown := self._shown_thinking.take(thought):
                deltas.append(models.ThinkingDelta(shown))
        if text := read_text(choice.delta):
            self._text.append(text)
            if shown := self._shown_text.take(text):
                deltas.append(models.TextDelta(shown))
        deltas.extend(map(self._absorb_call, _call_parts(choice.delta)))
        return tuple(deltas)

    def _absorb_call(self, part: Any) -> models.ToolCallDelta:
        call = self._latest.get(part.index or 0)
        identity = text_of(part.id)
        given = (identity, text_of(part.function.name), text_of(part.function.arguments))
        if call is not None and identity and given == (call.id, call.name, call.arguments):
            return models.ToolCallDelta(call.index, "", "")  # some repeat the whole call at its end
        if call is None or _begins_another(call, part, identity):
            call = _OpenCall(len(self._calls))
            self._calls.append(call)
            self._latest[part.index or 0] = call
        name = text_of(part.function.name)
        if call.arguments or name == call.name:  # some repeat it with each delta, others send it in pieces
            name = ""
        arguments = text_of(part.function.arguments)
        call.id = call.id or identity
        call.name += name
        call.arguments += arguments
        return models.ToolCallDelta(call.index, without_surrogates(name), call.shown.take(arguments))

    def rest(self) -> tuple[Delta, ...]:
        """Return the held-back rest of the deltas: a lone surrogate at the end."""
        deltas: list[Delta] = []
        if thought := self._shown_thinking.end():
            deltas.append(models.ThinkingDelta(thought))
        if text := self._shown_text.end():
            deltas.append(models.TextDelta(text))
        ends = ((call.index, call.shown.end()) for call in self._calls)
        deltas.extend(models.ToolCallDelta(index, "", end) for index, end in ends if end)
        return tuple(deltas)

    def finish(
        self, *, usage: models.Usage, cost_usd: float | None, native_reason: str | None, closed: bool
    ) -> Result[models.ModelResponse, MalformedResponse]:
        """Return the whole answer, or ``MalformedResponse`` for an incomplete stream.

        Args:
            usage: the counts from the provider.
            cost_usd: US dollars; ``None`` when the price is unknown.
            native_reason: the provider's finish reason; ``None`` when it sent none.
            closed: whether the stream ended with a usage chunk, as with providers that send no finish reason.
        """
        if native_reason is None:
            if not (self._text or self._thinking or self._calls):
                return Failure(MalformedResponse(f"The stream of {self._model} was empty.", self._model))
            if not closed:
                message = f"The stream of {self._model} broke off before the answer was complete."
                return Failure(MalformedResponse(message, self._model))
        return read_answer(
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
