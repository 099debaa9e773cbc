"""Parts that the tests of this folder share: real servers, and calls of their tools."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from returns.result import Result, Success

from reactive_agents.adapters.system import SystemClock
from reactive_agents.adapters.tools.mcp import McpServer, McpTools
from reactive_agents.core.errors import ToolErrors
from reactive_agents.core.ids import AgentId, CallId, RunId, SessionId, TaskId
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolResult, ToolScope
from reactive_agents.effects import attempt
from reactive_agents.ports import Approver, ToolService
from tests.support.mcp_server import PROGRAM
from tests.support.waiting import until

CLOCK = SystemClock()
SCOPE = ToolScope(RunId("run"), TaskId("task"), AgentId("agent"), SessionId("session"), "run-1.0")


def program(name: str, *options: str, **fields: Any) -> McpServer:
    """The server of the tests over its standard streams."""
    return McpServer(
        name, command=sys.executable, args=(str(PROGRAM), *options), **{"trust_hints": True, **fields}
    )


def old(*options: str, name: str = "old", **fields: Any) -> McpServer:
    """The server that is written by hand, which starts much faster."""
    script = str(Path(__file__).with_name("old_server.py"))
    return McpServer(name, command=sys.executable, args=(script, *options), **{"trust_hints": True, **fields})


@asynccontextmanager
async def opened(*servers: McpServer, taken: Sequence[str] = (), **options: Any) -> AsyncIterator[McpTools]:
    """The tools of servers that run within the block."""
    tools = McpTools(servers, clock=CLOCK, taken=taken, **options)
    assert await tools.open() == Success(None)
    try:
        yield tools
    finally:
        await tools.aclose()


async def run(
    tools: ToolService,
    tool_name: str,
    /,
    *,
    scope: ToolScope = SCOPE,
    approver: Approver | None = None,
    **arguments: Json,
) -> Result[ToolResult, ToolErrors]:
    """One call."""
    return await attempt(tools.execute(ToolCall(CallId("c1"), tool_name, arguments), scope, approver))


async def value(tools: ToolService, tool_name: str, /, **arguments: Json) -> Any:
    """Return the result of a call that succeeds."""
    return (await run(tools, tool_name, **arguments)).unwrap().result


async def failure(tools: ToolService, tool_name: str, /, **arguments: Json) -> Any:
    """The error of a call that fails."""
    return (await run(tools, tool_name, **arguments)).failure()


class Log:
    """The file that a server writes its log to."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "log"
        self.env = {"TEST_LOG": str(self._path)}

    def lines(self) -> list[str]:
        """The lines that are complete."""
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        return text.split("\n")[:-1]

    def started(self) -> list[int]:
        """The process ids of the servers that were started."""
        return [int(line.removeprefix("started ")) for line in self.lines() if line.startswith("started ")]

    def clear(self) -> None:
        """Forget all lines."""
        self._path.unlink(missing_ok=True)

    async def has(self, line: str) -> None:
        """Wait until the line is there."""
        await until(lambda: line in self.lines())


def is_gone(pid: int) -> bool:
    """Whether the process has ended and nobody still has to wait for it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def is_running(pid: int) -> bool:
    """Whether there is such a process that does more than wait to be reaped by whoever adopted it."""
    status = Path(f"/proc/{pid}/stat")
    try:
        return not is_gone(pid) and status.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
