"""Queues of DBOS: order, limits, what is stored there, and workers that are stopped."""

from __future__ import annotations

import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve
from returns.result import Failure, Success

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, tool
from reactive_agents.adapters import dbos_queue
from reactive_agents.adapters.dbos_queue import DbosQueue
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.events import TaskStarted, ToolCallInDoubt
from reactive_agents.core.ids import AgentId, RunId
from reactive_agents.core.run_record import QueueLimits
from reactive_agents.effects import attempt
from reactive_agents.testing import EventRecorder, ScriptedLLM, Turn, answer, call
from tests.agent.test_queue_worker import until_paused
from tests.support.sqlite_files import sqlite_file
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.anyio


def agent(path: Path, llm: ScriptedLLM, *tools: Any, key: bytes | None = None) -> ReactiveAgent:
    described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(*tools)
    return described.with_durability(path, recover=False, engine="dbos", key=key).build()


async def test_runs_are_begun_by_priority_within_limits_and_dbos_has_their_ids_alone(
    tmp_path: Path,
) -> None:
    key = bytes(range(32))
    submitter = agent(tmp_path / "r.db", ScriptedLLM(), key=key)
    for name, priority in (("a", 0), ("b", 2), ("c", 1)):
        await submitter.submit("Tell the secret code.", run_id=name, priority=priority)
    await submitter.submit("Tell the secret code.", run_id="late", delay_s=3600)
    assert await submitter.submit("Tell the secret code.", run_id="a") == RunId("a")
    worker = agent(tmp_path / "r.db", ScriptedLLM(*[answer("The code is swordfish.")] * 4), key=key)
    events = EventRecorder()
    worker.subscribe(events)
    await worker.runs.work(concurrency=2, total=1, rate=(100, 60), until_idle=True)
    assert [each.run_id for each in events.of(TaskStarted)] == ["b", "c", "a"]
    with sqlite_file(tmp_path / "r.db-dbos") as file:
        limits = file.execute("SELECT concurrency, rate_limit_max, rate_limit_period_sec FROM queues")
        assert (1, 100, 60.0) in limits.fetchall()
    assert [run.run_id for run in await worker.runs.list(state="queued")] == ["late"]
    await worker.aclose()
    await submitter.aclose()
    stored = b"".join([await each.read_bytes() async for each in anyio.Path(tmp_path).iterdir()])
    assert b"swordfish" not in stored
    assert b"secret code" not in stored


async def test_a_worker_that_is_stopped_hands_its_run_over(tmp_path: Path) -> None:
    begun, may_end, done = anyio.Event(), anyio.Event(), list[int]()

    async def pay(number: int) -> str:
        """Pay, which must not be cut off."""
        begun.set()
        await may_end.wait()
        done.append(number)
        return "paid"

    stopped = agent(tmp_path / "r.db", ScriptedLLM(call("pay", number=1)), pay)
    await stopped.submit("Pay.", run_id="r1")
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: stopped.runs.work(finish_s=60))
        await begun.wait()
        other = agent(tmp_path / "r.db", ScriptedLLM(), pay)
        with pytest.raises(AgentError) as refused:  # DBOS has one instance in a process
            await other.runs.work()
        assert isinstance(refused.value.error, InvalidConfig)
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await until_paused(stopped)
        may_end.set()
    assert (await stopped.runs.find("r1")).state == "interrupted"
    later = agent(tmp_path / "r.db", ScriptedLLM(answer("Paid.")), pay)
    events = EventRecorder()
    later.subscribe(events)
    await later.runs.work(until_idle=True)
    assert (await later.runs.wait("r1")).output == "Paid."
    assert (done, events.of(ToolCallInDoubt)) == ([1], [])
    for each in (stopped, other, later):
        await each.aclose()


_HANGING = """
import sys
import anyio
from pathlib import Path
from reactive_agents.testing import ScriptedLLM, call
from tests.system.test_dbos_queues import agent

async def hang() -> str:
    print("begun", flush=True)
    await anyio.sleep_forever()

anyio.run(agent(Path(sys.argv[1]), ScriptedLLM(call("hang")), hang).runs.work)
"""


