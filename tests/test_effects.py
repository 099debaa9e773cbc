"""The effect vocabulary on both event loops: laziness, order, bounds, cancellation, exceptions."""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from returns.future import FutureResult
from returns.primitives.exceptions import UnwrapFailedError
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import TaskError
from reactive_agents.effects import Effect, Settled, attempt, beside, effect, gather
from reactive_agents.event_loop import (
    Timeout,
    call_soon_on_this_loop,
    event_on_this_loop,
    schedule_on_this_loop,
    spawn_on_this_loop,
    to_the_end,
    wait_whatever_happens,
)
from tests.support.virtual_time import Backend, VirtualTimeLoop, virtual_time

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


@pytest.fixture(autouse=True)
def no_effect_is_forgotten() -> Iterator[None]:
    """Every coroutine of a test was awaited or closed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert [str(each.message) for each in caught if "never awaited" in str(each.message)] == []


class Trace:
    """A record of the effects of a test, and of how many were under way at once."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.cancelled: list[int] = []
        self.under_way = 0
        self.most_under_way = 0

    @effect
    async def work(
        self, number: int, *, seconds: float = 0.0, error: str = "", raises: BaseException | None = None
    ) -> Result[int, str]:
        self.begun.append(number)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await anyio.sleep(seconds)
            if raises is not None:
                raise raises
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(number)
            raise
        finally:
            self.under_way -= 1
        self.ended.append(number)
        return Failure(error) if error else Success(number)


# --- effect and attempt ---------------------------------------------------------------------------------


async def test_nothing_runs_before_the_effect_is_awaited() -> None:
    trace = Trace()
    pending = trace.work(1)
    await anyio.lowlevel.checkpoint()
    assert trace.begun == []
    assert await attempt(pending) == Success(1)
    assert trace.ended == [1]


async def test_attempt_returns_failures_as_values() -> None:
    assert await attempt(Trace().work(1, error="no")) == Failure("no")


async def test_attempt_takes_effects_of_values_and_chains() -> None:
    chain = Trace().work(20).map(lambda number: number + 1).bind(lambda number: Trace().work(number * 2))
    assert await attempt(chain) == Success(42)
    assert await attempt(FutureResult[int, str].from_value(3)) == Success(3)
    assert await attempt(FutureResult[int, str].from_failure("no")) == Failure("no")
    assert await attempt(Trace().work(1, error="no").alt(len)) == Failure(2)


async def test_an_exception_in_a_body_propagates_as_itself() -> None:
    error = LookupError("no such thing")
    with pytest.raises(LookupError) as caught:
        await attempt(Trace().work(1, raises=error))
    assert caught.value is error


async def test_an_effect_runs_once_and_gives_the_same_result_when_it_is_awaited_again() -> None:
    trace = Trace()
    pending = trace.work(1)
    assert await attempt(pending) == await attempt(pending) == Success(1)
    assert await attempt(pending.map(str)) == Success("1")
    assert trace.begun == [1]


