"""Durable runs in Postgres: killed at every boundary, and queued for workers that are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from returns.result import Success

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, tool
from reactive_agents.adapters import postgres
from reactive_agents.adapters.governance.audit_log import verify
from reactive_agents.adapters.postgres import PostgresDatabase
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.errors import RunInterrupted
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.run_record import RecordedRun, RunEntry
from reactive_agents.core.tasks import Task
from reactive_agents.effects import attempt
from reactive_agents.testing import ScriptedLLM, answer, call
from tests.adapters.test_run_record import *  # noqa: F403 - the tests of the record, here on Postgres
from tests.adapters.test_run_record import Open
from tests.support.postgres import Server, running_server
from tests.support.queue_worker import queue_with_kills

ROOT = Path(__file__).parents[2]
STEPS = os.environ.get("KILLED_STEPS", "2")
EVERY = int(os.environ.get("KILLED_EVERY", "3"))
RESTARTED_EVERY = int(os.environ.get("RESTARTED_EVERY", "6"))
QUEUED = int(os.environ.get("QUEUED_RUNS", "20"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that tests crash: there is little in it, so that it recovers at once."""
    with running_server() as running:
        yield running


@pytest.fixture
def database(server: Server) -> str:
    """The address of a database of this test."""
    return server.new()


@pytest.fixture
def opened(database: str) -> Open:
    """Open the record once more."""
    return lambda clock: SqliteRunRecord(database, clock=clock)


@pytest.mark.parametrize(("kind", "every"), [("plain", 1), ("parallel", EVERY), ("sub-agent", EVERY)])
def test_a_run_killed_at_boundaries(tmp_path: Path, database: str, kind: str, every: int) -> None:
    """At every one of the plain run, and in files at every one of all (``test_durable_crashes.py``)."""
    command = [sys.executable, "-m", "tests.support.durable_crashes", str(tmp_path), STEPS, kind, str(every)]
    environment = {**os.environ, "DURABLE_URL": database}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    counts = json.loads(ended.stdout)
    print(counts)
    assert counts["resumed"] == counts["kills"] > 5 * int(STEPS) // every
    assert counts["repeated"] == counts["events_lost"] == 0


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_run_survives_a_crash_of_the_server(server: Server, database: str, idempotent: bool) -> None:
    """Its last entries, which the server had not on its disk, are written once more."""
    noted: list[int] = []

    @tool(idempotent=idempotent)
    def note(number: int) -> str:
        """Note a number."""
        noted.append(number)
        if number == 2:
            server.restart("immediate")
        return "noted"

    async def run() -> None:
        llm = ScriptedLLM(*[call("note", number=number) for number in range(5)], answer("All is noted."))
        described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(note)
        agent = described.with_durability(database, recover=False).build()
        assert (await agent.run("Note the numbers.", run_id="r")).output == "All is noted."
        assert len(await agent.runs.steps("r")) == 11
        assert (await agent.runs.replay("r")).difference == ""
        await agent.aclose()

    anyio.run(run)
    assert noted == [0, 1, 2, 3, 4]


