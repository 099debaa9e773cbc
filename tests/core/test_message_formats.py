"""Conversations that clients of OpenAI's chat completions keep."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from returns.result import Failure, Success

from reactive_agents.core.content import Audio, Document, Image, stored, text_and_parts
from reactive_agents.core.conversation import wrong_history
from reactive_agents.core.ids import CallId
from reactive_agents.core.message_formats import (
    messages_from_json,
    messages_from_openai,
    messages_to_json,
    messages_to_openai,
)
from reactive_agents.core.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from tests.support import contents

ASKED = {"role": "user", "content": [{"type": "text", "text": "And "}, {"type": "text", "text": "now?"}]}


class Reply(BaseModel):
    """The message of a client that reads answers into objects."""

    role: str = "assistant"
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[Any] | None = None
    function_call: Any = None


def function(name: str, arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"content": None, "refusal": "I cannot."}, "I cannot."),
        ({"content": [{"type": "refusal", "refusal": "I cannot."}]}, "I cannot."),
        ({"content": "Now.", "refusal": None, "tool_calls": None, "function_call": None}, "Now."),
        (Reply(content="Now."), "Now."),
        (Reply(refusal="I cannot."), "I cannot."),
    ],
)
def test_what_an_assistant_said_is_read(reply: Any, said: str) -> None:
    given = reply if isinstance(reply, Reply) else {"role": "assistant", **reply}
    expected = (UserMessage("And now?"), AssistantMessage(said))
    assert messages_from_openai([ASKED, given]) == Success(expected)


@pytest.mark.parametrize(
    "arguments", ['{"place": NaN}', '{"place": 1e999}', '{"place": 1, "place": 2}', {"place": float("nan")}]
)
def test_arguments_that_could_not_be_read_again_are_malformed(arguments: object) -> None:
    call = {"id": "a", "type": "function", "function": function("look", arguments)}
    (message,) = messages = messages_from_openai([{"role": "assistant", "tool_calls": [call]}]).unwrap()
    assert isinstance(message, AssistantMessage)
    assert message.tool_calls[0].malformed is not None
    assert messages_from_json(messages_to_json(messages)) == Success(messages)


@pytest.mark.parametrize("arguments", ['{"place": "here"}', {"place": "here"}])
def test_parallel_calls_are_answered_in_any_order(arguments: object) -> None:
    calls = [{"id": each, "type": "function", "function": function("look", arguments)} for each in "ab"]
    results = [{"role": "tool", "tool_call_id": each, "content": f"result {each}"} for each in "ba"]
    read = messages_from_openai([{"role": "assistant", "tool_calls": calls}, *results]).unwrap()
    made = tuple(ToolCall(CallId(each), "look", {"place": "here"}) for each in "ab")
    answered = tuple(ToolMessage(CallId(each), "look", f"result {each}") for each in "ba")
    assert read == (AssistantMessage("", made), *answered)
    assert wrong_history(read) is None


def test_calls_of_the_first_form_become_calls() -> None:
    turn = [
        {"role": "assistant", "content": None, "function_call": function("look", "{}")},
        {"role": "function", "name": "look", "content": "nothing"},
    ]
    read = messages_from_openai([*turn, *turn]).unwrap()
    assert wrong_history(read) is None
    assert [each.call_id for each in read if isinstance(each, ToolMessage)] == ["call-0", "call-2"]
    assert messages_from_openai(messages_to_openai(read)) == Success(read)


def test_a_result_of_the_first_form_without_a_call_is_named() -> None:
    read = messages_from_openai([{"role": "function", "name": "look", "content": "nothing"}])
    (problem,) = read.failure().problems
    assert (problem.path, "a function_call before it" in problem.problem) == ("$[0].role", True)


CAT = Image.from_bytes(contents.PNG, name="cat.png")
DOG = Image.from_bytes(contents.GIF)
SOUND = Audio.from_bytes(contents.MP3, name="voice.mp3")
REPORT = Document.from_bytes(contents.PDF, name="report.pdf")
LINKED = Image.from_url("https://a.example/cat.png", fetch=False)


@pytest.mark.parametrize(
    "items",
    [
        ["What is on it?", CAT],
        [CAT, "and", DOG, "and", SOUND, REPORT, "differ how?"],
        [CAT, CAT],
        [LINKED, "from there"],
    ],
)
def test_content_goes_to_openai_and_comes_back(items: list[Any]) -> None:
    text, parts = text_and_parts(items) or ("", ())
    (written,) = messages_to_openai((UserMessage(text, parts),))
    assert isinstance(written["content"], list)
    (read,) = messages_from_openai([written]).unwrap()
    assert isinstance(read, UserMessage)
    assert read.parts == parts
    assert read.content.replace("\n", "") == text.replace("\n", "")
    assert messages_to_openai((read,)) == (written,)


def test_content_of_results_is_in_the_next_message_or_in_them() -> None:
    call = AssistantMessage("", (ToolCall(CallId("a"), "draw"), ToolCall(CallId("b"), "draw")))
    results = [ToolMessage(CallId(each), "draw", f"Here: {CAT.label}", parts=(CAT,)) for each in "ab"]
    conversation = (UserMessage("Draw."), call, *results, AssistantMessage("Done."))
    written = messages_to_openai(conversation)
    assert [each["role"] for each in written] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert [each["type"] for each in written[4]["content"]] == ["text", "text", "image_url"] * 2  # type: ignore[index, union-attr, call-overload]
    within = messages_to_openai(conversation, parts_in_results=True)
    assert [each["role"] for each in within] == ["user", "assistant", "tool", "tool", "assistant"]
    assert messages_from_openai(within).unwrap() == conversation


def test_a_reference_without_its_bytes_is_its_label() -> None:
    reference = stored(CAT, contents.PNG, media_type="image/png", tokens=1_600)
    (written,) = messages_to_openai((UserMessage(reference.label, (reference,)),))
    assert written["content"] == [{"type": "text", "text": reference.label}]
    message = UserMessage(reference.label, (reference,))
    assert messages_from_json(messages_to_json((message,))).unwrap() == (message,)


@pytest.mark.parametrize(
    ("part", "place", "problem"),
    [
        ({"type": "image_url", "image_url": {"url": "data:image/png,AAAA"}}, "image_url.url", "base64"),
        ({"type": "image_url", "image_url": {"url": "data:;base64,%%"}}, "image_url.url", "base64"),
        ({"type": "image_url", "image_url": {}}, "image_url.url", "a text"),
        ({"type": "input_audio", "input_audio": {"data": "%"}}, "input_audio.data", "base64"),
        ({"type": "file", "file": {"file_id": "f-1"}}, "file.file_data", "a text"),
        ({"type": "video_url"}, "", "image_url, input_audio or file"),
        (7, "", "image_url, input_audio or file"),
    ],
)
def test_parts_that_cannot_be_read_are_named(part: Any, place: str, problem: str) -> None:
    (found,) = messages_from_openai([{"role": "user", "content": [part]}]).failure().problems
    assert found.path == f"$[0].content[0]{'.' if place else ''}{place}"
    assert problem in found.problem


def test_only_users_and_tools_give_content() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://a.example/cat.png"}}
    for role in ("system", "assistant"):
        assert isinstance(messages_from_openai([{"role": role, "content": [image]}]), Failure)


@pytest.mark.parametrize("data", [{}, {"messages": []}, "", "[]", b"", None, 5])
def test_what_is_no_list_is_no_empty_conversation(data: Any) -> None:
    (found,) = messages_from_openai(data).failure().problems
    assert found.path == "$"
    assert "expected a list of messages" in found.problem
