"""Providers with protocols of their own go through the same adapter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
from attrs import evolve
from returns.result import Result

from reactive_agents.adapters.llm.litellm_adapter import LiteLLM
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import AuthenticationFailed, LLMErrors, MalformedResponse, RateLimited
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import SystemMessage, UserMessage
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, StreamCompleted, Usage
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
