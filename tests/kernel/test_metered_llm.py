"""Every model call is counted once, by the provider's own figures, and told once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from attrs import evolve
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import LLMErrors, MalformedResponse, ModelUnavailable, RateLimited
from reactive_agents.core.events import (
    ModelCallAbandoned,
    ModelCallCompleted,
    ModelCallStarted,
    ModelStreamRestarted,
    ModelTextStreamed,
    ModelThinkingStreamed,
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
    Usage,
)
from reactive_agents.core.usage import RunUsage, unknown_usage
from reactive_agents.effects import Effect, attempt
from reactive_agents.kernel import MeteredLLM, RunEvents
from reactive_agents.ports import LLM
from reactive_agents.testing import EventRecorder, FakeClock, InMemoryEventBus, ScriptedLLM, fail, say
from tests.support.kernels import RUN, TASK
from tests.support.virtual_time import Backend, virtual_time

pytestmark = pytest.mark.anyio
REQUEST = ModelRequest((UserMessage("Go on."),), purpose="plan", model="m/1")
THINK = evolve(REQUEST, purpose="think")
BUSY = RateLimited("Later.", "m/1")
UNKNOWN = Usage(reported=False)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


def metered(llm: LLM, *, streaming: bool = False) -> tuple[MeteredLLM, EventRecorder]:
    bus, recorder, clock = InMemoryEventBus(), EventRecorder(), FakeClock(step_s=0.5)
    bus.subscribe(recorder)
    return MeteredLLM(llm, RunEvents(bus, clock, RUN, TASK), clock, streaming=streaming), recorder


class Broken:
    """A model whose streams restart, and may end without their last chunk."""

    model = "broken/1"

    def __init__(self, *chunks: ModelChunk) -> None:
        self.chunks = chunks
        self.closed = 0

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        raise NotImplementedError

    async def stream(self, _: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        try:
            for chunk in self.chunks:
                yield Success(chunk)
        finally:
            self.closed += 1


async def test_a_call_is_told_with_purpose_model_usage_cost_and_duration() -> None:
    meter, recorder = metered(ScriptedLLM(say("3", usage=Usage(7, 2, 9), cost_usd=0.25)))
    assert (await attempt(meter.complete(REQUEST))).unwrap().content == "3"
    (started, event) = recorder.events
    assert isinstance(started, ModelCallStarted)
    assert (started.purpose, started.model) == ("plan", "m/1")
    assert isinstance(event, ModelCallCompleted)
    assert (event.purpose, event.model, event.usage) == ("plan", "m/1", Usage(7, 2, 9))
    assert (event.cost_usd, event.duration_ms) == (0.25, 1000.0)
    assert meter.usage == RunUsage("", Usage(7, 2, 9), 0.25, 1)
    assert meter.answered_by == "m/1"


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_call_that_fails_costs_nothing_that_is_known(streaming: bool) -> None:
    meter, recorder = metered(ScriptedLLM(fail(BUSY)), streaming=streaming)
    assert await attempt(meter.complete(REQUEST)) == Failure(BUSY)
    (_, event) = recorder.events
    assert isinstance(event, ModelCallAbandoned)
    assert (event.purpose, event.error) == ("plan", BUSY)
    assert meter.usage == RunUsage()


async def test_unknown_figures_stay_unknown_in_the_sum() -> None:
    meter, _ = metered(ScriptedLLM(say("a", usage=UNKNOWN, cost_usd=None), say("b", cost_usd=0.5), say("c")))
    await attempt(meter.complete(REQUEST))
    earlier = meter.usage
    assert (earlier.usage.reported, earlier.unpriced_calls, earlier.unreported_calls) == (False, 1, 1)
    await attempt(meter.complete(REQUEST))
    await attempt(meter.complete(REQUEST))
    assert meter.usage.usage == Usage(20, 10, 30, reported=False)
    assert (meter.usage.calls, meter.usage.cost_usd, meter.usage.unpriced_calls) == (3, 0.5, 1)
    since = meter.usage.since(earlier)
    assert since == RunUsage("", Usage(20, 10, 30, reported=True), 0.5, 2)
    assert meter.usage.since(RunUsage()) == meter.usage


async def test_the_model_is_the_services_own_where_the_request_names_none() -> None:
    meter, recorder = metered(ScriptedLLM(say("3"), model="s/1"))
    assert meter.model == "s/1"
    await attempt(meter.complete(evolve(REQUEST, model=None)))
    (started, _) = recorder.events
    assert isinstance(started, ModelCallStarted)
    assert started.model == "s/1"


async def test_a_streamed_answer_is_told_piece_by_piece_and_counted_once() -> None:
    meter, recorder = metered(ScriptedLLM(say("one two", thinking="hm")), streaming=True)
    assert (await attempt(meter.complete(THINK))).unwrap().content == "one two"
    assert [event.text for event in recorder.of(ModelTextStreamed)] == ["one", " two"]
    assert [event.text for event in recorder.of(ModelThinkingStreamed)] == ["hm"]
    assert recorder.tags()[-1] == "ModelCallCompleted"
    assert meter.usage.calls == len(recorder.of(ModelCallCompleted)) == 1


async def test_replies_to_other_questions_than_the_task_are_no_text_of_the_answer() -> None:
    meter, recorder = metered(ScriptedLLM(say("a plan")), streaming=True)
    await attempt(meter.complete(REQUEST))
    assert recorder.of(ModelTextStreamed) == []
    thought = recorder.of(ModelThinkingStreamed)
    assert ("".join(each.text for each in thought), {each.purpose for each in thought}) == (
        "a plan",
        {"plan"},
    )


async def test_a_restarted_stream_says_so_and_is_closed() -> None:
    last = StreamCompleted(ModelResponse("b", "m/1"))
    broken = Broken(TextDelta("a"), StreamRestarted("it broke"), TextDelta("b"), last)
    meter, recorder = metered(broken, streaming=True)
    assert (await attempt(meter.complete(REQUEST))).unwrap().content == "b"
    assert [event.reason for event in recorder.of(ModelStreamRestarted)] == ["it broke"]
    assert (broken.closed, meter.usage.calls) == (1, 1)


async def test_a_stream_without_its_last_chunk_is_a_failed_call() -> None:
    meter, recorder = metered(Broken(TextDelta("a")), streaming=True)
    match await attempt(meter.complete(REQUEST)):
        case Failure(error):
            assert isinstance(error, MalformedResponse)
        case Success(response):
            raise AssertionError(response)
    assert len(recorder.of(ModelCallAbandoned)) == 1


class Raising(Broken):
    """A model service whose calls raise."""

    async def stream(self, _: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        yield Success(TextDelta("a"))
        raise KeyError("choices")


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_service_that_raises_is_named_and_its_call_may_be_charged(streaming: bool) -> None:
    meter, recorder = metered(Raising(), streaming=streaming)
    error = (await attempt(meter.complete(REQUEST))).failure()
    raised = "KeyError: 'choices'" if streaming else "NotImplementedError: "
    assert error.message == f"The model service Raising raised {raised}"
    assert [event.error for event in recorder.of(ModelCallAbandoned)] == [error]
    assert (meter.usage.unpriced_calls, meter.usage.usage.reported) == (1, False)


async def test_a_stream_that_raises_ends_with_the_failure() -> None:
    meter, _ = metered(Raising())
    *_, last = [piece async for piece in meter.stream(REQUEST)]
    assert last.failure().message == "The model service Raising raised KeyError: 'choices'"


async def test_a_service_that_answers_with_something_else_is_named() -> None:
    class Wordy(Broken):
        def complete(self, request: ModelRequest) -> Any:
            return FutureResult.from_value("three")

    meter, _ = metered(Wordy())
    error = (await attempt(meter.complete(REQUEST))).failure()
    assert error.message == "The model service Wordy returned Success(str), expected ModelResponse."


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("content", None, "expected a text, also an empty one."),
        ("finish_reason", None, "expected one of stop"),
        ("finish_reason", "end_turn", "expected one of stop"),
        ("tool_calls", None, "expected ToolCall objects, each"),
        ("tool_calls", ("add",), "expected ToolCall objects, each"),
        ("tool_calls", (ToolCall(CallId("a"), "add", "{}"),), "expected ToolCall objects, each"),  # type: ignore[arg-type]
        ("usage", None, "expected a Usage of whole numbers."),
        ("cost_usd", "1", "expected US dollars or None."),
    ],
)
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_response_of_a_wrong_form_is_a_failure_that_names_service_and_field(
    field: str, value: Any, expected: str, streaming: bool
) -> None:
    response = evolve(ModelResponse("three", "m/x"), **{field: value})

    class Odd(Broken):
        async def complete(self, _: ModelRequest) -> Any:  # type: ignore[override]
            return Success(response)

        async def stream(self, _: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
            yield Success(StreamCompleted(response))

    meter, _ = metered(Odd(), streaming=streaming)
    error = (await attempt(meter.complete(REQUEST))).failure()
    assert error.message.startswith(f"The model service Odd returned a response with the {field} ")
    assert expected in error.message
    assert (meter.usage.unpriced_calls, meter.usage.usage.reported) == (1, False)


async def test_a_stream_of_ones_own_is_counted_too() -> None:
    meter, recorder = metered(ScriptedLLM(say("one two"), fail(BUSY)))
    pieces = [piece.unwrap() async for piece in meter.stream(REQUEST)]
    assert isinstance(pieces[-1], StreamCompleted)
    assert [piece async for piece in meter.stream(REQUEST)] == [Failure(BUSY)]
    assert recorder.tags() == [
        "ModelCallStarted",
        "ModelCallCompleted",
        "ModelCallStarted",
        "ModelCallAbandoned",
    ]
    assert meter.usage.calls == 1


async def test_a_stream_of_ones_own_ends_in_an_answer_or_a_failure() -> None:
    meter, recorder = metered(Broken(TextDelta("a")))
    pieces = [piece async for piece in meter.stream(REQUEST)]
    assert pieces[0] == Success(TextDelta("a"))
    assert isinstance(pieces[-1], Failure)
    assert recorder.tags() == ["ModelCallStarted", "ModelCallAbandoned"]


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_call_that_is_cut_off_is_told_and_counts_as_unknown(streaming: bool) -> None:
    meter, recorder = metered(ScriptedLLM(say("never", delay=30)), streaming=streaming)
    with anyio.move_on_after(0.02) as scope:
        await attempt(meter.complete(REQUEST))
    assert scope.cancelled_caught
    (_, event) = recorder.events
    assert isinstance(event, ModelCallAbandoned)
    assert isinstance(event.error, ModelUnavailable)
    assert "cut off" in event.error.message
    assert event.spent == meter.models == (unknown_usage("m/1"),)


async def test_a_stream_that_is_left_early_is_told_once() -> None:
    meter, recorder = metered(ScriptedLLM(say("one two")))
    async with aclosing(meter.stream(REQUEST)) as pieces:  # type: ignore[type-var]
        async for _ in pieces:
            break
    assert recorder.tags() == ["ModelCallStarted", "ModelCallAbandoned"]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("cost_usd", [-0.5, float("nan"), float("inf")])
async def test_figures_that_cannot_be_are_unknown_in_the_answer_and_in_the_account(
    streaming: bool, cost_usd: float
) -> None:
    meter, recorder = metered(
        ScriptedLLM(say("3", usage=Usage(-1, 2, 1), cost_usd=cost_usd)), streaming=streaming
    )
    answer = (await attempt(meter.complete(REQUEST))).unwrap()
    assert (answer.content, answer.usage, answer.cost_usd) == ("3", UNKNOWN, None)
    (told,) = recorder.of(ModelCallCompleted)
    assert (told.usage, told.cost_usd) == (UNKNOWN, None)
    assert (meter.usage.usage, meter.usage.cost_usd, meter.usage.unpriced_calls) == (UNKNOWN, 0.0, 1)


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_is_recorded_with_the_request_as_it_is_looked_for(streamed: bool) -> None:
    class Record:
        """A record of a forked run, which asks with a further message."""

        def __init__(self) -> None:
            self.kept: list[ModelRequest] = []

        def find_answer(self, _: ModelRequest) -> tuple[str, None, int]:
            return "m1", None, 0

        async def prepared(self, _: str, request: ModelRequest, __: str) -> ModelRequest:
            return evolve(request, messages=(*request.messages, UserMessage("Be brief.")))

        async def keep_answer(self, _: str, request: ModelRequest, __: object) -> None:
            self.kept.append(request)

    llm, clock = ScriptedLLM(say("Done.")), FakeClock()
    record = Record()
    meter = MeteredLLM(llm, RunEvents(InMemoryEventBus(), clock, RUN, TASK), clock, record=record)
    if streamed:
        async with aclosing(meter.stream(REQUEST)) as chunks:  # type: ignore[type-var]
            async for _ in chunks:
                pass
    else:
        await attempt(meter.complete(REQUEST))
    assert [len(each.messages) for each in llm.requests] == [2]
    assert record.kept == [REQUEST]
