"""The events of a run are numbered without gaps, timed, and handed to the bus."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest

from reactive_agents.core.events import AgentEvent, GuidanceGiven
from reactive_agents.core.ids import RunId
from reactive_agents.core.json import Json
from reactive_agents.core.redaction import LONGEST_AT_ONCE, Redactor
from reactive_agents.kernel import RunEvents
from reactive_agents.ports import EventHandler
from reactive_agents.testing import EventRecorder, FakeClock, InMemoryEventBus
from reactive_agents.testing.core import START
from tests.support.kernels import RUN, TASK


def test_each_event_takes_the_next_number_and_the_time() -> None:
    bus, recorder = InMemoryEventBus(), EventRecorder()
    bus.subscribe(recorder)
    events = RunEvents(bus, FakeClock(step_s=1.0), RUN, TASK)
    for text in ("one", "two"):
        events.publish(GuidanceGiven, policy="p", text=text)
    assert recorder.events == [
        GuidanceGiven(RUN, TASK, 1, START, "p", "one"),
        GuidanceGiven(RUN, TASK, 2, START + timedelta(seconds=1), "p", "two"),
    ]


def test_an_event_that_nobody_gets_takes_its_number_and_is_not_made() -> None:
    bus, recorder, clock = InMemoryEventBus(), EventRecorder(), FakeClock(step_s=1.0)
    events = RunEvents(bus, clock, RUN, TASK)
    made = []

    def make(*fields: Any, **_: Any) -> GuidanceGiven:
        made.append(fields)
        return GuidanceGiven(*fields)

    bus.subscribe(recorder, run_id=RunId("another"))
    assert not events.are_read()
    events.publish(make, "p", "one")
    assert made == []
    unsubscribe = bus.subscribe(recorder, run_id=RUN)
    assert events.are_read()
    events.publish(make, "p", "two")
    unsubscribe()
    events.publish(make, "p", "three")
    assert recorder.events == [GuidanceGiven(RUN, TASK, 2, START, "p", "two")]
    assert events.stamp()[2] == 4


def test_a_bus_that_cannot_say_who_listens_gets_every_event() -> None:
    recorder = EventRecorder()

    class SimpleBus:
        def publish(self, event: AgentEvent) -> None:
            recorder(event)

        def subscribe(self, handler: EventHandler, *, run_id: RunId | None = None) -> Callable[[], None]:
            raise NotImplementedError

    events = RunEvents(SimpleBus(), FakeClock(), RUN, TASK)
    events.publish(GuidanceGiven, "p", "one")
    assert recorder.tags() == ["GuidanceGiven"]


@pytest.mark.anyio
async def test_the_buses_of_the_package_alone_are_waited_for() -> None:
    class OwnBus:
        def publish(self, event: AgentEvent) -> None:
            raise NotImplementedError

        def subscribe(self, handler: EventHandler, *, run_id: RunId | None = None) -> Callable[[], None]:
            raise NotImplementedError

        def flush(self) -> None:
            raise AssertionError("it has a meaning of its own")

    await RunEvents(OwnBus(), FakeClock(), RUN, TASK).flush()


def test_two_runs_on_one_bus_count_for_themselves() -> None:
    bus, clock = InMemoryEventBus(), FakeClock()
    first, second = RunEvents(bus, clock, RUN, TASK), RunEvents(bus, clock, RUN, TASK)
    assert [first.stamp()[2], second.stamp()[2], first.stamp()[2]] == [1, 1, 2]


@pytest.mark.anyio
async def test_what_two_strategies_prepare_at_once_is_kept_for_no_other_data() -> None:
    redactor, bus = Redactor(), InMemoryEventBus()
    bus.subscribe(EventRecorder())
    events = RunEvents(bus, FakeClock(), RUN, TASK, redactor=redactor)

    def long() -> list[Json]:
        return ["x" * 1_000] * (LONGEST_AT_ONCE // 1_000 + 1)

    async with anyio.create_task_group() as strategies:
        for _ in range(2):
            strategies.start_soon(events.prepare, [long()])
    events.release()
    for number in range(100):  # some have the id of one that is gone
        other: list[Json] = [number, *long()]
        assert redactor.redact_json(other) == other
    assert not redactor._prepared, "it keeps no data of a run that has ended"
