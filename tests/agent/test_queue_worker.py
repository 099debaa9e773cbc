"""Workers of queues: their slots, what they leave behind, and schedules."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from attrs import evolve
from dependency_injector.providers import Object
from returns.maybe import Some
from returns.result import Failure, Result, Success

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, tool
from reactive_agents.agent import queue_worker
from reactive_agents.core.errors import InvalidConfig, RecordErrors, RecordFailed, RunRefused
from reactive_agents.core.events import ApprovalRequested, ToolCallInDoubt
from reactive_agents.core.ids import AgentId, RunId
from reactive_agents.core.run_record import QueueLimits, RecordedRun, RunFilter, latest_time, next_time
from reactive_agents.effects import attempt, effect
from reactive_agents.event_loop import spawn_on_this_loop
from reactive_agents.testing import EventRecorder, FakeClock, ScriptedLLM, answer, call
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


def agent(path: Path, llm: ScriptedLLM, *tools: Any, clock: Any = None, **options: Any) -> ReactiveAgent:
    described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(*tools)
    if options.get("approval"):
        described = described.with_approval(timeout_s=60)
    built = described.with_durability(path, recover=False).build()
    if clock is not None:
        built.container.core.clock.override(Object(clock))
    return built


def submitter(path: Path, *tools: Any, clock: Any = None) -> ReactiveAgent:
    """An agent whose process ends after it has submitted, so that it runs nothing itself."""
    one = agent(path, ScriptedLLM(), *tools, clock=clock)
    one.runs.ensure_worker = lambda queue: None  # type: ignore[method-assign]
    return one


async def until_paused(one: ReactiveAgent) -> None:
    """Wait until the worker holds its run before the next step."""
    (task_id,) = one.running()
    while isinstance(one.resume(task_id), Failure):
        await anyio.lowlevel.checkpoint()
    assert isinstance(one.pause(task_id), Success)


async def test_a_worker_does_not_wait_for_the_runs_of_another_one(tmp_path: Path) -> None:
    begun, may_end = anyio.Event(), anyio.Event()

    async def hang() -> str:
        """Hang."""
        begun.set()
        await may_end.wait()
        return "done"

    first = submitter(tmp_path / "r.db", hang)
    await first.submit("Do it.", run_id="r1", priority=1)
    await first.submit("Do it.", run_id="r2")
    slow = agent(tmp_path / "r.db", ScriptedLLM(call("hang"), answer("It is done.")), hang)
    fast = agent(tmp_path / "r.db", ScriptedLLM(answer("It is done.")), hang)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: slow.runs.work(concurrency=1, until_idle=True))
        await begun.wait()
        await fast.runs.work(concurrency=1, until_idle=True)
        assert (await first.runs.find("r1")).state == "running"
        assert (await first.runs.find("r2")).state == "completed"
        may_end.set()


class ByHand:
    """A queue engine that begins runs when a test says so."""

    def __init__(self, *, at_stop: str = "") -> None:
        self._at_stop = RunId(at_stop)
        self.begin: Callable[[RunId], Awaitable[bool]]
        self.are_done: list[bool] = []

    @effect
    async def nothing(self, *_: Any) -> Result[None, RecordErrors]:
        """Do nothing."""
        return Success(None)

    submit = submit_again = leave = nothing

    @effect
    async def begun(self, agent_id: AgentId, queue: str) -> Result[tuple[RunId, ...], RecordErrors]:
        return Success(())

    @effect
    async def listen(
        self, agent_id: AgentId, queue: str, limits: QueueLimits, begin: Callable[[RunId], Awaitable[bool]]
    ) -> Result[None, RecordErrors | InvalidConfig]:
        self.begin = begin
        return Success(None)

    @effect
    async def stop(self) -> Result[None, RecordErrors]:
        if self._at_stop:
            self.are_done.append(await self.begin(self._at_stop))
        return Success(None)


async def test_a_worker_is_not_idle_when_a_run_begins_as_it_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, looked = anyio.Event(), list[RunFilter]()

    async def pay() -> str:
        """Pay."""
        begun.set()
        await anyio.sleep(0.2)  # in which the worker would be gone
        return "paid"

    await submitter(tmp_path / "r.db", pay).submit("Pay.", run_id="r1")
    worker = agent(tmp_path / "r.db", ScriptedLLM(call("pay"), answer("Paid.")), pay)
    queue, record = ByHand(), worker.container.memory.record().unwrap()
    worker.container.memory.queues.override(Object(Some(queue)))
    runs = record.runs

    async def begin() -> None:
        queue.are_done.append(await queue.begin(RunId("r1")))

    @effect
    async def late(chosen: RunFilter) -> Result[tuple[RecordedRun, ...], RecordErrors]:
        looked.append(chosen)
        if len(looked) == 3:  # after those that are in the record alone: whether any is due
            spawn_on_this_loop(begin)
            await begun.wait()
        return await attempt(runs(chosen))

    monkeypatch.setattr(record, "runs", late)
    await worker.runs.work(until_idle=True)
    assert ((await worker.runs.find("r1")).state, queue.are_done) == ("completed", [True])


async def test_a_worker_that_ends_begins_no_more_runs(tmp_path: Path) -> None:
    await submitter(tmp_path / "r.db").submit("Greet me.", run_id="r1", delay_s=3_600)
    worker = agent(tmp_path / "r.db", llm := ScriptedLLM())
    queue = ByHand(at_stop="r1")
    worker.container.memory.queues.override(Object(Some(queue)))
    await worker.runs.work(until_idle=True)
    assert ((await worker.runs.find("r1")).state, queue.are_done) == ("queued", [False])
    assert not llm.requests


class Lost(ByHand):
    """A queue engine whose workers were killed, for one look of another worker."""

    def __init__(self, *run_ids: str) -> None:
        super().__init__()
        self._run_ids, self.again, self._looked, self.swept = run_ids, list[str](), False, anyio.Event()

    @effect
    async def begun(self, agent_id: AgentId, queue: str) -> Result[tuple[RunId, ...], RecordErrors]:
        if self._looked:
            self.swept.set()
            await anyio.sleep_forever()
        self._looked = True
        return Success(tuple(map(RunId, self._run_ids)))

    @effect
    async def submit_again(self, run: RecordedRun) -> Result[None, RecordErrors]:
        self.again.append(run.run_id)
        return Success(None)


async def test_a_run_that_ends_its_processes_waits_in_the_queue_of_another_engine_too(tmp_path: Path) -> None:
    clock, attempts = FakeClock(), {"good": 1, "bad": 6, "worse": 7}
    one = submitter(tmp_path / "r.db", clock=clock)
    record: Any = one.container.memory.record().unwrap()
    for run_id, tried in attempts.items():
        await one.submit("Pay.", run_id=run_id)
        for _ in range(tried):
            run = await one.runs.find(run_id)
            record.abandon((await attempt(record.claim(run, lambda order: None))).unwrap().holder)

    async def taken_over(after_s: float) -> list[str]:
        clock.advance(after_s)
        queue, worker = Lost(*attempts), agent(tmp_path / "r.db", ScriptedLLM(), clock=clock)
        worker.container.memory.queues.override(Object(Some(queue)))
        async with anyio.create_task_group() as group:
            group.start_soon(worker.runs.work)
            await queue.swept.wait()
            group.cancel_scope.cancel()
        await worker.aclose()
        return queue.again

    assert await taken_over(6) == ["good"]
    assert await taken_over(3) == ["good", "bad"]
    assert await taken_over(20) == ["good", "bad"]  # one at a time, since each may end its process
    begun = (await attempt(record.claim(await one.runs.find("worse"), lambda order: None))).unwrap()
    assert await attempt(record.order(RunId("worse"), "cancel")) == Success(True)
    record.abandon(begun.holder)
    assert await taken_over(6) == ["good", "bad", "worse"]  # which is only to be cancelled
    await one.aclose()


async def test_what_the_record_has_alone_is_put_into_the_queue_of_another_engine(tmp_path: Path) -> None:
    """Also runs that were begun without a queue, and when the clock has been set back since."""
    path, before = tmp_path / "r.db", FakeClock()
    before.advance(3_600)
    one = submitter(path, clock=before)
    record: Any = one.container.memory.record().unwrap()
    await one.submit("Pay.", run_id="queued")
    await one.submit("Pay.", run_id="later", delay_s=60)
    run = evolve(await one.runs.find("queued"), run_id=RunId("interrupted"), queue="", status="open")
    record.abandon((await attempt(record.claim(run, lambda order: None))).unwrap().holder)
    assert (await attempt(record.add(evolve(run, run_id=RunId("never begun"))))).unwrap()
    queue, worker = Lost(), agent(path, ScriptedLLM(), clock=FakeClock())
    worker.container.memory.queues.override(Object(Some(queue)))
    async with anyio.create_task_group() as group:
        group.start_soon(worker.runs.work)
        await queue.swept.wait()
        group.cancel_scope.cancel()
    assert sorted(queue.again) == ["interrupted", "queued"]
    for each in (one, worker):
        await each.aclose()


async def test_a_run_that_is_looked_for_as_the_worker_ends_stays_in_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submitter(tmp_path / "r.db").submit("Greet me.", run_id="r1", delay_s=3_600)
    worker = agent(tmp_path / "r.db", ScriptedLLM(answer("Hello.")))
    record, has_ended = worker.container.memory.record().unwrap(), anyio.Event()
    worker.container.memory.queues.override(Object(Some(queue := ByHand())))
    find = record.find

    async def begin() -> None:
        queue.are_done.append(await queue.begin(RunId("r1")))

    @effect
    async def late(run_id: RunId) -> Result[RecordedRun | None, RecordErrors]:
        await has_ended.wait()
        return await attempt(find(run_id))

    async def work() -> None:
        await worker.runs.work(until_idle=True)
        has_ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        while not hasattr(queue, "begin"):
            await anyio.lowlevel.checkpoint()
        monkeypatch.setattr(record, "find", late)
        group.start_soon(begin)
    monkeypatch.undo()
    assert ((await worker.runs.find("r1")).state, queue.are_done) == ("queued", [False])


def test_a_worker_whose_event_loop_has_ended_has_a_successor(tmp_path: Path) -> None:
    one = agent(tmp_path / "r.db", ScriptedLLM(answer("Hello.")))
    asyncio.run(one.submit("Greet me.", run_id="r1", delay_s=3_600))

    async def go_on() -> object:
        await one.submit("Greet me.", run_id="r2")
        result = await one.runs.wait("r2")
        await one.aclose()
        return result.output

    assert asyncio.run(go_on()) == "Hello."


def test_a_worker_whose_event_loop_stands_still_is_not_waited_for(tmp_path: Path) -> None:
    one, loop = agent(tmp_path / "r.db", ScriptedLLM()), asyncio.new_event_loop()
    loop.run_until_complete(one.submit("Greet me.", run_id="r1", delay_s=3_600))
    asyncio.run(one.aclose())
    left = asyncio.all_tasks(loop)
    loop.run_until_complete(asyncio.wait(left))
    loop.close()
    assert len(left) == 1


async def test_a_run_on_another_thread_leaves_the_worker_alone(tmp_path: Path) -> None:
    begun, ending = anyio.Event(), anyio.Event()

    async def hold() -> str:
        """Hold."""
        begun.set()
        await ending.wait()
        return "held"

    model = ScriptedLLM(
        call("hold", when="Hold it"), answer("It was held.", when="tool hold"), answer("Hello there.")
    )
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(hold)
    async with builder.with_durability(tmp_path / "runs.db").build() as agent:
        run_id = await agent.submit("Hold it.")
        await begun.wait()
        greeting = await anyio.to_thread.run_sync(lambda: agent.run_sync("Greet me."))
        assert greeting.output == "Hello there."
        assert (await agent.runs.find(run_id)).state == "running"
        ending.set()
        assert (await agent.runs.wait(run_id)).output == "It was held."


async def test_a_worker_that_begins_while_others_are_stopped_is_stopped_by_the_next_close(
    tmp_path: Path,
) -> None:
    runs, begun = agent(tmp_path / "r.db", ScriptedLLM()).runs, list[str]()

    def begin_another(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_filename.endswith("runs.py") and event == "return" and len(begun) < 9:
            begun.append(f"queue {len(begun)}")  # as another thread would that submits a run
            runs.start_worker(begun[-1])

    runs.start_worker("first")
    sys.setprofile(begin_another)
    try:
        await runs.stop_workers()
    finally:
        sys.setprofile(None)
    left = {each.queue for each in runs._workers}
    assert len(left) == len(begun) > 0
    await runs.stop_workers()
    assert runs._workers == []


async def test_a_worker_that_is_stopped_finishes_the_step_and_hands_over(tmp_path: Path) -> None:
    begun, may_end, done = anyio.Event(), anyio.Event(), list[int]()

    async def pay(number: int) -> str:
        """Pay, which must not be cut off."""
        begun.set()
        await may_end.wait()
        done.append(number)
        return "paid"

    await submitter(tmp_path / "r.db", pay).submit("Pay.", run_id="r1")
    stopped = agent(tmp_path / "r.db", ScriptedLLM(call("pay", number=1)), pay)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: stopped.runs.work(finish_s=60))
        await begun.wait()
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await until_paused(stopped)
        may_end.set()
    assert done == [1]
    assert (await stopped.runs.find("r1")).state == "interrupted"
    later = agent(tmp_path / "r.db", ScriptedLLM(answer("Paid.")), pay)
    events = EventRecorder()
    later.subscribe(events)
    await later.runs.work(until_idle=True)
    assert (await later.runs.wait("r1")).output == "Paid."
    assert (done, events.of(ToolCallInDoubt)) == ([1], [])


async def test_runs_that_wait_for_a_person_leave_their_slot_to_others(tmp_path: Path) -> None:
    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a mail."""
        return f"sent to {to}"

    path, asked = tmp_path / "r.db", anyio.Event()
    first = submitter(path, send)
    await first.submit("Send.", run_id="waits", priority=1)
    await first.submit("Greet.", run_id="goes")
    llm = ScriptedLLM(call("send", to="Ann"), answer("Hello there."), answer("Sent to Ann."))
    worker = agent(path, llm, send, approval=True)
    worker.subscribe(lambda event: asked.set() if isinstance(event, ApprovalRequested) else None)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: worker.runs.work(concurrency=1, until_idle=True))
        await asked.wait()
        assert (await first.runs.wait("goes")).output == "Hello there."
        await first.runs.approve("waits")
    assert (await first.runs.wait("waits")).output == "Sent to Ann."


