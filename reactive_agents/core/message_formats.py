"""Messages as JSON data, and in the form of OpenAI's chat completions, both ways.

The second is the form that other programs keep conversations in, and that litellm takes for every provider.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, assert_never

from returns.result import Failure, Result, Success

from reactive_agents.core.codec import decode, encode, from_json
from reactive_agents.core.content import (
    Audio,
    Content,
    Document,
    Image,
    document_text,
    interleaved,
    media_type_of,
)
from reactive_agents.core.converter import WrongValue, problems_of
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
    """Return messages as JSON data, which :func:`messages_from_json` reads.

    Parts are references by digest, as those of a run are; with their bytes, in base64, after
    ``ReactiveAgent.load_content``.
    """
    return encode(tuple(messages), tuple[Message, ...])


def messages_from_json(data: Json) -> Result[tuple[Message, ...], DecodeError]:
    """Return the messages of JSON data; fails with ``DecodeError``."""
    return decode(data, tuple[Message, ...])


def messages_to_openai(
    messages: Sequence[Message], *, parts_in_results: bool = False
) -> tuple[JsonObject, ...]:
    """Return the messages in OpenAI's form, without lone surrogates.

    It has no place for ``thinking``, ``is_error`` and ``repairs``, and malformed arguments become an empty
    object, as several providers parse what they are sent. A part follows its label where its bytes are there
    or its URL is passed on, a document of text as text; else the label stands for it.

    Args:
        parts_in_results: whether the results of tools have their parts, as Anthropic takes them; else a
            message of the user has them, after the results.
    """
    return tuple(_written_with_parts(messages, parts_in_results=parts_in_results))


def messages_from_openai(data: Iterable[Mapping[str, Any]]) -> Result[tuple[Message, ...], DecodeError]:
    """Return the messages of a conversation in OpenAI's form.

    Also those of the first form, with ``function_call``, and the objects of OpenAI's client. Parts of a
    content are joined where they are texts; a refusal is a text of the assistant; images, audio and files are
    parts of the message, and the URL of an image stays one that the provider fetches. Fails with
    ``DecodeError``, which names the place of everything else: files of a provider's store, roles that there
    are not, calls without a name.
    """
    names: dict[str, str] = {}
    messages: list[Message] = []
    if isinstance(data, str | bytes | Mapping):  # which are iterable too
        return Failure(DecodeError("conversation", problems_of(WrongValue(data, "a list of messages"))))
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


def _written_with_parts(messages: Sequence[Message], *, parts_in_results: bool) -> Iterator[JsonObject]:
    waiting: list[Json] = []
    for message in messages:
        parts = message.parts if isinstance(message, UserMessage | ToolMessage) else ()
        if waiting and not isinstance(message, ToolMessage):
            yield {"role": "user", "content": waiting}
            waiting = []
        written = _written(message)
        if parts and isinstance(message, ToolMessage) and not parts_in_results:
            shown = [part for part in parts if _is_sendable(part)]
            if shown:
                waiting.append(_text_part(f"The content in the result of {message.tool_name}, as data:"))
                waiting += _content("", shown)
        elif parts:
            written["content"] = _content(message.content, parts)
        yield written
    if waiting:
        yield {"role": "user", "content": waiting}


def _is_sendable(part: Content) -> bool:
    return bool(part.data) or part.passed_on


def _content(text: str, parts: Sequence[Content]) -> list[Json]:
    written: list[Json] = []
    for each in interleaved(text, parts):
        if isinstance(each, str):
            written.append(_text_part(each))
        elif _is_sendable(each):
            written.append(_part(each))
    return written


def _text_part(text: str) -> JsonObject:
    return {"type": "text", "text": without_surrogates(text)}


def _part(part: Content) -> JsonObject:
    media_type = part.media_type or media_type_of(part.data)
    if media_type.startswith("text/") and not part.passed_on:
        return _text_part(document_text(part, part.data))
    encoded = base64.b64encode(part.data).decode("ascii")
    match part:
        case Image():
            url = part.url if part.passed_on else f"data:{media_type};base64,{encoded}"
            return {"type": "image_url", "image_url": {"url": url}}
        case Audio():
            form = _AUDIO_FORMATS.get(media_type, media_type.partition("/")[2])
            return {"type": "input_audio", "input_audio": {"data": encoded, "format": form}}
        case _:
            file: JsonObject = {"file_data": f"data:{media_type};base64,{encoded}"}
            return {"type": "file", "file": {"filename": part.name or "document", **file}}


def _call(call: ToolCall) -> JsonObject:
    arguments = without_surrogates(json.dumps(call.arguments, ensure_ascii=False))
    function: JsonObject = {"name": without_surrogates(call.name), "arguments": arguments}
    return {"id": without_surrogates(call.id), "type": "function", "function": function}


# --- in -------------------------------------------------------------------------------------------------


_AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/wav": "wav"}
_LABEL = re.compile(r"\[(?:image|audio|document) ([^\[\]]{1,80}), [\d.]+ (?:bytes|kB|MB), sha256:\w{12}…\]$")
"""The label of a named part, at the end of the text before it."""
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
    content, parts = _read_content(message.get("content"), f"{place}.content")
    if parts and role not in ("user", "tool"):
        raise WrongValue(parts[0].kind, "a part of type text", at=f"{place}.content")
    match role:
        case "system" | "developer":
            return SystemMessage(content)
        case "user":
            return UserMessage(content, parts)
        case "assistant":
            calls = _read_calls(message, place, names)
            refusal, _ = _read_content(message.get("refusal"), f"{place}.refusal")
            return AssistantMessage(content or refusal, calls)
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
            return ToolMessage(CallId(call_id), name, content, parts=parts)
        case _:
            raise WrongValue(role, "system, developer, user, assistant, tool or function", at=f"{place}.role")


def _read_calls(message: Any, place: str, names: dict[str, str]) -> tuple[ToolCall, ...]:
    """Return the calls of an assistant's message, and keep their names for results."""
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
    return calls