def test_a_run_whose_server_hangs_is_interrupted_and_calls_no_tool_again(
    server: Server, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_SILENT_S", 1.0)
    noted: list[int] = []
    hanging = ExitStack()

    @tool
    def note(number: int) -> str:
        """Note a number."""
        noted.append(number)
        if number == 2:
            hanging.enter_context(server.hanging())
        return "noted"

    def agent(url: str, *numbers: int) -> ReactiveAgent:
        llm = ScriptedLLM(*[call("note", number=each) for each in numbers], answer("All is noted."))
        described = ReactiveAgents.create().with_name("clerk").with_llm(llm).with_reasoning().with_tools(note)
        return described.with_durability(url, recover=False).with_sessions(url).build()

    async def run() -> None:
        first = agent(database, 0, 1, 2, 3)
        with hanging:
            with pytest.raises(AgentError, match="cannot be reached") as failed:
                await first.run("Note the numbers.", run_id="r", session="s")
            assert isinstance(failed.value.error, RunInterrupted)
            with pytest.raises(AgentError, match="cannot be reached"):
                await first.runs.list()
            await first.aclose()
        second = agent(f"{database}&application_name=second", 3)  # with its own connections
        assert [each.state for each in await second.runs.list()] == ["interrupted"]
        assert (await second.run("Note the numbers.", run_id="r", session="s")).output == "All is noted."
        await second.aclose()

    anyio.run(run)
    assert noted == [0, 1, 2, 3]


async def begun_run(database: str) -> tuple[SqliteRunRecord, RunId, str]:
    """A record of runs with one that has begun, its id and its holder.

    No lease is renewed, so that nothing else notices what becomes of a connection.
    """
    record = SqliteRunRecord(database, clock=SystemClock())
    record._leases._beat_s = 600.0
    task, run_id = Task(TaskId("t"), AgentId("a"), "Do it.", SystemClock.now()), RunId("r")
    claimed = await attempt(record.claim(RecordedRun(run_id, AgentId("a"), task), lambda _: None))
    return record, run_id, claimed.unwrap().holder


def test_an_entry_that_a_server_lost_before_later_ones_is_written_with_the_end_of_the_run(
    server: Server, database: str
) -> None:
    async def run() -> None:
        record, run_id, holder = await begun_run(database)
        for key in ("m1", "m2"):
            entry = RunEntry(key, "model", SystemClock.now(), "{}")
            (await attempt(record.append(run_id, holder, entry))).unwrap()
        name = database.partition("?")[0].rpartition("/")[2]
        server.run(name, "DELETE FROM reactive_agents.run_entries WHERE key = 'm1' RETURNING 1")
        (await attempt(record.end(run_id, holder, "completed", "{}"))).unwrap()
        found = (await attempt(record.entries(run_id))).unwrap()
        assert {each.key for each in found} == {"m1", "m2"}
        await record.aclose()

    anyio.run(run)


@contextmanager
def keeping_in_memory(server: Server) -> Iterator[None]:
    """A server that writes to its disk only what a transaction waits for."""
    server.run("postgres", "ALTER SYSTEM SET wal_writer_delay = '10s'")
    server.run("postgres", "SELECT pg_reload_conf()")
    try:
        yield
    finally:
        server.run("postgres", "ALTER SYSTEM RESET wal_writer_delay")
        server.run("postgres", "SELECT pg_reload_conf()")


@pytest.mark.parametrize("ended_by", ["nothing", "a write", "a wait"])
@pytest.mark.parametrize("seen_by", ["a statement", "a transaction", "nobody"])
def test_entries_that_a_server_lost_are_written_again(
    server: Server, database: str, ended_by: str, seen_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So they are whoever finds the connection lost, or if it was closed meanwhile, as an idle one is."""

    async def run() -> None:
        record, run_id, holder = await begun_run(database)
        now, expected = SystemClock.now(), ["m1"]
        (await attempt(record.append(run_id, holder, RunEntry("m1", "model", now, "{}")))).unwrap()
        if seen_by == "nobody":
            monkeypatch.setattr(postgres, "IDLE_S", -1.0)
        if seen_by == "a transaction":
            monkeypatch.setattr(PostgresDatabase, "_send", lambda *_, **__: None)
        await anyio.to_thread.run_sync(server.restart, "immediate")
        if ended_by == "a write":
            entry = RunEntry("i1", "intent", now, "{}")
            (await attempt(record.append(run_id, holder, entry, durable=True))).unwrap()
            expected.append("i1")
        if ended_by == "a wait":
            (await attempt(record.release(run_id, holder))).unwrap()
        else:
            (await attempt(record.end(run_id, holder, "completed", "{}"))).unwrap()
        found = (await attempt(record.entries(run_id))).unwrap()
        assert [each.key for each in found] == expected
        await record.aclose()

    with keeping_in_memory(server):
        anyio.run(run)


@pytest.mark.parametrize("engine", ["record", "dbos"])
def test_queued_runs_are_done_once_by_workers_that_are_killed(
    tmp_path: Path, database: str, engine: str
) -> None:
    counts = queue_with_kills(database, tmp_path, engine, QUEUED)
    print(counts)
    assert counts["kills"] > 0
    assert counts["states"] == {"completed"}
    assert counts["payments"] == 2 * counts["runs"]


@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_a_server_may_restart_at_any_transaction_of_a_run(
    server: Server, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run goes on, or says why not and is continued: nothing is lost, and nothing is done twice."""
    seen, place = count(1), 0
    once, send = PostgresDatabase._once, PostgresDatabase._send

    def pass_by() -> None:
        if next(seen) == place:
            server.restart("immediate")

    def restarting(database: Any, work: Any, begin: str, again: bool) -> Any:
        left = iter([when == "within"])

        def done(file: Any) -> Any:
            result = work(file)
            if next(left, False):  # a transaction that is repeated is not cut off again
                pass_by()
            return result

        if when == "before":
            pass_by()
        result = once(database, done, begin, again)
        if when == "after":
            pass_by()
        return result

    def sending(database: Any, *given: Any, **options: Any) -> Any:
        if when == "before":
            pass_by()
        sent = send(database, *given, **options)
        if when != "before" and sent is not None:
            pass_by()
        return sent

    noted: list[int] = []

    @tool
    def note(number: int) -> str:
        """Note a number."""
        noted.append(number)
        return "noted"

    def agent(url: str, *turns: Any) -> ReactiveAgent:
        described = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(note)
        described = described.with_sessions(url).with_cost(url).with_audit(url).with_memory(url)
        return described.with_run_log(url).with_durability(url, recover=False).build()

    async def run(url: str) -> None:
        given: Any = {"run_id": "r", "session": "s", "user": "ann"}
        first = agent(url, call("note", number=1), answer("It is noted."))
        with suppress(AgentError):  # that it was interrupted
            await first.run("Note 1.", **given)
        result = await first.run("Note 1.", **given)
        assert (result.status, result.output) == ("completed", "It is noted.")
        await first.aclose()
        monkeypatch.undo()
        later = agent(url, answer("So it is."))
        await later.run("Is it?", session="s", user="ann")  # after which nothing is owed
        assert (await later.runs.find("r")).owes == ()
        assert (await later.runs.replay("r")).difference == ""
        await later.aclose()

    for place in range(1, 36, RESTARTED_EVERY):
        noted.clear()
        url = server.new()
        seen = count(1)
        monkeypatch.setattr(PostgresDatabase, "_once", restarting)
        monkeypatch.setattr(PostgresDatabase, "_send", sending)
        anyio.run(run, url)
        name = url.partition("?")[0].rpartition("/")[2]
        of_run = "SELECT count(*) FROM reactive_agents.{} WHERE run_id = 'r'"
        counts = [server.run(name, of_run.format(each)) for each in ("conversation_turns", "spending_runs")]
        assert (place, noted, counts) == (place, [1], [[(1,)], [(1,)]])
        assert server.run(name, "SELECT status FROM reactive_agents.logged_runs WHERE run_id = 'r'") == [
            ("completed",)
        ]
        assert isinstance(verify(url), Success)
