"""Limits of requests and tokens a minute: waiting, order, threads, cancellation."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from reactive_agents import AgentError, ModelSettings, ReactiveAgents
from reactive_agents.adapters.llm.litellm_adapter import LiteLLM, load_litellm
from reactive_agents.adapters.llm.rate_limit import (
    LIMITS,
    Admitted,
    KeyUsage,
    LimitKind,
    RateLimits,
    _Waiting,
    estimated_tokens,
)
from reactive_agents.core.bases import NOT_SENT, PUBLISH
from reactive_agents.core.config import ModelConfig, RateLimit
from reactive_agents.core.errors import DecodeError, RateLimited
from reactive_agents.core.events import ModelCallAbandoned, ModelCallDelayed
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import ModelRequest, Usage
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock, ScriptedLLM, say
from tests.support.openai_server import Answer, OpenAIServer, refusal
from tests.support.virtual_time import LoopClock, in_virtual_time

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("without_backoff")]
QUESTION = ModelRequest((UserMessage("What now?"),))


async def admit(
    usage: KeyUsage, limit: RateLimit, tokens: int = 0, told: list[tuple[LimitKind, float]] | None = None
) -> float:
    """Seconds of virtual time at which the request was admitted."""

    def tell(kind: LimitKind, wait_s: float) -> None:
        if told is not None:
            told.append((kind, wait_s))

    return (await usage.admit(limit, tokens, LoopClock(), tell)).at


@in_virtual_time
async def test_no_minute_has_more_requests_than_the_limit() -> None:
    usage, limit = KeyUsage(), RateLimit(requests_per_minute=2)
    told: list[tuple[LimitKind, float]] = []
    times = [await admit(usage, limit, told=told)]
    await anyio.sleep(10)
    times += [await admit(usage, limit, told=told) for _ in range(4)]
    assert times == [0, 10, 60, 70, 120]
    assert told == [("requests", 50), ("requests", 10), ("requests", 50)]


@in_virtual_time
async def test_tokens_are_limited_and_one_request_that_is_too_large_goes_alone() -> None:
    usage, limit = KeyUsage(), RateLimit(tokens_per_minute=100)
    told: list[tuple[LimitKind, float]] = []
    times = [await admit(usage, limit, tokens, told) for tokens in (60, 40, 10, 500, 1)]
    assert times == [0, 0, 60, 120, 180]
    assert [kind for kind, _ in told] == ["tokens", "tokens", "tokens"]


@in_virtual_time
async def test_tokens_that_were_not_needed_let_the_next_go_at_once() -> None:
    usage, limit = KeyUsage(), RateLimit(tokens_per_minute=100)
    first = await usage.admit(limit, 90, LoopClock(), lambda *_: None)
    async with anyio.create_task_group() as group:
        times: list[float] = []

        async def second() -> None:
            times.append(await admit(usage, limit, 50))

        group.start_soon(second)
        await anyio.sleep(5)
        usage.settle(first, 20)
    assert times == [5]


@in_virtual_time
async def test_who_comes_first_is_served_first() -> None:
    usage, limit = KeyUsage(), RateLimit(requests_per_minute=1)
    await admit(usage, limit)
    order: list[int] = []
    told: list[tuple[LimitKind, float]] = []

    async def ask(number: int) -> None:
        await admit(usage, limit, told=told)
        order.append(number)

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(ask, number)
            await anyio.lowlevel.checkpoint()
    assert order == [0, 1, 2, 3]
    assert anyio.current_time() == 240
    assert [wait_s for _, wait_s in told] == [60, 60, 60, 60]


@in_virtual_time
async def test_one_that_is_cancelled_while_it_waits_holds_up_nobody() -> None:
    usage, limit = KeyUsage(), RateLimit(requests_per_minute=1)
    await admit(usage, limit)
    times: list[float] = []

    async def last() -> None:
        times.append(await admit(usage, limit))

    async with anyio.create_task_group() as group:
        with anyio.move_on_after(5) as scope:
            await admit(usage, limit)
        assert scope.cancelled_caught
        group.start_soon(last)
        await anyio.sleep(1)
        with anyio.move_on_after(1):
            await admit(usage, limit)
    assert times == [60]
    assert not usage._queue


async def test_agents_of_two_threads_with_loops_of_their_own_share_a_limit() -> None:
    usage, limit, clock = KeyUsage(), RateLimit(requests_per_minute=1), FakeClock()
    taken = await usage.admit(limit, 0, clock, lambda *_: None)
    order: list[str] = []
    waiting = {name: threading.Event() for name in ("first", "second")}

    def run(name: str) -> None:
        async def ask() -> None:
            await usage.admit(limit, 0, clock, lambda *_: waiting[name].set())
            order.append(name)
            clock.advance(60)

        anyio.run(ask)

    threads = [threading.Thread(target=run, args=(name,)) for name in waiting]
    for thread, name in zip(threads, waiting, strict=True):
        thread.start()
        await anyio.to_thread.run_sync(waiting[name].wait)
    clock.advance(60)
    usage.settle(taken, 0)  # wakes the first, whose end wakes the second
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join)
    assert order == ["first", "second"]
    assert not usage._queue


async def test_one_whose_loop_is_gone_holds_up_nobody() -> None:
    usage, limit, clock = KeyUsage(), RateLimit(requests_per_minute=1), FakeClock()
    await usage.admit(limit, 0, clock, lambda *_: None)
    told = threading.Event()

    def run() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(usage.admit(limit, 0, clock, lambda *_: told.set()))
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(asyncio.sleep(0))
        # as a program does that forgets it: neither cancelled nor closed
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        forgotten.append((loop, task))

    forgotten: list[Any] = []
    await anyio.to_thread.run_sync(run)
    assert told.is_set()
    assert len(usage._queue) == 1
    clock.advance(60)
    await usage.admit(limit, 0, clock, lambda *_: None)
    loop, task = forgotten[0]
    task.cancel()
    loop.run_until_complete(anyio.lowlevel.checkpoint()) if False else None
    loop.close()


def test_a_key_counts_by_itself_at_its_address() -> None:
    limits, environment = RateLimits(), {"OPENAI_API_KEY": "secret-of-env"}
    model = "openai/gpt-4o-mini"
    by_variable = limits.of(ModelConfig(model=model), model, environment)
    assert limits.of(ModelConfig(model="openai/o3", api_key="secret-of-env"), "openai/o3", environment) is (
        by_variable
    )
    others = [
        ModelConfig(model=model, api_key="another"),
        ModelConfig(model=model, base_url="http://127.0.0.1:1/v1"),
    ]
    assert all(limits.of(each, model, environment) is not by_variable for each in others)
    assert "secret-of-env" not in repr(limits.__dict__)


def test_tokens_are_estimated_by_the_request_and_its_longest_answer() -> None:
    request = ModelRequest((UserMessage("x" * 400),)).under(ModelSettings(max_tokens=50))
    assert estimated_tokens(request) == 150


async def test_each_attempt_counts_and_its_tokens_are_those_that_were_reported() -> None:
    limits = RateLimits()
    with OpenAIServer(refusal(503), Answer("Yes.", usage=(900, 100))) as server:
        config = ModelConfig(
            model="openai/house-brand",
            api_key="k",
            base_url=server.base_url,
            rate_limit=RateLimit(requests_per_minute=100, tokens_per_minute=5000),
        )
        llm = LiteLLM(config, limits=limits)
        (await attempt(llm.complete(QUESTION))).unwrap()
        await llm.aclose()
    usage = limits.of(config, "openai/house-brand")
    assert [each.tokens for each in usage._admitted] == [0, 1000]


async def test_a_request_that_waits_sends_nothing_and_can_be_cancelled() -> None:
    limits, events = RateLimits(), list[tuple[Any, ...]]()
    with OpenAIServer(Answer("Yes."), Answer("Yes.")) as server:
        config = ModelConfig(
            model="openai/house-brand",
            api_key="k",
            base_url=server.base_url,
            rate_limit=RateLimit(requests_per_minute=1),
        )
        first, second = LiteLLM(config, limits=limits), LiteLLM(config, limits=limits)
        await attempt(first.complete(QUESTION))
        token = PUBLISH.set(lambda *event: events.append(event))
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                async for _ in second.stream(QUESTION):
                    raise AssertionError("it was not to be asked")

            group.start_soon(ask)
            while not events:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        PUBLISH.reset(token)
        await first.aclose()
        await second.aclose()
    assert len(server.requests) == 1
    (kind, purpose, model, limit, wait_s) = events[0]
    assert (kind, purpose, model, limit) == (ModelCallDelayed, "think", "openai/house-brand", "requests")
    assert 0 < wait_s <= 60
    assert not limits.of(config, "openai/house-brand")._queue


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(("first", "is_unsent"), [(refusal(503), True), (Answer(choices=False), False)])
async def test_a_second_attempt_that_waits_was_not_sent_unless_the_first_is_charged(
    first: Answer, *, is_unsent: bool, streaming: bool
) -> None:
    events = list[tuple[Any, ...]]()
    with OpenAIServer(first) as server:
        config = ModelConfig(
            model="openai/house-brand",
            api_key="k",
            base_url=server.base_url,
            rate_limit=RateLimit(requests_per_minute=1),
        )
        llm = LiteLLM(config, limits=RateLimits())
        token = PUBLISH.set(lambda *event: events.append(event))

        async def ask() -> None:
            if streaming:
                async for _ in llm.stream(QUESTION):
                    pass
            else:
                await attempt(llm.complete(QUESTION))

        asking = asyncio.ensure_future(ask())
        while not events:
            await anyio.lowlevel.checkpoint()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError) as cut_off:
            await asking
        PUBLISH.reset(token)
        await llm.aclose()
    assert (NOT_SENT in getattr(cut_off.value, "__notes__", ())) == is_unsent


@in_virtual_time
async def test_waiting_counts_for_the_time_of_a_run() -> None:
    await load_litellm()
    agent = (
        ReactiveAgents.create()
        .with_model("openai/house-brand", api_key="key-of-this-test", base_url="http://127.0.0.1:9/v1")
        .with_rate_limit(requests_per_minute=1)
        .with_reasoning()
        .with_timeout(run=30)
        .build()
    )
    agent.container.core.clock.override(LoopClock())
    config = agent.container.model_config()
    await admit(LIMITS.of(config, "openai/house-brand"), RateLimit(requests_per_minute=1))
    events: list[Any] = []
    agent.subscribe(events.append)
    result = await agent.run("Hello?")
    assert (result.status, result.metadata.terminated_by) == ("partial", "deadline")
    assert anyio.current_time() == pytest.approx(30, abs=0.5)
    assert [event.wait_s for event in events if isinstance(event, ModelCallDelayed)] == [
        pytest.approx(60, abs=0.5)
    ]
    (abandoned,) = [event for event in events if isinstance(event, ModelCallAbandoned)]
    assert isinstance(abandoned.error, RateLimited)
    assert abandoned.error.message.endswith(
        "was cut off while it waited for its rate limit; it was not sent."
    )
    assert (abandoned.spent, result.metadata.usage) == ((), Usage())


class Ending:
    """An event loop of another thread that ends as soon as it was seen to run."""

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon_threadsafe(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("Event loop is closed")


def test_a_request_whose_event_loop_ends_fails_no_other() -> None:
    usage, ending = KeyUsage(), Ending()
    usage._queue.append(_Waiting(cast(Any, ending), asyncio.Event()))
    usage.settle(Admitted(usage, 0.0, 1), 2)


def test_limits_are_options_of_the_builder_and_of_files() -> None:
    builder = ReactiveAgents.create().with_model("offline").with_rate_limit(requests_per_minute=3)
    assert builder.config.model.rate_limit == RateLimit(3)
    read = ReactiveAgents.from_config({"model": {"model": "offline", "rate_limit": {"tokens_per_minute": 5}}})
    assert read.config.model.rate_limit == RateLimit(None, 5)
    with pytest.raises(AgentError) as caught:
        builder.with_rate_limit(tokens_per_minute=0).build()
    assert isinstance(caught.value.error, DecodeError)
    assert caught.value.error.problems[0].path == "$.model.rate_limit.tokens_per_minute"
    with pytest.raises(AgentError, match="a model object limits its own requests"):
        builder.with_llm(ScriptedLLM(say("x"))).build()