@pytest.mark.parametrize("reasons", [["away", "away", "full", "full"], ["away", "", "away"]])
async def test_a_queue_that_cannot_be_read_is_one_warning_for_each_reason(
    tmp_path: Path, reasons: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker = agent(tmp_path / "r.db", ScriptedLLM())
    record, left, is_over = worker.container.memory.record().unwrap(), list(reasons), anyio.Event()

    @effect
    async def dequeue(*_: Any, **__: Any) -> Result[Any, RecordErrors]:
        if not left:
            is_over.set()
            return Success(())
        reason = left.pop(0)
        return Failure(RecordFailed(f"The record is {reason}.", "dequeue")) if reason else Success(())

    monkeypatch.setattr(record, "dequeue", dequeue)
    monkeypatch.setattr(queue_worker, "_POLL_S", 0.001)
    async with anyio.create_task_group() as group:
        group.start_soon(worker.runs.work)
        await is_over.wait()
        group.cancel_scope.cancel()
    assert caplog.text.count("The queue default cannot be read: The record is") == 2


async def test_a_worker_until_idle_returns_the_runs_that_it_could_not_continue(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    one = submitter(path)
    await one.submit("Pay.", run_id="r1")
    record: Any = one.container.memory.record().unwrap()
    run = evolve(await one.runs.find("r1"), run_id=RunId("old"), definition={"version": "0"})
    record.abandon((await attempt(record.claim(run, lambda order: None))).unwrap().holder)
    worker = agent(path, ScriptedLLM(answer("It is paid.")))
    assert await worker.runs.work(until_idle=True) == ("old",)
    await worker.runs.cancel("old")
    assert await worker.runs.work(until_idle=True) == ()
    assert (await worker.runs.wait("r1")).output == "It is paid."


async def test_a_schedule_begins_runs_after_a_restart_and_makes_up_for_the_latest_alone(
    tmp_path: Path,
) -> None:
    path, clock = tmp_path / "r.db", FakeClock(datetime(2026, 3, 1, 1, 0, tzinfo=UTC))
    await submitter(path, clock=clock).schedule("nightly", "0 2 * * *", "Pay.", timezone="Europe/Berlin")
    worker = agent(path, ScriptedLLM(*[answer("It is paid.")] * 2), clock=clock)
    await worker.runs.work(until_idle=True)
    assert await worker.runs.list() == ()
    clock.advance(3 * 86400)
    await worker.runs.work(until_idle=True)
    (run,) = await worker.runs.list()
    assert (run.run_id, run.state) == ("nightly@2026-03-04T02:00:00", "completed")
    clock.advance(86400)
    await agent(path, ScriptedLLM(answer("It is paid.")), clock=clock).runs.work(until_idle=True)
    assert [each.run_id for each in await worker.runs.list()] == [
        "nightly@2026-03-05T02:00:00",
        "nightly@2026-03-04T02:00:00",
    ]
    (schedule,) = await worker.runs.schedules()
    assert schedule.next_at == datetime(2026, 3, 6, 1, 0, tzinfo=UTC)
    await worker.runs.unschedule("nightly")
    assert await worker.runs.schedules() == ()
    with pytest.raises(AgentError) as refused:
        await worker.runs.unschedule("nightly")
    assert isinstance(refused.value.error, RunRefused)


async def test_a_worker_keeps_to_the_budget_of_a_run(tmp_path: Path) -> None:
    path, llm = tmp_path / "r.db", ScriptedLLM(call("calculator", expression="1 + 1"))
    run_id = await submitter(path, "calculator").submit("Add.", budget={"requests": 1})
    async with agent(path, llm, "calculator") as one:
        one.runs.ensure_worker("default")
        result = await one.runs.wait(run_id)
    assert (result.status, result.metadata.model_calls) == ("partial", 1)


@pytest.mark.parametrize(
    "option",
    [{"model": "m"}, {"tools": ["calculator"]}, {"output": int}],
    ids=lambda option: next(iter(option)),
)
async def test_an_option_that_no_worker_would_have_is_refused(tmp_path: Path, option: dict[str, Any]) -> None:
    one = submitter(tmp_path / "r.db")
    for asked in (one.submit("Pay.", **option), one.schedule("s", "* * * * *", "Pay.", **option)):
        with pytest.raises(AgentError, match="it is not recorded") as refused:
            await asked
        assert isinstance(refused.value.error, InvalidConfig)
    assert (await one.runs.list(), await one.runs.schedules()) == ((), ())


async def test_a_schedule_in_a_time_zone_that_a_machine_does_not_know_stops_no_worker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "r.db", FakeClock(datetime(2026, 3, 1, 1, 0, tzinfo=UTC))
    one = submitter(path, clock=clock)
    for name in ("a", "b"):
        await one.schedule(name, "0 2 * * *", "Pay.")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE run_schedules SET timezone = 'Mars/Base' WHERE name = 'a'")
    clock.advance(86400)
    worker = agent(path, ScriptedLLM(answer("It is paid.")), clock=clock)
    await worker.runs.work(until_idle=True)
    assert [(each.run_id, each.state) for each in await worker.runs.list()] == [
        ("b@2026-03-01T02:00:00", "completed")
    ]
    assert caplog.text.count("The schedule a has no next time here") == 1


@pytest.mark.parametrize(
    ("cron", "timezone"),
    [
        ("61 * * * *", "UTC"),
        ("hourly", "UTC"),
        ("0 0 31 2 *", "UTC"),
        ("0 2 * * *", "Mars"),
        ("0 0 0 1 1 * 2030", "UTC"),
    ],
)
async def test_a_wrong_schedule_is_refused(tmp_path: Path, cron: str, timezone: str) -> None:
    with pytest.raises(AgentError) as refused:
        await submitter(tmp_path / "r.db").schedule("s", cron, "Pay.", timezone=timezone)
    assert isinstance(refused.value.error, InvalidConfig)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("priority", "high"),
        ("priority", 2**70),
        ("queue", ""),
        ("queue", None),
        ("delay_s", -1),
        ("delay_s", math.nan),
        ("delay_s", math.inf),
        ("delay_s", "1"),
    ],
)
async def test_what_no_worker_could_begin_is_not_queued(tmp_path: Path, option: str, value: Any) -> None:
    options: dict[str, Any] = {option: value}
    agent = submitter(tmp_path / "r.db")
    with pytest.raises(AgentError) as refused:
        await agent.submit("Pay.", **options)
    assert isinstance(refused.value.error, InvalidConfig)
    assert refused.value.error.option == option
    assert await agent.runs.list() == ()


