"""The litellm adapter against a real server: answers, retries, timeouts, fallbacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from attrs import evolve
from returns.result import Failure, Result, Success
from stamina.instrumentation import set_on_retry_hooks

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
from reactive_agents.core.models import ModelRequest, ModelResponse, StreamCompleted, Usage
from reactive_agents.core.usage import total_usage, unknown_usage
from reactive_agents.effects import attempt
from reactive_agents.testing.core import FakeClock
from tests.support.openai_server import Answer, Call, OpenAIServer, Raw, refusal
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

MODEL = "openai/gpt-4o-mini"
QUESTION = ModelRequest((UserMessage("What now?"),))
SLOW_DOWN = refusal(429, "slow down", headers={"retry-after": "0.05"})


def configured(
    server: OpenAIServer, *, fallbacks: tuple[str, ...] = (), max_attempts: int = 3, timeout_s: float = 5.0
) -> ModelConfig:
    return ModelConfig(
        model=MODEL,
        api_key="test-key-123",
        base_url=server.base_url,
        fallbacks=fallbacks,
        max_attempts=max_attempts,
        timeout_s=timeout_s,
    )


async def ask(config: ModelConfig, request: ModelRequest = QUESTION) -> Result[ModelResponse, LLMErrors]:
    llm = LiteLLM(config)
    try:
        return await attempt(llm.complete(request))
    finally:
        await llm.aclose()


async def test_an_answer_has_its_text_model_usage_and_cost() -> None:
    with OpenAIServer(Answer("Forty-two.")) as server:
        answer = await ask(configured(server))
    assert answer == Success(ModelResponse("Forty-two.", MODEL, usage=Usage(11, 7, 18), cost_usd=5.85e-06))
    assert server.requests[0].headers["authorization"] == "Bearer test-key-123"
    assert server.requests[0].path == "/v1/chat/completions"


async def test_the_price_of_an_unlisted_model_is_unknown() -> None:
    with OpenAIServer(Answer("Yes.")) as server:
        config = ModelConfig("openai", "house-brand", api_key="k", base_url=server.base_url)
        answer = (await ask(config)).unwrap()
    assert (answer.model, answer.cost_usd, answer.usage.total_tokens) == ("openai/house-brand", None, 18)


async def test_usage_that_was_not_sent_is_not_invented() -> None:
    with OpenAIServer(Answer("Yes.", usage=None)) as server:
        answer = (await ask(configured(server))).unwrap()
    assert (answer.usage, answer.cost_usd) == (Usage(reported=False), None)


@pytest.mark.parametrize(
    "usage", [(-5, 7), (5, -7), (10**30, 1), (10**400, 1)], ids=["read", "written", "huge", "endless"]
)
async def test_usage_that_cannot_be_is_not_believed(usage: tuple[int, int]) -> None:
    with OpenAIServer(Answer("Yes.", usage=usage)) as server:
        config = ModelConfig(model="deepseek/deepseek-chat", api_key="k", base_url=server.base_url)
        answer = (await ask(config)).unwrap()
    assert (answer.content, answer.usage, answer.cost_usd) == ("Yes.", Usage(reported=False), None)


@pytest.mark.parametrize(
    "details",
    [
        {"prompt_tokens_details": {"cached_tokens": 12}},
        {"prompt_tokens_details": {"cached_tokens": -12}},
        {"prompt_tokens_details": {"cached_tokens": 10**9}},
        {"prompt_tokens_details": {"cached_tokens": 10**400}},
        {"completion_tokens_details": {"audio_tokens": 10**9}},
        {"completion_tokens_details": {"reasoning_tokens": -5}},
    ],
    ids=str,
)
@pytest.mark.parametrize("streaming", [False, True])
async def test_details_of_usage_that_cannot_be_leave_the_price_unknown(
    details: dict[str, Any], streaming: bool, caplog: pytest.LogCaptureFixture
) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18, **details}
    if streaming:
        head: dict[str, Any] = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        said = {"index": 0, "delta": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
        chunks = ({**head, "choices": [said]}, {**head, "choices": [], "usage": usage})
        events = "".join(f"data: {each}\n\n" for each in (*map(json.dumps, chunks), "[DONE]"))
        reply = Raw(200, events, {"content-type": "text/event-stream"})
    else:
        reply = Raw(200, json.dumps({**Answer("Yes.").body(), "usage": usage}))
    with OpenAIServer(reply) as server:
        llm = LiteLLM(configured(server))
        if streaming:
            *_, last = [chunk async for chunk in llm.stream(QUESTION)]
            completed = last.unwrap()
            assert isinstance(completed, StreamCompleted)
            answer = completed.response
        else:
            answer = (await attempt(llm.complete(QUESTION))).unwrap()
        await llm.aclose()
    assert (answer.usage, answer.cost_usd) == (Usage(11, 7, 18), None)
    assert caplog.messages[0].startswith(f"{MODEL} reports a usage that cannot be: ")


async def test_a_total_is_at_least_the_sum_of_its_parts() -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 1}
    with OpenAIServer(Raw(200, json.dumps({**Answer("Yes.").body(), "usage": usage}))) as server:
        answer = (await ask(configured(server))).unwrap()
    assert answer.usage == Usage(11, 7, 18)


@pytest.mark.parametrize(("given", "kept"), [(7, 7), (0, 0), (999, 0), (-1, 0)])
async def test_reasoning_tokens_are_those_of_the_provider(given: int, kept: int) -> None:
    body = Answer("Yes.").body()
    details = {"reasoning_tokens": given}
    body["usage"] = {"prompt_tokens": 11, "completion_tokens": 9, "completion_tokens_details": details}
    with OpenAIServer(Raw(200, json.dumps(body)), Raw(200, json.dumps(body))) as server:
        answers = [(await ask(configured(server))).unwrap() for _ in range(2)]
    assert answers[0].usage == Usage(11, 9, 20, reasoning_tokens=kept)
    total = total_usage(part for each in answers for part in each.spent)
    assert (total.usage, total.since(*answers[0].spent).usage) == (
        answers[0].usage + answers[1].usage,
        answers[1].usage,
    )
    assert total.usage.reasoning_tokens == 2 * kept


async def test_a_refusal_in_a_field_of_its_own_is_the_text_of_the_answer() -> None:
    message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    body = {**Answer().body(), "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    with OpenAIServer(Raw(200, json.dumps(body))) as server:
        answer = (await ask(configured(server))).unwrap()
    assert (answer.content, answer.finish_reason) == ("I cannot help with that.", "stop")


async def test_parallel_tool_calls_come_with_their_arguments() -> None:
    calls = (Call("add", {"a": 1}, id="x"), Call("now", "", id="y"))
    with OpenAIServer(Answer(calls=calls)) as server:
        answer = (await ask(configured(server))).unwrap()
    assert answer.content == ""
    assert answer.finish_reason == "tool_calls"
    assert answer.tool_calls == (ToolCall(CallId("x"), "add", {"a": 1}), ToolCall(CallId("y"), "now"))


@pytest.mark.parametrize("text", ['{"a": 1', "[1]", "null", "rm -rf", '{"a": NaN}'])
async def test_arguments_that_are_no_json_object_are_kept_as_text(text: str) -> None:
    with OpenAIServer(Answer(calls=(Call("add", text),))) as server:
        (call,) = (await ask(configured(server))).unwrap().tool_calls
    assert (call.arguments, call.malformed) == ({}, text)


async def test_reasoning_and_text_are_kept_apart_and_think_tags_left_alone() -> None:
    with OpenAIServer(Answer("<think>a</think>b", reasoning="because")) as server:
        answer = (await ask(configured(server))).unwrap()
    assert (answer.content, answer.thinking) == ("<think>a</think>b", "because")


async def test_halves_of_surrogate_pairs_in_an_answer_are_joined_or_replaced() -> None:
    escaped = Call("add\ud800", r'{"a": "\ud83d", "b": "\ud83d\ude42"}', id="x")
    calls = (escaped, Call("add", "{\udfff", id="y"))
    with OpenAIServer(Answer("so \ud83d\ude42 \ud83d", calls, reasoning="hm \ude42")) as server:
        answer = (await ask(configured(server))).unwrap()
    assert (answer.content, answer.thinking) == ("so 🙂 \ufffd", "hm \ufffd")
    assert answer.tool_calls == (
        ToolCall(CallId("x"), "add\ufffd", {"a": "\ufffd", "b": "🙂"}),
        ToolCall(CallId("y"), "add", malformed="{\ufffd"),
    )


@pytest.mark.parametrize(
    ("sent", "read"), [("length", "length"), ("content_filter", "content_filter"), ("bored", "other")]
)
async def test_finish_reasons(sent: str, read: str) -> None:
    with OpenAIServer(Answer("Well", finish_reason=sent)) as server:
        assert (await ask(configured(server))).unwrap().finish_reason == read


@pytest.fixture
def waits() -> Iterator[list[float]]:
    """The seconds that were waited before each further attempt."""
    waited: list[float] = []
    set_on_retry_hooks([lambda retry: waited.append(retry.wait_for)])
    yield waited
    set_on_retry_hooks(None)


async def test_a_rate_limit_is_waited_out(waits: list[float]) -> None:
    with OpenAIServer(SLOW_DOWN, SLOW_DOWN, Answer("At last.")) as server:
        answer = (await ask(configured(server))).unwrap()
    assert answer.content == "At last."
    assert len(server.requests) == 3
    assert waits == [0.05, 0.05]


async def test_a_rate_limit_longer_than_the_timeout_is_not_waited_for() -> None:
    with OpenAIServer(refusal(429, "slow down", headers={"retry-after": "60"})) as server:
        answer = await ask(configured(server))
    error = answer.failure()
    assert isinstance(error, RateLimited)
    assert (error.retry_after_s, len(server.requests)) == (60.0, 1)


async def test_a_spent_quota_is_not_asked_again() -> None:
    with OpenAIServer(refusal(429, "no credit", code="insufficient_quota"), Answer("Never asked.")) as server:
        answer = await ask(configured(server))
    assert isinstance(answer.failure(), RateLimited)
    assert len(server.requests) == 1


async def test_a_provider_that_is_down_says_how_long_to_wait(waits: list[float]) -> None:
    with OpenAIServer(refusal(503, headers={"retry-after": "0.01"}), Answer("At last.")) as server:
        assert (await ask(configured(server))).unwrap().content == "At last."
    assert waits == [0.01]  # unasked it would be 0.2 at least


@pytest.mark.parametrize("reply", [refusal(500), refusal(504), refusal(529)])
async def test_no_wait_longer_than_the_timeout_is_waited(reply: Raw) -> None:
    with OpenAIServer(evolve(reply, headers={"retry-after": "60"}), Answer("Never asked.")) as server:
        assert isinstance(await ask(configured(server)), Failure)
    assert len(server.requests) == 1


async def test_an_outage_longer_than_the_timeout_is_not_waited_for_but_a_fallback_is_asked() -> None:
    down = refusal(503, "down for an hour", headers={"retry-after": "3600"})
    with OpenAIServer(down, Answer("I can.")) as server:
        answer = (await ask(configured(server, fallbacks=("openai/gpt-4o",)))).unwrap()
    assert answer.model == "openai/gpt-4o"
    assert [request.body["model"] for request in server.requests] == ["gpt-4o-mini", "gpt-4o"]


@pytest.mark.usefixtures("without_backoff")
async def test_a_server_error_and_a_body_that_is_no_json_are_retried() -> None:
    broken = Raw(200, "<html>oops</html>")
    with OpenAIServer(refusal(500), broken, Answer("Fine.")) as server:
        assert (await ask(configured(server))).unwrap().content == "Fine."
    assert len(server.requests) == 3


async def test_attempts_are_counted_per_model() -> None:
    with OpenAIServer(*[SLOW_DOWN] * 5) as server:
        answer = await ask(configured(server, max_attempts=2))
    assert isinstance(answer.failure(), RateLimited)
    assert len(server.requests) == 2


async def test_a_slow_answer_is_a_timeout_and_each_attempt_has_its_own() -> None:
    with OpenAIServer(Answer("late", delay_s=600), Answer("Quick.")) as server:
        assert (await ask(configured(server, timeout_s=1.0))).unwrap().content == "Quick."
        await until(server.hung_up.is_set)
    with OpenAIServer(Answer("late", delay_s=600)) as server:
        answer = await ask(configured(server, timeout_s=0.15, max_attempts=1))
    message = f"{MODEL} did not answer within 0.15 seconds."
    assert answer == Failure(ModelTimeout(message, MODEL, 0.15, refused=(unknown_usage(MODEL),)))


async def test_a_rejected_request_is_not_repeated_but_a_fallback_is_asked() -> None:
    with OpenAIServer(refusal(404, "no such model"), Answer("I can.", model="gpt-4o")) as server:
        answer = (await ask(configured(server, fallbacks=("gpt-4o",)))).unwrap()
    assert (answer.content, answer.model) == ("I can.", "openai/gpt-4o")
    assert [request.body["model"] for request in server.requests] == ["gpt-4o-mini", "gpt-4o"]


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_model_that_is_down_is_called_once_by_each_request_before_its_fallback(
    streaming: bool,
) -> None:
    down, clock = refusal(503, "down", headers={"retry-after": "0.01"}), FakeClock()
    there = Answer("I can.", model="gpt-4o")
    turns = [down, down, down, there, down, there, down, there, down, down, Answer("Back."), down, down, down]
    with OpenAIServer(*turns, there) as server:
        llm = LiteLLM(configured(server, fallbacks=("gpt-4o",)), clock=clock)

        async def asked() -> list[str]:
            """Return the models that were called for an answer."""
            before = len(server.requests)
            if streaming:
                chunks = [chunk async for chunk in llm.stream(QUESTION)]
                assert isinstance(chunks[-1].unwrap(), StreamCompleted)
            else:
                assert isinstance(await attempt(llm.complete(QUESTION)), Success)
            return [each.body["model"] for each in server.requests[before:]]

        called = [await asked() for _ in range(3)]
        clock.advance(61)
        called += [await asked(), await asked()]
        await llm.aclose()
    first, second = "gpt-4o-mini", "gpt-4o"
    assert called == [
        [first] * 3 + [second],
        [first, second],
        [first, second],
        [first] * 3,
        [first] * 3 + [second],
    ]


async def test_when_all_models_fail_the_first_error_comes_back_and_names_the_others() -> None:
    with OpenAIServer(refusal(500, "down"), refusal(401, "bad key")) as server:
        error = (await ask(configured(server, fallbacks=("openai/gpt-4o",), max_attempts=1))).failure()
    assert isinstance(error, ModelUnavailable)
    assert error.status == 500
    assert "status 500: down. The fallbacks failed too: " in error.message
    assert "openai/gpt-4o refused the key" in error.message


@pytest.mark.parametrize("code", ["content_policy_violation", "content_filter"])
async def test_a_content_policy_refusal_ends_the_matter(code: str) -> None:
    unsafe = refusal(400, "rejected as a result of our safety system", code=code)
    with OpenAIServer(unsafe, Answer("Never asked.")) as server:
        error = (await ask(configured(server, fallbacks=("openai/gpt-4o",)))).failure()
    assert isinstance(error, RequestRejected)
    assert len(server.requests) == 1


async def test_a_fallback_at_another_provider_gets_neither_key_nor_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with OpenAIServer(refusal(401, "bad key")) as server:
        error = (await ask(configured(server, fallbacks=("groq/fast",)))).failure()
    assert isinstance(error, AuthenticationFailed)
    assert "GROQ_API_KEY" in error.message
    assert len(server.requests) == 1


async def test_a_missing_key_is_told_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with OpenAIServer(Answer("Never asked.")) as server:
        answer = await ask(ModelConfig(model="gpt-4o", base_url=server.base_url))
    error = answer.failure()
    assert isinstance(error, AuthenticationFailed)
    assert (error.missing, server.requests) == ("OPENAI_API_KEY", [])


async def test_the_key_of_a_provider_that_only_litellm_knows_is_missed_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NVIDIA_NIM_API_KEY", raising=False)
    error = (await ask(ModelConfig("nvidia_nim", "some/model"))).failure()
    assert isinstance(error, AuthenticationFailed)
    assert error.missing == "NVIDIA_NIM_API_KEY"


async def test_a_request_may_name_another_model() -> None:
    with OpenAIServer(Answer("Yes.", model="gpt-4o")) as server:
        request = ModelRequest((UserMessage("?"),), model="gpt-4o")
        answer = (await ask(configured(server), request)).unwrap()
    assert (answer.model, server.requests[0].body["model"]) == ("openai/gpt-4o", "gpt-4o")


async def test_an_answer_without_choices_is_malformed() -> None:
    with OpenAIServer(Answer(choices=False)) as server:
        error = (await ask(configured(server, max_attempts=1))).failure()
    assert isinstance(error, MalformedResponse)


def test_the_model_has_its_full_name() -> None:
    assert LiteLLM(ModelConfig(model="gpt-4o")).model == "openai/gpt-4o"
    assert LiteLLM(ModelConfig(provider="anthropic")).model.startswith("anthropic/claude-")


async def test_a_model_without_a_name_is_refused() -> None:
    error = (await ask(ModelConfig())).failure()
    assert isinstance(error, RequestRejected)
    assert error.message == "No model is configured: name a model or a provider."


async def test_cancellation_passes_through_and_closes_the_connection() -> None:
    with OpenAIServer(Answer("late", delay_s=600)) as server:
        async with anyio.create_task_group() as group:
            group.start_soon(ask, configured(server))
            await until(server.asked.is_set)
            group.cancel_scope.cancel()
        await until(server.hung_up.is_set)
    assert len(server.requests) == 1
