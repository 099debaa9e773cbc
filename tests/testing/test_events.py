"""The recorder keeps every event in order; the in-memory bus hands events to whoever asked for them."""

from __future__ import annotations

from reactive_agents.core.events import (
    AgentEvent,
    ExecutionLoopIteration,
    ExecutionPhaseEntered,
    Stamp,
    TaskStarted,
)
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.ports import EventBus
from reactive_agents.testing import EventRecorder, InMemoryEventBus
from reactive_agents.testing.core import START


def stamp(sequence: int, run: str = "run-1") -> Stamp:
    return RunId(run), TaskId("task-1"), sequence, START


STARTED = TaskStarted(*stamp(1), AgentId("agent-1"), "Go.")
PHASES = [
    ExecutionPhaseEntered(*stamp(2), phase="bootstrap"),
    ExecutionPhaseEntered(*stamp(4), phase="complete"),
]
ITERATION = ExecutionLoopIteration(*stamp(3), iteration=0)
ALL: list[AgentEvent] = [STARTED, PHASES[0], ITERATION, PHASES[1]]


def test_a_recorder_keeps_events_in_order_and_sorts_them_out() -> None:
    bus = InMemoryEventBus()
    recorder = EventRecorder()
    bus.subscribe(recorder)
    for event in ALL:
        bus.publish(event)
    assert recorder.events == ALL
    assert recorder.of(ExecutionPhaseEntered) == PHASES
    assert recorder.of(TaskStarted) == [STARTED]
    assert recorder.tags() == [
        "TaskStarted",
        "ExecutionPhaseEntered",
        "ExecutionLoopIteration",
        "ExecutionPhaseEntered",
    ]
    assert recorder.phases() == ["bootstrap", "complete"]


def test_a_handler_may_want_one_run_only() -> None:
    bus: EventBus = InMemoryEventBus()
    one, every = EventRecorder(), EventRecorder()
    bus.subscribe(one, run_id=RunId("run-2"))
    bus.subscribe(every)
    other = ExecutionLoopIteration(*stamp(1, "run-2"), iteration=0)
    bus.publish(ITERATION)
    bus.publish(other)
    assert one.events == [other]
    assert every.events == [ITERATION, other]


def test_a_subscription_ends_by_itself_and_only_once() -> None:
    bus, recorder = InMemoryEventBus(), EventRecorder()
    end_first = bus.subscribe(recorder)
    end_second = bus.subscribe(recorder)
    end_first()
    end_first()
    bus.publish(ITERATION)
    assert recorder.events == [ITERATION]
    end_second()
    bus.publish(ITERATION)
    assert len(recorder.events) == 1


def test_a_handler_may_end_its_subscription_while_it_is_called() -> None:
    bus, recorder = InMemoryEventBus(), EventRecorder()

    def once(event: AgentEvent) -> None:
        recorder(event)
        end()

    end = bus.subscribe(once)
    after = EventRecorder()
    bus.subscribe(after)
    bus.publish(ITERATION)
    bus.publish(ITERATION)
    assert recorder.events == [ITERATION]
    assert after.events == [ITERATION, ITERATION]


def test_a_handler_that_raises_does_not_stop_the_others_and_is_kept() -> None:
    bus, recorder = InMemoryEventBus(), EventRecorder()
    problem = RuntimeError("broken handler")

    def broken(event: AgentEvent) -> None:
        raise problem

    bus.subscribe(broken)
    bus.subscribe(recorder)
    bus.publish(STARTED)
    assert recorder.events == [STARTED]
    assert bus.raised == [problem]
