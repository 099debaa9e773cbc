"""The queue and the schedules in the record of runs; ``tests/system`` has the same tests on Postgres."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from attrs import evolve
from returns.result import Failure, Success

from reactive_agents.adapters import dbos_queue, leases, run_record, sql, sqlite
from reactive_agents.adapters.dbos_queue import DbosQueue
from reactive_agents.adapters.leases import LeaseRenewal
from reactive_agents.adapters.run_record import LEASE_S, SqliteRunRecord
from reactive_agents.core.errors import LeaseLost, RecordFailed
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.run_record import (
    EntryKind,
    QueueLimits,
    RecordedRun,
    RunClaim,
    RunEntry,
    RunFilter,
    RunSchedule,
    RunState,
)
from reactive_agents.core.tasks import Task
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock
from tests.support.sqlite_files import counted_work
from tests.support.virtual_time import SettableClock
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

AGENT, NO_LIMITS = AgentId("clerk"), QueueLimits()
Open = Callable[[FakeClock], SqliteRunRecord]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Open the record once more, as another process does."""
    return lambda clock: SqliteRunRecord(tmp_path / "runs.db", clock=clock)


def queued(name: str, priority: int = 0, due: datetime | None = None) -> RecordedRun:
    task = Task(TaskId(name), AGENT, "Pay.", datetime(2026, 1, 1, tzinfo=UTC))
    return RecordedRun(
        RunId(name), AGENT, task, status="queued", queue="payments", priority=priority, due=due
    )


async def add(record: SqliteRunRecord, *runs: RecordedRun) -> None:
    for run in runs:
        assert (await attempt(record.add(run))).unwrap()


async def take(record: SqliteRunRecord, limits: QueueLimits = NO_LIMITS, at_most: int = 10) -> dict[str, str]:
    """Reserve runs; return their holders by their ids."""
    return dict((await attempt(record.dequeue(AGENT, "payments", limits, at_most=at_most))).unwrap())


async def claim(record: SqliteRunRecord, name: str, holder: str = "") -> RunClaim:
    run = (await attempt(record.find(RunId(name)))).unwrap()
    return (await attempt(record.claim(run, lambda order: None, holder))).unwrap()


async def test_each_run_is_reserved_for_one_worker_by_priority(opened: Open) -> None:
    clock = FakeClock()
    one, two = opened(clock), opened(clock)
    await add(one, queued("a"), queued("b", 2), queued("c", 1), queued("d", due=clock.now() + timedelta(1)))
    first, second = await take(one, at_most=2), await take(two)
    assert (list(first), list(second)) == (["b", "c"], ["a"])
    assert (await claim(two, "b")).state == "new"  # who calls run with its id does not wait for a reservation
    assert (await claim(one, "b", first["b"])).state == "held"
    assert (await claim(one, "c", first["c"])).state == "new"
    clock.advance(2 * 86400)
    assert "d" in await take(two)
    for record in (one, two):
        await record.aclose()


async def test_a_reservation_ends_like_a_lease(opened: Open) -> None:
    clock = FakeClock()
    record = opened(clock)
    await add(record, queued("a"))
    assert list(await take(record)) == ["a"]
    assert await take(record) == {}
    clock.advance(20.5)  # docs/durable-runs.md says that it takes 20 seconds
    await add(record, queued("b", 1))
    assert list(await take(record, at_most=1)) == ["b"], "it does not go before what is more urgent"
    assert list(await take(record)) == ["a"]
    await record.aclose()


