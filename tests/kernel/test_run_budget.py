"""Before a call the most that it may cost is set aside, and afterwards what it cost is entered."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
import pytest
from attrs import evolve
from returns.maybe import Maybe, Nothing, Some
from returns.result import Failure, Result, Success

from reactive_agents.core.bases import NOT_SENT
from reactive_agents.core.errors import (
    BudgetExceeded,
    BudgetUnavailable,
    LLMErrors,
    MalformedResponse,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    ServiceFailed,
)
from reactive_agents.core.events import ModelCallAbandoned
from reactive_agents.core.governance import BudgetUse, Reservation
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import (
    ModelChunk,
    ModelRequest,
    ModelResponse,
    StreamCompleted,
    TextDelta,
    TokenPrice,
)
from reactive_agents.core.settings import BudgetConfig
from reactive_agents.core.usage import unknown_usage
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel import MeteredLLM, RunBudget, RunEvents
from reactive_agents.kernel.context_window.token_estimate import fixed_size
from reactive_agents.ports import TokenCounter
from reactive_agents.testing import (
    EventRecorder,
    FakeClock,
    InMemoryBudget,
    InMemoryEventBus,
    ScriptedLLM,
    fail,
    say,
)
from tests.support.kernels import RUN, TASK

pytestmark = pytest.mark.anyio
REQUEST = ModelRequest((UserMessage("Go on."),), max_tokens=200)
PRICE = TokenPrice(0.001, 0.01, max_output_tokens=50)


class Counting:
    """Counts seven tokens, whatever the request."""

    def count(self, request: ModelRequest) -> int | None:
        return 7

    def window(self, model: str | None) -> int | None:
        return None


def metered(
    llm: ScriptedLLM,
    budget: InMemoryBudget,
    *,
    counter: Maybe[TokenCounter] = Nothing,
    streaming: bool = False,
) -> MeteredLLM:
    bus, clock = InMemoryEventBus(), FakeClock()
    bus.subscribe(EventRecorder())
    events = RunEvents(bus, clock, RUN, TASK)
    run_budget = RunBudget(budget, events, prices=Some(llm), counter=counter)
    return MeteredLLM(llm, events, clock, streaming=streaming, budget=run_budget)


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_most_is_every_byte_read_and_the_longest_answer_written(streaming: bool) -> None:
    budget = InMemoryBudget(run_usd=10.0)
    meter = metered(ScriptedLLM(say("a", cost_usd=0.5), price=PRICE), budget, streaming=streaming)
    assert isinstance(await attempt(meter.complete(REQUEST)), Success)
    size = fixed_size(REQUEST.messages, ())
    assert size >= len("Go on.")
    assert budget.reserved[0].amount_usd == pytest.approx(size * 0.001 + 200 * 0.01)
    assert budget.settled == {1: 0.5}


async def test_a_tokenizer_counts_better_and_the_list_knows_the_longest_answer() -> None:
    budget = InMemoryBudget(run_usd=10.0)
    meter = metered(ScriptedLLM(say("a"), price=PRICE), budget, counter=Some(Counting()))
    await attempt(meter.complete(ModelRequest(REQUEST.messages)))
    assert budget.reserved[0].amount_usd == pytest.approx(7 * 0.001 + 50 * 0.01)


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (RateLimited("Later.", "m"), False),
        (ModelUnavailable("It said no.", "m", 503), False),
        (ModelUnavailable("The line broke.", "m"), True),
        (ModelTimeout("Nothing came.", "m", 5.0), True),
        (MalformedResponse("What?", "m"), True),
    ],
)
async def test_a_call_that_may_have_been_charged_for_stays_counted(error: LLMErrors, kept: bool) -> None:
    budget = InMemoryBudget(run_usd=10.0)
    meter = metered(ScriptedLLM(fail(error), price=PRICE), budget)
    assert await attempt(meter.complete(REQUEST)) == Failure(error)
    (reservation,) = budget.reserved
    assert budget.settled[1] == (reservation.amount_usd if kept else 0.0)


async def test_an_answer_without_a_price_stays_counted_at_the_most() -> None:
    budget = InMemoryBudget(run_usd=10.0)
    await attempt(metered(ScriptedLLM(say("a", cost_usd=None), price=PRICE), budget).complete(REQUEST))
    assert budget.settled[1] == budget.reserved[0].amount_usd


async def test_a_stream_is_reserved_for_and_settled_before_its_last_piece() -> None:
    budget = InMemoryBudget(run_usd=10.0)
    meter = metered(ScriptedLLM(say("one", cost_usd=0.5), price=PRICE), budget)
    async for chunk in meter.stream(REQUEST):
        assert len(budget.reserved) == 1
        if isinstance(chunk.unwrap(), StreamCompleted):
            assert budget.settled == {1: 0.5}


class Endless(ScriptedLLM):
    """Its streams end without their last piece."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        yield Success(TextDelta("and"))


