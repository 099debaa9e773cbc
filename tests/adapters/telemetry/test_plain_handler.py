"""Plain handlers are called at once, and slow ones in a thread where they hold up nobody."""

from __future__ import annotations

import logging
import threading

import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.adapters.telemetry.event_bus import SLOW_S, LocalEventBus, PlainHandler
from reactive_agents.core.events import AgentEvent, ExecutionPhaseEntered, TaskStarted
from reactive_agents.testing import FakeClock, ScriptedLLM, say
from reactive_agents.testing.core import START
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


async def test_handlers_that_raise_leave_a_run_as_it_is() -> None:
    def broken(event: AgentEvent) -> None:
        raise ValueError(type(event).__name__)

    agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("Hi."))).build()
    seen: list[AgentEvent] = []
    agent.subscribe(broken)
    agent.subscribe(seen.append)
    assert (await agent.run("Say hi.")).output == "Hi."
    assert isinstance(seen[0], TaskStarted)
