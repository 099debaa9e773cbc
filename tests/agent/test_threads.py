"""One agent that several threads use at once, each with an event loop of its own."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from returns.result import Failure, Result, Success

from reactive_agents import AgentError, AgentResult, ReactiveAgent, ReactiveAgents
from reactive_agents.adapters.tools.mcp import McpServer
from reactive_agents.containers.composition import Lifetimes
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.events import TaskCompleted
from reactive_agents.effects import attempt
from reactive_agents.testing import EventRecorder, ScriptedLLM, forever, say
from tests.support.mcp_server import PROGRAM

THREADS = 6


def run_at_once(agent: ReactiveAgent, times: int) -> list[AgentResult]:
    """Run tasks in several threads, all of which begin together."""
    together = threading.Barrier(THREADS, timeout=60)

    def run(number: int) -> list[AgentResult]:
        together.wait()
        return [agent.run_sync(f"What is {number} * {each}?") for each in range(times)]

    with ThreadPoolExecutor(THREADS) as pool:
        return [result for results in pool.map(run, range(THREADS)) for result in results]


@pytest.mark.system
def test_threads_run_one_agent_at_once_and_its_records_are_complete(tmp_path: Path) -> None:
    agent = (
        ReactiveAgents.create()
        .with_model("offline")
        .with_reasoning()
        .with_tools("calculator")
        .with_memory(tmp_path / "memory.db")
        .with_cost(tmp_path / "cost.db", daily_usd=1.0)
        .with_audit(tmp_path / "audit.db")
        .with_mcp(McpServer("far", command=sys.executable, args=(str(PROGRAM),), trust_hints=True))
        .build()
    )
    recorder = EventRecorder()
    agent.subscribe(recorder)
    results = run_at_once(agent, times=3)
    assert {result.output for result in results} == {
        f"{number} * {each} = {number * each}" for number in range(THREADS) for each in range(3)
    }
    assert len(recorder.of(TaskCompleted)) == len({result.run_id for result in results}) == THREADS * 3

    async def records() -> tuple[int, int]:
        governance = agent.container.governance
        audit = (await attempt(governance.audit().unwrap().read())).unwrap()
        (total,) = (await attempt(governance.cost_tracker().unwrap().totals("agent"))).unwrap()
        await agent.aclose()
        return len(audit), total.runs

    assert asyncio.run(records()) == (2 * THREADS * 3, THREADS * 3)  # each run has a start and an end


def test_a_service_is_opened_from_several_event_loops_at_once() -> None:
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("Hello.")))).build()
    together, loops = threading.Barrier(THREADS, timeout=60), set[object]()

    async def open_service() -> Result[None, ServiceFailed]:
        loops.add(asyncio.get_running_loop())
        # no loop has opened it before all have begun to: none waits for another
        await asyncio.to_thread(together.wait)
        return Success(None)

    async def close_service() -> None: ...

    lifetimes: Lifetimes = agent.container.core.lifetimes()
    lifetimes.add(close_service, open_service)
    assert [result.output for result in run_at_once(agent, times=1)] == ["Hello."] * THREADS
    assert len(loops) == THREADS


def test_each_run_sync_leaves_what_it_opened_and_closes_nothing_of_others() -> None:
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("The answer is here.")))).build()
    asked: list[str] = []

    async def close() -> None:
        asked.append("close")

    async def leave() -> None:
        asked.append("leave")

    agent.container.core.lifetimes().add(close, leave=leave)
    for _ in range(2):
        agent.run_sync("Answer.")
    assert asked == ["leave", "leave"]
    anyio.run(agent.aclose)
    assert asked[2:] == ["close"]


@pytest.mark.anyio
async def test_the_first_service_that_cannot_be_opened_is_the_failure() -> None:
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("never"))).build()
    lifetimes, asked = agent.container.core.lifetimes(), list[str]()

    async def close_service() -> None: ...

    for name in ("first", "second", "third"):

        async def open_service(name: str = name) -> Result[None, ServiceFailed]:
            asked.append(name)
            return Success(None) if name == "first" else Failure(ServiceFailed(name, "test", "open"))

        lifetimes.add(close_service, open_service)
    with pytest.raises(AgentError, match="second"):
        await agent.run("Answer.")
    assert asked == ["first", "second"]
