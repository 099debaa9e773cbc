"""Streams: pieces, the assembled answer, breaks, early ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import aclosing

import anyio
import anyio.lowlevel
import pytest
from returns.result import Result, Success

from reactive_agents.adapters.llm.litellm_adapter import LiteLLM
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import (
    AuthenticationFailed,
    LLMErrors,
    MalformedResponse,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    RequestRejected,
)
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall, UserMessage
from reactive_agents.core.models import (
    ModelChunk,
    ModelRequest,
    ModelResponse,
    StreamCompleted,
    StreamRestarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
)
from reactive_agents.core.usage import unknown_usage
from reactive_agents.ports import Clock
from reactive_agents.testing import FakeClock
from tests.support.openai_server import Answer, Call, OpenAIServer, Raw, Reply, refusal, sent_events
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("without_backoff")]

MODEL = "openai/gpt-4o-mini"
QUESTION = ModelRequest((UserMessage("What now?"),))


def adapter(
    server: OpenAIServer, *, timeout_s: float = 5.0, max_attempts: int = 2, clock: Clock | None = None
) -> LiteLLM:
    return LiteLLM(
        ModelConfig(
            model=MODEL,
            api_key="k",
            base_url=server.base_url,
            timeout_s=timeout_s,
            max_attempts=max_attempts,
            fallbacks=(),
        ),
        clock=clock,
    )


async def streamed(
    *replies: Reply, timeout_s: float = 5.0, max_attempts: int = 2
) -> list[Result[ModelChunk, LLMErrors]]:
    with OpenAIServer(*replies) as server:
        llm = adapter(server, timeout_s=timeout_s, max_attempts=max_attempts)
        chunks = [chunk async for chunk in llm.stream(QUESTION)]
        await llm.aclose()
        assert all(request.body["stream_options"] == {"include_usage": True} for request in server.requests)
    return chunks


async def test_an_answer_that_is_there_at_once_lets_others_of_the_loop_go_on() -> None:
    pieces = [list(Answer(f"It is {number}. ").pieces()) for number in range(150)]
    many = sent_events([*(each for piece in pieces for each in piece[:-2]), *pieces[0][-2:]], done=True)
    others, deltas = 0, list[int]()

    async def go_on() -> None:
        nonlocal others
        while True:
            await anyio.lowlevel.checkpoint()
            others += 1

    with OpenAIServer(many) as server:
        llm = adapter(server)
        async with anyio.create_task_group() as group:
            group.start_soon(go_on)
            async with aclosing(llm.stream(QUESTION)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk.unwrap(), TextDelta):
                        deltas.append(others)
            group.cancel_scope.cancel()
        await llm.aclose()
    assert len(deltas) > 200
    assert max(Counter(deltas).values()) < 3  # deltas without a turn of the others between them


def cut_short(answer: Answer) -> Raw:
    """A stream whose connection is closed in good order before the finish reason."""
    return sent_events(piece for piece in list(answer.pieces())[:-2])


def completed(chunk: Result[ModelChunk, LLMErrors]) -> ModelResponse:
    last = chunk.unwrap()
    assert isinstance(last, StreamCompleted)
    return last.response


async def test_text_and_thinking_arrive_in_pieces_and_whole_with_usage_and_cost() -> None:
    *pieces, last = await streamed(Answer("hello", reasoning="hm"))
    assert pieces == [
        Success(ThinkingDelta("h")),
        Success(ThinkingDelta("m")),
        Success(TextDelta("hel")),
        Success(TextDelta("lo")),
    ]
    assert completed(last) == ModelResponse(
        "hello", MODEL, thinking="hm", usage=Usage(11, 7, 18), cost_usd=5.85e-06
    )


async def test_tool_calls_arrive_in_pieces_and_whole() -> None:
    calls = (Call("add", '{"a":1}', id="x"), Call("sub", "{oops", id=None))
    *pieces, last = await streamed(Answer(calls=calls))
    assert pieces == [
        Success(ToolCallDelta(0, "add", '{"a"')),
        Success(ToolCallDelta(0, "", ":1}")),
        Success(ToolCallDelta(1, "sub", "{oo")),
        Success(ToolCallDelta(1, "", "ps")),
    ]
    answer = completed(last)
    assert answer.finish_reason == "tool_calls"
    assert answer.tool_calls == (
        ToolCall(CallId("x"), "add", {"a": 1}),
        ToolCall(CallId("call-1"), "sub", malformed="{oops"),
    )


def of_deltas(*deltas: dict[str, object]) -> Raw:
    """A whole stream of these deltas."""
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    ended = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return sent_events({"id": "x", "model": "m", "choices": [choice]} for choice in (*choices, ended))


@pytest.mark.parametrize("numbered", [{"index": 0}, {}], ids=["the same number", "no number"])
async def test_whole_calls_without_ids_are_told_apart(numbered: dict[str, object]) -> None:
    def part(arguments: str, name: str = "add") -> dict[str, object]:
        function = {"name": name, "arguments": arguments}
        return {"tool_calls": [{**numbered, "type": "function", "function": function}]}

    *_, last = await streamed(of_deltas(part('{"a": 1}'), part('{"a": 2}')))
    assert [call.arguments for call in completed(last).tool_calls] == [{"a": 1}, {"a": 2}]
    *_, last = await streamed(of_deltas(part('{"a": '), part("1}"), part(" ", "")))
    assert [call.arguments for call in completed(last).tool_calls] == [{"a": 1}]


async def test_a_name_in_pieces_and_ids_that_change_make_one_call() -> None:
    def part(identity: str, name: str | None, arguments: str | None) -> dict[str, object]:
        function = {"name": name, "arguments": arguments}
        return {"tool_calls": [{"index": 0, "id": identity, "type": "function", "function": function}]}

    async def calls(*parts: dict[str, object]) -> list[tuple[str, object]]:
        *_, last = await streamed(of_deltas(*parts))
        return [(call.name, call.arguments) for call in completed(last).tool_calls]

    assert await calls(part("x", "get_", ""), part("x", "price", None)) == [("get_price", {})]
    assert await calls(part("x", "add", '{"a": '), part("y", None, "1}")) == [("add", {"a": 1})]
    assert await calls(part("x", "add", '{"a": '), part("x", "add", "1}")) == [("add", {"a": 1})]
    in_turn = (
        part("", "add", ""),
        part("", None, '{"a": 1}'),
        part("", "sub", ""),
        part("", None, '{"b": 2}'),
    )
    assert await calls(*in_turn) == [("add", {"a": 1}), ("sub", {"b": 2})]


async def test_halves_of_surrogate_pairs_are_joined_across_pieces_or_replaced() -> None:
    call = Call("add", '{"a":"\ud83d\ude42b"}\ud83d', id="x")
    answer = Answer("\ud83d\ude42", (call,), reasoning="hm \ud83d", usage=None)
    *pieces, last = await streamed(answer)
    shown = [chunk.unwrap() for chunk in pieces]
    assert "".join(piece.text for piece in shown if isinstance(piece, TextDelta)) == "🙂"
    assert "".join(piece.text for piece in shown if isinstance(piece, ThinkingDelta)) == "hm \ufffd"
    sent = [piece.arguments for piece in shown if isinstance(piece, ToolCallDelta)]
    assert "".join(sent) == '{"a":"🙂b"}\ufffd'
    whole = completed(last)
    assert (whole.content, whole.thinking) == ("🙂", "hm \ufffd")
    assert whole.tool_calls[0].malformed == "".join(sent)


async def test_usage_that_was_not_sent_is_not_invented() -> None:
    answer = completed((await streamed(Answer("hello", usage=None)))[-1])
    assert (answer.usage, answer.cost_usd) == (Usage(reported=False), None)


async def test_an_unknown_finish_reason_is_other() -> None:
    assert completed((await streamed(Answer("hello", finish_reason="bored")))[-1]).finish_reason == "other"


async def test_a_broken_stream_starts_again() -> None:
    chunks = await streamed(Answer("hello", cut_after=1), Answer("hello"))
    first, restarted, *rest = (chunk.unwrap() for chunk in chunks)
    assert first == TextDelta("hel")
    assert isinstance(restarted, StreamRestarted)
    assert rest[:2] == [TextDelta("hel"), TextDelta("lo")]
    assert completed(chunks[-1]).content == "hello"


async def test_a_stream_that_keeps_breaking_ends_in_a_failure() -> None:
    chunks = await streamed(*[Answer("hello", cut_after=1)] * 2)
    assert [type(chunk.unwrap()) for chunk in chunks[:-1]] == [TextDelta, StreamRestarted, TextDelta]
    assert isinstance(chunks[-1].failure(), ModelUnavailable)


@pytest.mark.parametrize(
    "answer",
    [Answer("The capital is"), Answer(reasoning="I think"), Answer(calls=(Call("add", '{"a":1}'),))],
    ids=["text", "thinking", "call"],
)
async def test_a_stream_that_ends_without_a_reason_broke_off(answer: Answer) -> None:
    (*_, last) = await streamed(cut_short(answer), max_attempts=1)
    message = f"The stream of {MODEL} broke off before the answer was complete."
    assert last.failure() == MalformedResponse(message, MODEL, refused=(unknown_usage(MODEL),))


async def test_a_stream_that_broke_off_starts_again() -> None:
    chunks = [chunk.unwrap() for chunk in await streamed(cut_short(Answer("hello")), Answer("hello"))]
    kinds: list[Callable[..., object]] = [type(chunk) for chunk in chunks]
    assert kinds == [TextDelta, TextDelta, StreamRestarted, TextDelta, TextDelta, StreamCompleted]


async def test_usage_beside_a_piece_does_not_end_a_stream() -> None:
    first, second, *_, usage = Answer("hello").pieces()
    pieces = [{**piece, "usage": usage["usage"]} for piece in (first, second)]
    *_, last = await streamed(sent_events(pieces), max_attempts=1)
    assert isinstance(last.failure(), MalformedResponse)
    *_, last = await streamed(sent_events([usage, first, second]), max_attempts=1)
    assert isinstance(last.failure(), MalformedResponse)


async def test_a_stream_that_ends_with_its_usage_needs_no_reason() -> None:
    first, second, _, usage = Answer("hello").pieces()
    *_, last = await streamed(sent_events([first, second, usage], done=True), max_attempts=1)
    assert completed(last) == ModelResponse(
        "hello", MODEL, usage=Usage(11, 7, 18), finish_reason="other", cost_usd=5.85e-06
    )


async def test_a_refusal_before_the_first_piece_is_retried_in_silence() -> None:
    busy = refusal(429, "slow down", headers={"retry-after": "0.05"})
    chunks = await streamed(busy, Answer("hello"))
    assert [type(chunk.unwrap()) for chunk in chunks] == [TextDelta, TextDelta, StreamCompleted]
    assert isinstance((await streamed(busy, busy))[0].failure(), RateLimited)


@pytest.mark.parametrize("reply", [Raw(200, "<html>oops</html>"), Answer(choices=False)])
async def test_a_stream_that_is_none_is_malformed(reply: Reply) -> None:
    (chunk,) = await streamed(reply, max_attempts=1)
    assert isinstance(chunk.failure(), MalformedResponse)


@pytest.mark.parametrize("silent", [Answer("hello", delay_s=600), Answer("hello", stalls_after=2)])
async def test_a_stream_that_stalls_times_out(silent: Answer) -> None:
    *_, last = await streamed(silent, timeout_s=0.2, max_attempts=1)
    assert isinstance(last.failure(), ModelTimeout)


async def test_the_time_limit_is_for_silence_and_not_for_the_whole_stream() -> None:
    with OpenAIServer(Answer("hello")) as server:
        llm = adapter(server, max_attempts=1, clock=FakeClock(step_s=4.0))
        chunks = [chunk async for chunk in llm.stream(QUESTION)]
        await llm.aclose()
    assert completed(chunks[-1]).content == "hello"


async def test_a_slow_reader_does_not_use_up_the_timeout() -> None:
    clock = FakeClock()
    with OpenAIServer(Answer("hello")) as server:
        llm = adapter(server, max_attempts=1, clock=clock)
        chunks = []
        async for chunk in llm.stream(QUESTION):
            chunks.append(chunk)
            clock.advance(600)
        await llm.aclose()
    assert completed(chunks[-1]).content == "hello"


async def test_closing_a_stream_early_closes_the_connection() -> None:
    with OpenAIServer(Answer("a long story", delay_s=0.05)) as server:
        llm = adapter(server)
        stream = llm.stream(QUESTION)
        async with aclosing(stream):
            async for _ in stream:
                break
        await until(server.hung_up.is_set)
        await llm.aclose()


async def test_cancelling_a_stream_closes_the_connection() -> None:
    async def read(llm: LiteLLM) -> None:
        async for _ in llm.stream(QUESTION):
            pass

    with OpenAIServer(Answer("a long story", delay_s=600)) as server:
        llm = adapter(server)
        async with anyio.create_task_group() as group:
            group.start_soon(read, llm)
            await until(server.asked.is_set)
            group.cancel_scope.cancel()
        await until(server.hung_up.is_set)
        await llm.aclose()


async def test_a_stream_without_a_key_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    llm = LiteLLM(ModelConfig("openai", "gpt-4o"))
    (only,) = [chunk async for chunk in llm.stream(QUESTION)]
    assert only.failure() == AuthenticationFailed(
        "No key for openai/gpt-4o: set the environment variable OPENAI_API_KEY, or give an api_key.",
        "openai/gpt-4o",
        "OPENAI_API_KEY",
    )


async def test_a_content_policy_refusal_ends_the_matter() -> None:
    unsafe = refusal(400, "rejected as a result of our safety system", code="content_policy_violation")
    (only,) = await streamed(unsafe)
    assert isinstance(only.failure(), RequestRejected)


@pytest.mark.parametrize("broken", [Answer("hello", cut_after=1), cut_short(Answer("h"))])
async def test_a_broken_stream_goes_on_with_the_fallback(broken: Reply) -> None:
    with OpenAIServer(broken, Answer("hi")) as server:
        config = ModelConfig(
            model=MODEL,
            api_key="k",
            base_url=server.base_url,
            max_attempts=1,
            fallbacks=("openai/gpt-4o",),
        )
        llm = LiteLLM(config)
        chunks = [chunk.unwrap() async for chunk in llm.stream(QUESTION)]
        await llm.aclose()
    kinds: list[Callable[..., object]] = [type(chunk) for chunk in chunks]
    assert kinds == [TextDelta, StreamRestarted, TextDelta, TextDelta, StreamCompleted]
    assert completed(Success(chunks[-1])).model == "openai/gpt-4o"
