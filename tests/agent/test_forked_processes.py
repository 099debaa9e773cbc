"""A process that was forked from one with an agent: what is its own, and what its parent's."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from reactive_agents import ReactiveAgent, ReactiveAgents, tool
from reactive_agents.adapters.telemetry.run_log import SqliteRunLog
from reactive_agents.core.events import ApprovalRequested
from reactive_agents.testing import ScriptedLLM, call, say
from tests.support.sqlite_files import sqlite_file

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


def forked(work: Callable[[], object]) -> Callable[[], str]:
    """Begin work in a forked process; return a function that waits for its result as a text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # which ends it where it waits
        try:
            os.write(writing, repr(work()).encode())
        except BaseException as error:  # noqa: BLE001 - shown by the test
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writing)

    def result() -> str:
        with open(reading, encoding="utf-8") as said:
            shown = said.read()
        os.waitpid(child, 0)
        return shown

    return result


def chatting(place: Path | None) -> tuple[ReactiveAgent, ScriptedLLM]:
    llm = ScriptedLLM(say("One."), say("Two."), say("Three."), say("Four."))
    builder = ReactiveAgents.create().with_llm(llm)
    return (builder if place is None else builder.with_sessions(place)).build(), llm


def test_what_a_forked_process_stores_is_there_after_its_parent_closed_the_file(tmp_path: Path) -> None:
    agent, _ = chatting(tmp_path / "chats.db")
    (stored, store), (closed, close) = os.pipe(), os.pipe()

    def work() -> str:
        async def both() -> str:
            await agent.run("two", session="s")
            os.write(store, b" ")
            os.read(closed, 1)
            return (await agent.run("three", session="s")).status

        return asyncio.run(both())

    with asyncio.Runner() as runner:
        runner.run(agent.__aenter__())
        runner.run(agent.run("one", session="s"))
        result = forked(work)
        os.read(stored, 1)
        runner.run(agent.aclose())
        os.write(close, b" ")
        assert result() == "'completed'"
    for each in (stored, store, closed, close):
        os.close(each)
    with sqlite_file(tmp_path / "chats.db") as file:
        assert file.execute("SELECT count(*) FROM conversation_turns").fetchone() == (3,)


def test_the_parent_uses_its_files_after_the_fork(tmp_path: Path) -> None:
    agent, llm = chatting(tmp_path / "chats.db")
    with asyncio.Runner() as runner:
        runner.run(agent.__aenter__())
        runner.run(agent.run("one", session="s"))
        forked(lambda: None)()
        runner.run(agent.run("two", session="s"))
        runner.run(agent.aclose())
    assert len(llm.requests[-1].messages) == len(llm.requests[0].messages) + 2


def test_a_forked_process_has_a_copy_of_what_is_in_memory() -> None:
    agent, llm = chatting(None)

    def messages(task: str) -> int:
        agent.run_sync(task, session="s")
        return len(llm.requests[-1].messages)

    first = messages("one")
    result = forked(lambda: messages("two"))
    assert result() == str(first + 2)
    assert messages("two") == first + 2


def test_a_forked_process_does_not_control_the_runs_of_its_parent() -> None:
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    llm = ScriptedLLM(call("wait"), say("Done."))
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(wait).build()

    async def main() -> None:
        running = asyncio.create_task(agent.run("Wait."))
        await begun.wait()
        (task,) = agent.running()
        controls = agent.cancel, agent.stop, agent.pause, agent.resume
        result = forked(lambda: (agent.running(), {type(each(task)).__name__ for each in controls}))
        assert result() == "((), {'Failure'})"
        assert agent.running() == (task,)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(main())


def test_a_forked_process_does_not_decide_on_the_calls_of_its_parent() -> None:
    @tool(requires_approval=True)
    def send() -> str:
        """Send the letter."""
        return "sent"

    llm = ScriptedLLM(call("send"), say("Sent."))
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(send).with_approval().build()
    asked: list[ApprovalRequested] = []

    async def main() -> None:
        waits = asyncio.Event()

        def note(event: object) -> None:
            if isinstance(event, ApprovalRequested):
                asked.append(event)
                waits.set()

        agent.subscribe(note)
        running = asyncio.create_task(agent.run("Send it."))
        await waits.wait()
        about = asked[0].run_id, asked[0].approval_id
        result = forked(lambda: (agent.pending_approvals(), type(agent.approve(*about)).__name__))
        assert result() == "((), 'Failure')"
        agent.approve(*about).unwrap()
        assert (await running).output == "Sent."

    asyncio.run(main())


def test_a_forked_process_does_not_wait_for_the_writer_of_its_parents_run_log(tmp_path: Path) -> None:
    log = SqliteRunLog(tmp_path / "runs.db")
    with log._writing:  # as its thread does while the file is locked
        result = forked(lambda: asyncio.run(log.aclose()))
        assert result() == "None"