@pytest.mark.parametrize(
    "wrong", [{"name": ""}, {"name": 5}, {"cron": 5}, {"timezone": 5}, {"priority": "high"}, {"queue": " "}]
)
async def test_a_schedule_of_wrong_values_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    agent = submitter(tmp_path / "r.db")
    with pytest.raises(AgentError) as refused:
        await agent.schedule(**{"name": "s", "cron": "* * * * *", "task": "Pay.", **wrong})
    assert isinstance(refused.value.error, InvalidConfig)
    assert await agent.runs.schedules() == ()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("concurrency", 0),
        ("concurrency", "x"),
        ("concurrency", None),
        ("concurrency", True),
        ("total", 0),
        ("total", 1.5),
        ("rate", (0, 60)),
        ("rate", (1, 0)),
        ("rate", 5),
        ("rate", (1, math.nan)),
        ("finish_s", -1),
        ("finish_s", "soon"),
        ("finish_s", math.nan),
        ("queue", 5),
    ],
)
async def test_wrong_limits_are_refused(tmp_path: Path, option: str, value: Any) -> None:
    limits: dict[str, Any] = {option: value}
    with pytest.raises(AgentError) as refused:
        await submitter(tmp_path / "r.db").runs.work(**limits)
    assert isinstance(refused.value.error, InvalidConfig)
    assert refused.value.error.option == option


