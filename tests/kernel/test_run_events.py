"""The events of a run are numbered without gaps, timed, and handed to the bus."""

from __future__ import annotations

from datetime import timedelta

from reactive_agents.core.events import GuidanceGiven
from reactive_agents.kernel import RunEvents
from reactive_agents.testing import EventRecorder, FakeClock, InMemoryEventBus
from reactive_agents.testing.clock import START
from tests.support.kernels import RUN, TASK


def test_each_event_takes_the_next_number_and_the_time() -> None:
    bus, recorder = InMemoryEventBus(), EventRecorder()
    bus.subscribe(recorder)
    events = RunEvents(bus, FakeClock(step_s=1.0), RUN, TASK)
    for text in ("one", "two"):
        events.publish(GuidanceGiven(*events.stamp(), policy="p", text=text))
    assert recorder.events == [
        GuidanceGiven(RUN, TASK, 1, START, "p", "one"),
        GuidanceGiven(RUN, TASK, 2, START + timedelta(seconds=1), "p", "two"),
    ]


def test_two_runs_on_one_bus_count_for_themselves() -> None:
    bus, clock = InMemoryEventBus(), FakeClock()
    first, second = RunEvents(bus, clock, RUN, TASK), RunEvents(bus, clock, RUN, TASK)
    assert [first.stamp()[2], second.stamp()[2], first.stamp()[2]] == [1, 1, 2]