async def test_a_coroutine_whose_effect_was_forgotten_is_accepted() -> None:
    async def divide(number: int, by: int) -> Result[int, str]:
        return Success(number // by) if by else Failure("division by zero")

    forgotten: Any = divide
    assert await attempt(forgotten(6, 3)) == Success(2)
    assert await gather([forgotten(6, 0), forgotten(6, 2)]) == (Failure("division by zero"), Success(3))


async def test_an_attempt_is_a_coroutine_that_a_task_can_run() -> None:
    one: Effect[int, str] = FutureResult.from_value(1)
    two = Trace().work(2)
    three = Trace().work(2).map(lambda number: number + 1)
    async with anyio.create_task_group() as group:
        for pending in (one, two, three):
            group.start_soon(attempt, pending)


async def test_an_effect_that_is_made_of_a_value_has_it_for_good() -> None:
    pending: Effect[int, str] = FutureResult.from_value(1)
    assert await attempt(pending) == await attempt(pending) == Success(1)


async def test_effect_keeps_the_name_the_docstring_and_the_arguments() -> None:
    @effect
    async def divide(number: int, *, by: int) -> Result[int, str]:
        """The quotient."""
        return Success(number // by) if by else Failure("division by zero")

    assert divide.__name__ == "divide"
    assert divide.__doc__ == "The quotient."
    assert list(inspect.signature(divide).parameters) == ["number", "by"]
    assert await attempt(divide(7, by=2)) == Success(3)
    assert await attempt(divide(7, by=0)) == Failure("division by zero")


async def test_cancellation_passes_through_an_effect() -> None:
    trace = Trace()
    with anyio.move_on_after(0.02) as scope:
        await attempt(trace.work(1, seconds=5).lash(lambda _: trace.work(2)))
    assert scope.cancelled_caught
    assert trace.cancelled == [1]
    assert trace.begun == [1]


# --- gather: results ------------------------------------------------------------------------------------


async def test_gathering_nothing_gives_nothing() -> None:
    assert await gather(()) == ()
    assert await gather([], limit=1) == ()


@pytest.mark.parametrize("limit", [None, 1, 2, 100])
@pytest.mark.parametrize("count", [1, 2, 7])
async def test_results_come_in_the_order_of_the_effects(limit: int | None, count: int) -> None:
    trace = Trace()
    effects = [trace.work(number, seconds=0.002 * (count - number)) for number in range(count)]
    assert await gather(effects, limit=limit) == tuple(map(Success, range(count)))
    assert sorted(trace.ended) == list(range(count))


async def test_effects_run_at_the_same_time() -> None:
    trace = Trace()
    await gather([trace.work(number, seconds=0.01) for number in range(5)])
    assert trace.most_under_way == 5
    assert trace.begun == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("limit", [1, 3])
async def test_the_limit_is_reached_and_never_passed(limit: int) -> None:
    trace = Trace()
    await gather([trace.work(number, seconds=0.004) for number in range(10)], limit=limit)
    assert trace.most_under_way == limit
    assert sorted(trace.ended) == list(range(10))


async def test_a_limit_of_one_runs_them_in_order() -> None:
    trace = Trace()
    await gather([trace.work(number, seconds=0.01 - number / 1_000) for number in range(6)], limit=1)
    assert trace.begun == trace.ended == list(range(6))


@pytest.mark.parametrize("limit", [0, -1])
@pytest.mark.parametrize("count", [0, 1, 2])
async def test_a_limit_below_one_is_refused_before_anything_runs(limit: int, count: int) -> None:
    trace = Trace()
    with pytest.raises(ValueError, match="limit"):
        await gather([trace.work(number) for number in range(count)], limit=limit)
    assert trace.begun == []


# --- gather: failures -----------------------------------------------------------------------------------


async def test_a_failure_keeps_its_siblings() -> None:
    trace = Trace()
    results = await gather([trace.work(0, error="no"), trace.work(1, seconds=0.02), trace.work(2)])
    assert results == (Failure("no"), Success(1), Success(2))
    assert trace.cancelled == []


# --- gather: cancellation and exceptions ----------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, 2])
@pytest.mark.parametrize("count", [1, 5])
async def test_cancelling_the_caller_cancels_every_child_and_leaves_none(
    limit: int | None, count: int
) -> None:
    trace = Trace()
    after = False
    with anyio.move_on_after(0.02) as scope:
        await gather([trace.work(number, seconds=5) for number in range(count)], limit=limit)
        after = True
    assert scope.cancelled_caught
    assert not after
    assert trace.under_way == 0
    assert trace.ended == []
    assert sorted(trace.cancelled) == list(range(min(count, limit or count)))


async def test_a_caller_that_is_already_cancelled_runs_nothing_to_its_end() -> None:
    trace = Trace()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await gather([trace.work(number, seconds=0.01) for number in range(3)], limit=1)
    assert scope.cancelled_caught
    assert trace.begun == []


@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("siblings", [0, 2])
async def test_an_exception_propagates_as_itself_and_cancels_the_others(
    limit: int | None, siblings: int
) -> None:
    trace = Trace()
    cause = KeyError("the cause")
    error = LookupError("no such thing")
    error.__cause__ = cause
    effects = [trace.work(0, raises=error)]
    effects += [trace.work(number, seconds=5) for number in range(1, siblings + 1)]
    with pytest.raises(LookupError) as caught:
        await gather(effects, limit=limit)
    assert caught.value is error
    assert error.__cause__ is cause
    assert trace.under_way == 0
    assert trace.ended == []
    assert "in work" in "".join(traceback.format_exception(caught.value))


async def test_of_several_exceptions_the_first_propagates() -> None:
    trace = Trace()
    error = LookupError("first")

    @effect
    async def break_when_cancelled() -> Result[int, str]:
        try:
            await anyio.sleep(5)
        finally:
            raise KeyError("second")

    with pytest.raises(LookupError) as caught:
        await gather([break_when_cancelled(), trace.work(1, seconds=0.01, raises=error)])
    assert caught.value is error


async def test_a_group_that_a_body_raises_stays_a_group() -> None:
    group = ExceptionGroup("of the body", [ValueError("a"), ValueError("b")])
    trace = Trace()
    with pytest.raises(ExceptionGroup) as caught:
        await gather([trace.work(0, raises=group), trace.work(1)])
    assert caught.value is group


async def test_gathers_nest_under_one_limit_each() -> None:
    trace = Trace()

    @effect
    async def three(first: int) -> Result[tuple[int, ...], str]:
        results = await gather([trace.work(first + each, seconds=0.002) for each in range(3)], limit=1)
        return Success(tuple(result.unwrap() for result in results))

    results = await gather([three(0), three(10), three(20)], limit=2)
    assert results == (Success((0, 1, 2)), Success((10, 11, 12)), Success((20, 21, 22)))
    assert trace.most_under_way == 2


async def test_effects_of_other_makers_are_gathered_too() -> None:
    def plain(build: Callable[[], Effect[int, str]]) -> Effect[int, str]:
        return build().map(lambda number: number + 1)

    ready = FutureResult[int, str].from_value(1)
    assert await gather([ready, plain(lambda: Trace().work(1))], limit=1) == (Success(1), Success(2))


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
async def test_an_exit_out_of_an_effect_is_raised_by_gather_and_leaves_the_event_loop_running(
    kind: type[BaseException],
) -> None:
    @effect
    async def leave() -> Result[int, str]:
        raise kind

    with pytest.raises(kind):
        await gather([leave(), leave()])
    await anyio.lowlevel.checkpoint()


async def test_an_event_that_is_waited_for_whatever_happens_comes_before_a_cancellation() -> None:
    event, seen = event_on_this_loop(), list[str]()

    async def wait() -> None:
        await wait_whatever_happens(event)
        seen.append("came")
        await anyio.lowlevel.checkpoint()
        seen.append("went on")

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.sleep(1)
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(1)
        assert seen == []
        event.set()
    assert seen == ["came"]


def test_a_task_that_is_cancelled_itself_does_not_wait_for_such_an_event() -> None:
    async def cancel() -> None:
        waiting = asyncio.create_task(wait_whatever_happens(event_on_this_loop()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(cancel())


@pytest.mark.parametrize("half", [ModuleType("trio"), SimpleNamespace(lowlevel=ModuleType("trio.lowlevel"))])
def test_another_thread_may_be_importing_trio(half: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use() -> list[str]:
        called: list[str] = []
        ended = anyio.Event()

        async def spawned() -> None:
            called.append("spawned")
            ended.set()

        call_soon_on_this_loop(lambda: called.append("called"))
        schedule_on_this_loop()(lambda: called.append("scheduled"))
        spawn_on_this_loop(spawned)
        Timeout()  # which takes the time of the loop
        await ended.wait()
        return called

    monkeypatch.setitem(sys.modules, "trio", half)
    assert asyncio.run(use()) == ["called", "scheduled", "spawned"]


# --- work that no cancellation cuts off -----------------------------------------------------------------


async def test_work_ends_although_the_scope_around_it_is_cancelled() -> None:
    done = list[str]()

    async def work() -> str:
        await anyio.sleep(1)
        done.append("done")
        return "result"

    with anyio.CancelScope() as scope:
        scope.cancel()
        assert await to_the_end(work) == "result"
        await anyio.lowlevel.checkpoint()
        done.append("not reached")
    assert scope.cancelled_caught
    assert done == ["done"]


async def test_what_work_raises_is_raised_where_it_is_awaited() -> None:
    async def leave(first: bool) -> None:
        if not first:
            await anyio.lowlevel.checkpoint()
        sys.exit("leaving")

    for first in (False, True):
        with pytest.raises(SystemExit, match="leaving"):
            await to_the_end(partial(leave, first))


async def test_a_time_limit_within_the_work_holds() -> None:
    async def work() -> str:
        with anyio.move_on_after(0):
            await anyio.sleep_forever()
        with anyio.move_on_after(1):
            await anyio.sleep_forever()
        return "in time"

    assert await to_the_end(work) == "in time"


VALUE = ContextVar("VALUE", default="")


def test_a_task_that_is_cancelled_again_and_again_ends_its_work_and_is_then_cancelled() -> None:
    seen = list[str]()

    async def work() -> None:
        seen.append(VALUE.get())
        for _ in range(5):
            await asyncio.sleep(0)
        seen.append(VALUE.get())

    async def run() -> None:
        VALUE.set("of the caller")
        await to_the_end(work)
        seen.append("not reached")

    async def cancel() -> None:
        task = asyncio.create_task(run())
        await asyncio.sleep(0)
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        assert task.cancelled()

    asyncio.run(cancel())
    assert seen == ["of the caller", "of the caller"]


def test_the_end_of_the_event_loop_waits_for_the_work() -> None:
    done = list[str]()

    async def work() -> None:
        with anyio.CancelScope():
            await asyncio.sleep(0.01)
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0.01)
        done.append("done")

    async def begin() -> None:
        task = asyncio.create_task(to_the_end(work))
        await asyncio.sleep(0)
        assert not task.done()

    asyncio.run(begin())
    assert done == ["done"]


def test_work_that_never_ends_is_cut_off_after_a_cancellation() -> None:
    async def begin() -> None:
        task = asyncio.create_task(to_the_end(anyio.sleep_forever))
        await asyncio.sleep(3_600)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.get_running_loop().time() == 3_600 + 300

    anyio.run(begin, backend_options={"loop_factory": VirtualTimeLoop})


def test_the_end_of_the_event_loop_cancels_work_whose_caller_was_closed() -> None:
    done = list[str]()

    async def work() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            done.append("told")

    async def begin() -> None:
        waiting = to_the_end(work)
        waiting.send(None)
        waiting.close()

    asyncio.run(begin())
    assert done == ["told"]


def test_work_that_does_not_wait_takes_no_turn_of_the_event_loop() -> None:
    happened = list[str]()

    async def work() -> str:
        task = asyncio.current_task()
        assert task is not None
        happened.append("done")
        return "result"

    async def run() -> None:
        here = asyncio.current_task()
        asyncio.get_running_loop().call_soon(happened.append, "turn")
        assert await to_the_end(work) == "result"
        assert asyncio.current_task() is here
        assert happened == ["done"]

    asyncio.run(run())


# --- a task beside a block ------------------------------------------------------------------------------


async def test_a_task_beside_a_block_ends_with_it_and_may_end_it() -> None:
    ends = list[str]()

    async def wait(_: anyio.CancelScope) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ends.append("the task")

    async def end(scope: anyio.CancelScope) -> None:
        scope.cancel()

    async def raise_beside(work: Callable[[anyio.CancelScope], Coroutine[Any, Any, None]]) -> None:
        async with beside(work):
            await anyio.lowlevel.checkpoint()
            raise ValueError("of the block")

    async def fail_at_its_end(_: anyio.CancelScope) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise OSError("of the task")

    async with beside(wait):
        await anyio.lowlevel.checkpoint()
    with pytest.raises(ValueError, match="of the block"):
        await raise_beside(wait)
    with pytest.raises(BaseExceptionGroup) as raised:
        await raise_beside(fail_at_its_end)
    assert {*map(str, raised.value.exceptions)} == {"of the block", "of the task"}
    async with beside(end):
        await anyio.sleep_forever()
    assert ends == ["the task", "the task"]


def test_what_had_no_effect_is_named_where_it_is_unwrapped() -> None:
    with pytest.raises(UnwrapFailedError) as raised:
        Settled(Failure(TaskError("Task a is not running.", "a"))).unwrap()
    assert raised.value.__notes__ == ["Task a is not running."]
