"""Lines, the end of what a process wrote, and the end of the process."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_agents.adapters.tools.mcp import McpServer, McpTools
from reactive_agents.adapters.tools.mcp.stdio import (
    MOST_SIGNS,
    ServerOutput,
    SignCount,
    close_pipes,
    end_server,
    release_pipes,
    start_server,
)
from reactive_agents.core.json import Json
from tests.adapters.tools.mcp.servers import CLOCK, is_running
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


ON_BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


def test_the_end_of_the_output_is_kept() -> None:
    output = ServerOutput()
    output.add(b"x" * 100_000 + b"\n\n")
    output.add(b"the end \xff\n")
    assert output.text().endswith("xxx\nthe end �")
    assert len(output.text()) < 10_000


@given(st.text('a"\\\\[]{},:\n', max_size=40), st.integers(1, 5))
def test_signs_are_counted_in_any_pieces(text: str, length: int) -> None:
    data, count, found = text.encode(), SignCount(), 0
    for start in range(0, len(data), length):
        found = count.add(data[start : start + length])
    assert found == SignCount().add(data)


@given(
    st.recursive(st.text() | st.integers(), lambda each: st.lists(each) | st.dictionaries(st.text(), each))
)
def test_no_value_is_overlooked(value: Json) -> None:
    values, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        values += 1
        waiting += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    assert SignCount().add(json.dumps(value, ensure_ascii=False).encode()) >= values // 2


def test_signs_in_texts_do_not_count_and_too_many_end_the_count() -> None:
    assert SignCount().add(b'["' + b'a,\\"[{' * 1_000_000 + b'"]') == 2
    assert SignCount().add(b"{}," * 2_000_000) == MOST_SIGNS + 1
    assert SignCount().add(b'"' * 2_000_000) == MOST_SIGNS + 1


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("'['+'{},'*400_000+']'", "a message with too many values"),
        ("'x'*9_000_000", "a line that is too long"),
    ],
)
async def test_a_message_that_would_fill_the_memory_ends_the_server(
    written: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_server, "__kwdefaults__", {"patience_s": 0.2})  # it cannot end by itself
    script = f"print({written}, flush=True); input()"
    server = McpServer("big", command=sys.executable, args=("-c", script))
    message = (await McpTools([server], clock=CLOCK).open()).failure().message
    assert f"It wrote {problem}" in message


def shell(script: str) -> McpServer:
    return McpServer("shell", command="/bin/sh", args=("-c", script))


async def end(script: str, *, patience_s: float = 0.2) -> int | None:
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


@ON_BOTH
async def test_a_process_that_leaves_when_its_input_ends_is_not_killed() -> None:
    assert await end("echo ready; cat; exit 5", patience_s=60.0) == 5


async def test_one_that_stays_gets_a_signal() -> None:
    assert await end("trap 'exit 6' TERM; echo ready; while :; do sleep 0.05; done", patience_s=1.0) == 6


@ON_BOTH
async def test_one_that_ignores_signals_is_killed() -> None:
    assert await end("trap '' TERM; echo ready; while :; do sleep 0.05; done") == -9


async def test_children_end_with_the_process(tmp_path: Path) -> None:
    child = tmp_path / "child"
    assert await end(f"sleep 60 & echo $! > {child}; echo ready; cat; exit 0", patience_s=60.0) == 0
    await until(lambda: not is_running(int(child.read_text())))


async def test_children_that_ignore_signals_are_killed(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"(trap '' TERM; while :; do sleep 0.05; done) & echo $! > {child}; echo ready; cat"
    await end(script)
    await until(lambda: not is_running(int(child.read_text())))


@ON_BOTH
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