async def test_a_stream_that_breaks_off_stays_counted() -> None:
    budget = InMemoryBudget(run_usd=10.0)
    meter = metered(Endless(price=PRICE), budget)
    chunks = [chunk async for chunk in meter.stream(REQUEST)]
    assert isinstance(chunks[-1].failure(), MalformedResponse)
    assert budget.settled[1] == budget.reserved[0].amount_usd


@pytest.mark.parametrize(
    ("price", "kind"), [(PRICE, BudgetExceeded), (None, BudgetUnavailable), (TokenPrice(0.1, 0.1), None)]
)
async def test_a_stream_that_is_refused_is_never_begun(
    price: TokenPrice | None, kind: type[BudgetExceeded] | type[BudgetUnavailable] | None
) -> None:
    llm = ScriptedLLM(say("never"), price=price)
    meter = metered(llm, InMemoryBudget(run_usd=0.0))
    (refused,) = [chunk async for chunk in meter.stream(REQUEST)]
    assert isinstance(refused.failure(), kind or BudgetExceeded)
    assert llm.requests == []
    assert meter.usage.calls == 0


async def test_an_answered_call_is_settled_also_while_the_run_is_cancelled() -> None:
    class Slow(InMemoryBudget):
        @effect
        async def settle(
            self, reservation: Reservation, actual_usd: float
        ) -> Result[tuple[BudgetUse, ...], ServiceFailed]:
            scope.cancel()
            await anyio.sleep(0.01)
            return await attempt(InMemoryBudget.settle(self, reservation, actual_usd))

    budget = Slow(daily_usd=5.0)
    with anyio.CancelScope() as scope:
        await attempt(metered(ScriptedLLM(say("a", cost_usd=0.25), price=PRICE), budget).complete(REQUEST))
        await anyio.lowlevel.checkpoint()
    assert budget.settled == {1: 0.25}


def called(
    llm: ScriptedLLM, *callers: tuple[InMemoryBudget | None, float | None], tokens: int | None = None
) -> MeteredLLM:
    """The calls of a run; its callers, the outermost first, have a kept budget, dollars, and tokens."""
    events = RunEvents(InMemoryEventBus(), FakeClock(), RUN, TASK)
    caller: RunBudget | None = None
    for guard, usd in (*callers, (None, None)):
        limits, counter = BudgetConfig(tokens, usd), Some(Counting())
        caller = RunBudget(guard, events, prices=Some(llm), counter=counter, limits=limits, caller=caller)
    return MeteredLLM(llm, events, FakeClock(), budget=caller)


async def test_what_a_call_did_not_take_of_its_callers_budget_is_free_again() -> None:
    llm = ScriptedLLM(*[say("a", cost_usd=0.01)] * 3, price=PRICE)
    meter = called(llm, (None, 3.0))  # a call may take 2.007
    for _ in range(3):
        assert isinstance(await attempt(meter.complete(REQUEST)), Success)


