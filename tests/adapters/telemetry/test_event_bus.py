"""Delivery of events: order, isolation of handlers, subscribing from inside a handler, cost."""

from __future__ import annotations

import gc
import logging
import threading
import timeit
import weakref
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from reactive_agents.adapters.telemetry.event_bus import LocalEventBus
from reactive_agents.core.events import AgentEvent, ExecutionLoopIteration
from reactive_agents.core.ids import RunId, TaskId
from reactive_agents.ports import EventBus

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def event(iteration: int, run: str = "run") -> ExecutionLoopIteration:
    return ExecutionLoopIteration(RunId(run), TaskId("task"), iteration + 1, AT, iteration)


def number(each: AgentEvent) -> int:
    assert isinstance(each, ExecutionLoopIteration)
    return each.iteration


def test_handlers_get_events_at_once_and_in_order() -> None:
    bus: EventBus = LocalEventBus()
    seen: list[AgentEvent] = []
    bus.subscribe(seen.append)
    for index in range(3):
        bus.publish(event(index))
        assert seen[-1] == event(index)
    assert seen == [event(0), event(1), event(2)]


def test_a_handler_of_a_run_gets_that_run_only() -> None:
    bus = LocalEventBus()
    of_all: list[AgentEvent] = []
    of_first: list[AgentEvent] = []
    of_second: list[AgentEvent] = []
    bus.subscribe(of_first.append, run_id=RunId("first"))
    bus.subscribe(of_second.append, run_id=RunId("second"))
    bus.subscribe(of_all.append)
    events = [event(0, "first"), event(0, "second"), event(0, "third"), event(1, "first")]
    for each in events:
        bus.publish(each)
    assert of_all == events
    assert of_first == [events[0], events[3]]
    assert of_second == [events[1]]


def test_handlers_of_all_runs_come_first_then_in_order_of_subscribing() -> None:
    bus = LocalEventBus()
    calls: list[str] = []
    bus.subscribe(lambda _: calls.append("run"), run_id=RunId("run"))
    bus.subscribe(lambda _: calls.append("first"))
    bus.subscribe(lambda _: calls.append("second"))
    bus.publish(event(0))
    assert calls == ["first", "second", "run"]


def test_events_from_before_the_subscription_are_not_delivered() -> None:
    bus = LocalEventBus()
    seen: list[AgentEvent] = []
    bus.publish(event(0))
    bus.subscribe(seen.append)
    bus.publish(event(1))
    assert seen == [event(1)]


def test_a_handler_that_raises_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    bus = LocalEventBus()
    seen: list[AgentEvent] = []

    def broken(_: AgentEvent) -> None:
        raise LookupError("no such thing")

    bus.subscribe(broken)
    bus.subscribe(seen.append)
    with caplog.at_level(logging.WARNING, logger="reactive_agents"):
        for number in range(120):
            bus.publish(event(number))
    assert seen == [event(number) for number in range(120)]
    assert [record.name for record in caplog.records] == ["reactive_agents"] * 3  # and not for each event
    assert caplog.records[2].getMessage().endswith("It has failed with LookupError 100 times.")
    text = caplog.records[0].getMessage()
    assert "broken" in text
    assert "ExecutionLoopIteration" in text
    assert "run run" in text
    assert "no such thing" in caplog.text


def test_each_kind_of_error_of_a_handler_is_logged_at_its_first_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus, kinds = LocalEventBus(), iter([LookupError, LookupError, TypeError, TypeError, LookupError])

    def broken(_: AgentEvent) -> None:
        raise next(kinds)

    bus.subscribe(broken)
    for number in range(5):
        bus.publish(event(number))
    assert [each.exc_info and each.exc_info[0] for each in caplog.records] == [LookupError, TypeError]


def test_an_interrupt_passes_through_and_leaves_the_bus_working() -> None:
    bus = LocalEventBus()
    seen: list[AgentEvent] = []

    def interrupt(_: AgentEvent) -> None:
        bus.publish(event(99))
        raise KeyboardInterrupt

    end = bus.subscribe(interrupt)
    with pytest.raises(KeyboardInterrupt):
        bus.publish(event(0))
    end()
    bus.subscribe(seen.append)
    bus.publish(event(1))
    assert seen == [event(1)]


def test_ending_a_subscription_twice_is_harmless_and_ends_no_other() -> None:
    bus = LocalEventBus()
    seen: list[AgentEvent] = []
    first = bus.subscribe(seen.append)
    second = bus.subscribe(seen.append)
    first()
    first()
    bus.publish(event(0))
    assert seen == [event(0)]
    second()
    second()
    bus.publish(event(1))
    assert seen == [event(0)]


def test_the_same_handler_subscribed_twice_is_called_twice() -> None:
    bus = LocalEventBus()
    seen: list[AgentEvent] = []
    bus.subscribe(seen.append)
    bus.subscribe(seen.append, run_id=RunId("run"))
    bus.publish(event(0))
    assert seen == [event(0), event(0)]


