"""Eight threads of one process, each with five runs at once on one agent: every record is there, once."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import anyio
import anyio.lowlevel
from returns.result import Result, Success

from reactive_agents import ReactiveAgent, ReactiveAgents
from reactive_agents.adapters.governance.audit_log import read_entries, unfinished_runs, verify
from reactive_agents.core.conversation import SessionInfo
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.events import ExecutionPhaseFailed
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall, ToolMessage, UserMessage
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse
from reactive_agents.core.tasks import TaskResult
from reactive_agents.core.usage import Usage
from reactive_agents.effects import effect
from reactive_agents.testing import EventRecorder

THREADS, AT_ONCE = 8, 5
RUNS = THREADS * AT_ONCE
USAGE, PRICE_USD = Usage(10, 5, 15), 0.25


class Counting:
    """Implements ``LLM`` without state: it has the task's number doubled by a tool, and answers with that."""

    model = "counting/test"

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        """Return a call, or after it the answer."""
        await anyio.lowlevel.checkpoint()
        asked = [
            place
            for place, each in enumerate(request.messages)
            if isinstance(each, UserMessage) and each.content.startswith("Double ")
        ]
        turn = request.messages[asked[-1] :]  # what comes before is that of earlier runs of the session
        results = [each.content for each in turn if isinstance(each, ToolMessage)]
        if results:
            call = ToolCall(CallId("b"), "final-answer", {"answer": f"It is {results[-1]}."})
        else:
            call = ToolCall(CallId("a"), "double", {"number": int(turn[0].content.split()[1])})
        return Success(ModelResponse("", self.model, tool_calls=(call,), usage=USAGE, cost_usd=PRICE_USD))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """Return nothing: no run streams."""
        raise NotImplementedError
        yield


def test_no_run_of_many_threads_loses_a_record(tmp_path: Path) -> None:
    doubled: list[int] = []

    async def double(number: int) -> int:
        """Double a number."""
        doubled.append(number)
        return 2 * number

    path = tmp_path / "records.db"
    builder = ReactiveAgents.create().with_llm(Counting()).with_reasoning().with_tools(double)
    agent = builder.with_memory(path).with_sessions(path).with_cost(path).with_audit(path).build()
    recorder, together = EventRecorder(), threading.Barrier(THREADS)
    agent.subscribe(recorder)

    def work(thread: int) -> list[TaskResult]:
        together.wait(60)
        return anyio.run(_runs_at_once, agent, range(thread * AT_ONCE, (thread + 1) * AT_ONCE))

    with ThreadPoolExecutor(THREADS) as pool:
        results = [result for part in pool.map(work, range(THREADS)) for result in part]
    anyio.run(agent.aclose)

    assert [result.output for result in results] == [f"It is {2 * number}." for number in range(RUNS)]
    assert Counter(doubled) == Counter(range(RUNS))
    assert {result.metadata.tokens_used for result in results} == {30}
    assert [event.error.message for event in recorder.of(ExecutionPhaseFailed)] == []
    entries = [each.entry for each in read_entries(path).unwrap()]
    ids = {result.run_id for result in results}
    assert len(ids) == RUNS
    assert Counter((entry.action, entry.run_id) for entry in entries) == Counter(
        (action, run_id) for action in ("start", "run") for run_id in ids
    )
    assert unfinished_runs(read_entries(path).unwrap()) == ()
    assert verify(path).unwrap().entries == 2 * RUNS
    with closing(sqlite3.connect(path)) as records:
        spent = records.execute("SELECT count(*), sum(nano_usd), sum(total_tokens) FROM spending_models")
        assert spent.fetchone() == (RUNS, RUNS * 2 * 250_000_000, RUNS * 30)
        assert records.execute("SELECT count(*) FROM spending_runs").fetchone() == (RUNS,)
    sessions = anyio.run(_sessions, agent)
    assert sorted(each.turns for each in sessions) == [AT_ONCE] * THREADS


async def _runs_at_once(agent: ReactiveAgent, numbers: range) -> list[TaskResult]:
    results: dict[int, TaskResult] = {}

    async def run(number: int) -> None:
        session = f"thread-{numbers[0]}"  # whose turns follow each other
        results[number] = await agent.run(f"Double {number} with the tool.", session=session)

    async with anyio.create_task_group() as group:
        for number in numbers:
            group.start_soon(run, number)
    return [results[number] for number in numbers]


async def _sessions(agent: ReactiveAgent) -> list[SessionInfo]:
    try:
        return list(await agent.sessions.list())
    finally:
        await agent.aclose()
