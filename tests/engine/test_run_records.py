"""The account of a run is closed once, whatever the hooks of cost tracking and audit do."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.audit_log import SqliteAuditLog
from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.config import TimeoutConfig
from reactive_agents.core.errors import HookError, ModelUnavailable, RunCancelled, ServiceFailed
from reactive_agents.core.events import (
    AgentEvent,
    ExecutionCancelled,
    ExecutionLoopIteration,
    ExecutionPhaseFailed,
    ModelCallCompleted,
    TaskFailed,
    TaskStarted,
)
from reactive_agents.core.governance import AuditEntry, SpendingRecord
from reactive_agents.core.ids import TaskId
from reactive_agents.effects import attempt, effect
from reactive_agents.engine import ExecutionContext, HookTiming, LifecycleHook, LifecyclePhase
from reactive_agents.testing import (
    RecordingAuditLog,
    RecordingCostTracker,
    ScriptedLLM,
    answer,
    fail,
    forever,
    say,
)
from tests.support.engines import Bench, bench

pytestmark = pytest.mark.anyio

RECORDING: tuple[LifecyclePhase, ...] = ("cost-track", "audit")
TIMINGS: tuple[HookTiming, ...] = ("before", "after")


@pytest.mark.parametrize("phase", RECORDING)
@pytest.mark.parametrize("timing", TIMINGS)
async def test_a_strict_hook_that_fails_does_not_keep_the_account_open(
    phase: LifecyclePhase, timing: HookTiming
) -> None:
    calls: list[object] = []

    def broken(context: ExecutionContext) -> None:
        calls.append(context.error)
        raise RuntimeError("no luck")

    costs, log = RecordingCostTracker(), RecordingAuditLog()
    made = bench(
        ScriptedLLM(answer("three")),
        hooks=[LifecycleHook(phase, timing, broken)],
        options={"strict_hooks": True},
        cost_tracker=costs,
        audit=log,
    )
    failed = (await made.run()).failure()
    assert isinstance(failed.error, HookError)
    assert (len(costs.records), len(log.of("run")), len(calls)) == (1, 1, 1)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"], indirect=True)
@pytest.mark.parametrize("phase", RECORDING)
@pytest.mark.parametrize("timing", TIMINGS)
async def test_a_run_that_is_cancelled_in_a_hook_of_its_closing_has_its_account_closed(
    phase: LifecyclePhase, timing: HookTiming
) -> None:
    async def cancel(context: ExecutionContext) -> None:
        made.engine.cancel(context.task_id)
        await anyio.sleep(0.001)

    costs, log = RecordingCostTracker(), RecordingAuditLog()
    hook = LifecycleHook(phase, timing, cancel)
    made = bench(ScriptedLLM(answer("three")), hooks=[hook], cost_tracker=costs, audit=log)
    failed = (await made.run()).failure()
    assert failed.error == RunCancelled("task-1", phase)
    assert (len(costs.records), len(log.of("run"))) == (1, 1)
    assert isinstance(made.recorder.events[-1], TaskFailed)


async def test_a_run_that_is_cancelled_before_its_start_is_entered_has_both_entries() -> None:
    entered = anyio.Event()

    class Slow(RecordingAuditLog):
        @effect
        async def append(self, entry: AuditEntry) -> Result[None, ServiceFailed]:
            if entry.action == "start":
                await entered.wait()
            return await attempt(super().append(entry))

    def let_enter(event: AgentEvent) -> None:
        if isinstance(event, ExecutionCancelled):
            entered.set()

    log = Slow()

    def cancel(context: ExecutionContext) -> None:
        made.engine.cancel(context.task_id)

    hook = LifecycleHook("audit", "before", cancel)
    made = bench(ScriptedLLM(answer("three")), hooks=[hook], audit=log)
    made.engine.ports.events.subscribe(let_enter)
    failed = (await made.run()).failure()
    assert failed.error == RunCancelled("task-1", "audit")
    assert [(entry.action, entry.status) for entry in log.entries] == [
        ("start", None),
        ("cancel", None),
        ("run", "failed"),
    ]
    assert not [event for event in made.recorder.events if isinstance(event, ExecutionPhaseFailed)]


@pytest.mark.parametrize("phase", RECORDING)
@pytest.mark.parametrize("strict", [False, True])
async def test_a_failed_run_has_its_account_closed_whatever_its_hooks_do_then(
    phase: LifecyclePhase, strict: bool
) -> None:
    async def broken(context: ExecutionContext) -> None:
        if strict:
            raise RuntimeError("no luck")
        await anyio.sleep_forever()

    costs, log = RecordingCostTracker(), RecordingAuditLog()
    made = bench(
        ScriptedLLM(fail(ModelUnavailable("down", "m"))),
        hooks=[LifecycleHook(phase, "before", broken)],
        options={"strict_hooks": strict, "timeouts": TimeoutConfig(grace_s=0.02)},
        cost_tracker=costs,
        audit=log,
    )
    assert isinstance(await made.run(), Failure)
    assert (len(costs.records), len(log.of("run"))) == (1, 1)
    assert log.of("run")[0].status == "failed"


class OneAtATime:
    """Implements cost tracker and audit log, each entry of which takes its time; they may hang after some."""

    def __init__(self, seconds: float = 0.0, *, hangs_after: float = math.inf) -> None:
        self.runs: list[str] = []
        self._seconds, self._hangs_after = seconds, hangs_after
        self._lock = anyio.Lock()

    @effect
    async def record(self, spending: SpendingRecord) -> Result[None, ServiceFailed]:
        return await self._write(spending.run_id)

    @effect
    async def append(self, entry: AuditEntry) -> Result[None, ServiceFailed]:
        return Success(None) if entry.action == "start" else await self._write(entry.run_id)

    async def _write(self, run_id: str) -> Result[None, ServiceFailed]:
        async with self._lock:
            await anyio.sleep(math.inf if len(self.runs) >= self._hangs_after else self._seconds)
            self.runs.append(run_id)
        return Success(None)


async def cancel_together(made: Bench, count: int) -> None:
    """Begin runs, and cancel all of them in their model calls at once."""
    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(made.run, "Wait.", f"t{number}")
        await anyio.wait_all_tasks_blocked()
        assert len(made.recorder.of(ExecutionLoopIteration)) == count
        group.cancel_scope.cancel()
    assert len(made.recorder.of(TaskFailed)) == count


def waiting() -> ScriptedLLM:
    return ScriptedLLM(forever(say("never", delay=3_600)))


@pytest.mark.system
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"], indirect=True)
async def test_each_of_many_runs_that_are_cancelled_at_once_is_recorded() -> None:
    costs, log = OneAtATime(0.05), OneAtATime(0.05)
    made = bench(waiting(), cost_tracker=costs, audit=log)
    await cancel_together(made, 300)  # 15 seconds of work, three times the grace of each run
    assert len(set(costs.runs)) == len(set(log.runs)) == 300
    assert made.recorder.of(ExecutionPhaseFailed) == []


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"], indirect=True)
@pytest.mark.parametrize("after", [0, 10])
async def test_what_a_service_that_hangs_did_not_record_is_an_event_for_each_run(after: int) -> None:
    costs, log = OneAtATime(), OneAtATime(0.05, hangs_after=after)
    made = bench(waiting(), cost_tracker=costs, audit=log)
    await cancel_together(made, 50)
    assert len(set(costs.runs)) == 50
    gaps = made.recorder.of(ExecutionPhaseFailed)
    assert {event.run_id for event in gaps} | set(log.runs) == set(costs.runs)
    assert [event.phase for event in gaps] == ["audit"] * (50 - after)
    assert "whether it was recorded is not known" in gaps[0].error.message


async def test_runs_give_up_a_service_that_hangs_though_others_are_recorded() -> None:
    class Partly(OneAtATime):
        @effect
        async def append(self, entry: AuditEntry) -> Result[None, ServiceFailed]:
            if entry.task_id == "t0" and entry.action == "run":
                await anyio.sleep_forever()
            return await attempt(super().append(entry))

    log = Partly(1.0)
    made = bench(waiting(), audit=log)
    await cancel_together(made, 100)
    gaps = made.recorder.of(ExecutionPhaseFailed)
    assert "t0" in [event.task_id for event in gaps]
    assert len(gaps) + len(log.runs) == 100


async def test_a_run_that_is_cancelled_again_and_again_is_recorded_or_an_event_says_that_it_is_not() -> None:
    costs, log = OneAtATime(), OneAtATime(hangs_after=0)
    made = bench(waiting(), cost_tracker=costs, audit=log)
    task = asyncio.ensure_future(made.run())
    for _ in range(4):
        await asyncio.sleep(0.1)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(costs.runs) == 1
    assert [event.phase for event in made.recorder.of(ExecutionPhaseFailed)] == ["audit"]
    assert isinstance(made.recorder.events[-1], TaskFailed)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # in real time: SQLite works in threads
async def test_a_run_that_is_cancelled_while_it_is_recorded_is_recorded_once(tmp_path: Path) -> None:
    costs = SqliteCostTracker(tmp_path / "costs.db", clock=SystemClock())
    log = SqliteAuditLog(tmp_path / "audit.db", clock=SystemClock())

    class Tracker:
        """Is cancelled in the first record before it is written, and in the second run's after it."""

        cancel_before = True

        @effect
        async def record(self, spending: SpendingRecord) -> Result[None, ServiceFailed]:
            if self.cancel_before:
                await cancelled(spending.task_id)
            written = await attempt(costs.record(spending))
            await cancelled(spending.task_id)
            return written

    class Log:
        """Is cancelled once the entry of the end is written."""

        @effect
        async def append(self, entry: AuditEntry) -> Result[None, ServiceFailed]:
            written = await attempt(log.append(entry))
            if entry.action == "run":
                await cancelled(entry.task_id)
            return written

    async def cancelled(task_id: TaskId) -> None:
        made.engine.cancel(task_id)
        await anyio.sleep(0.001)

    tracker = Tracker()
    made = bench(ScriptedLLM(forever(answer("three"))), cost_tracker=tracker)
    for tracker.cancel_before in (True, False):
        assert (await made.run()).failure().error == RunCancelled("task-1", "cost-track")
    totals = await attempt(costs.totals("run"))
    assert [total.usage.total_tokens for total in totals.unwrap()] == [15, 15]
    made = bench(ScriptedLLM(answer("three")), audit=Log())
    assert (await made.run()).failure().error == RunCancelled("task-1", "audit")
    assert [each.entry.action for each in (await attempt(log.read())).unwrap()] == ["start", "run"]
    await costs.aclose()
    await log.aclose()