def test_a_handler_may_end_its_own_subscription() -> None:
    bus = LocalEventBus()
    once: list[AgentEvent] = []
    always: list[AgentEvent] = []

    def take_one(each: AgentEvent) -> None:
        once.append(each)
        end()

    end = bus.subscribe(take_one)
    bus.subscribe(always.append)
    bus.publish(event(0))
    bus.publish(event(1))
    assert once == [event(0)]
    assert always == [event(0), event(1)]


def test_a_handler_ended_during_delivery_is_not_called_any_more() -> None:
    bus = LocalEventBus()
    seen: list[AgentEvent] = []
    ends: list[Callable[[], None]] = []
    bus.subscribe(lambda _: ends[0]())
    ends.append(bus.subscribe(seen.append))
    bus.publish(event(0))
    assert seen == []


def test_a_handler_subscribed_during_delivery_gets_the_later_events_only() -> None:
    bus = LocalEventBus()
    late: list[AgentEvent] = []

    def subscribe_late(each: AgentEvent) -> None:
        if number(each) == 0:
            bus.publish(
                event(1)
            )  # waits until all have seen event 0, yet was published before the subscription
            bus.subscribe(late.append)
            bus.publish(event(2))

    bus.subscribe(subscribe_late)
    bus.publish(event(0))
    bus.publish(event(3))
    assert late == [event(2), event(3)]


def test_events_published_by_a_handler_keep_their_order_for_everyone() -> None:
    bus = LocalEventBus()
    before: list[int] = []
    after: list[int] = []

    def publish_more(each: AgentEvent) -> None:
        if number(each) == 0:
            bus.publish(event(1))
            bus.publish(event(2))
        elif number(each) == 1:
            bus.publish(event(3))

    bus.subscribe(lambda each: before.append(number(each)))
    bus.subscribe(publish_more)
    bus.subscribe(lambda each: after.append(number(each)))
    bus.publish(event(0))
    assert before == [0, 1, 2, 3]
    assert after == [0, 1, 2, 3]


def test_a_chain_of_events_is_not_bound_by_the_stack() -> None:
    bus = LocalEventBus()
    seen: list[int] = []

    def go_on(each: AgentEvent) -> None:
        seen.append(number(each))
        if number(each) < 20_000:
            bus.publish(event(number(each) + 1))

    bus.subscribe(go_on)
    bus.publish(event(0))
    assert seen == list(range(20_001))


def test_each_thread_delivers_its_own_events() -> None:
    bus = LocalEventBus()
    seen: dict[str, list[tuple[int, str]]] = {}
    start = threading.Barrier(8)

    def run(name: str) -> None:
        got: list[tuple[int, str]] = []
        seen[name] = got
        end = bus.subscribe(
            lambda each: got.append((number(each), threading.current_thread().name)), run_id=RunId(name)
        )
        start.wait()
        for index in range(300):
            bus.publish(event(index, name))
        end()

    threads = [
        threading.Thread(target=run, args=(f"run-{index}",), name=f"run-{index}") for index in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    for name, got in seen.items():
        assert got == [(index, name) for index in range(300)]


def test_an_ended_handler_is_not_kept_alive() -> None:
    class Handler:
        def __call__(self, _: AgentEvent) -> None:
            return None

    bus = LocalEventBus()
    handler = Handler()
    reference = weakref.ref(handler)
    end = bus.subscribe(handler, run_id=RunId("run"))
    end()
    del handler, end
    gc.collect()
    assert reference() is None


def fastest(call: Callable[[], object], times: int = 20_000) -> float:
    """Seconds a call, in the best of seven tries, so that a busy machine does not decide."""
    return min(timeit.repeat(call, number=times, repeat=7)) / times


def test_the_cost_of_an_event_does_not_grow_with_the_number_of_runs() -> None:
    def cost(runs: int) -> float:
        bus = LocalEventBus()
        for index in range(runs):
            bus.subscribe(lambda _: None, run_id=RunId(f"run-{index}"))
        one = event(0, "run-0")
        return fastest(lambda: bus.publish(one), 2_000)

    assert cost(1_000) < cost(1) * 50  # a scan of all runs would take hundreds of times as long


def test_it_says_whether_anybody_gets_the_events_of_a_run() -> None:
    bus = LocalEventBus()
    run, other = RunId("run"), RunId("other")
    assert not bus.has_subscribers(run)
    unsubscribe_run = bus.subscribe(lambda _: None, run_id=run)
    assert (bus.has_subscribers(run), bus.has_subscribers(other)) == (True, False)
    unsubscribe_all = bus.subscribe(lambda _: None)
    unsubscribe_run()
    assert (bus.has_subscribers(run), bus.has_subscribers(other)) == (True, True)
    unsubscribe_all()
    assert not bus.has_subscribers(run)
