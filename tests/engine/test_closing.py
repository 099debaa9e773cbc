"""The account of a run is closed once, whatever the hooks of cost tracking and audit do."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from returns.result import Failure, Result

from reactive_agents.adapters.governance.audit_log import SqliteAuditLog
from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.config import TimeoutConfig
from reactive_agents.core.errors import HookError, ModelUnavailable, RunCancelled, ServiceFailed
from reactive_agents.core.events import TaskFailed
from reactive_agents.core.governance import AuditEntry, SpendingRecord
from reactive_agents.core.ids import TaskId
from reactive_agents.effects import attempt, effect
from reactive_agents.engine import ExecutionContext, HookTiming, LifecycleHook, LifecyclePhase
from reactive_agents.testing import RecordingAuditLog, RecordingCostTracker, ScriptedLLM, fail, forever, say
from tests.support.engines import bench

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
        ScriptedLLM(say("done")),
        hooks=[LifecycleHook(phase, timing, broken)],
        options={"strict_hooks": True},
        cost_tracker=costs,
        audit=log,
    )
    failed = (await made.run()).failure()
    assert isinstance(failed.error, HookError)
    assert (len(costs.records), len(log.entries), len(calls)) == (1, 1, 1)


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
    made = bench(ScriptedLLM(say("done")), hooks=[hook], cost_tracker=costs, audit=log)
    failed = (await made.run()).failure()
    assert failed.error == RunCancelled("task-1", phase)
    assert (len(costs.records), len(log.entries)) == (1, 1)
    assert isinstance(made.recorder.events[-1], TaskFailed)


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
    assert (len(costs.records), len(log.entries)) == (1, 1)
    assert log.entries[0].status == "failed"


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
        """Is cancelled once the entry is written."""

        @effect
        async def append(self, entry: AuditEntry) -> Result[None, ServiceFailed]:
            written = await attempt(log.append(entry))
            await cancelled(entry.task_id)
            return written

    async def cancelled(task_id: TaskId) -> None:
        made.engine.cancel(task_id)
        await anyio.sleep(0.001)

    tracker = Tracker()
    made = bench(ScriptedLLM(forever(say("done"))), cost_tracker=tracker)
    for tracker.cancel_before in (True, False):
        assert (await made.run()).failure().error == RunCancelled("task-1", "cost-track")
    totals = await attempt(costs.totals("run"))
    assert [total.usage.total_tokens for total in totals.unwrap()] == [15, 15]
    made = bench(ScriptedLLM(say("done")), audit=Log())
    assert (await made.run()).failure().error == RunCancelled("task-1", "audit")
    assert len((await attempt(log.read())).unwrap()) == 1
    await costs.aclose()
    await log.aclose()