# --- code that ends the process ---------------------------------------------------------------------------


class Exit:
    """Exits at the first call: as a hook, a policy, an approver or an event handler may."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind
        self.called = False

    def __call__(self, *_: object) -> None:
        if not self.called:
            self.called = True
            raise self.kind

    def on(self, kind: type[object]) -> Callable[[object], None]:
        """As an event handler that exits at an event of the kind."""
        return lambda event: self() if isinstance(event, kind) else None


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"], indirect=True)
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize(
    "event", [TaskStarted, ExecutionLoopIteration, ModelCallCompleted, None], ids=lambda each: str(each)[-20:]
)
async def test_a_run_that_ends_the_process_is_recorded_before(
    kind: type[BaseException], event: type[AgentEvent] | None
) -> None:
    costs, log, leave = RecordingCostTracker(), RecordingAuditLog(), Exit(kind)
    hooks = [LifecycleHook("think", "before", leave)] if event is None else []
    made = bench(ScriptedLLM(answer("three")), hooks=hooks, cost_tracker=costs, audit=log)
    if event is not None:
        made.engine.ports.events.subscribe(leave.on(event))
    with pytest.raises(kind):
        await made.run()
    assert (len(costs.records), len(log.of("run")), log.of("run")[0].status) == (1, 1, "failed")
    last = made.recorder.events[-1]
    assert isinstance(last, TaskFailed)
    assert f"raised {kind.__name__}" in last.error.message
    assert made.engine.running() == ()


@pytest.mark.parametrize("phase", RECORDING)
async def test_a_hook_of_the_closing_that_exits_leaves_both_records(phase: LifecyclePhase) -> None:
    costs, log, leave = RecordingCostTracker(), RecordingAuditLog(), Exit(SystemExit)
    failing = ScriptedLLM(fail(ModelUnavailable("down", "m")))
    made = bench(failing, hooks=[LifecycleHook(phase, "before", leave)], cost_tracker=costs, audit=log)
    with pytest.raises(SystemExit):
        await made.run()
    assert (len(costs.records), len(log.of("run"))) == (1, 1)
    assert isinstance(made.recorder.events[-1], TaskFailed)


async def test_a_handler_that_exits_at_the_cancellation_leaves_both_records() -> None:
    costs, log, leave = RecordingCostTracker(), RecordingAuditLog(), Exit(SystemExit)
    made = bench(ScriptedLLM(answer("three")), cost_tracker=costs, audit=log)
    subscribe = made.engine.ports.events.subscribe
    subscribe(lambda event: made.engine.cancel(event.task_id) and None)
    subscribe(leave.on(ExecutionCancelled))
    with pytest.raises(SystemExit):
        await made.run()
    assert (len(costs.records), len(log.of("run"))) == (1, 1)
    assert isinstance(made.recorder.events[-1], TaskFailed)
