"""Events: every one is stamped alike, and none is left out of the union."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from typing import get_args

import attrs
import pytest

from reactive_agents.core import control_events, events, persona_events, service_events
from reactive_agents.core.codec import encode, from_json, to_json
from reactive_agents.core.events import AgentEvent, Event, ExecutionLoopIteration, Stamp, TaskStarted
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.kernel.events import RunEvents
from reactive_agents.testing.core import START, EventRecorder, FakeClock, InMemoryEventBus

STAMP: Stamp = (RunId("run"), TaskId("task"), 1, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


def test_the_union_holds_every_event() -> None:
    classes = {
        value
        for module in (control_events, events, persona_events, service_events)
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Event) and value is not Event
    }
    assert set(get_args(AgentEvent)) == classes


@pytest.mark.parametrize("kind", get_args(AgentEvent), ids=lambda kind: kind.__name__)
def test_every_event_begins_with_the_four_fields_of_the_stamp(kind: type[Event]) -> None:
    fields = attrs.fields(attrs.resolve_types(kind))
    assert [field.name for field in fields[:4]] == ["run_id", "task_id", "sequence", "at"]
    assert [field.type for field in fields[:4]] == list(get_args(Stamp))
    assert all(field.default is attrs.NOTHING for field in fields[:4])
    assert list(inspect.signature(kind).parameters)[:4] == ["run_id", "task_id", "sequence", "at"]


def test_an_event_is_made_of_a_stamp_and_its_own_fields() -> None:
    event = TaskStarted(*STAMP, agent_id=AgentId("a"), input="What is 1 + 1?")
    assert (event.run_id, event.task_id, event.sequence, event.at) == STAMP
    assert event == TaskStarted(*STAMP, agent_id=AgentId("a"), input="What is 1 + 1?")
    assert encode(event, AgentEvent) == {
        "tag": "TaskStarted",
        "run_id": "run",
        "task_id": "task",
        "sequence": 1,
        "at": "2026-01-02T03:04:05+00:00",
        "agent": "",
        "parent_run_id": None,
        "agent_id": "a",
        "input": "What is 1 + 1?",
        "tags": [],
        "metadata": {},
        "session": None,
        "user": None,
    }
    assert from_json(to_json(event, AgentEvent), TaskStarted).failure().problems[0].path == "$.tag"


def test_an_event_cannot_be_changed() -> None:
    event = ExecutionLoopIteration(*STAMP, iteration=0)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        event.iteration = 1  # type: ignore[misc]


def test_the_events_of_a_run_are_numbered_from_one_without_gaps_and_timed() -> None:
    bus, recorder = InMemoryEventBus(), EventRecorder()
    bus.subscribe(recorder)
    clock = FakeClock(step_s=1.0)
    first = RunEvents(bus, clock, RunId("first"), TaskId("t1"))
    second = RunEvents(bus, clock, RunId("second"), TaskId("t2"))
    for iteration in range(3):
        first.publish(ExecutionLoopIteration, iteration=iteration)
        second.publish(ExecutionLoopIteration, iteration=iteration)
    for run, task in (("first", "t1"), ("second", "t2")):
        of_run = [event for event in recorder.events if event.run_id == run]
        assert [event.sequence for event in of_run] == [1, 2, 3]
        assert {event.task_id for event in of_run} == {task}
    times = [event.at for event in recorder.events]
    assert times == sorted(times)
    assert times[0] == START
    assert all(time.utcoffset() is not None for time in times)
    assert bus.raised == []
