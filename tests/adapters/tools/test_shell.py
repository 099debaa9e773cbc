"""``shell`` with real processes, through the service, on asyncio and on trio."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from returns.result import Result

from reactive_agents.adapters.system import SystemClock
from reactive_agents.adapters.tools.builtin import builtin_tools
from reactive_agents.adapters.tools.builtin.shell import READING_PROGRAMS, shell, shell_tool
from reactive_agents.adapters.tools.decorator import Tool
from reactive_agents.adapters.tools.process_tree import ProcessTree, run_program
from reactive_agents.adapters.tools.service import LocalToolService
from reactive_agents.adapters.tools.signature import ToolDefinitionError
from reactive_agents.core.errors import (
    InvalidToolArguments,
    ToolErrors,
    ToolFailed,
    ToolNotApproved,
    ToolTimedOut,
)
from reactive_agents.core.ids import AgentId, CallId, RunId, SessionId, TaskId
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolContext, ToolResult, ToolScope
from reactive_agents.effects import attempt
from reactive_agents.testing import FixedApprover
from tests.support.waiting import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.name != "posix", reason="the tool needs POSIX"),
]

SCOPE = ToolScope(RunId("run"), TaskId("task"), AgentId("agent"), SessionId("session"), "run-1.0")
PYTHON = Path(sys.executable).name


ON_BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture(autouse=True)
def _python_is_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", directory + os.pathsep + os.environ.get("PATH", os.defpath))


def freely(*allow: str, timeout_s: float = 30.0, environment: Sequence[str] = ()) -> Tool:
    return shell_tool(allow, requires_approval=False, timeout_s=timeout_s, environment=environment)


async def execute(
    workspace: Path, tool: Tool, command: Json, **arguments: Json
) -> Result[ToolResult, ToolErrors]:
    service = LocalToolService([tool], workspace=workspace, clock=SystemClock())
    call = ToolCall(CallId("c1"), tool.name, {"command": command, **arguments})
    return await attempt(service.execute(call, SCOPE))


async def output_of(workspace: Path, *command: str, tool: Tool | None = None, **arguments: Json) -> Any:
    return (await execute(workspace, tool or freely(command[0]), list(command), **arguments)).unwrap().result


async def python(workspace: Path, script: str, *arguments: str, **given: Json) -> Any:
    return await output_of(workspace, PYTHON, "-c", script, *arguments, **given)


def test_the_tool_as_a_model_sees_it() -> None:
    assert builtin_tools()["shell"] is shell
    definition = shell.definition
    assert (definition.requires_approval, definition.risk, definition.idempotent) == (True, "high", False)
    assert all(program in definition.description for program in READING_PROGRAMS)
    properties: Any = definition.parameters["properties"]
    assert properties["command"]["type"] == "array"
    assert list(properties) == ["command", "input"]


async def test_without_an_approver_nothing_runs(tmp_path: Path) -> None:
    assert isinstance((await execute(tmp_path, shell, ["ls"])).failure(), ToolNotApproved)


@pytest.mark.parametrize("command", [["cat a | grep b"], [], ["rm", "a"], ["ls", "a\0b"]])
async def test_nobody_is_asked_to_approve_what_cannot_run(tmp_path: Path, command: list[Json]) -> None:
    approver = FixedApprover()
    service = LocalToolService([shell], workspace=tmp_path, clock=SystemClock())
    call = ToolCall(CallId("c1"), "shell", {"command": command})
    error = (await attempt(service.execute(call, SCOPE, approver))).failure()
    assert (type(error), approver.requests) == (InvalidToolArguments, [])
    right = ToolCall(CallId("c2"), "shell", {"command": ["ls"]})
    assert (await attempt(service.execute(right, SCOPE, approver))).unwrap().success
    assert [request.tool_name for request in approver.requests] == ["shell"]


async def test_a_call_from_python_runs_only_allowed_programs(tmp_path: Path) -> None:
    context = ToolContext(SCOPE.run_id, SCOPE.task_id, SCOPE.agent_id, "c1", tmp_path)
    error = (await freely("ls")(["rm", "a"], context=context)).failure()
    assert (error.problems[0].argument, error.problems[0].got) == ("command[0]", '"rm"')


# --- what comes back ------------------------------------------------------------------------------------


@ON_BOTH
async def test_a_program_runs_in_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("apple\nbanana\n")
    found = await output_of(tmp_path, "grep", "-n", "an", "a b.txt")
    assert found == {"exit_code": 0, "stdout": "2:banana\n", "stderr": "", "truncated": False}
    failed = await output_of(tmp_path, "grep", "pear", "a b.txt")
    assert failed["exit_code"] == 1


async def test_there_is_no_shell(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    found = await output_of(tmp_path, "echo", "$HOME", "*", "&&", "ls", "`ls`", ">", "b.txt")
    assert found["stdout"] == "$HOME * && ls `ls` > b.txt\n"
    assert os.listdir(tmp_path) == ["a.txt"]


async def test_both_streams_and_the_exit_code(tmp_path: Path) -> None:
    script = "import os; os.write(1, b'out\\n\\xff'); os.write(2, 'größe\\n'.encode()); exit(3)"
    found = await python(tmp_path, script)
    assert found == {"exit_code": 3, "stdout": "out\n\ufffd", "stderr": "größe\n", "truncated": False}


async def test_a_program_that_is_ended_by_a_signal(tmp_path: Path) -> None:
    found = await python(tmp_path, "import os; os.abort()")
    assert found["exit_code"] == -signal.SIGABRT


@ON_BOTH
async def test_standard_input(tmp_path: Path) -> None:
    assert (await output_of(tmp_path, "cat", input="größe\n"))["stdout"] == "größe\n"
    assert (await output_of(tmp_path, "cat"))["stdout"] == ""
    long = "0123456789" * 100_000
    assert (await output_of(tmp_path, "wc", "-c", input=long))["stdout"].strip() == "1000000"
    assert (await python(tmp_path, "print('unread')", input=long))["stdout"] == "unread\n"


async def test_of_a_long_output_both_ends_are_kept(tmp_path: Path) -> None:
    script = (
        "import sys; sys.stdout.write('first' + 'x' * 1_000_000 + 'last'); sys.stderr.write('e' * 65_536)"
    )
    found = await python(tmp_path, script)
    out = found["stdout"]
    assert out.startswith("firstx")
    assert out.endswith("xlast")
    assert f"\n[… {1_000_009 - 65_536} bytes left out …]\n" in out
    assert len(out) < 65_600
    assert found["stderr"] == "e" * 65_536
    assert found["truncated"] is True


# --- what may run, and what it sees ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "program", ["rm", "/bin/ls", "./ls", "../ls", "LS", "ls ", "", "bin/ls", "ls;rm", "sh", "-c"]
)
async def test_only_allowed_programs_run(tmp_path: Path, program: str) -> None:
    error = (await execute(tmp_path, freely("ls", "cat"), [program])).failure()
    assert isinstance(error, InvalidToolArguments)
    assert error.problems[0].argument == "command[0]"
    assert error.problems[0].expected == "one of these programs: ls, cat"


@pytest.mark.parametrize("command", ["ls -l", "", '["ls"]'])
async def test_a_string_is_refused_with_a_hint(tmp_path: Path, command: str) -> None:
    error = (await execute(tmp_path, freely("ls"), command)).failure()
    assert isinstance(error, InvalidToolArguments)
    assert 'a list such as ["ls", "-l"]' in error.message


@pytest.mark.parametrize("command", [[], ["ls", "a\0b"], ["ls", "\ud800"], ["ls", None]])
async def test_commands_that_make_no_sense(tmp_path: Path, command: list[Json]) -> None:
    assert isinstance((await execute(tmp_path, freely("ls"), command)).failure(), InvalidToolArguments)


async def test_programs_that_are_not_there_or_do_not_start(tmp_path: Path) -> None:
    error = (await execute(tmp_path, freely("no-such-program"), ["no-such-program"])).failure()
    assert error == ToolFailed("shell", "the program 'no-such-program' is not installed here")
    error = (await execute(tmp_path, freely("ls"), ["ls", "x" * 10_000_000])).failure()
    assert isinstance(error, ToolFailed)
    assert "'ls' could not be started" in error.detail


async def test_programs_of_the_workspace_do_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "made-here"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho fake\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{fake.parent}:bin:.:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    error = (await execute(tmp_path, freely("made-here"), ["made-here"])).failure()
    assert error == ToolFailed("shell", "the program 'made-here' is not installed here")


async def test_no_secret_of_the_environment_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("EDITOR", "ed")
    monkeypatch.setenv("LANG", "C.UTF-8")
    tool = freely("env", environment=("EDITOR", "NOT_THERE"))
    lines = (await output_of(tmp_path, "env", tool=tool))["stdout"].splitlines()
    seen = dict(line.split("=", 1) for line in lines)
    assert set(seen) == {"PATH", "HOME", "LANG", "EDITOR", "REACTIVE_AGENTS_COMMAND"}
    assert (seen["LANG"], seen["EDITOR"]) == ("C.UTF-8", "ed")
    assert seen["HOME"] != os.environ.get("HOME")
    assert os.listdir(os.path.dirname(seen["HOME"])).count(os.path.basename(seen["HOME"])) == 0


@pytest.mark.parametrize("program", ["", "/bin/ls", "../ls", "a/b", "."])
def test_programs_are_allowed_by_name(program: str) -> None:
    with pytest.raises(ValueError, match="without a path"):
        shell_tool((program,))


def test_a_timeout_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ToolDefinitionError):
        shell_tool(timeout_s=0)


# --- nothing is left running ----------------------------------------------------------------------------

FAMILY = """
import os, signal, subprocess, sys, time
kind, depth = sys.argv[1], int(sys.argv[2])
if kind == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if depth:
    command = [sys.executable, "-c", sys.argv[3], kind, str(depth - 1), sys.argv[3]]
    subprocess.Popen(command, start_new_session=kind == "daemons")