def _tool_call(call: Any, place: str) -> ToolCall:
    function = call.get("function") if isinstance(call, Mapping) else None
    name = _field(function, "name", f"{place}.function")
    given = function["arguments"] if isinstance(function, Mapping) and "arguments" in function else None
    text = (
        json.dumps(given)
        if isinstance(given, Mapping)
        else _field(function, "arguments", f"{place}.function")
    )
    call_id = CallId(_field(call, "id", place))
    arguments = from_json(text.strip() or "{}", JsonObject)
    if isinstance(arguments, Failure):  # as of an answer: NaN and repeated keys could not be read again
        return ToolCall(call_id, name, malformed=text)
    return ToolCall(call_id, name, arguments.unwrap())


def _read_content(content: Any, place: str) -> tuple[str, tuple[Content, ...]]:
    if content is None or isinstance(content, str):
        return content or "", ()
    if not isinstance(content, list | tuple):
        raise WrongValue(content, "a text, a list of parts or null", at=place)
    text = ""
    parts: list[Content] = []
    for index, each in enumerate(content):
        kind = each.get("type") if isinstance(each, Mapping) else None
        name = _TEXT_OF.get(kind) if isinstance(kind, str) else None
        if name is not None:
            text += _field(each, name, f"{place}[{index}]")
            continue
        part = _read_part(kind, each, f"{place}[{index}]", text)
        text += "" if text.endswith(part.label) else part.label
        parts.append(part)
    return text, tuple(parts)


def _read_part(kind: object, data: Any, place: str, before: str) -> Content:
    """Return an image, audio or file, with the name of the label before it."""
    labelled = _LABEL.search(before)
    name = labelled[1] if labelled else ""
    match kind:
        case "image_url":
            given = data.get("image_url")
            url = given if isinstance(given, str) else _field(given, "url", f"{place}.image_url")
            if not url.startswith("data:"):
                return Image.from_url(url, fetch=False)
            return _named(Image, _data_of(url, f"{place}.image_url.url"), name, before)
        case "input_audio":
            encoded = _field(data.get("input_audio"), "data", f"{place}.input_audio")
            return _named(Audio, _decoded(encoded, f"{place}.input_audio.data"), name, before)
        case "file":
            file = data.get("file")
            url = _field(file, "file_data", f"{place}.file")
            filename = file.get("filename")
            given_name = filename if isinstance(filename, str) else ""
            return Document.from_bytes(_data_of(url, f"{place}.file.file_data"), name=name or given_name)
        case _:
            expected = "a part of type text, image_url, input_audio or file"
            raise WrongValue(kind or data, expected, at=place)


def _named(kind: type[Image | Audio], data: bytes, name: str, before: str) -> Content:
    """Return a part of the bytes; the name is that of a label of these bytes."""
    part = kind.from_bytes(data, name=name)
    return part if not name or before.endswith(part.label) else kind.from_bytes(data)


def _data_of(url: str, place: str) -> bytes:
    head, comma, encoded = url.partition(",")
    if not comma or not head.endswith(";base64"):
        raise WrongValue(url, "a data: URL in base64", at=place)
    return _decoded(encoded, place)


def _decoded(encoded: str, place: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise WrongValue(encoded, "bytes in base64", at=place) from None


def _field(data: Any, name: str, place: str) -> str:
    if not isinstance(data, Mapping):
        raise WrongValue(data, "an object", at=place)
    value = data.get(name)
    if not isinstance(value, str):
        raise WrongValue(value, "a text", at=f"{place}.{name}")
    return value
