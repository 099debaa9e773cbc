"""The time limit of a call: its timer is set where the call waits for the first time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar

import anyio
import pytest

from reactive_agents import event_loop
from reactive_agents.event_loop import Timeout, within
from reactive_agents.testing import FakeClock
from tests.support.virtual_time import Backend, virtual_time

pytestmark = pytest.mark.anyio

LATE = "late"
AT_ONCE, SOON, LONG = 0.0, 0.02, 30.0


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


async def wait(*seconds: float) -> str:
    for each in seconds:
        await anyio.sleep(each)
    return "in time"


async def test_what_never_waits_returns_whatever_the_limit() -> None:
    assert await within(LONG, wait(), LATE) == "in time"
    assert await within(-1.0, wait(), LATE) == "in time"


@pytest.mark.parametrize("seconds", [(AT_ONCE,), (SOON,), (AT_ONCE, SOON, AT_ONCE, SOON)])
async def test_what_waits_returns_in_time(seconds: tuple[float, ...]) -> None:
    assert await within(LONG, wait(*seconds), LATE) == "in time"


@pytest.mark.parametrize("seconds", [(LONG,), (AT_ONCE, LONG), (SOON, SOON, LONG)])
async def test_what_waits_for_too_long_is_cut_off(seconds: tuple[float, ...]) -> None:
    assert await within(0.1, wait(*seconds), LATE) == LATE


async def test_the_limit_counts_from_the_beginning_not_from_the_first_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    monkeypatch.setattr(event_loop, "monotonic", clock.monotonic)

    async def busy_then_waiting() -> str:
        clock.advance(20.0)
        return await wait(LONG)

    begun = anyio.current_time()
    assert await within(25.0, busy_then_waiting(), LATE) == LATE
    assert anyio.current_time() - begun == pytest.approx(5.0)


async def test_what_swallows_its_cancellation_is_cut_off_again() -> None:
    tries = 0

    async def stubborn() -> str:
        nonlocal tries
        while tries < 3:
            tries += 1
            try:
                await anyio.sleep(LONG)
            except anyio.get_cancelled_exc_class():
                if tries == 3:
                    raise
        return "never"

    assert await within(SOON, stubborn(), LATE) == LATE
    assert tries == 3


@pytest.mark.parametrize("seconds", [(), (SOON,)])
async def test_an_exception_passes_as_itself(seconds: tuple[float, ...]) -> None:
    async def fail() -> str:
        await wait(*seconds)
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        await within(LONG, fail(), LATE)


async def test_what_it_waits_for_can_fail_and_be_caught_in_it() -> None:
    async def recover() -> str:
        async def fail() -> None:
            await wait(SOON)
            raise LookupError

        for _ in range(2):
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(fail)
                    await anyio.sleep(LONG)
            except ExceptionGroup:
                pass
        return "recovered"

    assert await within(LONG, recover(), LATE) == "recovered"


async def test_cancellation_from_outside_passes_through_it() -> None:
    cleaned_up = False

    async def waiting() -> str:
        nonlocal cleaned_up
        try:
            return await wait(LONG)
        finally:
            cleaned_up = True

    with anyio.move_on_after(SOON) as scope:
        await within(LONG, waiting(), LATE)
    assert scope.cancelled_caught
    assert cleaned_up


async def test_it_sees_the_context_of_who_calls_it() -> None:
    name: ContextVar[str] = ContextVar("name")
    name.set("outer")

    async def read() -> str:
        first = name.get()
        await wait(SOON)
        name.set("inner")
        return first

    assert await within(LONG, read(), LATE) == "outer"
    assert name.get() == "inner"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_future_that_fails_raises_where_it_is_awaited() -> None:
    async def waiting() -> str:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(SOON, future.set_exception, LookupError())
        try:
            return await future
        except LookupError:
            return await wait(SOON)

    assert await within(LONG, waiting(), LATE) == "in time"


async def test_another_thread_stops_the_time_and_lets_it_go_on() -> None:
    timeout = Timeout()

    def from_elsewhere(change: Callable[[], None]) -> None:
        thread = threading.Thread(target=change)
        thread.start()
        thread.join()

    async def waiting_for_a_person(after_s: float) -> str:
        from_elsewhere(timeout.stop)
        await anyio.sleep(LONG)
        from_elsewhere(timeout.go_on)
        return await wait(after_s)

    assert await within(20.0, waiting_for_a_person(SOON), LATE, timeout=timeout) == "in time"
    timeout = Timeout()
    assert await within(20.0, waiting_for_a_person(LONG), LATE, timeout=timeout) == LATE
