"""Runs whose task of asyncio is cancelled at any moment, once or again and again."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import event, example, given
from hypothesis import strategies as st
from returns.result import Failure, Result

from reactive_agents.core.errors import ModelUnavailable, ServiceFailed
from reactive_agents.core.events import ExecutionPhaseFailed, TaskCompleted, TaskFailed
from reactive_agents.core.governance import AuditEntry, SpendingRecord
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.effects import attempt, effect
from reactive_agents.testing import RecordingAuditLog, RecordingCostTracker, ScriptedLLM, fail, say
from tests.support.engines import bench
from tests.support.profiles import examples

TURNS = 4
"""Turns of the event loop that each service takes."""


async def wait() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


class SlowCosts(RecordingCostTracker):
    @effect
    async def record(self, record: SpendingRecord) -> Result[None, ServiceFailed]:  # type: ignore[override]
        await wait()
        recorded = await attempt(super().record(record))
        await wait()
        return recorded


class SlowLog(RecordingAuditLog):
    @effect
    async def append(self, entry: AuditEntry) -> Result[None, ServiceFailed]:  # type: ignore[override]
        await wait()
        appended = await attempt(super().append(entry))
        await wait()
        return appended


class SlowModel(ScriptedLLM):
    is_asked = False

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, Any]:  # type: ignore[override]
        self.is_asked = True
        try:
            await wait()
        finally:
            self.is_asked = False
        return await attempt(super().complete(request))


@examples(100)
@given(
    cancelled_at=st.sets(st.integers(0, 60)),
    for_ever_after=st.none() | st.integers(0, 60),
    loop_ends_at=st.none() | st.integers(1, 60),
    broken=st.booleans(),
    required=st.booleans(),
)
@example(cancelled_at=set(), for_ever_after=6, loop_ends_at=None, broken=False, required=False)
@example(cancelled_at={6}, for_ever_after=None, loop_ends_at=8, broken=False, required=False)
def test_every_run_is_recorded_or_an_event_says_that_it_may_not_be(
    cancelled_at: set[int], for_ever_after: int | None, loop_ends_at: int | None, broken: bool, required: bool
) -> None:
    costs, log = SlowCosts(), SlowLog()
    turn = fail(ModelUnavailable("down", "m")) if broken else say("three")
    records = frozenset({"audit"} if required else ())
    model = SlowModel(turn)
    made = bench(model, cost_tracker=costs, audit=log, options={"required_records": records})
    tasks: list[asyncio.Task[Any]] = []
    told: list[bool] = []
    """Whether the model was asked, at each cancellation."""

    async def main() -> None:
        task = asyncio.ensure_future(made.run())
        tasks.append(task)
        turns = 0
        while not task.done() and turns != loop_ends_at:
            if turns in cancelled_at or (for_ever_after is not None and turns >= for_ever_after):
                told.append(model.is_asked)
                task.cancel()
            turns += 1
            await asyncio.sleep(0)
        if not task.done():
            told.append(model.is_asked)  # by the end of the event loop

    asyncio.run(main())
    (task,) = tasks
    assert task.cancelled() == bool(told)
    if not made.recorder.events:
        return  # it was cancelled before it began
    event("recorded as cancelled" if told else "ended by itself")
    ends = [each for each in made.recorder.events if isinstance(each, TaskFailed | TaskCompleted)]
    assert ends == made.recorder.events[-1:]
    missing = [each.phase for each in made.recorder.of(ExecutionPhaseFailed) if not each.fatal]
    assert costs.records or "cost-track" in missing  # a second record of the same run changes nothing
    for action in ("start", "run"):
        assert len(log.of(action)) == 1 or "audit" in missing, action
    assert not missing or (told and not told[0])  # else it was cut off while a record was written
    assert made.engine.running() == ()
    if not told:
        assert isinstance(task.result(), Failure) == broken