def test_times_of_schedules_are_those_of_their_zone() -> None:
    before = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)  # summer time begins in the night
    assert next_time("0 8 * * *", "Europe/Berlin", before) == datetime(2026, 3, 29, 6, 0, tzinfo=UTC)
    assert next_time("*/10 * * * * *", "UTC", before) == datetime(2026, 3, 28, 12, 0, 10, tzinfo=UTC)
    late = datetime(2026, 3, 28, 15, 20, tzinfo=UTC)
    assert latest_time("0 * * * *", "UTC", before, late) == datetime(2026, 3, 28, 15, 0, tzinfo=UTC)


def test_the_latest_of_many_missed_times_is_found_without_those_before_it() -> None:
    due = datetime(2026, 1, 1, tzinfo=UTC)
    counts: list[int] = []
    for missed in (timedelta(hours=1), timedelta(days=200)):
        counts.append(0)

        def note(frame: FrameType, event: str, argument: object) -> None:
            counts[-1] += event == "call"

        sys.setprofile(note)
        try:
            latest = latest_time("* * * * * *", "Europe/Berlin", due, due + missed)
        finally:
            sys.setprofile(None)
        assert latest == due + missed
    assert counts[1] < 2 * counts[0]


async def test_a_queued_run_without_a_delay_does_not_wait_for_a_clock_that_is_set_back(
    tmp_path: Path,
) -> None:
    path, before = tmp_path / "r.db", FakeClock()
    before.advance(3_600)
    one = submitter(path, clock=before)
    await one.submit("Pay.", run_id="now")
    await one.submit("Pay.", run_id="later", delay_s=60)
    await agent(path, ScriptedLLM(answer("It is paid.")), clock=FakeClock()).runs.work(until_idle=True)
    assert {run.run_id: run.state for run in await one.runs.list()} == {"now": "completed", "later": "queued"}