async def test_what_was_held_of_one_caller_is_free_again_where_another_refuses() -> None:
    llm = ScriptedLLM(say("a", cost_usd=0.01), price=PRICE)
    poor = InMemoryBudget(run_usd=1.0)
    meter = called(llm, (poor, None), (None, 3.0))
    for _ in range(2):
        refused = (await attempt(meter.complete(REQUEST))).failure()
        assert isinstance(refused, BudgetExceeded)
        assert refused.limit_usd == 1.0


async def test_what_was_reserved_of_a_run_is_free_again_where_its_caller_refuses() -> None:
    own, poor = InMemoryBudget(run_usd=10.0), InMemoryBudget(run_usd=1.0)
    meter = called(ScriptedLLM(price=PRICE), (poor, None), (own, None))
    assert isinstance((await attempt(meter.complete(REQUEST))).failure(), BudgetExceeded)
    assert (len(own.reserved), own.settled) == (1, {1: 0.0})


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_call_that_is_cut_off_stays_counted_unless_nothing_was_sent(
    streaming: bool, *, sent: bool
) -> None:
    asked = anyio.Event()

    class Hanging(ScriptedLLM):
        """Never answers."""

        @effect
        async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
            asked.set()
            try:
                await anyio.sleep_forever()
            except BaseException as cut_off:
                if not sent:
                    cut_off.add_note(NOT_SENT)
                raise
            return Failure(RateLimited("Later.", "m"))

        async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
            yield (await attempt(self.complete(request))).map(StreamCompleted)

    budget = InMemoryBudget(run_usd=3.0)  # a call may take more than half of it
    meter = metered(Hanging(price=PRICE), budget, streaming=streaming)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: attempt(meter.complete(REQUEST)))
        await asked.wait()
        group.cancel_scope.cancel()
    assert meter.models == ((unknown_usage("scripted/test"),) if sent else ())
    again = await attempt(metered(ScriptedLLM(say("3"), price=PRICE), budget).complete(REQUEST))
    assert isinstance(again, Failure if sent else Success)
    assert not isinstance(again, Failure) or isinstance(again.failure(), BudgetExceeded)


async def test_what_a_run_spent_beside_its_calls_is_entered_for_its_callers_too() -> None:
    llm, above, own = ScriptedLLM(price=PRICE), InMemoryBudget(), InMemoryBudget()
    events = RunEvents(InMemoryEventBus(), FakeClock(), RUN, TASK)
    caller = RunBudget(above, events, prices=Some(llm), counter=Nothing)
    await RunBudget(own, events, prices=Some(llm), counter=Nothing, caller=caller).spend(0.25)
    assert (above.spent_usd, own.spent_usd) == (0.25, 0.25)


@pytest.mark.parametrize("retries", [0, 1])
async def test_the_tokens_of_an_attempt_of_unknown_cost_stay_counted_for_the_callers(retries: int) -> None:
    class Retrying(ScriptedLLM):
        """Answers, maybe at the second attempt after one that may be charged."""

        @effect
        async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
            answered = await attempt(super().complete(request))
            return answered.map(lambda given: evolve(given, refused=(unknown_usage("m"),) * retries))

    meter = called(Retrying(say("a"), say("b")), (None, None), tokens=400)  # each may take 207
    assert isinstance(await attempt(meter.complete(REQUEST)), Success)
    second = await attempt(meter.complete(REQUEST))
    assert isinstance(second, Failure if retries else Success)


async def test_a_call_that_was_never_begun_has_no_number() -> None:
    bus, clock, recorder = InMemoryEventBus(), FakeClock(), EventRecorder()
    bus.subscribe(recorder)
    events, llm = RunEvents(bus, clock, RUN, TASK), ScriptedLLM(say("never"), price=PRICE)
    budget = RunBudget(InMemoryBudget(run_usd=0.0), events, prices=Some(llm), counter=Nothing)
    await attempt(MeteredLLM(llm, events, clock, budget=budget).complete(REQUEST))
    (event,) = recorder.events
    assert isinstance(event, ModelCallAbandoned)
    assert event.model_call == 0
