"""Plain handlers are called at once, and slow ones in a thread where they hold up nobody."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.adapters.telemetry import event_bus
from reactive_agents.adapters.telemetry.event_bus import (
    MOST_WAITING,
    SLOW_S,
    LocalEventBus,
    PlainHandler,
    QueuedHandler,
)
from reactive_agents.core.events import AgentEvent, ExecutionPhaseEntered, TaskStarted
from reactive_agents.testing import FakeClock, ScriptedLLM, say
from reactive_agents.testing.core import START
from tests.support.fakes import refuse_thread
from tests.support.kernels import RUN, TASK

pytestmark = pytest.mark.anyio


def event(number: int) -> AgentEvent:
    return ExecutionPhaseEntered(RUN, TASK, number, START, "think")


class Slow:
    """A handler whose first call takes a while; the later ones wait until they may go on."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.go_on = threading.Event()
        self.seen: list[int] = []
        self.threads: set[str] = set()

    def __call__(self, event: AgentEvent) -> None:
        if event.sequence == 1:
            self.clock.advance(SLOW_S)
        else:
            self.go_on.wait()
            self.threads.add(threading.current_thread().name)
        self.seen.append(event.sequence)
        if event.sequence == 3:
            raise ValueError("no")


async def test_a_slow_handler_gets_its_own_thread_in_which_it_may_block(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus, clock = LocalEventBus(), FakeClock()
    slow, quick = Slow(clock), list[int]()
    handler = PlainHandler(slow, clock.monotonic)
    bus.subscribe(handler)
    bus.subscribe(lambda each: quick.append(each.sequence))
    with caplog.at_level(logging.WARNING, "reactive_agents"):
        for number in range(1, 6):
            bus.publish(event(number))
        assert quick == [1, 2, 3, 4, 5]
        assert slow.seen == [1]
        slow.go_on.set()
        await handler.drain()
    assert slow.seen == [1, 2, 3, 4, 5]
    assert slow.threads == {"reactive_agents Slow"}
    assert "The event handler Slow took 1.0 seconds" in caplog.text
    assert "failed on ExecutionPhaseEntered" in caplog.text


async def test_a_quick_handler_is_called_at_once_on_the_thread_of_the_event() -> None:
    threads: list[int] = []
    handler = PlainHandler(lambda _: threads.append(threading.get_ident()), FakeClock(step_s=0.1).monotonic)
    for number in range(3):
        handler(event(number))
    assert threads == [threading.get_ident()] * 3
    await handler.drain()


async def test_a_slow_handler_is_called_at_once_where_the_system_gives_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    slow = Slow(clock)
    slow.go_on.set()
    handler = PlainHandler(slow, clock.monotonic)
    handler(event(1))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse_thread)
        handler(event(2))
    assert slow.seen == [1, 2]
    handler(event(4))
    await handler.drain()
    assert slow.seen == [1, 2, 4]


class Unsubscribed(deque[AgentEvent]):
    """Events that are discarded by another thread as soon as it is seen that there are some."""

    discarding: threading.Thread | None = None

    def __bool__(self) -> bool:
        is_full = len(self) > 0
        if is_full and self.discarding is not None:
            self.discarding.start()
            self.discarding.join(0.2)  # for as long as it is kept from it
            self.discarding = None
        return is_full


@pytest.mark.parametrize("kind", [PlainHandler, QueuedHandler])
async def test_events_are_discarded_between_two_of_them(
    kind: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[int]()

    async def wait(each: AgentEvent) -> None:
        seen.append(each.sequence)

    handler = kind(wait if kind is QueuedHandler else lambda each: seen.append(each.sequence))
    handler._waiting = Unsubscribed()
    handler._waiting.discarding = threading.Thread(target=handler.discard)
    discarding = handler._waiting.discarding
    handler(event(1))
    await handler.drain()
    discarding.join()
    handler(event(2))
    await handler.drain()
    assert seen == [1, 2]


@pytest.mark.parametrize("kind", [PlainHandler, QueuedHandler])
async def test_events_do_not_pile_up_for_a_handler_that_never_comes_to_its_end(
    kind: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_bus, "MOST_UNHANDLED", 100)
    clock, arrived, go_on = FakeClock(), anyio.Event(), anyio.Event()
    slow = Slow(clock)

    async def wait(each: AgentEvent) -> None:
        arrived.set()
        await go_on.wait()
        slow.seen.append(each.sequence)

    handler = QueuedHandler(wait) if kind is QueuedHandler else PlainHandler(slow, clock.monotonic)
    handler(event(1))
    if kind is QueuedHandler:
        await arrived.wait()
    for number in range(2, 1_000):
        handler(event(number))
        assert len(handler._waiting or ()) <= 100
    assert [each.levelname for each in caplog.records].count("WARNING") == 9 + (kind is PlainHandler)
    assert "is too slow: 100 events wait for it, and the oldest are lost" in caplog.text
    go_on.set()
    slow.go_on.set()
    await handler.drain()
    assert slow.seen[0] == 1
    assert slow.seen[-100:] == [*range(900, 1_000)]


async def test_a_handler_in_which_something_is_cancelled_gets_later_events(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = list[int]()

    async def wait(each: AgentEvent) -> None:
        if each.sequence == 1:
            cancelled = asyncio.get_running_loop().create_future()
            cancelled.cancel()
            await cancelled
        seen.append(each.sequence)

    handler = QueuedHandler(wait)
    handler(event(1))
    handler(event(2))
    await handler.drain()
    assert seen == [2]
    assert "The event handler" in caplog.text


def test_no_events_wait_for_a_handler_whose_loop_has_ended() -> None:
    made = list[QueuedHandler]()

    async def wait(each: AgentEvent) -> None:
        await anyio.sleep_forever()

    async def subscribe() -> None:
        made.extend((QueuedHandler(wait), QueuedHandler(wait)))
        made[1](event(1))
        await anyio.lowlevel.checkpoint()  # it is called now, and cut off with the loop
        made[1](event(2))

    asyncio.run(subscribe())
    for handler in made:
        for number in range(3, 6):
            handler(event(number))
        assert not handler._waiting


def test_few_events_wait_for_a_handler_whose_loop_ended_before_it_was_called() -> None:
    async def wait(each: AgentEvent) -> None:
        """Handle nothing."""

    async def subscribe() -> QueuedHandler:
        return QueuedHandler(wait)

    loop = asyncio.new_event_loop()
    handler = loop.run_until_complete(subscribe())
    handler(event(1))  # between two uses of the loop
    loop.close()
    for number in range(2, 1_000):
        handler(event(number))
        assert len(handler._waiting) < MOST_WAITING


async def test_handlers_that_raise_leave_a_run_as_it_is() -> None:
    def broken(event: AgentEvent) -> None:
        raise ValueError(type(event).__name__)

    agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("Hi."))).build()
    seen: list[AgentEvent] = []
    agent.subscribe(broken)
    agent.subscribe(seen.append)
    assert (await agent.run("Say hi.")).output == "Hi."
    assert isinstance(seen[0], TaskStarted)