async def test_a_worker_until_idle_does_not_wait_for_a_queued_run_that_is_paused(tmp_path: Path) -> None:
    submitting = submitter(tmp_path / "r.db")
    await submitting.submit("Pay.", run_id="paused")
    await submitting.runs.pause("paused")
    worker = agent(tmp_path / "r.db", ScriptedLLM())
    await worker.runs.work(until_idle=True)
    assert (await worker.runs.find("paused")).status == "queued"


async def test_a_run_that_is_refused_again_and_again_is_tried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, begun = tmp_path / "runs.db", anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await anyio.sleep_forever()
        return ""

    async with anyio.create_task_group() as group:
        first = agent(path, ScriptedLLM(call("wait")), wait)
        group.start_soon(lambda: first.run("Go.", run_id="r"))
        await begun.wait()
        group.cancel_scope.cancel()
    other = agent(path, ScriptedLLM())
    for _ in range(7):
        assert isinstance((await other.runs.recover())[RunId("r")], Failure)
    assert (await other.runs.find("r")).attempt == 1  # a crash later on is no reason to wait for minutes
    monkeypatch.setattr("reactive_agents.agent.queue_worker._AGAIN_S", 0.0)
    caplog.clear()
    record = other.container.memory.record().unwrap()
    really = record.dequeue

    @effect
    async def dequeue(*asked: Any, without: Any, **limits: Any) -> Result[Any, RecordErrors]:
        told = len(caplog.messages)
        found = await attempt(really(*asked, without=without, **limits))
        if without and told < 3:  # what is under way ends as the worker looks, which is not idle then
            await until(lambda: len(caplog.messages) > told)
        return found

    monkeypatch.setattr(record, "dequeue", dequeue)
    monkeypatch.setattr(queue_worker, "_POLL_S", 0.0)
    async with anyio.create_task_group() as group:

        async def end_at_second() -> None:
            await until(lambda: len(caplog.messages) > 3)
            group.cancel_scope.cancel()

        group.start_soon(end_at_second)
        await other.runs.work(until_idle=True)
        group.cancel_scope.cancel()
    assert [each for each in caplog.messages if "begun by another version" in each] == caplog.messages
    assert len(caplog.messages) == 3
    assert (await other.runs.find("r")).attempt == 1