with open(f"new-{depth}", "w") as file:
    file.write(str(os.getpid()))
os.rename(f"new-{depth}", f"pid-{depth}")  # whoever sees it sees all of it
if kind == "leaving" and depth == 2 or kind == "daemons" and depth == 1:
    while not os.path.exists("pid-0"):
        time.sleep(0.005)
    sys.exit(0)
print("started", flush=True)
time.sleep(60)
"""
"""Three generations that note their process ids; each kind makes it hard to end them in its own way."""


def noted(directory: Path) -> list[int]:
    """The process ids that the family has noted so far."""
    return [int(file.read_text()) for file in sorted(directory.glob("pid-*"))]


async def family(directory: Path) -> list[int]:
    """The process ids of the three generations, once all have begun."""
    await until(lambda: len(noted(directory)) == 3)
    return noted(directory)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def run_family(directory: Path, kind: str) -> None:
    await run_program(
        [sys.executable, "-c", FAMILY, kind, "2", FAMILY],
        directory=directory,
        environment={"PATH": os.environ["PATH"]},
        given=None,
        grace_s=0.1,
    )


KINDS = ["docile", "stubborn", "leaving"] + (["daemons"] if sys.platform == "linux" else [])


@ON_BOTH
@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancelled_program_takes_its_family_along(tmp_path: Path, kind: str) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(run_family, tmp_path, kind)
        pids = await family(tmp_path)
        group.cancel_scope.cancel()
    assert [pid for pid in pids if is_alive(pid)] == []


@pytest.mark.parametrize("kind", ["docile", "stubborn"])
async def test_where_processes_cannot_be_listed_the_group_ends(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, "-c", FAMILY, kind, "0"]
    async with await anyio.open_process(command, cwd=tmp_path, start_new_session=True) as process:
        assert process.stdout is not None
        assert (await process.stdout.receive()).startswith(b"started")
        tree = ProcessTree(process.pid, "", proc=tmp_path)
        async with anyio.create_task_group() as group:
            group.start_soon(process.wait)
            await tree.end(grace_s=0.1)
        assert process.returncode == -(signal.SIGKILL if kind == "stubborn" else signal.SIGTERM)
        await tree.end(grace_s=0.1)


@ON_BOTH
async def test_a_program_that_ends_leaves_nobody_behind(tmp_path: Path) -> None:
    await run_family(tmp_path, "leaving")
    assert [pid for pid in await family(tmp_path) if is_alive(pid)] == []


@ON_BOTH
async def test_the_whole_family_ends_at_the_timeout(tmp_path: Path) -> None:
    tool = freely(PYTHON, timeout_s=0.3)
    command: list[Json] = [PYTHON, "-c", FAMILY, "docile", "2", FAMILY]
    assert (await execute(tmp_path, tool, command)).failure() == ToolTimedOut("shell", 0.3)
    assert [pid for pid in noted(tmp_path) if is_alive(pid)] == []


async def test_a_program_that_never_stops_writing_is_ended(tmp_path: Path) -> None:
    error = (await execute(tmp_path, freely("yes"), ["yes"])).failure()
    assert error == ToolFailed("shell", "'yes' was ended since it wrote more than 16 MiB")


async def test_programs_run_beside_each_other(tmp_path: Path) -> None:
    found: list[str] = []

    async def echo(text: str) -> None:
        found.append((await output_of(tmp_path, "echo", text))["stdout"])

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(echo, str(number))
    assert sorted(found) == [f"{number}\n" for number in range(5)]
