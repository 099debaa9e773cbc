"""Streams of texts that break, with a model that continues its own text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from returns.result import Success

from reactive_agents.adapters.llm.litellm_adapter import LiteLLM
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import (
    ModelChunk,
    ModelRequest,
    ModelResponse,
    StreamCompleted,
    StreamRestarted,
    TextDelta,
)
from tests.support.openai_server import OpenAIServer, Raw, Reply, refusal

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("without_backoff")]

QUESTION = ModelRequest((UserMessage("Tell me a story."),))


def events(*texts: str, whole: bool, thinking: str = "") -> Raw:
    """A stream of the Anthropic protocol; without its end it broke off."""
    usage = {"input_tokens": 9, "output_tokens": 1}
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "usage": usage,
    }
    sent: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    if thinking:
        delta = {"type": "thinking_delta", "thinking": thinking}
        block = {"type": "thinking", "thinking": ""}
        sent.append({"type": "content_block_start", "index": 0, "content_block": block})
        sent.append({"type": "content_block_delta", "index": 0, "delta": delta})
    sent.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    for text in texts:
        delta = {"type": "text_delta", "text": text}
        sent.append({"type": "content_block_delta", "index": 0, "delta": delta})
    if whole:
        sent.append({"type": "content_block_stop", "index": 0})
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        sent.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 7}})
        sent.append({"type": "message_stop"})
    body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in sent)
    return Raw(200, body, {"Content-Type": "text/event-stream"})


async def streamed(*replies: Reply, model: str) -> tuple[list[ModelChunk], list[Any]]:
    with OpenAIServer(*replies) as server:
        address = server.base_url.removesuffix("/v1")
        config = ModelConfig(model=model, api_key="k", base_url=address, max_attempts=3, timeout_s=5.0)
        llm = LiteLLM(config)
        chunks = [chunk async for chunk in llm.stream(QUESTION)]
        await llm.aclose()
        asked = [request.body["messages"] for request in server.requests]
    assert all(isinstance(chunk, Success) for chunk in chunks), chunks
    return [chunk.unwrap() for chunk in chunks], asked


def told(chunks: list[ModelChunk]) -> str:
    text = ""
    for chunk in chunks:
        if isinstance(chunk, TextDelta):
            text += chunk.text
        elif isinstance(chunk, StreamRestarted):
            text = ""
    return text


def response_of(chunks: list[ModelChunk]) -> ModelResponse:
    last = chunks[-1]
    assert isinstance(last, StreamCompleted)
    return last.response


PREFILLED = "anthropic/claude-sonnet-4-5"


async def test_a_text_goes_on_where_its_stream_broke() -> None:
    chunks, asked = await streamed(
        events("Once upon ", "a time ", whole=False),
        events(" there ", "was", whole=False),
        events(" a fox.", whole=True),
        model=PREFILLED,
    )
    assert not any(isinstance(chunk, StreamRestarted) for chunk in chunks)
    assert told(chunks) == response_of(chunks).content == "Once upon a time there was a fox."
    last = [messages[-1] for messages in asked]
    assert [message["role"] for message in last] == ["user", "assistant", "assistant"]
    assert "Once upon a time there was" in json.dumps(last[2])
    assert len(response_of(chunks).refused) == 2


async def test_a_beginning_that_is_refused_is_forgotten() -> None:
    chunks, asked = await streamed(
        events("Once ", whole=False),
        refusal(400, "no prefill"),
        events("A fox.", whole=True),
        model=PREFILLED,
    )
    assert told(chunks) == response_of(chunks).content == "A fox."
    assert [messages[-1]["role"] for messages in asked] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("broken", "model"),
    [
        (events("Once ", whole=False), "anthropic/claude-of-which-nothing-is-known"),
        (events("Once ", whole=False, thinking="Hm."), PREFILLED),
        (events("  ", whole=False), PREFILLED),
    ],
    ids=["unknown model", "thinking", "blanks"],
)
async def test_elsewhere_it_starts_again(broken: Reply, model: str) -> None:
    chunks, asked = await streamed(broken, events("A fox.", whole=True), model=model)
    assert any(isinstance(chunk, StreamRestarted) for chunk in chunks)
    assert told(chunks) == response_of(chunks).content == "A fox."
    assert [messages[-1]["role"] for messages in asked] == ["user", "user"]
