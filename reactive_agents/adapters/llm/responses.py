"""From litellm's answer to ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.codec import from_json
from reactive_agents.core.errors import MalformedResponse
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.models import FinishReason, ModelResponse, Usage
from reactive_agents.core.surrogates import mended, mended_json_text

_REASONS: Final[dict[str, FinishReason]] = {
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
_MOST_TOKENS: Final = 10**12
"""No request comes near it: a provider that reports more has reported nothing."""


@frozen
class CallText:
    """A tool call as it came: ``arguments`` is the text that should be a JSON object."""

    id: str
    name: str
    arguments: str


@frozen
class RawAnswer:
    """A complete answer as it came, whole or put together from a stream.

    Attributes:
        finish_reason: as litellm understood it.
        native_reason: as the provider said it; empty when that is not known.
        calls_before: tool calls that the conversation held before this answer.
    """

    model: str
    content: str
    thinking: str
    calls: tuple[CallText, ...]
    finish_reason: str
    native_reason: str
    usage: Usage
    cost_usd: float | None
    calls_before: int


def read_answer(raw: RawAnswer) -> Result[ModelResponse, MalformedResponse]:
    """The answer, without halves of surrogate pairs; ``MalformedResponse`` for a tool call without a name."""
    if any(not call.name for call in raw.calls):
        message = f"The answer of {raw.model} holds a tool call without a name."
        return Failure(MalformedResponse(message, raw.model, str(raw.calls)[:200]))
    return Success(
        ModelResponse(
            content=mended(raw.content),
            model=raw.model,
            tool_calls=read_calls(raw.calls, raw.calls_before),
            thinking=mended(raw.thinking),
            finish_reason=read_finish_reason(raw.finish_reason, raw.native_reason, bool(raw.calls)),
            usage=raw.usage,
            cost_usd=raw.cost_usd if raw.usage.reported else None,
        )
    )


def read_calls(calls: Sequence[CallText], calls_before: int) -> tuple[ToolCall, ...]:
    """The tool calls; one without an id of its own becomes ``call-<n>``, counted over the conversation."""
    calls = [CallText(mended(call.id), mended(call.name), mended_json_text(call.arguments)) for call in calls]
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


def read_finish_reason(reason: str, native_reason: str, has_calls: bool) -> FinishReason:
    """Why the answer ended; litellm takes a reason that it does not know for ``stop``, we for ``other``."""
    understood = _REASONS.get(reason, "other")
    if understood != "stop":
        return understood
    if has_calls:
        return "tool_calls"
    return "stop" if native_reason.lower() in _NATIVE_STOPS else "other"


def read_usage(usage: Any) -> Usage:
    """The counts of a litellm usage; not reported when there is none, all of it is zero, or it cannot be."""
    read, written = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    total = _count(usage, "total_tokens")
    counts = (read, written, total)
    if not any(counts) or min(counts) < 0 or max(counts) > _MOST_TOKENS:
        return Usage(reported=False)
    return Usage(read, written, total or read + written)


def _count(usage: Any, name: str) -> int:
    count = getattr(usage, name, None)
    return count if isinstance(count, int) else 0


def read_thinking(part: Any) -> str:
    """The exposed reasoning of a litellm message or delta."""
    if text := text_of(getattr(part, "reasoning_content", None)):
        return text
    blocks = getattr(part, "thinking_blocks", None) or ()
    return "".join(text_of(block.get("thinking")) for block in blocks if isinstance(block, dict))


def read_text(part: Any) -> str:
    """The text of a litellm message or delta: its content, or what a model that refuses says in its place."""
    if text := text_of(getattr(part, "content", None)):
        return text
    further = getattr(part, "provider_specific_fields", None) or {}
    return text_of(further.get("refusal"))


def text_of(value: Any) -> str:
    """The value if it is a text; an empty one for whatever else a provider may have sent in its place."""
    return value if isinstance(value, str) else ""


def read_completion(
    completion: Any, *, model: str, cost_usd: float | None, calls_before: int
) -> Result[ModelResponse, MalformedResponse]:
    """The answer that a litellm ``ModelResponse`` holds, or ``MalformedResponse`` when it holds none."""
    if not completion.choices:
        return Failure(MalformedResponse(f"The answer of {model} has no choices.", model))
    choice = completion.choices[0]
    native = getattr(choice, "provider_specific_fields", None) or {}
    calls = choice.message.tool_calls or ()
    return read_answer(
        RawAnswer(
            model=model,
            content=read_text(choice.message),
            thinking=read_thinking(choice.message),
            calls=tuple(
                CallText(text_of(call.id), text_of(call.function.name), text_of(call.function.arguments))
                for call in calls
            ),
            finish_reason=text_of(choice.finish_reason),
            native_reason=text_of(native.get("native_finish_reason")),
            usage=read_usage(getattr(completion, "usage", None)),
            cost_usd=cost_usd,
            calls_before=calls_before,
        )
    )