async def test_a_clock_that_jumps_ahead_takes_no_run_from_a_live_process(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease has expired by the new time until it is renewed, for which there is time."""
    clock = SettableClock()
    live, other = opened(SettableClock()), opened(clock)
    monkeypatch.setattr(LeaseRenewal, "hold", lambda *_: None)
    monkeypatch.setattr(leases, "DOUBTED_S", 600.0)
    await add(live, queued("a"), queued("b"))
    assert list(await take(live)) == ["a", "b"]
    assert (await claim(live, "a")).state == "new"
    assert (await claim(other, "a")).state == "held"
    clock.time += timedelta(days=90)
    assert await take(other) == {}
    assert (await claim(other, "a")).state == "held"
    monkeypatch.setattr(leases, "DOUBTED_S", 0.0)
    assert list(await take(other)) == ["a", "b"]
    for record in (live, other):
        await record.aclose()


async def test_a_run_that_ends_after_the_clock_jumped_has_the_time_of_then(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the time before the jump it would be pruned at once; a queued run is due by the new time too."""
    clock = SettableClock()
    record = opened(clock)
    monkeypatch.setattr(leases, "DOUBTED_S", 600.0)
    await add(record, queued("a"))
    ((_, holder),) = (await take(record)).items()
    assert (await claim(record, "a", holder)).state == "new"
    await add(record, evolve(queued("b"), due=clock.now() + timedelta(days=1)))
    clock.time += timedelta(days=90)
    assert list(await take(record)) == ["b"]
    await attempt(record.end(RunId("a"), holder, "completed", "{}"))
    ended = (await attempt(record.find(RunId("a")))).unwrap()
    assert ended is not None
    assert ended.updated_at is not None
    assert ended.updated_at > clock.now() - timedelta(days=1)
    assert (await attempt(record.delete(before=clock.now() - timedelta(days=30)))).unwrap() == 0
    await record.aclose()


async def test_no_more_runs_are_begun_than_the_rate_allows(opened: Open) -> None:
    clock = FakeClock()
    one, two = opened(clock), opened(clock)
    await add(one, *(queued(f"r{number}") for number in range(5)))
    limits = QueueLimits(rate=2, period_s=60)
    assert list(await take(one, limits, 1)) == ["r0"]
    assert list(await take(two, limits)) == ["r1"]
    assert await take(one, limits) == {}
    clock.advance(61)
    assert len(await take(two, limits)) == 2
    assert await take(one, limits) == {}
    for record in (one, two):
        await record.aclose()


async def test_no_more_runs_are_under_way_than_the_total_of_all_workers(opened: Open) -> None:
    clock = FakeClock()
    one, two = opened(clock), opened(clock)
    await add(one, *(queued(f"r{number}") for number in range(4)))
    limits = QueueLimits(total=2)
    first = await take(one, limits, 1)
    begun = await claim(one, "r0", first["r0"])
    assert list(await take(two, limits)) == ["r1"]
    assert await take(one, limits) == {}
    assert (await attempt(one.end(RunId("r0"), begun.holder, "completed", "{}"))).unwrap() is None
    assert list(await take(one, limits)) == ["r2"]
    for record in (one, two):
        await record.aclose()


async def test_a_run_that_ends_its_processes_does_not_hold_up_its_queue(opened: Open) -> None:
    clock, limits = FakeClock(), QueueLimits()
    record = opened(clock)
    await add(record, queued("bad"), queued("worse"), queued("good"))

    async def end_process() -> list[str]:
        taken = await take(record, limits, 2)
        for run_id, holder in taken.items():
            record.abandon((await claim(record, run_id, holder)).holder)
        return list[str](taken)

    for _ in range(3):
        assert await end_process() == ["bad", "worse"]
    good = await take(record, limits, 2)
    assert list(good) == ["good"]
    assert await take(record, limits) == {}
    assert await attempt(record.interrupted(AGENT)) == Success(())
    clock.advance(1.5)
    assert await attempt(record.interrupted(AGENT)) == Success(("bad", "worse"))
    assert await end_process() == ["bad"]  # alone, since each may end the process
    assert await end_process() == ["worse"]
    clock.advance(1)
    assert await end_process() == []
    clock.advance(1.5)
    assert await end_process() == ["bad"]
    await record.aclose()


async def test_the_lease_of_a_run_that_was_abandoned_is_renewed_no_more(opened: Open) -> None:
    """Another process could never take it over."""
    record, renewed = opened(FakeClock()), list[str]()
    await add(record, queued("left"), queued("kept"))
    holders = list[str]()
    for name in ("left", "kept"):
        run = (await attempt(record.find(RunId(name)))).unwrap()
        assert run is not None
        claimed = await attempt(record.claim(run, lambda _, name=name: renewed.append(name)))  # type: ignore[misc]
        holders.append(claimed.unwrap().holder)
    record.abandon(holders[0])
    before = renewed.count("kept")
    await until(lambda: renewed.count("kept") > before + 1)  # the first may be of a round that was under way
    renewed.clear()
    await until(lambda: "kept" in renewed)
    record.abandon(holders[1])
    assert {*renewed} == {"kept"}
    await record.aclose()


async def test_a_clock_that_is_set_back_does_not_hold_up_a_queue_with_a_rate(opened: Open) -> None:
    limits = QueueLimits(rate=1, period_s=60)
    record = opened(FakeClock(datetime(2026, 1, 2, tzinfo=UTC)))
    await add(record, queued("a"), queued("b"))
    assert list(await take(record, limits)) == ["a"]
    await record.aclose()
    later = opened(FakeClock(datetime(2026, 1, 1, tzinfo=UTC)))
    assert list(await take(later, limits)) == ["b"]
    await later.aclose()


async def test_a_run_that_was_interrupted_comes_first_and_counts_once_for_the_rate(opened: Open) -> None:
    clock = FakeClock()
    record = opened(clock)
    limits = QueueLimits(rate=1, period_s=60)
    await add(record, queued("old"), queued("new", 5))
    holder = (await take(record, limits, 1))["new"]
    await claim(record, "new", holder)
    assert (await attempt(record.release(RunId("new"), holder))).unwrap() is None
    clock.advance(50)
    assert list(await take(record, limits)) == ["new"]
    clock.advance(11)  # it was begun more than a minute ago, though continued just now
    assert list(await take(record, limits)) == ["old"]
    await record.aclose()


async def test_an_interrupted_run_is_continued_by_the_workers_of_its_queue(opened: Open) -> None:
    record = opened(FakeClock())
    await add(record, queued("a"), evolve(queued("b"), queue="refunds"))
    for name in ("a", "b"):
        begun = await claim(record, name)
        assert (await attempt(record.release(RunId(name), begun.holder))).unwrap() is None
    assert list(await take(record)) == ["a"]
    await record.aclose()


async def test_many_runs_that_owe_do_not_fill_a_worker(opened: Open) -> None:
    record, names = opened(FakeClock()), [f"r{number}" for number in range(20)]
    await add(record, *map(queued, names))
    for name, holder in (await take(record, at_most=20)).items():
        await claim(record, name, holder)
        (await attempt(record.end(RunId(name), holder, "failed", "{}", owes=["cost"]))).unwrap()
    await add(record, queued("next"))
    taken = await take(record)
    assert "next" in taken
    assert 1 < len(taken) < 10
    await record.aclose()


async def test_the_first_answer_holds_and_an_ended_run_takes_none(opened: Open) -> None:
    clock = FakeClock()
    record = opened(clock)
    await add(record, queued("a"))
    begun = await claim(record, "a")

    async def told(key: str) -> bool:
        entry = RunEntry(f"{key}=", "answer", clock.now(), "{}")
        return (await attempt(record.answer(RunId("a"), entry))).unwrap()

    assert [await told("q1?"), await told("q1?"), await told("q2?")] == [True, False, True]
    assert (await attempt(record.end(RunId("a"), begun.holder, "completed", "{}"))).unwrap() is None
    assert not await told("q3?")
    assert len((await attempt(record.entries(RunId("a")))).unwrap()) == 2
    await record.aclose()


async def test_a_cancellation_that_its_process_did_not_live_to_see_is_left_to_the_next(opened: Open) -> None:
    """Which counts what the run spent."""
    clock = FakeClock()
    record = opened(clock)
    await add(record, queued("a"))
    begun = await claim(record, "a")
    assert (await attempt(record.order(RunId("a"), "cancel"))).unwrap()
    record.abandon(begun.holder)
    clock.advance(LEASE_S + 1)
    again = await claim(record, "a")
    assert (again.state, again.run.order) == ("taken", "cancel")
    ended = record.end(RunId("a"), again.holder, "cancelled", "{}")
    assert (await attempt(ended)).unwrap() is None
    last = await claim(record, "a")
    assert (last.state, last.run.status, last.run.order) == ("ended", "cancelled", "")
    await record.aclose()


async def test_a_run_that_is_to_be_cancelled_does_not_wait_after_it_has_ended_its_processes(
    opened: Open,
) -> None:
    record = opened(FakeClock())
    await add(record, queued("a"), queued("b"))
    for _ in range(6):
        begun = [(await claim(record, name)).holder for name in ("a", "b")]
        assert await attempt(record.interrupted(AGENT)) == Success(())
        assert (await attempt(record.order(RunId("b"), "cancel"))).unwrap()
        for holder in begun:
            record.abandon(holder)
    assert await attempt(record.interrupted(AGENT)) == Success((RunId("b"),))
    assert list(await take(record)) == ["b"]
    await record.aclose()


async def test_a_run_that_was_cancelled_at_once_has_no_order_left(opened: Open) -> None:
    record = opened(FakeClock())
    await add(record, queued("a"))
    assert (await attempt(record.order(RunId("a"), "cancel"))).unwrap()
    run = (await attempt(record.find(RunId("a")))).unwrap()
    assert (run.status, run.order) == ("cancelled", "")
    await record.aclose()


@pytest.mark.parametrize("ends_by", ["end", "cancel", "cancel in vain"])
async def test_what_a_run_has_begun_and_cut_off_ends_with_it(opened: Open, ends_by: str) -> None:
    record = opened(FakeClock())
    for name, parent in (("lead", None), ("clerk", "lead"), ("buyer", "clerk"), ("other", None)):
        await add(record, evolve(queued(name), status="open", queue="", parent=parent and RunId(parent)))
    holder = (await claim(record, "lead")).holder
    if ends_by == "end":
        (await attempt(record.end(RunId("lead"), holder, "completed", "{}"))).unwrap()
    else:
        if ends_by == "cancel":
            record.abandon(holder)
        assert (await attempt(record.order(RunId("lead"), "cancel"))).unwrap()
        record.abandon(holder)
        again = await claim(record, "lead")
        assert again.state == ("ended" if ends_by == "cancel" else "taken")
        if ends_by != "cancel":
            (await attempt(record.end(RunId("lead"), again.holder, "cancelled", "{}"))).unwrap()
    found = (await attempt(record.runs(RunFilter(AGENT, children=True)))).unwrap()
    ended = "completed" if ends_by == "end" else "cancelled"
    assert {each.run_id: each.status for each in found} == {
        "lead": ended,
        "clerk": "cancelled",
        "buyer": "cancelled",
        "other": "open",
    }
    await record.aclose()


async def test_a_run_that_was_given_up_on_a_full_disk_goes_on_at_once(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record could not be told of it; this process knows."""
    clock = FakeClock()
    record, other = opened(clock), opened(clock)
    await add(record, queued("a"))
    begun = await claim(record, "a")

    async def refuse(*_: object, **__: object) -> Any:
        return Failure(RecordFailed("The disk is full.", "release"))

    with monkeypatch.context() as patched:
        patched.setattr(record._file, "write_soon", refuse)
        assert isinstance(await attempt(record.release(RunId("a"), begun.holder)), Failure)
    assert (await claim(other, "a")).state == "taken"
    late = RunEntry("t1", "intent", clock.now(), "{}")
    assert isinstance(await attempt(record.append(RunId("a"), begun.holder, late)), Failure)
    await other.aclose()
    await record.aclose()


async def test_what_waits_is_written_when_a_run_that_could_not_end_is_released(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    record, run_id = opened(clock), RunId("a")
    await add(record, queued("a"))
    begun, write = await claim(record, "a"), record._file.write_soon
    is_full = True

    async def write_if_there_is_room(operation: str, *given: Any, **options: Any) -> Any:
        if is_full:
            return Failure(RecordFailed("The disk is full.", operation))
        return await write(operation, *given, **options)

    monkeypatch.setattr(record._file, "write_soon", write_if_there_is_room)
    monkeypatch.setattr(run_record._HeldRun, "_write_waiting", lambda _: None)
    late = RunEntry("m1", "model", clock.now(), "{}")
    assert (await attempt(record.append(run_id, begun.holder, late, later=True))) == Success(None)
    assert isinstance(await attempt(record.end(run_id, begun.holder, "completed", "{}")), Failure)
    is_full = False
    assert (await attempt(record.release(run_id, begun.holder))).unwrap() is None
    assert [each.key for each in (await attempt(record.entries(run_id))).unwrap()] == ["m1"]
    assert (await claim(record, "a")).state == "taken"
    await record.aclose()


async def test_an_entry_whose_write_only_seemed_to_fail_is_not_added_again_at_the_end(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    record, run_id = opened(clock), RunId("a")
    await add(record, queued("a"))
    begun, write = await claim(record, "a"), record._file.write_soon

    async def write_and_fail(*given: Any, **options: Any) -> Any:
        await write(*given, **options)
        return Failure(RecordFailed("The file cannot be written by the system.", "append"))

    monkeypatch.setattr(run_record._HeldRun, "_write_waiting", lambda _: None)
    first, second = RunEntry("m1", "model", clock.now(), "{}"), RunEntry("t1", "intent", clock.now(), "{}")
    await attempt(record.append(run_id, begun.holder, first, later=True))
    with monkeypatch.context() as patched:
        patched.setattr(record._file, "write_soon", write_and_fail)
        await attempt(record.append(run_id, begun.holder, second, durable=True))
    assert (await attempt(record.end(run_id, begun.holder, "completed", "{}"))).unwrap() is None
    assert [each.key for each in (await attempt(record.entries(run_id))).unwrap()] == ["m1", "t1"]
    await record.aclose()


async def test_each_time_of_a_schedule_has_one_run(opened: Open) -> None:
    clock = FakeClock()
    one, two = opened(clock), opened(clock)
    task = queued("any").task
    schedule = RunSchedule("nightly", AGENT, "0 2 * * *", task, clock.now())
    assert (await attempt(one.schedule(schedule))).unwrap() is None
    (due,) = (await attempt(two.schedules(AGENT, due=clock.now()))).unwrap()
    assert due == schedule
    following = clock.now() + timedelta(days=1)
    assert (await attempt(one.add_scheduled(due, queued("nightly@1"), following))).unwrap()
    assert not (await attempt(two.add_scheduled(due, queued("nightly@1"), following))).unwrap()
    assert (await attempt(two.schedules(AGENT, due=clock.now()))).unwrap() == ()
    (moved,) = (await attempt(two.schedules())).unwrap()
    assert moved.next_at == following
    assert (await attempt(one.schedule(evolve(moved, cron="0 3 * * *")))).unwrap() is None
    assert [each.cron for each in (await attempt(two.schedules())).unwrap()] == ["0 3 * * *"]
    assert (await attempt(one.unschedule(AGENT, "nightly"))).unwrap()
    assert not (await attempt(one.unschedule(AGENT, "nightly"))).unwrap()
    assert not (await attempt(two.add_scheduled(moved, queued("nightly@2"), following))).unwrap()
    assert (await attempt(one.find(RunId("nightly@2")))).unwrap() is None, (
        "its schedule was deleted meanwhile"
    )
    for record in (one, two):
        await record.aclose()


async def test_a_run_with_nothing_to_write_is_released_in_one_transaction(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, operations = opened(FakeClock()), list[str]()
    await add(record, queued("a"))
    begun, write = await claim(record, "a"), record._file.write_soon

    async def noted(operation: str, work: Any, **options: Any) -> Any:
        operations.append(operation)
        return await write(operation, work, **options)

    monkeypatch.setattr(record._file, "write_soon", noted)
    assert (await attempt(record.release(RunId("a"), begun.holder))).unwrap() is None
    assert operations == ["release"]
    await record.aclose()


def batches_of(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the keys of the entries that each transaction adds from now on, if it adds any."""
    batches: list[list[str]] = []
    append, begin = run_record._HeldRun.append, run_record._HeldRun._begin

    async def noted(held: Any, entries: Any, **options: Any) -> Any:
        keys = [each.key for each in entries]
        batches.extend([keys] * bool(keys))
        return await append(held, entries, **options)

    def sent(held: Any) -> bool:
        keys = [each.key for each in held.waiting]
        has_begun = begin(held)
        batches.extend([keys] * has_begun)
        return has_begun

    monkeypatch.setattr(run_record._HeldRun, "append", noted)
    monkeypatch.setattr(run_record._HeldRun, "_begin", sent)
    return batches


async def test_an_answer_is_written_with_the_next_entry_or_when_the_run_waits(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = opened(FakeClock())
    await add(record, queued("a"))
    holder, run_id = (await claim(record, "a")).holder, RunId("a")
    batches = batches_of(monkeypatch)

    async def append(key: str, kind: EntryKind, **when: bool) -> None:
        entry = RunEntry(key, kind, datetime(2026, 1, 1, tzinfo=UTC), f'{{"of": "{key}"}}')
        (await attempt(record.append(run_id, holder, entry, **when))).unwrap()

    await append("m1", "model", later=True)
    await append("t1", "intent", durable=True)
    await append("t1=", "result", later=True)
    await attempt(record.settle(run_id, holder))
    await append("m2", "model", later=True)
    await until(lambda: len(batches) == 3)
    await append("m3", "model", later=True)
    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(lambda key: append(key, "intent", durable=True), f"g1.{number}/t1")
    assert batches[:3] == [["m1", "t1"], ["t1="], ["m2"]]
    assert batches[3][:2] == ["m3", "g1.0/t1"]
    if record._server is None:  # which may answer before or after the other calls begin
        assert [len(batch) for batch in batches[3:]] == [2, 29]  # what came while the first was written
    await append("m4", "model", later=True)
    assert await attempt(record.end(run_id, holder, "completed", "{}")) == Success(None)
    found = (await attempt(record.entries(run_id))).unwrap()
    assert [each.key for each in found] == [key for batch in batches for key in batch] + ["m4"]
    assert [each.number for each in found] == [*range(1, 37)]
    assert all(each.body == f'{{"of": "{each.key}"}}' for each in found)
    await record.aclose()


async def test_one_timer_writes_the_requests_of_a_run_that_wait_for_their_answers(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[tuple[float, Callable[[], object]]] = []
    monkeypatch.setattr(run_record, "call_later_on_this_loop", lambda *timer: timers.append(timer))
    record = opened(FakeClock())
    await add(record, queued("a"))
    holder, run_id = (await claim(record, "a")).holder, RunId("a")
    batches = batches_of(monkeypatch)

    async def append(key: str, kind: EntryKind, **when: bool) -> None:
        entry = RunEntry(key, kind, datetime(2026, 1, 1, tzinfo=UTC), "{}")
        (await attempt(record.append(run_id, holder, entry, **when))).unwrap()

    for number in range(1, 21):  # answers that come at once are written with their requests
        await append(f"m{number}<", "request", later=True)
        await append(f"m{number}", "model", later=True)
        await append(f"t{number}", "intent")
    assert batches == [[f"m{number}<", f"m{number}", f"t{number}"] for number in range(1, 21)]
    assert [seconds for seconds, _ in timers] == [0.05]
    await append("m21<", "request", later=True)
    timers.pop()[1]()  # that of the first request; the latest is looked at later
    ((seconds, look),) = timers
    assert seconds == 0.05
    assert len(batches) == 20
    look()
    await until(lambda: len(batches) == 21)
    assert batches[20] == ["m21<"]
    assert len(timers) == 1, "nothing waits any more"
    await append("m22<", "request", later=True)
    assert len(timers) == 2
    await append("m22", "model", later=True)
    await attempt(record.settle(run_id, holder))
    timers.pop()[1]()
    assert len(timers) == 1
    await record.aclose()


async def test_an_entry_whose_writer_is_cancelled_is_not_written_by_another(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = opened(FakeClock())
    await add(record, queued("a"))
    holder, run_id = (await claim(record, "a")).holder, RunId("a")
    held = record._leases.get(holder)
    assert held is not None

    async def append(key: str) -> None:
        entry = RunEntry(key, "intent", datetime(2026, 1, 1, tzinfo=UTC), "{}")
        (await attempt(record.append(run_id, holder, entry, durable=True))).unwrap()

    async with anyio.create_task_group() as group, anyio.create_task_group() as cancelled, held.writing:
        cancelled.start_soon(append, "cut off")
        group.start_soon(append, "t1")
        await until(lambda: len(held.waiting) == 2)
        cancelled.cancel_scope.cancel()
        await until(lambda: len(held.waiting) == 1)
    found = (await attempt(record.entries(run_id))).unwrap()
    assert [each.key for each in found] == ["t1"]
    await record.aclose()


async def test_a_run_that_was_taken_over_begins_no_call_that_another_one_would_have_recorded(
    opened: Open,
) -> None:
    clock = FakeClock()
    one, two, run_id = opened(clock), opened(clock), RunId("a")
    await add(one, queued("a"))
    holder = (await claim(one, "a")).holder
    assert await attempt(one.settle(run_id, holder)) == Success("")
    clock.advance(LEASE_S + 1)
    assert (await claim(two, "a")).state == "taken"
    assert await attempt(one.settle(run_id, holder)) == Failure(LeaseLost(run_id))
    ended: list[Any] = []

    async def append(key: str) -> None:
        entry = RunEntry(key, "intent", datetime(2026, 1, 1, tzinfo=UTC), "{}")
        ended.append(await attempt(one.append(run_id, holder, entry, durable=True)))

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(append, f"g1.{number}/t1")
    assert ended == [Failure(LeaseLost(run_id))] * 3
    assert (await attempt(two.entries(run_id))).unwrap() == ()
    for record in (one, two):
        await record.aclose()


async def test_what_is_to_be_on_the_disk_stays_so_when_the_write_of_another_call_fails(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, run_id = opened(FakeClock()), RunId("a")
    await add(record, queued("a"))
    holder = (await claim(record, "a")).holder
    append, writes = run_record._HeldRun.append, list[tuple[list[str], bool]]()

    async def failing_first(held: Any, entries: Any, **options: Any) -> Any:
        writes.append(([each.key for each in entries], options["durable"]))
        await anyio.lowlevel.checkpoint()  # a server may answer before the other calls begin
        if len(writes) == 2:
            group.cancel_scope.cancel()
            await anyio.sleep_forever()
        return await append(held, entries, **options)

    monkeypatch.setattr(run_record._HeldRun, "append", failing_first)

    async def add_entry(key: str, durable: bool) -> None:
        entry = RunEntry(key, "intent", datetime(2026, 1, 1, tzinfo=UTC), "{}")
        (await attempt(record.append(run_id, holder, entry, durable=durable))).unwrap()

    async with anyio.create_task_group() as others, anyio.create_task_group() as group:
        group.start_soon(add_entry, "t1", True)
        group.start_soon(add_entry, "t2", False)
        others.start_soon(add_entry, "t3", True)
    assert writes == [(["t1"], True), (["t2", "t3"], True), (["t3"], True)]
    await record.aclose()


async def test_what_names_no_holder_changes_no_run(opened: Open) -> None:
    clock = FakeClock()
    record = opened(clock)
    await add(record, queued("a"))
    before = (await attempt(record.find(RunId("a")))).unwrap()
    clock.advance(60)
    entry = RunEntry("t1", "intent", clock.now(), "{}")
    for written in (
        record.append(RunId("a"), "", entry),
        record.release(RunId("a"), ""),
        record.end(RunId("a"), "", "completed", "{}"),
    ):
        assert isinstance((await attempt(written)).failure(), LeaseLost)
    assert (await attempt(record.find(RunId("a")))).unwrap() == before
    await record.aclose()


async def test_many_runs_are_listed_and_deleted_a_few_at_a_time(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server has a lock for each run that a transaction deletes, and sends whole results of a list."""
    monkeypatch.setattr(run_record, "_READ_AT_ONCE", 2)
    monkeypatch.setattr(run_record, "_DELETED_AT_ONCE", 2)
    clock = FakeClock()
    record = opened(clock)
    names = [f"r{number}" for number in range(5)]
    await add(record, *map(queued, names))
    await add(record, *(evolve(queued(f"{name}-below"), parent=RunId(name)) for name in names))
    await add(record, *(evolve(queued(f"{name}-deep"), parent=RunId(f"{name}-below")) for name in names))
    for name in names[1:]:
        await attempt(record.order(RunId(name), "cancel"))

    async def listed(chosen: RunFilter) -> list[str]:
        return [each.run_id for each in (await attempt(record.runs(chosen))).unwrap()]

    assert await listed(RunFilter()) == names[::-1]
    assert await listed(RunFilter(limit=3)) == ["r4", "r3", "r2"]
    assert await listed(RunFilter(state="queued")) == ["r0"]
    transactions, emptied = 0, 0
    write, empty_log = record._file.write, record._file.empty_log

    async def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal transactions
        transactions += 1
        return await write(*args, **kwargs)

    async def counted_log(*, rewrites: bool) -> None:
        nonlocal emptied
        emptied += not rewrites
        await empty_log()

    monkeypatch.setattr(record._file, "write", counted)
    monkeypatch.setattr(record._file, "empty_log", counted_log)
    clock.advance(60)
    assert (await attempt(record.delete(before=clock.now()))).unwrap() == 4
    assert transactions == 2
    assert (await attempt(record.delete(before=clock.now()))).unwrap() == 0
    assert transactions == 2  # no writer waits while all runs are searched for old ones
    assert emptied == 2  # the log of the file, which a reader may keep from being emptied for seconds
    assert await listed(RunFilter(children=True)) == ["r0-deep", "r0-below", "r0"]
    await record.aclose()


async def test_a_run_is_kept_while_what_its_tools_began_goes_on_or_is_shared_by_a_fork(opened: Open) -> None:
    clock = FakeClock()
    record = opened(clock)
    below = [evolve(queued(name), parent=RunId(name[:-1]), status="open") for name in ("aa", "aaa", "bb")]
    await add(record, *map(queued, "ab"), *below)
    holders = {name: (await claim(record, name)).holder for name in ("a", "aa", "aaa", "b", "bb")}

    async def end(name: str) -> None:
        (await attempt(record.end(RunId(name), holders[name], "completed", "{}"))).unwrap()

    for name in ("a", "aa", "b", "bb"):  # the other one waits for a person
        await end(name)
    await add(record, evolve(queued("fork"), origin=RunId("bb")))
    clock.advance(60)
    assert (await attempt(record.delete(before=clock.now()))).unwrap() == 0

    await end("aaa")
    assert (await attempt(record.delete(run_id=RunId("fork")))).unwrap() == 1
    clock.advance(60)
    assert (await attempt(record.delete(before=clock.now()))).unwrap() == 2
    assert (await attempt(record.runs(RunFilter(children=True)))).unwrap() == ()
    await record.aclose()


async def test_a_run_of_a_session_in_use_takes_no_place_of_another_one(opened: Open) -> None:
    clock = FakeClock()
    one, two = opened(clock), opened(clock)

    def of_session(name: str, priority: int = 0) -> RecordedRun:
        run = queued(name, priority)
        return evolve(run, task=evolve(run.task, session="s"))

    await add(one, *map(of_session, ("s1", "s2", "s3")), of_session("s4", 1), *map(queued, ("a", "b")))
    first = await take(one, at_most=5)
    assert [*first] == ["s4", "a"]
    await claim(one, "s4", first["s4"])  # it may wait for a person
    assert [*await take(two, at_most=2)] == ["b"]
    await attempt(one.end(RunId("s4"), first["s4"], "completed", "{}"))
    second = await take(two)
    assert [*second] == ["s1"]
    await claim(two, "s1", second["s1"])
    clock.advance(60)
    assert [*await take(one)] == ["s1", "a", "b"]  # its process is gone, and the next one follows it
    for record in (one, two):
        await record.aclose()


async def work_of_operations(path: Path, size: int) -> dict[str, int]:
    """Return the instructions of SQLite for each operation on a record with so many runs of each kind."""
    clock = FakeClock()
    record = SqliteRunRecord(path, clock=clock)
    ended = [evolve(queued(f"r{number}"), status="completed", queue="") for number in range(size)]
    below = [evolve(each, run_id=RunId(f"{each.run_id}-below"), parent=each.run_id) for each in ended]
    pairs = [each for pair in zip(ended, below, strict=True) for each in pair]
    waiting = [queued(f"q{number}", number % 3) for number in range(size)]
    other = evolve(queued("x"), agent_id=AgentId("other"), status="open")
    asked = RunEntry("ask?", "question", clock.now(), '{"kind": "approval", "request": {}}')

    def fill(file: sql.Transaction) -> None:
        now = sqlite.microseconds(clock.now())
        for run in (other, *pairs, *waiting):
            run_record._add(file, run, now, run_record.Seal(None))
            (added,) = file.execute("SELECT max(id) FROM runs").fetchone()
            run_record._insert(file, added, 0, [asked])

    (await record._file.write("fill", fill)).unwrap()
    work, works = await counted_work(record._file)

    for state in ("completed", "failed", "queued", "interrupted", None):
        await work(f"list {state}", record.runs(RunFilter(AGENT, state=state, limit=5)))
    assert await work("list others", record.runs(RunFilter(AgentId("other"), limit=5)))
    assert await work("questions", record.questions())
    await work("interrupted", record.interrupted(AGENT))
    taken = record.dequeue(AGENT, "payments", QueueLimits(total=9, rate=9), at_most=5)
    assert len(await work("dequeue", taken)) == 5
    assert not await work("nothing to dequeue", record.dequeue(AGENT, "other", QueueLimits(), at_most=5))
    claimed = await work("claim", record.claim(queued("new"), lambda order: None))
    await attempt(record.release(RunId("new"), claimed.holder))
    assert await work("delete", record.delete(run_id=RunId("r7"))) == 1
    clock.advance(60)
    assert await work("prune", record.delete(before=clock.now())) == size - 1
    await record.aclose()
    return works


async def test_an_operation_on_a_record_of_many_runs_takes_no_more_than_on_one_of_few(tmp_path: Path) -> None:
    few = await work_of_operations(tmp_path / "few.db", 200)
    many = await work_of_operations(tmp_path / "many.db", 1_600)
    grown = {name: work / few[name] for name, work in many.items()}
    assert grown.pop("prune") < 10, "eight times as many runs are deleted"
    assert {name: times for name, times in grown.items() if times > 1.2} == {}


async def test_nothing_is_waited_for_when_nothing_can_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.toml").write_text('name = "a"\n' * 500)
    record = SqliteRunRecord(tmp_path / "agent.toml", clock=FakeClock())
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(anyio, "sleep", sleep)
    refused = (await attempt(record.delete(before=FakeClock().now()))).failure()
    assert "is not a database" in refused.message
    await record._file.empty_log()
    assert slept == []


async def test_runs_that_are_encrypted_with_another_key_hide_no_other(tmp_path: Path) -> None:
    path, clock = tmp_path / "runs.db", FakeClock()
    ours = SqliteRunRecord(path, clock=clock, key=b"1" * 32)
    theirs = SqliteRunRecord(path, clock=clock, key=b"2" * 32)
    await add(ours, queued("ours"))
    await add(theirs, queued("theirs"))
    holder = (await claim(theirs, "theirs")).holder
    question = RunEntry("q1?", "question", clock.now(), '{"kind": "approval", "request": {}}')
    await attempt(theirs.append(RunId("theirs"), holder, question))

    async def listed(state: RunState | None = None) -> list[tuple[str, str, str]]:
        found = (await attempt(ours.runs(RunFilter(state=state)))).unwrap()
        return [(run.run_id, run.state, run.task.input) for run in found]

    assert await listed() == [("theirs", "unreadable", ""), ("ours", "queued", "Pay.")]
    assert await listed("queued") == [("ours", "queued", "Pay.")]
    assert await listed("unreadable") == [("theirs", "unreadable", "")]
    assert await listed("waiting") == []
    asked = (await attempt(ours.questions())).unwrap()
    assert [(each.run_id, each.kind, each.request) for each in asked] == [("theirs", "unreadable", {})]
    failed = (await attempt(ours.find(RunId("theirs")))).failure()
    assert "encrypted with another key" in failed.message


@pytest.mark.parametrize("key", [b"1" * 32, None])
async def test_a_brief_list_has_the_outcomes_without_what_led_to_them(
    tmp_path: Path, key: bytes | None
) -> None:
    record = SqliteRunRecord(tmp_path / "runs.db", clock=FakeClock(), key=key)
    course = {"steps": [{"content": "A \u0000 thought"}], "history": ["Hi"], "state": {"seen": 1}}
    stored = {
        "done": {"shown": 1, "result": {"output": "paid", "reason": "It was\u2028done.", **course}},
        "gone": {"failed": {"error": {"tag": "RunCancelled"}, **course}},
        "damaged": None,
    }
    for name, outcome in stored.items():
        await add(record, queued(name))
        text = "no JSON" if outcome is None else json.dumps(outcome)
        ended = record.end(RunId(name), (await claim(record, name)).holder, "completed", text)
        assert isinstance(await attempt(ended), Success)
    whole = (await attempt(record.runs(RunFilter()))).unwrap()
    brief = (await attempt(record.runs(RunFilter(brief=True)))).unwrap()
    assert [evolve(each, result="") for each in brief] == [evolve(each, result="") for each in whole]
    damaged, gone, done = (each.result for each in brief)
    assert damaged == "no JSON"
    assert json.loads(gone) == {"failed": {"error": {"tag": "RunCancelled"}, "steps": []}}
    assert json.loads(done) == {
        "shown": 1,
        "result": {"output": "paid", "reason": "It was\u2028done.", "steps": []},
    }
    await record.aclose()


@pytest.mark.parametrize("key", [b"2" * 32, None])
async def test_a_schedule_that_is_encrypted_with_another_key_keeps_back_no_other(
    tmp_path: Path, key: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "runs.db", FakeClock()
    task = Task(TaskId("t"), AGENT, "Pay.", clock.now())
    ours = SqliteRunRecord(path, clock=clock, key=key)
    theirs = SqliteRunRecord(path, clock=clock, key=b"1" * 32)
    for name, record in (("a", theirs), ("b", ours)):
        await attempt(record.schedule(RunSchedule(name, AGENT, "* * * * *", task, clock.now())))
    for _ in range(3):  # as often as a worker looks
        due = (await attempt(ours.schedules(AGENT, due=clock.now()))).unwrap()
        assert [each.name for each in due] == ["b"]
    assert caplog.text.count("The schedule a cannot be read") == 1
    forgotten = await attempt(ours.delete(user="ann"))  # whose it is, nobody can say without the key
    assert "encrypted" in forgotten.failure().message


async def test_an_old_sqlite_that_dbos_cannot_use_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dbos_queue, "_NEEDS_NEW_SQLITE", True)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 41, 0))
    queue = DbosQueue(str(tmp_path / "r.db"), clock=FakeClock())
    refused = (await attempt(queue.begun(AgentId("a"), "q"))).failure()
    assert isinstance(refused, RecordFailed)
    assert "in a file it needs SQLite 3.42 on Python 3.12" in refused.message


async def test_an_entry_that_no_database_holds_is_a_failure(opened: Open) -> None:
    record = opened(FakeClock())
    await add(record, queued("r1"))
    holder = (await claim(record, "r1")).holder
    entry = RunEntry("t\ud800", "result", FakeClock().now(), "{}")
    await attempt(record.append(RunId("r1"), holder, entry, later=True))
    record.abandon(holder)
    failed = await attempt(record.append(RunId("r1"), holder, entry))
    assert isinstance(failed.failure(), RecordFailed)
    await record.aclose()


async def test_questions_of_one_time_come_in_the_order_in_which_they_were_asked(opened: Open) -> None:
    record, clock = opened(FakeClock()), FakeClock()
    await add(record, *map(queued, "ab"))
    for name in "ba":
        holder = (await claim(record, name)).holder
        for key in ("q9", "q1", "q5"):
            body = '{"kind": "question", "request": {}}' if key != "q5" else '"no question"'
            await attempt(record.append(RunId(name), holder, RunEntry(key, "question", clock.now(), body)))
        await attempt(record.release(RunId(name), holder))
    asked = (await attempt(record.questions())).unwrap()
    assert [(each.run_id, each.key) for each in asked] == [
        (run, key) for run in "ab" for key in ("q9", "q1", "q5")
    ]
    assert [each.kind for each in asked] == ["question", "question", "unreadable"] * 2
    await record.aclose()


async def test_schedules_come_in_the_same_order_in_a_file_and_on_a_server(opened: Open) -> None:
    record, task = opened(FakeClock()), queued("x").task
    for name in ("b", "a\1", "B", "a\0", "a"):
        await attempt(record.schedule(RunSchedule(name, AGENT, "* * * * *", task, FakeClock().now())))
    named = [each.name for each in (await attempt(record.schedules())).unwrap()]
    assert named == ["B", "a", "a\0", "a\1", "b"]
    await record.aclose()
