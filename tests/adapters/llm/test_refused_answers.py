"""Answers that were paid for and cannot be used: what they cost comes with the answer, or with the error."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence

import anyio
import pytest
from returns.result import Failure, Result, Success

from reactive_agents.adapters.llm.litellm_adapter import LiteLLM
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import LLMErrors, MalformedResponse, RateLimited, refused_attempts
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import ModelRequest, ModelResponse, StreamCompleted, Usage
from reactive_agents.core.usage import USAGE_RECORDER, RunUsage, unknown_usage
from reactive_agents.effects import attempt
from tests.support.openai_server import Answer, Call, OpenAIServer, Raw, Reply, refusal, sent_events
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("without_backoff")]

MODEL, OTHER = "openai/gpt-4o-mini", "openai/gpt-4o"
QUESTION = ModelRequest((UserMessage("What now?"),))
PRICE = {MODEL: (1.5e-7, 6e-7), OTHER: (2.5e-6, 1e-5)}
NAMELESS = Answer(calls=(Call("", id="x"),))


def spent(read: int = 11, written: int = 7, model: str = MODEL) -> RunUsage:
    reading, writing = PRICE[model]
    return RunUsage(model, Usage(read, written, read + written), read * reading + written * writing)


async def asked(
    *replies: Reply, streaming: bool = False, fallbacks: tuple[str, ...] = (), max_attempts: int = 3
) -> Result[ModelResponse, LLMErrors]:
    with OpenAIServer(*replies) as server:
        llm = LiteLLM(
            ModelConfig(
                model=MODEL,
                api_key="k",
                base_url=server.base_url,
                max_attempts=max_attempts,
                fallbacks=fallbacks,
                timeout_s=5.0,
            )
        )
        answer = await (last_of(llm) if streaming else attempt(llm.complete(QUESTION)))
        await llm.aclose()
        assert len(server.requests) == len(replies)
    return answer


async def last_of(llm: LiteLLM) -> Result[ModelResponse, LLMErrors]:
    *_, last = [chunk async for chunk in llm.stream(QUESTION)]
    if isinstance(last, Failure):
        return last
    completed = last.unwrap()
    assert isinstance(completed, StreamCompleted)
    return Success(completed.response)


def body(choices: object) -> str:
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return json.dumps({"id": "x", "object": "chat.completion", "usage": usage, "choices": choices})


def choice(message: object) -> str:
    return body([{"index": 0, "message": message, "finish_reason": "stop"}])


QUOTED = json.dumps(
    {"choices": [{"message": {"content": '"usage": {"prompt_tokens": 999}'}}], **json.loads(body([]))}
)


@pytest.mark.parametrize(
    "text",
    [
        body([]),
        body(None),
        body("none"),
        body([{"index": 0}]),
        choice(None),
        choice({"content": 5}),
        choice({"tool_calls": [{"id": "a", "type": "function"}]}),
        choice({"tool_calls": [{"id": "a", "type": "function", "function": {"arguments": "{}"}}]}),
        choice({"content": "hello"})[:-9],
        QUOTED + "}",
    ],
    ids=["empty", "null", "text", "bare", "mute", "number", "call", "nameless", "cut", "trailing"],
)
async def test_an_answer_that_cannot_be_used_costs_what_it_reports(text: str) -> None:
    answer = (await asked(Raw(200, text), Answer("Fine."))).unwrap()
    assert (answer.content, answer.usage, answer.refused) == ("Fine.", Usage(11, 7, 18), (spent(),))
    error = (await asked(Raw(200, text), max_attempts=1)).failure()
    assert isinstance(error, MalformedResponse)
    assert error.refused == (spent(),)


@pytest.mark.parametrize("text", ["<html>", "", "[1]", '{"usage": {"prompt_tokens": "many"}}', '{"usage": {'])
async def test_what_an_answer_does_not_report_is_unknown(text: str) -> None:
    answer = (await asked(Raw(200, text), Answer("Fine."))).unwrap()
    assert answer.refused == (unknown_usage(MODEL),)


@pytest.mark.parametrize("streaming", [False, True])
async def test_every_attempt_of_every_model_is_told(streaming: bool) -> None:
    first, second = (Answer(calls=NAMELESS.calls, usage=usage) for usage in ((10, 1), (20, 2)))
    replies = (first, second, refusal(500), NAMELESS, Answer("Fine."))
    answer = (await asked(*replies, streaming=streaming, fallbacks=(OTHER,))).unwrap()
    assert (answer.model, answer.content) == (OTHER, "Fine.")
    assert answer.refused == (spent(10, 1), spent(20, 2), spent(model=OTHER))


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_call_that_came_to_nothing_tells_all_in_its_error(streaming: bool) -> None:
    answer = await asked(NAMELESS, refusal(429), NAMELESS, streaming=streaming)
    assert refused_attempts(answer.failure()) == (spent(), spent())


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_error_of_the_first_model_has_what_the_others_cost_too(streaming: bool) -> None:
    busy = refusal(429, headers={"retry-after": "60"})
    replies = (NAMELESS, busy, NAMELESS, NAMELESS)
    answer = await asked(*replies, streaming=streaming, fallbacks=(OTHER,), max_attempts=2)
    error = answer.failure()
    assert isinstance(error, RateLimited)
    assert error.refused == (spent(), spent(model=OTHER), spent(model=OTHER))


@pytest.mark.parametrize("streaming", [False, True])
async def test_what_a_provider_refuses_costs_nothing(streaming: bool) -> None:
    answer = await asked(refusal(429), refusal(503), Answer("Fine."), streaming=streaming)
    assert answer.unwrap().refused == ()
    assert refused_attempts((await asked(refusal(400), streaming=streaming)).failure()) == ()


async def test_what_never_was_sent_costs_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closing:
        port = closing.getsockname()[1]
    llm = LiteLLM(ModelConfig(model=MODEL, api_key="k", base_url=f"http://127.0.0.1:{port}/v1"))
    assert refused_attempts((await attempt(llm.complete(QUESTION))).failure()) == ()
    assert refused_attempts((await last_of(llm)).failure()) == ()
    await llm.aclose()


async def test_a_stream_that_breaks_after_its_usage_cost_just_that() -> None:
    whole = sent_events(Answer("hello").pieces())
    garbled = Raw(200, whole.body + "data: {oops\n\n", whole.headers)
    answer = (await asked(garbled, Answer("Fine."), streaming=True)).unwrap()
    assert (answer.content, answer.refused) == ("Fine.", (spent(),))


async def test_a_stream_that_breaks_before_its_usage_cost_nobody_knows_what() -> None:
    answer = (await asked(Answer("hello", cut_after=1), Answer("Fine."), streaming=True)).unwrap()
    assert answer.refused == (unknown_usage(MODEL),)


async def test_usage_beside_a_piece_of_a_broken_stream_is_the_least_that_it_cost() -> None:
    first, second, *_, last = Answer("hello").pieces()
    broken = sent_events({**piece, "usage": last["usage"]} for piece in (first, second))
    answer = (await asked(broken, Answer("Fine."), streaming=True)).unwrap()
    least = RunUsage(
        MODEL, Usage(11, 7, 18, reported=False), spent().cost_usd, unpriced_calls=1, unreported_calls=1
    )
    assert answer.refused == (least,)


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_call_that_is_cut_off_tells_the_account_of_the_run(streaming: bool) -> None:
    told: list[RunUsage] = []

    async def enter(parts: Sequence[RunUsage], *, purpose: str = "", duration_ms: float = 0.0) -> None:
        told.extend(parts)

    before = USAGE_RECORDER.set(enter)
    with OpenAIServer(NAMELESS, Answer("late", delay_s=600)) as server:
        llm = LiteLLM(ModelConfig(model=MODEL, api_key="k", base_url=server.base_url))
        async with anyio.create_task_group() as group:
            group.start_soon(*((last_of, llm) if streaming else (complete, llm)))
            await until(lambda: len(server.requests) == 2)
            group.cancel_scope.cancel()
        await llm.aclose()
    USAGE_RECORDER.reset(before)
    assert told == [spent()]


async def complete(llm: LiteLLM) -> None:
    await attempt(llm.complete(QUESTION))