async def test_a_worker_leaves_the_runs_of_another_process_alone(tmp_path: Path) -> None:
    record = tmp_path / "r.db"
    worker = agent(record, ScriptedLLM(answer("Hello there.")))
    await worker.submit("Hang.", run_id="r1")
    of_r1 = "SELECT status, executor_id FROM workflow_status WHERE workflow_uuid = 'r1'"
    line = [sys.executable, "-c", _HANGING, str(record)]
    async with await anyio.open_process(line, stderr=None, cwd=ROOT) as other:
        try:
            assert other.stdout is not None
            assert await other.stdout.receive() in (b"begun", b"begun\n")
            with sqlite_file(f"{record}-dbos") as file:
                before = file.execute(of_r1).fetchone()
            await worker.submit("Greet me.", run_id="r2", queue="other")
            await worker.runs.work("other", until_idle=True)
            with sqlite_file(f"{record}-dbos") as file:
                assert file.execute(of_r1).fetchone() == before
                _, own = file.execute(of_r1.replace("'r1'", "'r2'")).fetchone()
            assert (before[0], own == before[1]) == ("PENDING", False)
            assert (await worker.runs.find("r1")).attempt == 1
        finally:
            other.kill()
    await worker.aclose()


async def test_a_run_that_is_in_the_record_alone_is_queued_again(tmp_path: Path) -> None:
    worker = agent(tmp_path / "r.db", ScriptedLLM(answer("Hello there.")))
    await worker.submit("Greet me.", run_id="other")  # makes the files
    record = worker.container.memory.record().unwrap()
    queued = (await attempt(record.find(RunId("other")))).unwrap()
    await worker.runs.cancel("other")
    lost = evolve(queued, run_id=RunId("lost"), due=SystemClock.now() - timedelta(minutes=5))
    assert await attempt(record.add(lost)) == Success(True)
    await worker.runs.work(until_idle=True)
    assert (await worker.runs.wait("lost")).output == "Hello there."
    await worker.aclose()


async def test_a_fork_is_begun_by_resume_alone_and_handed_over_like_any_run(tmp_path: Path) -> None:
    paid, begun, hangs = list[int](), anyio.Event(), True

    @tool(idempotent=True)
    async def pay(number: int) -> str:
        """Pay."""
        if hangs and paid:
            begun.set()
            await anyio.sleep_forever()
        paid.append(number)
        return "paid"

    first = agent(tmp_path / "r.db", ScriptedLLM(call("pay", number=1), answer("Paid 1.")), pay)
    await first.submit("Pay.", run_id="r1")
    await first.runs.work(until_idle=True)
    fork = await first.runs.fork("r1", at=1, into="fork", message="Pay 2.")
    await first.runs.work(until_idle=True)
    assert ((await first.runs.find(fork)).attempt, paid) == (0, [1])
    second = agent(tmp_path / "r.db", ScriptedLLM(call("pay", number=2)), pay)
    async with anyio.create_task_group() as group:
        group.start_soon(second.runs.resume, fork)
        await begun.wait()
        group.cancel_scope.cancel()
    assert (await second.runs.find(fork)).state == "interrupted"
    hangs = False
    with sqlite_file(tmp_path / "r.db") as file:  # a while ago
        file.execute("UPDATE runs SET updated_us = updated_us - 120000000 WHERE run_id = 'fork'")
    third = agent(tmp_path / "r.db", ScriptedLLM(answer("Paid 2.")), pay)
    await third.runs.work(until_idle=True)  # it has begun, and goes on by itself
    assert ((await third.runs.wait(fork)).output, paid) == ("Paid 2.", [1, 2])
    assert (await third.runs.replay(fork)).difference == ""
    for each in (first, second, third):
        await each.aclose()


