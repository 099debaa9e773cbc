"""Runs that are killed at each boundary, and resumed: ``python -m tests.support.durable_crashes FOLDER``.

A boundary is before and after each write of the record, and before and after the effect of each tool. Each
case is a process of its own, forked from this one and killed by SIGKILL, and a second one that resumes.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import anyio
from dependency_injector.providers import Object
from returns.result import Result, Success

from reactive_agents import (
    CallFailed,
    ReactiveAgent,
    ReactiveAgents,
    RunContext,
    WorkflowRun,
    agent_tool,
    tool,
)
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.ids import CallId, RunId
from reactive_agents.core.messages import ToolCall, ToolMessage
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, StreamCompleted
from reactive_agents.core.run_record import RunEntry
from reactive_agents.core.usage import Usage
from reactive_agents.effects import attempt, effect
from tests.support.models import RuledLLM, Said
from tests.support.sensible import sensible

RECORD, LOG, EFFECTS, ASKED = "runs.db", "log.db", "effects", "asked"
RUN_ID = "order-4711"


class Boundaries:
    """Counts boundaries, and kills the process at the one that is chosen."""

    def __init__(self, kill_at: int | None) -> None:
        self.passed = 0
        self._kill_at = kill_at

    def __call__(self) -> None:
        self.passed += 1
        if self.passed == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


class KilledRecord(SqliteRunRecord):
    """A record with a boundary on each side of its writes."""

    def __init__(self, path: str | Path, boundary: Boundaries) -> None:
        super().__init__(path, clock=SystemClock())
        self._boundary = boundary

    @effect
    async def append(self, run_id: RunId, holder: str, *entries: RunEntry, **when: bool) -> Any:
        self._boundary()
        appended = SqliteRunRecord.append(self, run_id, holder, *entries, **when)
        done = await attempt(appended)
        self._boundary()
        return done


def killed_record(folder: Path, boundary: Boundaries) -> KilledRecord:
    """Return the record of a case: in its folder, or in the database of ``DURABLE_URL``."""
    return KilledRecord(os.environ.get("DURABLE_URL", folder / RECORD), boundary)


def note(path: Path, line: str) -> None:
    """Append a line that outlives the process."""
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


class StepModel:
    """A model that calls the tools ``names`` in turn, then answers; what it says follows from the request."""

    model = "test/steps"

    def __init__(self, folder: Path, calls: list[list[tuple[str, dict[str, Any]]]], label: str = "") -> None:
        self._folder = folder
        self._calls = calls
        self._label = label

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        """Return the next turn."""
        answered = sum(isinstance(each, ToolMessage) for each in request.messages)
        turn = taken = 0
        while turn < len(self._calls) and taken < answered:
            taken += len(self._calls[turn])
            turn += 1
        note(self._folder / ASKED, f"{self._label}{turn}")
        usage, cost = Usage(10, 5, 15), 0.01
        if turn == len(self._calls):
            return Success(ModelResponse("All is paid.", self.model, usage=usage, cost_usd=cost))
        made = tuple(
            ToolCall(CallId(f"{self._label}{turn}.{index}"), name, arguments)
            for index, (name, arguments) in enumerate(self._calls[turn])
        )
        return Success(
            ModelResponse("", self.model, made, finish_reason="tool_calls", usage=usage, cost_usd=cost)
        )

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """Yield the next turn at once."""
        yield (await attempt(self.complete(request))).map(StreamCompleted)


def paying_agent(
    folder: Path, boundary: Boundaries, steps: int, *, kind: str = "plain", in_doubt: Any = "tell"
) -> ReactiveAgent:
    """Return an agent that makes payments: one a turn, several at once, by a sub-agent or a workflow."""

    def pay(number: int, context: RunContext) -> str:
        """Make a payment."""
        boundary()
        note(folder / EFFECTS, f"{number} {context.idempotency_key}")
        boundary()
        return f"paid {number}"

    paying = tool(idempotent=kind == "idempotent")(pay)
    numbers = list(range(1, steps + 1))
    if kind == "parallel":
        turns = [[("pay", {"number": n}) for n in numbers[i : i + 3]] for i in range(0, steps, 3)]
    else:
        turns = [[("pay", {"number": n})] for n in numbers]
    payer = (
        ReactiveAgents.create()
        .with_llm(StepModel(folder, turns))
        .with_reasoning()
        .with_tools(paying)
        .with_max_iterations(steps + 5)
    )
    if kind == "sub-agent":
        inner = payer.with_name("payer").build()
        payer = (
            ReactiveAgents.create()
            .with_llm(StepModel(folder, [[("payer", {"task": "Pay all."})]], "outer "))
            .with_reasoning()
            .with_tools(agent_tool(inner))
        )
    if kind == "workflow":
        payer = _paying_by_workflow(payer, folder, steps)
    payer = payer.with_run_log(folder / LOG)
    agent = payer.with_durability(folder / RECORD, in_doubt=in_doubt, recover=False).build()
    agent.container.memory.record.override(Object(killed_record(folder, boundary)))
    return agent


def _paying_by_workflow(payer: ReactiveAgents, folder: Path, steps: int) -> ReactiveAgents:
    """Return a builder whose workflow makes the payments, half of them side by side."""
    inner = ReactiveAgents.create().with_name("clerk").with_llm(StepModel(folder, [], "inner ")).build()

    async def pay_all(run: WorkflowRun, task: str) -> str:
        async def pay(number: int) -> None:
            with suppress(CallFailed):  # in doubt
                await run.call("pay", number=number)

        for number in range(1, steps // 2 + 1):
            await pay(number)
        await run.gather(*(pay(number) for number in range(steps // 2 + 1, steps + 1)))
        answered = await inner.run(task)
        return f"{await run.ask('Is all paid?')} {answered.output}"

    return payer.with_llm(StepModel(folder, [])).with_workflow(pay_all)


def warm_up(folder: Path, kinds: list[str]) -> None:
    """Run once here, so that no forked process has to import or generate anything."""

    async def run() -> None:
        for _ in range(2):
            await paying_agent(folder, Boundaries(None), 1).run("Pay all.", run_id=RUN_ID)
        if "workflow" in kinds:
            await paying_agent(folder, Boundaries(None), 2, kind="workflow").run(
                "Pay all.", run_id="workflow"
            )
        for kind in set(kinds) & set(STRATEGIES):
            await strategy_agent(folder, Boundaries(None), kind).run("Pay all.", run_id=kind)

    folder.mkdir()
    anyio.run(run)
    for thread in threading.enumerate():  # one may be in SQLite, whose locks the child would wait for
        if thread.name in ("run-leases", "run-log"):
            thread.join()


STRATEGIES = ("reactive", "plan-execute-reflect", "reflexion", "tree-of-thought", "adaptive")


def strategy_agent(folder: Path, boundary: Boundaries, strategy: str) -> ReactiveAgent:
    """Return an agent of a strategy with memory, sessions, cost and audit in files."""

    def rule(request: ModelRequest) -> Said:
        note(folder / ASKED, f"{request.purpose} {len(request.messages)}")
        return sensible(request)

    def add(a: int, b: int, context: RunContext) -> int:
        """Add two numbers."""
        boundary()
        note(folder / EFFECTS, f"{a}+{b} {context.idempotency_key}")
        boundary()
        return a + b

    agent = (
        ReactiveAgents.create()
        .with_llm(RuledLLM(rule))
        .with_reasoning(strategy)
        .with_tools(tool(idempotent=True)(add))
        .with_memory(folder / "memory.db")
        .with_sessions(folder / "sessions.db")
        .with_cost(folder / "cost.db")
        .with_audit(folder / "audit.db")
        .with_run_log(folder / LOG)
        .with_durability(folder / RECORD, recover=False)
        .build()
    )
    agent.container.memory.record.override(Object(killed_record(folder, boundary)))
    return agent


def logged(folder: Path) -> Counter[tuple[str, str]]:
    """Return how many events of each kind about each subject the run log has."""
    with closing(sqlite3.connect(folder / LOG)) as file:
        return Counter(file.execute("SELECT kind, subject FROM run_events").fetchall())


def stored(folder: Path) -> list[int]:
    """Return how many rows the stores have: memories, turns, runs with a cost, audit entries."""
    tables = {
        "memory.db": "memories",
        "sessions.db": "conversation_turns",
        "cost.db": "spending_runs",
        "audit.db": "entries",
    }
    counts = []
    for name, table in tables.items():
        with closing(sqlite3.connect(folder / name)) as file:
            counts.append(file.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    return counts


def run_once(folder: Path, steps: int, kind: str, kill_at: int | None) -> int:
    """Run in a forked process; return the number of boundaries, or 0 when it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            boundary = Boundaries(kill_at)
            options: dict[str, Any] = {}
            if kind in STRATEGIES:
                agent = strategy_agent(folder, boundary, kind)
                options = {"session": "s", "user": "u"}
            else:
                agent = paying_agent(folder, boundary, steps, kind=kind)

            async def run() -> None:
                result = await agent.run("Pay all.", run_id=f"{RUN_ID}-{folder.name}", **options)
                (folder / "result").write_text(
                    json.dumps(
                        [
                            result.status,
                            result.output,
                            result.metadata.model_calls,
                            round(result.metadata.cost_usd, 6),
                        ]
                    )
                )
                await agent.aclose()

            anyio.run(run)
            os.write(writing, str(boundary.passed).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as file:
        passed = file.read()
    _, ended = os.waitpid(child, 0)
    if os.WIFSIGNALED(ended):
        return 0
    assert os.WEXITSTATUS(ended) == 0, f"{kind}: the run failed"
    return int(passed)


def lines(path: Path) -> list[str]:
    """Return the lines of a file that may be missing."""
    return path.read_text().splitlines() if path.exists() else []


def main(folder: Path, steps: int, kinds: list[str], every: int) -> None:
    """Kill at every boundary of each kind of run; print what was counted."""
    warm_up(folder / "warm-up", kinds)
    for kind in kinds:
        whole = folder / f"{kind}-whole"
        whole.mkdir()
        boundaries = run_once(whole, steps, kind, None)
        expected = json.loads((whole / "result").read_text())
        assert {"TaskStarted", "ModelCallCompleted", "TaskCompleted"} <= {kind for kind, _ in logged(whole)}
        counts = {"kind": kind, "kills": 0, "resumed": 0, "repeated": 0, "in_doubt": 0, "paid_twice": 0}
        counts["events_lost"] = 0
        for kill_at in range(1, boundaries + 1, every):
            place = folder / f"{kind}-{kill_at}"
            place.mkdir()
            if run_once(place, steps, kind, kill_at):
                continue
            counts["kills"] += 1
            run_once(place, steps, kind, None)
            result = json.loads((place / "result").read_text())
            has_ended = result[0] in ("completed", "partial")  # partial where a call is in doubt
            counts["resumed"] += has_ended and result[1] == expected[1]
            lost = logged(whole) - logged(place)
            if lost:
                print(kill_at, dict(lost), file=sys.stderr)
            counts["events_lost"] += lost.total()
            effects = lines(place / EFFECTS)
            keys = {each.split()[1] for each in effects}
            if kind in STRATEGIES:
                counts["repeated"] += len(keys) - len({each.split()[1] for each in lines(whole / EFFECTS)})
            else:
                counts["repeated"] += len(effects) - len(keys) if kind != "idempotent" else len(keys) - steps
                counts["in_doubt"] += steps - len({each.split()[0] for each in effects})
            asked = lines(place / ASKED)
            counts["paid_twice"] += len(asked) - len(lines(whole / ASKED))
            if kind == "idempotent" or kind in STRATEGIES:
                assert result == expected, (kill_at, result, expected)
            if kind in STRATEGIES:
                assert stored(place) == stored(whole), (kill_at, stored(place), stored(whole))
        print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(","), int(sys.argv[4]))
