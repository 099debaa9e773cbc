"""Processes that share one session, and are killed or stand still in the middle of it."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import anyio
import psycopg
from returns.result import Success

from reactive_agents.adapters.memory.sessions import SqliteSessions
from reactive_agents.core.conversation import wrong_history
from reactive_agents.core.ids import AgentId, SessionId
from reactive_agents.core.messages import Message, UserMessage
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock
from tests.support.sqlite_files import sqlite_file

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from reactive_agents.adapters.memory import sessions
sessions.LEASE_S = 1.0  # before the first use
from reactive_agents import ReactiveAgents
from reactive_agents.testing import ScriptedLLM, answer, call

name, path, turns, wait_for = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]

def look() -> str:
    '''Look.'''
    print("looks", flush=True)
    if wait_for:
        sys.stdin.readline()
    return "seen"

script = [turn for _ in range(turns) for turn in (call("look"), answer("done"))]
agent = ReactiveAgents.create().with_llm(ScriptedLLM(*script)).with_reasoning().with_tools(look)
agent = agent.with_sessions(path).build()
for number in range(turns):
    agent.run_sync(f"{name}{number}", session="s")
    print("ended", flush=True)
"""


def start(name: str, path: Path, turns: int, *wait_for: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, name, str(path), str(turns), *wait_for],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_until(process: subprocess.Popen[str], word: str, times: int = 1) -> None:
    assert process.stdout is not None
    while times:
        line = process.stdout.readline()
        assert line, "the process has ended"
        times -= line.strip() == word


def stand_still(process: subprocess.Popen[str], path: Path) -> None:
    """Stop a process outside of its transactions, whose lock it would keep."""
    process.send_signal(signal.SIGSTOP)
    while is_locked(path):
        process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
        process.send_signal(signal.SIGSTOP)


def is_locked(path: Path) -> bool:
    """Whether a transaction is open in the file, or in the database that the address names."""
    if str(path).startswith("postgresql:"):
        with psycopg.connect(str(path)) as server:
            found = server.execute(
                "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND state <> 'idle'"
            )
            return found.fetchone() is not None
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as file:
        try:
            file.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
    return False


def conversation(path: Path) -> tuple[Message, ...]:
    async def read() -> tuple[Message, ...]:
        store = SqliteSessions(path, clock=FakeClock())
        found = await attempt(store.messages(AgentId("agent"), SessionId("s")))
        await store.aclose()
        assert isinstance(found, Success)
        messages: tuple[Message, ...] = found.unwrap()
        return messages

    return anyio.run(read)


def asked(messages: tuple[Message, ...]) -> list[str]:
    return [each.content for each in messages if isinstance(each, UserMessage)]


def test_what_was_reported_before_a_kill_is_there_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    killed, other = start("k", path, 1_000), start("o", path, 20)
    read_until(killed, "ended", 3)
    read_until(killed, "looks")
    killed.kill()
    printed, _ = killed.communicate()
    other.communicate()
    messages = conversation(path)
    assert wrong_history(messages) is None
    of_killed = [each for each in asked(messages) if each.startswith("k")]
    assert of_killed == [f"k{number}" for number in range(len(of_killed))]
    reported = 3 + printed.split().count("ended")
    assert len(of_killed) in (reported, reported + 1)  # it may end a run without the time to say so
    assert [each for each in asked(messages) if each.startswith("o")] == [
        f"o{number}" for number in range(20)
    ]
    with sqlite_file(path) as file:
        rows = file.execute(
            "SELECT messages_before, message_count FROM conversation_turns ORDER BY number"
        ).fetchall()
    total = 0
    for before, count in rows:
        assert before == total
        total += count
    assert total == len(messages)


def test_a_process_that_stood_still_adds_its_run_where_it_began(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    stopped = start("s", path, 1, "wait")
    read_until(stopped, "looks")
    stand_still(stopped, path)
    other = start("o", path, 2)
    other.communicate()
    stopped.send_signal(signal.SIGCONT)
    stopped.communicate("go on\n")
    assert (stopped.returncode, other.returncode) == (0, 0)
    assert asked(conversation(path)) == ["s0", "o0", "o1"]


# --- the state of the session ---------------------------------------------------------------------------

STATE_PROGRAM = """
import sys
from reactive_agents.adapters.memory import sessions
sessions.LEASE_S = 1.0
from reactive_agents import ReactiveAgents, RunContext, tool
from reactive_agents.testing import ScriptedLLM, answer, call

path, run_id, *steps = sys.argv[1:]

@tool(idempotent=True)
def put(ctx: RunContext[object], key: str, value: str) -> None:
    '''Put it.'''
    if value:
        ctx.state[key] = value
    else:
        del ctx.state[key]

@tool(idempotent=True)
def look() -> str:
    '''Look.'''
    print("looks", flush=True)
    return sys.stdin.readline()

turns = [call("look") if step == "look" else call("put", **dict([["key", step[0]], ["value", step[1:]]]))
         for step in steps]
agent = ReactiveAgents.create().with_llm(ScriptedLLM(*turns, answer("Done."))).with_reasoning()
agent = agent.with_tools(put, look).with_session_state({"a": "0", "b": "0", "c": "0", "d": "0"})
agent = agent.with_sessions(path).with_durability(path, recover=False).build()
agent.run_sync("Do it.", session="s", run_id=run_id)
print("ended", flush=True)
"""


def change(path: Path, run_id: str, *steps: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", STATE_PROGRAM, str(path), run_id, *steps],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_killed_run_that_goes_on_overwrites_only_what_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    killed = change(path, "killed", "a1", "b", "d0", "look")
    read_until(killed, "looks")
    killed.kill()
    killed.communicate()
    other = change(path, "other", "b2", "c2", "d2", "e2")
    other.communicate()
    continued = change(path, "killed", "look", "f3")
    _, logged = continued.communicate("go on\n")
    assert (other.returncode, continued.returncode) == (0, 0), logged

    async def read() -> object:
        store = SqliteSessions(path, clock=FakeClock())
        found = await attempt(store.state(AgentId("agent"), SessionId("s")))
        await store.aclose()
        return found.value_or(None)

    assert anyio.run(read) == {"a": "1", "c": "2", "d": "0", "e": "2", "f": "3"}
    assert "changed the same keys of the state of session 's': 'b', 'd'." in logged
