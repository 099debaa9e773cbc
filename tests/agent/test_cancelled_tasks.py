"""Runs whose task of asyncio is cancelled at every turn of the event loop, from any moment on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from dependency_injector import providers
from returns.maybe import Some
from returns.result import Result

from reactive_agents import AgentError, Image, ReactiveAgents
from reactive_agents.adapters.governance.audit_log import read_entries
from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
from reactive_agents.adapters.memory.contents import SqliteContent
from reactive_agents.adapters.memory.records import SqliteEffectiveness
from reactive_agents.adapters.memory.sessions import SqliteSessions
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.events import ExecutionPhaseFailed, ModelCallCompleted, TaskCompleted, TaskFailed
from reactive_agents.core.governance import BudgetUse, Reservation
from reactive_agents.core.models import TokenPrice
from reactive_agents.effects import attempt, effect
from reactive_agents.testing import (
    EventRecorder,
    InMemoryBudget,
    InMemoryEffectivenessTracker,
    ScriptedLLM,
    answer,
    forever,
)
from tests.support.contents import PNG

PER_ANSWER = TokenPrice(0.0, 0.001, max_output_tokens=100)
RUNS = 60


class SlowBudget(InMemoryBudget):
    @effect
    async def settle(  # type: ignore[override]
        self, reservation: Reservation, actual_usd: float
    ) -> Result[tuple[BudgetUse, ...], ServiceFailed]:
        for _ in range(5):
            await asyncio.sleep(0)
        return await attempt(super().settle(reservation, actual_usd))


async def cancelled(run: Any, turns: int) -> None:
    """Begin a run, and cancel its task at every turn of the event loop after some."""
    task = asyncio.ensure_future(run)
    for _ in range(turns):
        await asyncio.sleep(0)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    if not task.cancelled():
        task.result()


@pytest.mark.parametrize("durable", [False, True])
def test_a_cancelled_run_settles_its_budget_frees_its_session_and_is_recorded(
    durable: bool, tmp_path: Path
) -> None:
    budget, recorder = SlowBudget(run_usd=1.0), EventRecorder()
    model = ScriptedLLM(forever(answer("Three.", delay=0.0005)), price=PER_ANSWER)
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_audit(tmp_path / "audit.db")
    builder = builder.with_sessions(tmp_path / "sessions.db").with_cost(tmp_path / "cost.db", run_usd=1.0)
    if durable:
        builder = builder.with_durability(tmp_path / "runs.db")
    agent = builder.build()
    agent.container.governance.budget.override(providers.Object(Some(budget)))
    agent.subscribe(recorder)
    held: list[str] = []

    async def main() -> None:
        async with agent:
            for turns in range(RUNS):
                run = agent.run("What is 1 + 2?", session=f"s{turns % 3}", run_id=f"run-{turns}")
                await cancelled(run, turns * 3)
                if durable:
                    with suppress(AgentError):  # it was cancelled before it was recorded
                        known = await agent.runs.find(f"run-{turns}")
                        held.extend([known.run_id] * known.is_held)
            for session in range(3):  # none of them waits for a cancelled run
                assert (await agent.run("What is 1 + 2?", session=f"s{session}")).output == "Three."

    asyncio.run(main())
    assert held == []
    assert len(budget.settled) == len(recorder.of(ModelCallCompleted))  # cut off, it stays reserved
    ended = {each.run_id for each in recorder.events if isinstance(each, TaskCompleted | TaskFailed)}
    assert ended == {each.run_id for each in recorder.events}
    if durable:
        return  # a run that is interrupted may be continued, so its end is not entered
    missing = {each.run_id for each in recorder.of(ExecutionPhaseFailed)}
    entries = [each.entry for each in read_entries(tmp_path / "audit.db").unwrap()]
    for action in ("start", "run"):
        assert ended - missing <= {each.run_id for each in entries if each.action == action}


@pytest.mark.parametrize(
    ("store", "method", "strategy", "options"),
    [
        (SqliteSessions, "end", "reactive", {"session": "s"}),
        (SqliteContent, "release", "reactive", {}),
        (SqliteEffectiveness, "record", "adaptive", {}),
        (SqliteCostTracker, "record", "fails", {}),
    ],
)
def test_what_a_run_writes_as_it_ends_is_written_although_its_task_is_cancelled(
    store: Any, method: str, strategy: Any, options: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, write, recorder = list[str](), getattr(store, method), EventRecorder()
    fails = strategy == "fails"
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*([] if fails else [forever(answer("A cat."))])))
    builder = builder.with_sessions(tmp_path / "s.db").with_cost(tmp_path / "c.db")
    agent = builder.with_reasoning("reactive" if fails else strategy).build()
    agent.container.memory.effectiveness.override(InMemoryEffectivenessTracker())
    agent.subscribe(recorder)

    async def main() -> None:
        reached, gate = asyncio.Event(), asyncio.Event()

        @effect
        async def slow(*arguments: Any, **given: Any) -> Result[Any, Any]:
            reached.set()
            await gate.wait()
            written.append(method)
            return await attempt(write(*arguments, **given))

        monkeypatch.setattr(store, method, slow)
        task = asyncio.ensure_future(agent.run(["What is it?", Image.from_bytes(PNG)], **options))
        await asyncio.wait((task, asyncio.ensure_future(reached.wait())), return_when="FIRST_COMPLETED")
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        gate.set()
        with suppress(AgentError, asyncio.CancelledError):
            await task
        await agent.aclose()

    asyncio.run(main())
    assert written == [method]
    assert [type(each) for each in recorder.events if isinstance(each, TaskCompleted | TaskFailed)] == [
        TaskFailed if fails else TaskCompleted
    ]
