"""Providers with protocols of their own go through the same adapter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from attrs import evolve
from returns.result import Result

from reactive_agents import ReactiveAgents
from reactive_agents.adapters.llm.chat_format import with_tags_apart
from reactive_agents.adapters.llm.litellm_adapter import LiteLLM
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import AuthenticationFailed, LLMErrors, MalformedResponse, RateLimited
from reactive_agents.core.events import ModelTextStreamed, TaskCompleted
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import SystemMessage, UserMessage
from reactive_agents.core.models import (
    ModelChunk,
    ModelRequest,
    ModelResponse,
    StreamCompleted,
    TextDelta,
    Usage,
)
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.core.usage import RunUsage
from reactive_agents.effects import attempt
from tests.support.openai_server import OpenAIServer, Raw

pytestmark = pytest.mark.anyio

CLAUDE, GEMINI, OLLAMA = "anthropic/claude-sonnet-5", "gemini/gemini-2.5-flash", "ollama/some-model"
SCHEMA: JsonObject = {"type": "object", "properties": {"a": {"type": "integer"}}}
REQUEST = ModelRequest(
    (SystemMessage("Be brief."), UserMessage("Add.")), tools=(ToolDefinition("add", "Adds one.", SCHEMA),)
)


def document(content: Mapping[str, object], status: int = 200) -> Raw:
    return Raw(status, json.dumps(content))


def events(contents: Sequence[Mapping[str, object]]) -> Raw:
    names = (f"event: {each['type']}\n" if "type" in each else "" for each in contents)
    lines = (f"{name}data: {json.dumps(each)}\n\n" for name, each in zip(names, contents, strict=True))
    return Raw(200, "".join(lines), {"Content-Type": "text/event-stream"})


MESSAGE = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "t", "name": "add", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 5, "output_tokens": 3},
}
MESSAGE_EVENTS = (
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "t", "name": "add", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'},
    },
    {"type": "content_block_stop", "index": 2},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
)
CANDIDATE = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [{"text": "hi"}, {"functionCall": {"name": "add", "args": {"a": 1}}}],
            },
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 3, "totalTokenCount": 8},
}
CHAT = {
    "model": "some-model",
    "message": {
        "role": "assistant",
        "content": "hi",
        "tool_calls": [{"function": {"name": "add", "arguments": {"a": 1}}}],
    },
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 5,
    "eval_count": 3,
}


def adapter(server: OpenAIServer, model: str) -> LiteLLM:
    base_url = server.base_url.removesuffix("/v1")
    return LiteLLM(ModelConfig(model=model, api_key="k", base_url=base_url, max_attempts=1, timeout_s=5.0))


async def both_ways(model: str, whole: Raw, stream: Raw) -> tuple[ModelResponse, ModelResponse]:
    """The answer as a whole, and as a stream; checks that nothing else was asked and all is closed."""
    with OpenAIServer(whole, stream) as server:
        llm = adapter(server, model)
        answer = (await attempt(llm.complete(REQUEST))).unwrap()
        chunks = [chunk.unwrap() async for chunk in llm.stream(REQUEST)]
        await llm.aclose()
    assert len(server.requests) == 2
    last = chunks[-1]
    assert isinstance(last, StreamCompleted)
    return answer, last.response


async def failures(model: str, reply: Raw) -> tuple[LLMErrors, LLMErrors]:
    with OpenAIServer(reply, reply) as server:
        llm = adapter(server, model)
        whole = (await attempt(llm.complete(REQUEST))).failure()
        chunks: list[Result[ModelChunk, LLMErrors]] = [chunk async for chunk in llm.stream(REQUEST)]
        await llm.aclose()
    return whole, chunks[-1].failure()


@pytest.mark.parametrize(
    ("model", "whole", "stream", "free"),
    [
        (CLAUDE, document(MESSAGE), events(MESSAGE_EVENTS), False),
        (GEMINI, document(CANDIDATE), events([CANDIDATE]), False),
        (OLLAMA, document(CHAT), document(CHAT), True),
    ],
)
async def test_answers_are_read_alike(model: str, whole: Raw, stream: Raw, free: bool) -> None:
    for answer in await both_ways(model, whole, stream):
        (call,) = answer.tool_calls
        assert (call.name, call.arguments) == ("add", {"a": 1})
        assert (answer.content, answer.model, answer.finish_reason) == ("hi", model, "tool_calls")
        assert answer.thinking == ("hm" if model == CLAUDE else "")
        assert evolve(answer.usage, reasoning_tokens=0) == Usage(5, 3, 8)  # litellm estimates these itself
        assert answer.cost_usd is not None
        assert (answer.cost_usd == 0) == free


@pytest.mark.parametrize(
    ("model", "stream", "spent"),
    [
        # what came of it until then cost that or more; a model of one's own costs nothing
        (
            CLAUDE,
            events(MESSAGE_EVENTS[:-2]),
            RunUsage(CLAUDE, Usage(5, 3, 8, reported=False), 5 * 2e-6 + 3 * 1e-5, 0, 1, 1),
        ),
        (
            OLLAMA,
            document({**CHAT, "done": False}),
            RunUsage(OLLAMA, Usage(reported=False), unreported_calls=1),
        ),
    ],
)
async def test_a_stream_that_ends_without_a_reason_broke_off(
    model: str, stream: Raw, spent: RunUsage
) -> None:
    with OpenAIServer(stream) as server:
        llm = adapter(server, model)
        *_, last = [chunk async for chunk in llm.stream(REQUEST)]
        await llm.aclose()
    message = f"The stream of {model} broke off before the answer was complete."
    assert last.failure() == MalformedResponse(message, model, refused=(spent,))


async def test_refusals_are_understood_and_told_in_the_providers_own_words() -> None:
    refused = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
    message = f"The provider of {CLAUDE} refused the key: invalid x-api-key"
    for error in await failures(CLAUDE, document(refused, 401)):
        assert error == AuthenticationFailed(message, CLAUDE)


async def test_a_wait_that_is_asked_for_in_the_body_is_understood() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]
    body = {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": details}}
    for error in await failures(GEMINI, document(body, 429)):
        assert isinstance(error, RateLimited)
        assert (error.retry_after_s, error.message.rpartition(": ")[2]) == (34.0, "quota")


@pytest.mark.parametrize("model", [CLAUDE, GEMINI, OLLAMA])
async def test_a_page_instead_of_an_answer_is_malformed(model: str) -> None:
    for error in await failures(model, Raw(200, "<html>")):
        assert isinstance(error, MalformedResponse)


def ollama_stream(*messages: Mapping[str, object]) -> Raw:
    """A stream of Ollama, which ends with a line without text."""
    lines = [{**CHAT, "message": {"role": "assistant", **each}, "done": False} for each in messages]
    end = {**CHAT, "message": {"role": "assistant", "content": ""}}
    text = "".join(json.dumps(each).replace("<", "\\u003c") + "\n" for each in [*lines, end])
    return Raw(200, text, {"Content-Type": "application/x-ndjson"})


THOUGHT = "<think>\nThe user asks for planets.\n</think>\n\nThe first planet is Mercury."


@pytest.mark.parametrize(
    ("model", "size"), [("ollama/m", 1), ("ollama_chat/m", 7), ("ollama_chat/m", 12), ("ollama/m", 200)]
)
@pytest.mark.parametrize(
    "text", [THOUGHT, "<think>Planets. Mercury", "print('hello <think> world </think>')"]
)
async def test_tags_in_a_stream_of_ollama_stay_in_the_text(text: str, model: str, size: int) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    with OpenAIServer(ollama_stream(*({"content": each} for each in pieces))) as server:
        llm = adapter(server, model)
        *deltas, last = [chunk.unwrap() async for chunk in llm.stream(REQUEST)]
        await llm.aclose()
    assert isinstance(last, StreamCompleted)
    assert "".join(each.text for each in deltas if isinstance(each, TextDelta)) == text
    assert (last.response.content, last.response.thinking) == (text, "")


def test_lines_that_break_tags_do_not_repeat_the_other_fields() -> None:
    line = {**CHAT, "context": [7] * 10_000, "message": {"role": "assistant", "content": "<think>" * 100}}
    lines = with_tags_apart(json.dumps(line).encode()).splitlines()
    assert len(lines) == 101
    assert sum(map(len, lines)) < 2 * len(json.dumps(line))
    assert json.loads(lines[-1])["context"] == line["context"]
    assert "".join(json.loads(each)["message"]["content"] for each in lines) == "<think>" * 100


async def test_the_field_for_thinking_in_a_stream_of_ollama_is_exposed_reasoning() -> None:
    stream = ollama_stream(
        {"content": "", "thinking": "The user"},
        {"content": "", "thinking": " asks."},
        {"content": "A <think>"},
        {"content": " tag."},
    )
    with OpenAIServer(stream) as server:
        llm = adapter(server, OLLAMA)
        *_, last = [chunk.unwrap() async for chunk in llm.stream(REQUEST)]
        await llm.aclose()
    assert isinstance(last, StreamCompleted)
    assert (last.response.content, last.response.thinking) == ("A <think> tag.", "The user asks.")


@pytest.mark.parametrize(
    ("text", "status", "output"),
    [
        (THOUGHT, "completed", "The first planet is Mercury."),
        ("<think>The user asks for planets. Mercury", "partial", None),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_thinking_of_ollama_is_no_answer(
    text: str, status: str, output: str | None, *, streamed: bool
) -> None:
    whole = document({**CHAT, "message": {"role": "assistant", "content": text}})
    reply = ollama_stream(*({"content": text[at : at + 7]} for at in range(0, len(text), 7)))
    with OpenAIServer(*[reply if streamed else whole] * 9) as server:
        base_url = server.base_url.removesuffix("/v1")
        agent = ReactiveAgents.create().with_model(OLLAMA, base_url=base_url).build()
        if streamed:
            events = [each async for each in agent.stream("Which is the first planet?")]
            shown = "".join(each.text for each in events if isinstance(each, ModelTextStreamed))
            (result,) = (each.result for each in events if isinstance(each, TaskCompleted))
        else:
            result = await agent.run("Which is the first planet?")
            shown = ""
    assert (result.status, result.output) == (status, output)
    assert "The user" not in shown


async def test_a_stream_of_ollama_is_read_while_it_arrives() -> None:
    begun, *rest = str(ollama_stream({"content": "Mer"}, {"content": "cury"}).body).splitlines(keepends=True)
    heard = anyio.Event()
    texts: list[str] = []
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n"

    async def serve(client: SocketStream) -> None:
        async with client:
            await client.receive()
            await client.send(head + begun.encode())
            await heard.wait()
            await client.send("".join(rest).encode())

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, serve)
        port = listener.extra(SocketAttribute.local_port)
        config = ModelConfig(model=OLLAMA, base_url=f"http://127.0.0.1:{port}", max_attempts=1, timeout_s=5.0)
        llm = LiteLLM(config)
        async for chunk in llm.stream(REQUEST):
            if isinstance(delta := chunk.unwrap(), TextDelta):
                texts.append(delta.text)
                heard.set()
        await llm.aclose()
        group.cancel_scope.cancel()
    assert texts == ["Mer", "cury"]