async def test_runs_that_wait_or_are_paused_leave_their_slots(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(requires_approval=True)
    async def send(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "sent"

    def described(*turns: Turn) -> ReactiveAgent:
        described = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(send)
        described = described.with_approval(timeout_s=3_600)
        return described.with_durability(tmp_path / "r.db", recover=False, engine="dbos").build()

    submitter = described()
    for name, priority in (("paused", 3), ("waiting", 2), ("next", 1)):
        await submitter.submit(f"Do what is {name}.", run_id=name, priority=priority)
    await submitter.runs.pause("paused")
    ask = call("send", to="Ann", when="waiting")
    worker = described(ask, *[answer("It is done.")] * 3)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: worker.runs.work(concurrency=1, total=1))
        assert (await submitter.runs.wait("next")).status == "completed"
        assert {run.run_id: run.state for run in await submitter.runs.list()} == {
            "paused": "paused",
            "waiting": "waiting",
            "next": "completed",
        }
        await submitter.runs.unpause("paused")
        assert (await submitter.runs.wait("paused")).status == "completed"
        assert sent == []
        await submitter.runs.approve("waiting")
        assert (await submitter.runs.wait("waiting")).status == "completed"
        group.cancel_scope.cancel()
    assert sent == ["Ann"]
    await worker.aclose()
    await submitter.aclose()


async def test_a_worker_that_cannot_reach_its_queue_at_its_start_tries_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue = tmp_path / "r.db-dbos"
    queue.mkdir()  # in place of the file
    worker = agent(tmp_path / "r.db", ScriptedLLM(answer("It is done.")))
    async with anyio.create_task_group() as group:
        group.start_soon(worker.runs.work)
        await until(lambda: "The queue default cannot be read" in caplog.text)
        queue.rmdir()
        await worker.submit("Do it.", run_id="a")
        assert (await worker.runs.wait("a")).status == "completed"
        group.cancel_scope.cancel()
    await worker.aclose()


async def test_a_worker_that_cannot_hand_over_leaves_the_process_to_the_next(tmp_path: Path) -> None:
    async def begin(run_id: RunId) -> bool:
        return True

    queues = [DbosQueue(str(tmp_path / name), clock=SystemClock()) for name in ("a.db", "b.db")]
    for number, queue in enumerate(queues):
        listened = await attempt(queue.listen(AgentId("a"), "default", QueueLimits(1), begin))
        assert listened == Success(None)
        await attempt(queue.stop())
        if not number:
            with sqlite_file(tmp_path / "a.db-dbos") as file:
                file.execute("ALTER TABLE workflow_status RENAME TO elsewhere")
        assert isinstance(await attempt(queue.leave()), Success if number else Failure)
        await queue.aclose()


def test_a_run_that_comes_for_a_worker_whose_event_loop_has_ended_is_handed_over() -> None:
    async def begin(run_id: RunId) -> bool:
        return True

    async def listen() -> dbos_queue._Listener:
        return dbos_queue._Listener(begin)

    async def give() -> None:
        with anyio.move_on_after(0.1):  # it has no outcome
            await listener.run("r1")

    listener = anyio.run(listen)
    anyio.run(give)
    assert listener.handed_over == ["r1"]


async def test_a_worker_stops_though_a_thread_of_dbos_has_yet_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def begin(run_id: RunId) -> bool:
        return True

    begun, bootstrap = threading.Event(), threading.Thread._bootstrap  # type: ignore[attr-defined]

    def late(thread: threading.Thread) -> None:
        if thread.name.startswith("queue-worker-"):
            begun.set()
            time.sleep(0.3)
        bootstrap(thread)

    monkeypatch.setattr(threading.Thread, "_bootstrap", late)
    queue = DbosQueue(str(tmp_path / "a.db"), clock=SystemClock())
    assert await attempt(queue.listen(AgentId("a"), "default", QueueLimits(1), begin)) == Success(None)
    assert await anyio.to_thread.run_sync(begun.wait, 60)
    assert await attempt(queue.stop()) == Success(None)
    assert await attempt(queue.leave()) == Success(None)
    await queue.aclose()
