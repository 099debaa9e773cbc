"""The body of a request on the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reactive_agents.adapters.llm.litellm_adapter import LiteLLM
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import RequestRejected
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import attempt
from tests.support.openai_server import Answer, Call, OpenAIServer, Raw

pytestmark = pytest.mark.anyio

SCHEMA: JsonObject = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ADD = ToolDefinition("add", "Adds one.", SCHEMA)


async def sent(request: ModelRequest, *, model: str = "gpt-4o-mini") -> dict[str, Any]:
    with OpenAIServer(Answer("Yes.")) as server:
        llm = LiteLLM(ModelConfig("openai", model, api_key="k", base_url=server.base_url))
        (await attempt(llm.complete(request))).unwrap()
        await llm.aclose()
    return server.requests[0].body


async def test_a_conversation_is_sent_in_the_openai_form() -> None:
    good, bad = ToolCall(CallId("x"), "add", {"a": 1}), ToolCall(CallId("y"), "add", malformed="{")
    messages: tuple[Message, ...] = (
        SystemMessage("Be brief."),
        SystemMessage("Be kind."),
        UserMessage("Add one to 1."),
        AssistantMessage("", (good, bad)),
        ToolMessage(CallId("x"), "add", "2"),
        ToolMessage(CallId("y"), "add", "not valid", is_error=True),
        AssistantMessage("Two.", thinking="never sent back"),
        UserMessage("Grüße 🙂"),
    )
    body = await sent(ModelRequest(messages, tools=(ADD,)))
    assert [message["role"] for message in body["messages"]] == [
        "system",
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
    ]
    asked = body["messages"][3]
    assert asked.get("content") is None
    assert [json.loads(call["function"]["arguments"]) for call in asked["tool_calls"]] == [{"a": 1}, {}]
    assert body["messages"][4] == {"role": "tool", "tool_call_id": "x", "name": "add", "content": "2"}
    assert body["messages"][6] == {"role": "assistant", "content": "Two."}
    assert body["messages"][7]["content"] == "Grüße 🙂"
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "add", "description": "Adds one.", "parameters": SCHEMA},
        }
    ]


async def test_what_a_request_leaves_open_is_not_sent() -> None:
    assert set(await sent(ModelRequest((UserMessage("?"),), parallel_tool_calls=False))) == {
        "messages",
        "model",
    }


async def test_options_are_sent() -> None:
    request = ModelRequest(
        (UserMessage("?"),), tools=(ADD,), temperature=0.5, max_tokens=9, parallel_tool_calls=False
    )
    body = await sent(request)
    assert (body["temperature"], body["max_tokens"], body["parallel_tool_calls"]) == (0.5, 9, False)


async def test_options_that_a_model_does_not_take_are_dropped() -> None:
    body = await sent(ModelRequest((UserMessage("?"),), temperature=0.5, max_tokens=9), model="o3-mini")
    assert "temperature" not in body
    assert body["max_completion_tokens"] == 9


async def test_a_schema_is_sent_to_a_model_that_holds_to_it() -> None:
    body = await sent(ModelRequest((UserMessage("?"),), response_schema=SCHEMA))
    wanted = {"name": "answer", "schema": SCHEMA, "strict": False}
    assert body["response_format"] == {"type": "json_schema", "json_schema": wanted}


async def test_a_model_without_schemas_is_asked_for_json_if_the_prompt_speaks_of_it() -> None:
    plain = ModelRequest((UserMessage("?"),), response_schema=SCHEMA)
    assert "response_format" not in await sent(plain, model="house-brand")
    spoken = ModelRequest((UserMessage("Answer in JSON."),), response_schema=SCHEMA)
    assert (await sent(spoken, model="house-brand"))["response_format"] == {"type": "json_object"}


async def test_ids_and_arguments_of_another_type_do_no_harm() -> None:
    function = {"name": "add", "arguments": {"a": 1}}
    message = {"role": "assistant", "tool_calls": [{"id": 5, "type": "function", "function": function}]}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    with OpenAIServer(Raw(200, body)) as server:
        llm = LiteLLM(ModelConfig("openai", "gpt-4o-mini", api_key="k", base_url=server.base_url))
        answer = (await attempt(llm.complete(ModelRequest((UserMessage("?"),))))).unwrap()
        await llm.aclose()
    assert answer.tool_calls == (ToolCall(CallId("call-1"), "add", {"a": 1}),)


async def test_missing_and_repeated_call_ids_are_made_unique_in_the_conversation() -> None:
    calls = (Call("add", id=None), Call("add", id="x"), Call("add", id="x"), Call("add", id="call-3"))
    before = AssistantMessage("", (ToolCall(CallId("call-1"), "add"),))
    messages = (UserMessage("?"), before, ToolMessage(CallId("call-1"), "add", "2"))
    with OpenAIServer(Answer(calls=calls)) as server:
        llm = LiteLLM(ModelConfig("openai", "gpt-4o-mini", api_key="k", base_url=server.base_url))
        answer = (await attempt(llm.complete(ModelRequest(messages, tools=(ADD,))))).unwrap()
        await llm.aclose()
    assert [call.id for call in answer.tool_calls] == ["call-2", "x", "call-4", "call-3"]


async def test_halves_of_surrogate_pairs_are_joined_or_replaced() -> None:
    call = ToolCall(CallId("x"), "add", {"a": "\ud83d", "\ud83d\ude42": "\ud83d\ude42"})
    messages: tuple[Message, ...] = (
        SystemMessage("one \ud800"),
        UserMessage("two \ude42"),
        AssistantMessage("three \ud83d\ude42"),
        UserMessage("and"),
        AssistantMessage("four \ud83d", (call,)),
        ToolMessage(CallId("x"), "add", "five \udfff"),
    )
    sent_messages = (await sent(ModelRequest(messages)))["messages"]
    contents = ["one \ufffd", "two \ufffd", "three 🙂", "and", "four \ufffd", "five \ufffd"]
    assert [message["content"] for message in sent_messages] == contents
    arguments = sent_messages[4]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"a": "\ufffd", "🙂": "🙂"}


@pytest.mark.parametrize(
    ("key", "description"), [("k", "Adds \ud800."), ("clé", "Adds one.")], ids=["definition", "key"]
)
async def test_what_cannot_be_written_is_rejected_at_once(key: str, description: str) -> None:
    with OpenAIServer() as server:
        llm = LiteLLM(ModelConfig("openai", "gpt-4o-mini", api_key=key, base_url=server.base_url))
        request = ModelRequest((UserMessage("?"),), tools=(ToolDefinition("add", description, SCHEMA),))
        error = (await attempt(llm.complete(request))).failure()
        await llm.aclose()
    assert isinstance(error, RequestRejected)
    assert "The request to openai/gpt-4o-mini holds characters that cannot be sent: " in error.message
    assert server.requests == []


async def test_no_two_messages_of_the_model_follow_one_another() -> None:
    call = ToolCall(CallId("x"), "add", {"a": 1})
    messages: tuple[Message, ...] = (
        UserMessage("Add one to 1."),
        AssistantMessage("I will add."),  # rejected, as the next one
        AssistantMessage(""),
        AssistantMessage("Let me add now.", (call,)),
        ToolMessage(CallId("x"), "add", "2"),
        AssistantMessage("So it is"),
        AssistantMessage("Two."),
        UserMessage("Say it in a sentence."),
    )
    told = (await sent(ModelRequest(messages, tools=(ADD,))))["messages"]
    assert [message["role"] for message in told] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    _, calling, result, answering, _ = told
    assert calling["content"] == "I will add.\n\nLet me add now."
    assert [each["id"] for each in calling["tool_calls"]] == ["x"] == [result["tool_call_id"]]
    assert answering == {"role": "assistant", "content": "So it is\n\nTwo."}


async def test_two_turns_of_calls_stay_apart() -> None:
    first, second = (ToolCall(CallId(each), "add", {"a": 1}) for each in "xy")
    messages: tuple[Message, ...] = (
        UserMessage("Add."),
        AssistantMessage("", (first,)),
        ToolMessage(CallId("x"), "add", "2"),
        AssistantMessage(""),  # rejected
        AssistantMessage("", (second,)),
        ToolMessage(CallId("y"), "add", "2"),
    )
    told = (await sent(ModelRequest(messages, tools=(ADD,))))["messages"]
    assert [message["role"] for message in told] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
    assert [each.get("content") for each in told[1::2]] == [None, None]
