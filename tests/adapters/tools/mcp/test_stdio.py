"""Lines, the end of what a process wrote, and the end of the process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from reactive_agents.adapters.tools.mcp import McpServer
from reactive_agents.adapters.tools.mcp.stdio import (
    LineBuffer,
    ServerOutput,
    close_pipes,
    end_server,
    release_pipes,
    start_server,
)
from tests.adapters.tools.mcp.servers import is_running
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_lines_are_put_together() -> None:
    buffer = LineBuffer()
    fed = [buffer.feed(data) for data in (b"a", b"b\r\n\n", b"c\nd\ne", b"", b"f\n")]
    assert fed == [[], [b"ab"], [b"c", b"d"], [], [b"ef"]]
    buffer.feed(b"1234")
    assert buffer.waiting == 4


def test_the_end_of_the_output_is_kept() -> None:
    output = ServerOutput()
    output.add(b"x" * 100_000 + b"\n\n")
    output.add(b"the end \xff\n")
    assert output.text().endswith("xxx\nthe end �")
    assert len(output.text()) < 10_000


def shell(script: str) -> McpServer:
    return McpServer("shell", command="/bin/sh", args=("-c", script))


async def end(script: str, *, patience_s: float = 0.5) -> int | None:
    """The exit code of a script that is ended once it has said that it is ready."""
    process, tree = await start_server(shell(script))
    assert process.stdout is not None
    assert await process.stdout.receive() == b"ready\n"
    await end_server(process, tree, patience_s=patience_s)
    await close_pipes(process)
    release_pipes(process)
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    return process.returncode


async def test_a_process_that_leaves_when_its_input_ends_is_not_killed() -> None:
    assert await end("echo ready; cat; exit 5", patience_s=60.0) == 5


async def test_one_that_stays_gets_a_signal() -> None:
    assert await end("trap 'exit 6' TERM; echo ready; while :; do sleep 0.05; done", patience_s=1.0) == 6


async def test_one_that_ignores_signals_is_killed() -> None:
    assert await end("trap '' TERM; echo ready; while :; do sleep 0.05; done") == -9


async def test_children_end_with_the_process(tmp_path: Path) -> None:
    child = tmp_path / "child"
    assert await end(f"sleep 60 & echo $! > {child}; echo ready; cat; exit 0") == 0
    await until(lambda: not is_running(int(child.read_text())))


async def test_children_that_ignore_signals_are_killed(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"(trap '' TERM; while :; do sleep 0.05; done) & echo $! > {child}; echo ready; cat"
    await end(script)
    await until(lambda: not is_running(int(child.read_text())))


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc to find them")
async def test_children_that_left_the_session_end_as_well(tmp_path: Path) -> None:
    child = tmp_path / "child"
    away = f"setsid sh -c 'echo $$ > {child}; exec sleep 60' & while [ ! -s {child} ]; do :; done"
    script = f"{away}; echo ready; cat"
    await end(script)
    await until(lambda: not is_running(int(child.read_text())))


async def test_few_variables_are_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_AGENT", "private")
    script = "import os; print(os.environ.get('OF_THE_AGENT'), os.environ['MINE'], bool(os.environ['PATH']))"
    server = McpServer("a", command=sys.executable, args=("-c", script), env={"MINE": "yes"})
    process, tree = await start_server(server)
    assert process.stdout is not None
    assert await process.stdout.receive() == b"None yes True\n"
    await end_server(process, tree)
    await close_pipes(process)
    release_pipes(process)
