"""Answers whose content is a list of parts, and refusals, whole and streamed, at the wire."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from attrs import evolve

from reactive_agents.adapters.llm.chat_format import with_plain_content
from reactive_agents.adapters.llm.litellm_adapter import LiteLLM
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import ModelRequest, ModelResponse, StreamCompleted, TextDelta
from reactive_agents.effects import attempt
from tests.support.openai_server import OpenAIServer, Raw, sent_events

pytestmark = pytest.mark.anyio

REQUEST = ModelRequest((UserMessage("Is it?"),))
TEXT = {"type": "text", "text": "Yes."}
CALLS = [{"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}]
USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}

CONTENTS: dict[str, tuple[Any, str, str]] = {
    "text": ([TEXT], "Yes.", ""),
    "several texts": (
        [TEXT, " And ", {"type": "output_text", "text": "no.", "annotations": []}],
        "Yes. And no.",
        "",
    ),
    "thinking": ([{"type": "thinking", "thinking": "Hm."}, TEXT], "Yes.", "Hm."),
    "thinking in parts": (
        [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, TEXT],
        "Yes.",
        "Hm.",
    ),
    "reasoning": (
        [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}, TEXT],
        "Yes.",
        "Hm.",
    ),
    "refusal": ([{"type": "refusal", "refusal": "No."}], "No.", ""),
    "citations": ([TEXT, {"type": "reference", "reference_ids": [1]}], "Yes.", ""),
    "an image": ([{"type": "image_url", "image_url": {"url": "data:,"}}, TEXT], "[image]Yes.", ""),
    "one part": (TEXT, "Yes.", ""),
    "parts without a type": ([{"text": "Ye"}, {"text": "s."}], "Yes.", ""),
    "nothing known": ([None, 7, {"type": "new"}, {"type": "text", "text": None}], "", ""),
    "empty": ([], "", ""),
    "null": (None, "", ""),
}


def whole(message: dict[str, Any], *, compressed: bool = False) -> Raw:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    envelope = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": USAGE}
    body = json.dumps({**envelope, "choices": [choice]})
    if not compressed:
        return Raw(200, body)
    return Raw(200, gzip.compress(body.encode()), {"Content-Encoding": "gzip"})


def stream(*deltas: dict[str, Any]) -> Raw:
    envelope = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices: list[list[dict[str, Any]]] = [
        [{"index": 0, "delta": each, "finish_reason": None}] for each in deltas
    ]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    last = {**envelope, "choices": [], "usage": USAGE}
    return sent_events([*({**envelope, "choices": each} for each in choices), last], done=True)


async def both_ways(model: str, reply: Raw, streamed: Raw) -> tuple[ModelResponse, list[Any]]:
    with OpenAIServer(reply, streamed) as server:
        llm = LiteLLM(ModelConfig(model=model, api_key="k", base_url=server.base_url, max_attempts=1))
        answer = (await attempt(llm.complete(REQUEST))).unwrap()
        chunks = [chunk.unwrap() async for chunk in llm.stream(REQUEST)]
        await llm.aclose()
    return answer, chunks


@pytest.mark.system
@pytest.mark.parametrize("model", ["openai/m", "mistral/m", "openrouter/m"])
@pytest.mark.parametrize("name", CONTENTS)
async def test_contents_of_parts_are_read_like_texts(model: str, name: str) -> None:
    content, text, thinking = CONTENTS[name]
    message = {"content": content}
    answer, chunks = await both_ways(model, whole(message), stream({"role": "assistant", **message}))
    assert (answer.content, answer.thinking) == (text, thinking)
    last = chunks[-1]
    assert isinstance(last, StreamCompleted)
    assert (last.response.content, last.response.thinking) == (text, thinking)


@pytest.mark.parametrize("content", [None, [], [TEXT]])
async def test_calls_beside_null_or_parts_are_read(content: Any) -> None:
    message = {"content": content, "tool_calls": CALLS}
    deltas = {"content": content, "tool_calls": [{"index": 0, **CALLS[0]}]}
    answer, chunks = await both_ways("openai/m", whole(message), stream({"role": "assistant", **deltas}))
    for response in (answer, chunks[-1].response):
        assert [(call.name, call.arguments) for call in response.tool_calls] == [("add", {"a": 1})]
        assert response.content == ("Yes." if content else "")


async def test_a_call_in_the_form_of_before_tools_is_read() -> None:
    call = {"name": "add", "arguments": '{"a": 1}'}
    begun, rest = {"name": "add", "arguments": ""}, {"arguments": '{"a": 1}'}
    deltas = [{"role": "assistant", "content": None, "function_call": each} for each in (begun, rest)]
    answer, chunks = await both_ways(
        "openai/m", whole({"content": None, "function_call": call}), stream(*deltas)
    )
    for response in (answer, chunks[-1].response):
        assert [(each.name, each.arguments) for each in response.tool_calls] == [("add", {"a": 1})]


async def test_an_empty_call_in_the_form_of_before_tools_is_none() -> None:
    message = {"content": "Yes.", "function_call": {"name": "", "arguments": ""}}
    answer, chunks = await both_ways("openai/m", whole(message), stream(message))
    for response in (answer, chunks[-1].response):
        assert (response.content, response.tool_calls) == ("Yes.", ())


async def test_a_call_that_a_last_delta_repeats_is_one_call() -> None:
    begun, rest = ({**CALLS[0], "function": {"name": "add", "arguments": each}} for each in ('{"a"', ": 1}"))
    deltas = [{"tool_calls": [{"index": 0, **each}]} for each in (begun, rest, CALLS[0])]
    _, chunks = await both_ways("openai/m", whole({"tool_calls": CALLS}), stream(*deltas))
    assert [each.arguments for each in chunks[-1].response.tool_calls] == [{"a": 1}]


async def test_two_calls_with_one_id_and_index_are_two_calls() -> None:
    other = {**CALLS[0], "function": {"name": "add", "arguments": '{"a": 2}'}}
    deltas = [{"tool_calls": [{"index": 0, **each}]} for each in (CALLS[0], other)]
    answer, chunks = await both_ways("openai/m", whole({"tool_calls": [CALLS[0], other]}), stream(*deltas))
    for response in (answer, chunks[-1].response):
        assert [each.arguments for each in response.tool_calls] == [{"a": 1}, {"a": 2}]
        assert len({each.id for each in response.tool_calls}) == 2


async def test_compressed_answers_and_parts_that_grow_are_read() -> None:
    deltas = [{"content": [{"type": "text", "text": each}]} for each in ("It ", "is ", "so.")]
    answer, chunks = await both_ways("openai/m", whole({"content": [TEXT]}, compressed=True), stream(*deltas))
    assert answer.content == "Yes."
    assert [each.text for each in chunks if isinstance(each, TextDelta)] == ["It ", "is ", "so."]


async def test_an_answer_that_unpacks_to_more_than_any_is_not_read() -> None:
    reply = Raw(200, gzip.compress(b" " * 51_000_000), {"Content-Encoding": "gzip"})
    with OpenAIServer(reply) as server:
        llm = LiteLLM(ModelConfig(model="openai/m", api_key="k", base_url=server.base_url, max_attempts=1))
        error = (await attempt(llm.complete(REQUEST))).failure()
        await llm.aclose()
    assert "the answer has more than 50000000 bytes" in error.message


@pytest.mark.parametrize("content", [None, "", []])
@pytest.mark.parametrize("model", ["openai/m", "mistral/m", "openrouter/m"])
async def test_a_refusal_is_the_answer_whole_and_streamed(model: str, content: Any) -> None:
    begin = {"role": "assistant", "content": content, "refusal": None}
    deltas = [begin, {"refusal": "I "}, {"content": content, "refusal": "can't."}]
    answer, chunks = await both_ways(
        model, whole({"content": content, "refusal": "I can't."}), stream(*deltas)
    )
    assert answer.content == chunks[-1].response.content == "I can't."
    assert [each.text for each in chunks if isinstance(each, TextDelta)] == ["I ", "can't."]


@pytest.mark.system
@pytest.mark.parametrize("model", ["openai/m", "mistral/m", "openrouter/m"])
@pytest.mark.parametrize(
    "usage",
    [
        '{"prompt_tokens": NaN, "completion_tokens": 1, "total_tokens": 2}',
        '{"prompt_tokens": 1e400, "completion_tokens": -Infinity, "total_tokens": 2}',
        '{"prompt_tokens": 1.5, "completion_tokens": 2.5, "total_tokens": 4}',
        '{"prompt_tokens": -5, "completion_tokens": -1, "total_tokens": -6}',
        f'{{"prompt_tokens": {"9" * 30}, "completion_tokens": 1, "total_tokens": 2}}',
        f'{{"prompt_tokens": {"9" * 5_000}, "completion_tokens": 1, "total_tokens": 2}}',
        '{"prompt_tokens": "12", "completion_tokens": "x", "total_tokens": [null]}',
        '{"prompt_tokens": 1, "completion_tokens_details": {"reasoning_tokens": 1e30}}',
        '{"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": [7]}',
        "[]",
        '"none"',
        "7",
    ],
)
async def test_an_answer_with_a_usage_that_cannot_be_is_not_lost(model: str, usage: str) -> None:
    def told(reply: Raw) -> Raw:
        return evolve(reply, body=str(reply.body).replace(json.dumps(USAGE), usage))

    answer, chunks = await both_ways(
        model, told(whole({"content": "Yes."})), told(stream({"content": "Yes."}))
    )
    for response in (answer, chunks[-1].response):
        assert (response.content, response.usage.reported, response.cost_usd) == ("Yes.", False, None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b'{"content": [',
        b'{"content": [1]}',
        b'[{"content": [1]}]',
        b'{"choices": 7, "content": []}',
        b'{"choices": [null, {"message": 1, "content": []}]}',
        b'{"choices": [{"message": {"content": "a \\"content\\": [1]"}}]}',
        b'{"choices": [{"message": {"content": "Yes.",  "refusal": ""}}]}',
        b'{"choices": [{"message": {"content": "Yes.",  "refusal": "No."}}]}',
        b'{"choices": [],  "usage": null}',
        b'{"choices": [],  "usage": {"total_tokens":  7, "cached_tokens": null, "cost": 1.5}}',
    ],
)
def test_everything_else_stays_byte_for_byte(body: bytes) -> None:
    assert with_plain_content(body) == body
