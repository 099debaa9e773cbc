"""Servers that start, do not start, die, are started again and end with everything that they started."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from returns.result import Success

from reactive_agents.adapters.tools.mcp import McpServer, McpTools
from reactive_agents.core.errors import ServiceFailed, ToolFailed, ToolNotFound
from tests.adapters.tools.mcp.servers import (
    CLOCK,
    Log,
    failure,
    is_gone,
    is_running,
    old,
    opened,
    program,
    run,
    value,
)
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


def mute(pid: Path, **fields: Any) -> McpServer:
    """A program that says nothing until it is told to end."""
    return McpServer("mute", command="sh", args=("-c", f"echo $$ > {pid}; cat > /dev/null"), **fields)


def script_in(directory: Path) -> Path:
    """A command that does what Python does."""
    script = directory / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return script


def remove(file: Path) -> None:
    file.unlink()


def number_in(file: Path) -> int:
    return int(file.read_text())


async def problem_of(*servers: McpServer) -> str:
    """Why servers did not start."""
    tools = McpTools(servers, clock=CLOCK)
    error = (await tools.open()).failure()
    assert isinstance(error, ServiceFailed)
    assert (error.service, error.operation, tools.definitions()) == ("mcp", "open", ())
    return error.message


def test_servers_have_names_of_their_own() -> None:
    with pytest.raises(ValueError, match="name: two MCP servers are named 'a'"):
        McpTools([McpServer("a", command="b"), McpServer("a", command="c")], clock=CLOCK)


def test_importing_loads_no_library() -> None:
    script = (
        "import sys, reactive_agents.adapters.tools.mcp, reactive_agents.adapters.tools.combined\n"
        "slow = ('mcp', 'mcp_types', 'pydantic', 'httpx2', 'jsonschema_rs')\n"
        "print([name for name in slow if name in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


async def test_without_servers_there_are_no_tools() -> None:
    async with opened() as tools:
        assert tools.definitions() == ()
        assert isinstance(await failure(tools, "echo"), ToolNotFound)


async def test_a_command_that_does_not_exist() -> None:
    message = await problem_of(McpServer("lost", command="no-such-command", args=("--key", "hush")))
    assert message == (
        "The MCP server 'lost' (command 'no-such-command') did not start: "
        "no such file or directory (no-such-command)."
    )


async def test_a_command_with_its_arguments_in_one_text_is_told_where_they_belong() -> None:
    message = await problem_of(McpServer("lost", command="npx -y some-server"))
    assert message.endswith("(npx -y some-server); what follows the program belongs in args.")


async def test_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    message = await problem_of(program("lost", cwd=tmp_path / "nowhere"))
    assert "did not start: no such file or directory" in message
    assert str(tmp_path / "nowhere") in message


@pytest.mark.system
async def test_a_command_that_complains_is_quoted_without_secrets() -> None:
    complaint = "cannot log in with s3cret-value"
    message = await problem_of(program("shy", "--complain", complaint, env={"TOKEN": "s3cret-value"}))
    assert "'shy'" in message
    assert "it ended before it had listed its tools (exit code 3)" in message
    assert message.endswith("The end of what it wrote:\ncannot log in with [redacted:known]")


async def test_a_command_that_is_no_server_is_quoted() -> None:
    message = await problem_of(McpServer("chat", command="echo", args=("Good morning!",)))
    assert message.endswith("(exit code 0). The end of what it wrote:\nGood morning!")


async def test_a_server_that_never_answers_is_ended(tmp_path: Path) -> None:
    message = await problem_of(mute(tmp_path / "pid", start_timeout_s=1.0))
    assert "it did not list its tools within 1 seconds" in message
    assert is_gone(number_in(tmp_path / "pid"))


async def test_one_that_does_not_start_ends_the_others(tmp_path: Path) -> None:
    log = Log(tmp_path)
    good = old(name="good", env=log.env)
    message = await problem_of(
        good, McpServer("bad", command="no-such-command"), McpServer("worse", command="/")
    )
    assert ["'bad'" in line or "'worse'" in line for line in message.splitlines()] == [True, True]
    assert all(is_gone(pid) for pid in log.started())


async def test_opening_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    tools = McpTools([mute(pid)], clock=CLOCK)
    async with anyio.create_task_group() as group:
        group.start_soon(tools.open)
        await until(lambda: pid.exists() and pid.read_text())
        group.cancel_scope.cancel()
    assert is_gone(number_in(pid))


async def test_collisions_between_servers_and_with_other_tools() -> None:
    async with opened(old(name="a"), old(name="b"), taken=("a-fine",)) as tools:
        names = [definition.name for definition in tools.definitions()]
        assert {"a-fine-2", "b-fine", "a-pid", "b-pid"} <= set(names)
        assert len(set(names)) == len(names)
        result = (await run(tools, "b-fine")).unwrap()
        assert (result.tool_name, result.result) == ("b-fine", "fine")
        assert await value(tools, "a-pid") != await value(tools, "b-pid")


@pytest.mark.system
async def test_a_server_that_dies_in_a_call_is_started_again_by_the_next() -> None:
    async with opened(old(name="frail")) as tools:
        definitions = tools.definitions()
        first = int(await value(tools, "pid"))
        child = int(await value(tools, "breed"))
        error = await failure(tools, "die")
        assert isinstance(error, ToolFailed)
        assert error.detail == "the server 'frail' is gone (exit code 7); the next call tries it again"
        second = int(await value(tools, "pid"))
        assert second != first
        assert is_gone(first)
        assert not is_running(child)
        os.kill(second, 9)
        await until(lambda: is_gone(second))
        await anyio.sleep(0.1)
        third = int(await value(tools, "pid"))
        assert third not in (first, second)
        assert tools.definitions() is definitions
    assert is_gone(third)


async def test_a_server_that_cannot_be_started_again(tmp_path: Path) -> None:
    link = script_in(tmp_path)
    async with opened(McpServer("frail", command=str(link), args=old().args, trust_hints=True)) as tools:
        await failure(tools, "die")
        remove(link)
        error = await failure(tools, "fine")
        assert isinstance(error, ToolFailed)
        assert "did not start: no such file or directory" in error.detail


@pytest.mark.system
async def test_after_closing_the_process_and_its_children_are_gone() -> None:
    tools = McpTools([old()], clock=CLOCK)
    assert await tools.open() == Success(None)
    assert await tools.open() == Success(None)
    pid, child = int(await value(tools, "pid")), int(await value(tools, "breed"))
    await tools.aclose()
    assert is_gone(pid)
    assert not is_running(child)
    assert tools.definitions() == ()
    assert isinstance(await failure(tools, "fine"), ToolNotFound)
    await tools.aclose()
    assert await tools.open() == Success(None)
    assert int(await value(tools, "pid")) != pid
    await tools.aclose()


async def test_closing_ends_a_call_that_is_under_way() -> None:
    errors: list[Any] = []
    tools = McpTools([old()], clock=CLOCK)
    await tools.open()

    async def call() -> None:
        errors.append(await failure(tools, "never"))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        while await value(tools, "unanswered") != "1":
            pass
        await tools.aclose()
    assert isinstance(errors[0], ToolFailed)
    assert errors[0].detail == "the server 'old' is gone (exit code 0)"


@pytest.mark.system
async def test_closing_while_calls_start_a_server_again_leaves_nothing_behind(tmp_path: Path) -> None:
    log, errors = Log(tmp_path), []
    tools = McpTools([old("--slow", env=log.env)], clock=CLOCK)
    await tools.open()
    await failure(tools, "die")
    log.clear()

    async def call() -> None:
        errors.append(await failure(tools, "fine"))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(call)
        await until(log.started)
        await tools.aclose()
    assert [type(error) for error in errors] == [ToolFailed] * 3
    assert [("meanwhile" in error.detail, "is closed" in error.detail) for error in errors] == [
        (True, False),
        (False, True),
        (False, True),
    ]
    assert [is_gone(pid) for pid in log.started()] == [True]


@pytest.mark.system
def test_one_event_loop_after_the_other() -> None:
    tools = McpTools([old()], clock=CLOCK)

    async def without_closing() -> int:
        assert await tools.open() == Success(None)
        return int(await value(tools, "pid"))

    async def on_another_loop() -> int:
        pid = int(await value(tools, "pid"))
        await tools.aclose()
        return pid

    first = asyncio.run(without_closing())
    assert not is_gone(first)
    assert anyio.run(without_closing, backend="trio") == first
    assert asyncio.run(on_another_loop()) == first
    assert is_gone(first)


@pytest.mark.system
def test_many_event_loops_at_once() -> None:
    tools, pids, problems = McpTools([old()], clock=CLOCK), [], []
    together = threading.Barrier(4)

    async def use() -> None:
        assert await tools.open() == Success(None)
        together.wait()
        pids.extend([int(await value(tools, "pid")) for _ in range(10)])
        together.wait()
        await tools.aclose()

    def work(backend: str) -> None:
        try:
            anyio.run(use, backend=backend)
        except BaseException as error:  # noqa: BLE001 - of another thread
            problems.append(error)
            together.abort()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("asyncio", "trio") * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (problems, len(pids), len(set(pids))) == ([], 40, 1)
    assert is_gone(pids[0])
    assert tools.definitions() == ()


def test_a_loop_that_closes_leaves_the_servers_to_the_others() -> None:
    tools = McpTools([old()], clock=CLOCK)
    opened_here, closed_there = threading.Event(), threading.Event()
    seen: list[object] = []

    async def stay() -> None:
        await tools.open()
        opened_here.set()
        await anyio.to_thread.run_sync(closed_there.wait)
        seen.append(await value(tools, "fine"))
        await tools.aclose()

    async def come_and_go() -> None:
        await tools.open()
        await tools.aclose()

    staying = threading.Thread(target=anyio.run, args=(stay,))
    staying.start()
    opened_here.wait()
    anyio.run(come_and_go)
    closed_there.set()
    staying.join()
    assert seen == ["fine"]
    assert tools.definitions() == ()


async def test_a_call_is_cancelled_at_the_server_from_whatever_loop(tmp_path: Path) -> None:
    async with opened(old()) as tools:
        with anyio.move_on_after(0.2):
            await value(tools, "never")
        assert await value(tools, "cancelled") == "1"


def test_tools_that_are_forgotten_leave_nothing_behind() -> None:
    async def forget() -> int:
        tools = McpTools([old()], clock=CLOCK)
        await tools.open()
        return int(await value(tools, "pid"))

    pid = anyio.run(forget)
    gc.collect()

    async def wait() -> None:
        await until(lambda: is_gone(pid))

    anyio.run(wait)


FORGETTING = """
import anyio
from tests.adapters.tools.mcp.servers import CLOCK, old, value
from reactive_agents.adapters.tools.mcp import McpTools

tools = McpTools([old()], clock=CLOCK)

async def main():
    await tools.open()
    print(await value(tools, "pid"), await value(tools, "breed"), flush=True)

anyio.run(main)
"""


@pytest.mark.system
def test_a_program_that_ends_without_closing_leaves_nothing_behind() -> None:
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", FORGETTING], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    for pid in done.stdout.split():
        assert not is_running(int(pid))
