"""Messages as JSON data, and in the form of OpenAI's chat completions, both ways.

The second is the form that other programs keep conversations in, and that litellm takes for every provider.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from returns.result import Failure, Result, Success

from reactive_agents.core.codec import WrongValue, decode, encode, problems_of
from reactive_agents.core.errors import DecodeError
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import Json, JsonObject, without_surrogates
from reactive_agents.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)


def messages_to_json(messages: Sequence[Message]) -> Json:
    """Return messages as JSON data, which :func:`messages_from_json` reads."""
    return encode(tuple(messages), tuple[Message, ...])


def messages_from_json(data: Json) -> Result[tuple[Message, ...], DecodeError]:
    """Return the messages of JSON data; fails with ``DecodeError``."""
    return decode(data, tuple[Message, ...])


def messages_to_openai(messages: Sequence[Message]) -> tuple[JsonObject, ...]:
    """Return the messages in OpenAI's form, without lone surrogates.

    It has no place for ``thinking``, ``is_error`` and ``repairs``, and malformed arguments become an empty
    object, as several providers parse what they are sent.
    """
    return tuple(_written(message) for message in messages)


def messages_from_openai(data: Iterable[Mapping[str, Any]]) -> Result[tuple[Message, ...], DecodeError]:
    """Return the messages of a conversation in OpenAI's form.

    Also those of the first form, with ``function_call``, and the objects of OpenAI's client. Parts of a
    content are joined where they are texts; a refusal is a text of the assistant. Fails with ``DecodeError``,
    which names the place of everything else: images and audio, roles that there are not, calls without a
    name.
    """
    names: dict[str, str] = {}
    messages: list[Message] = []
    try:
        for index, each in enumerate(data):
            messages.append(_read(_plain(each), f"[{index}]", names))
    except WrongValue as error:
        return Failure(DecodeError("conversation", problems_of(error)))
    except TypeError:
        return Failure(DecodeError("conversation", problems_of(WrongValue(data, "a list of messages"))))
    return Success(tuple(messages))


# --- out ------------------------------------------------------------------------------------------------


def _written(message: Message) -> JsonObject:
    match message:
        case SystemMessage(content):
            return {"role": "system", "content": without_surrogates(content)}
        case UserMessage(content):
            return {"role": "user", "content": without_surrogates(content)}
        case AssistantMessage(content, ()):
            return {"role": "assistant", "content": without_surrogates(content)}
        case AssistantMessage(content, calls):
            spoken: Json = without_surrogates(content) or None
            return {"role": "assistant", "content": spoken, "tool_calls": [_call(call) for call in calls]}
        case ToolMessage(call_id, tool_name, content):
            return {
                "role": "tool",
                "tool_call_id": without_surrogates(call_id),
                "name": without_surrogates(tool_name),
                "content": without_surrogates(content),
            }
    assert_never(message)


def _call(call: ToolCall) -> JsonObject:
    arguments = without_surrogates(json.dumps(call.arguments, ensure_ascii=False))
    function: JsonObject = {"name": without_surrogates(call.name), "arguments": arguments}
    return {"id": without_surrogates(call.id), "type": "function", "function": function}


# --- in -------------------------------------------------------------------------------------------------


_TEXT_OF = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""The field with the text, by the type of a part."""
_LAST = ""
"""In the names of calls: the id of the call in the first form that has no result yet."""


def _plain(message: Any) -> Any:
    """Return a message as data; clients keep those of a model as objects."""
    dump = getattr(message, "model_dump", None)
    return dump() if callable(dump) else message


def _read(message: Any, place: str, names: dict[str, str]) -> Message:
    role = _field(message, "role", place)
    content = _text(message.get("content"), f"{place}.content")
    match role:
        case "system" | "developer":
            return SystemMessage(content)
        case "user":
            return UserMessage(content)
        case "assistant":
            given = message.get("tool_calls") or ()
            if not isinstance(given, list | tuple):
                raise WrongValue(given, "a list of tool calls", at=f"{place}.tool_calls")
            calls = tuple(_tool_call(each, f"{place}.tool_calls[{at}]") for at, each in enumerate(given))
            legacy = message.get("function_call")
            if legacy is not None:
                call_id = f"call-{place[1:-1]}"
                calls += (_tool_call({"id": call_id, "function": legacy}, f"{place}.function_call"),)
                names[_LAST] = call_id
            names.update((call.id, call.name) for call in calls)
            return AssistantMessage(content or _text(message.get("refusal"), f"{place}.refusal"), calls)
        case "function":
            answered = names.pop(_LAST, "")
            if not answered:
                raise WrongValue(role, "a function_call before it", at=f"{place}.role")
            return ToolMessage(CallId(answered), _field(message, "name", place), content)
        case "tool":
            call_id = _field(message, "tool_call_id", place)
            name = message.get("name") or names.get(call_id)
            if not isinstance(name, str):
                raise WrongValue(call_id, "the id of a call before it", at=f"{place}.tool_call_id")
            return ToolMessage(CallId(call_id), name, content)
        case _:
            raise WrongValue(role, "system, developer, user, assistant, tool or function", at=f"{place}.role")


def _tool_call(call: Any, place: str) -> ToolCall:
    function = call.get("function") if isinstance(call, Mapping) else None
    name = _field(function, "name", f"{place}.function")
    given = function["arguments"] if isinstance(function, Mapping) and "arguments" in function else None
    text = (
        json.dumps(given)
        if isinstance(given, Mapping)
        else _field(function, "arguments", f"{place}.function")
    )
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        arguments = None
    call_id = CallId(_field(call, "id", place))
    if not isinstance(arguments, dict):
        return ToolCall(call_id, name, malformed=text)
    return ToolCall(call_id, name, arguments)


def _text(content: Any, place: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        raise WrongValue(content, "a text, a list of text parts or null", at=place)
    texts: list[str] = []
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        name = _TEXT_OF.get(kind) if isinstance(kind, str) else None
        if name is None:
            raise WrongValue(kind or part, "a part of type text", at=f"{place}[{index}]")
        texts.append(_field(part, name, f"{place}[{index}]"))
    return "".join(texts)


def _field(data: Any, name: str, place: str) -> str:
    if not isinstance(data, Mapping):
        raise WrongValue(data, "an object", at=place)
    value = data.get(name)
    if not isinstance(value, str):
        raise WrongValue(value, "a text", at=f"{place}.{name}")
    return value
