"""Several tool services as one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from returns.result import Success

from reactive_agents.adapters.system import SystemClock
from reactive_agents.adapters.tools.combined import CombinedTools
from reactive_agents.adapters.tools.decorator import tool
from reactive_agents.adapters.tools.mcp import McpServer, McpTools
from reactive_agents.adapters.tools.service import LocalToolService
from reactive_agents.core.errors import InvalidToolArguments, ToolFailed, ToolNotApproved, ToolNotFound
from reactive_agents.core.ids import AgentId, CallId, RunId, SessionId, TaskId
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolScope
from reactive_agents.effects import attempt
from reactive_agents.ports import ToolService
from reactive_agents.testing import FixedApprover
from tests.support.mcp_server import PROGRAM

pytestmark = pytest.mark.anyio

CLOCK = SystemClock()
SCOPE = ToolScope(RunId("run"), TaskId("task"), AgentId("agent"), SessionId("session"), "run-1.0")


@tool
async def echo(text: str) -> str:
    """Say it again, locally."""
    return f"local {text}"


@tool(name="echo")
async def shout(text: str) -> str:
    """Say it louder."""
    if text == "x":
        raise ValueError("too short")
    return text.upper()


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def local(*tools: object) -> LocalToolService:
    return LocalToolService(tools, workspace=Path("/"), clock=CLOCK)  # type: ignore[arg-type]


def names(tools: ToolService) -> list[str]:
    return [definition.name for definition in tools.definitions()]


def call(name: str, **arguments: Json) -> ToolCall:
    return ToolCall(CallId("c1"), name, arguments)


async def test_tools_are_in_the_order_of_the_services() -> None:
    tools = CombinedTools([local(add), local(echo)])
    assert names(tools) == ["add", "echo"]
    result = (await attempt(tools.execute(call("echo", text="a"), SCOPE))).unwrap()
    assert (result.tool_name, result.result) == ("echo", "local a")
    assert (await attempt(tools.execute(call("add", a=1, b=2), SCOPE))).unwrap().result == 3


async def test_a_name_that_is_taken_gets_the_number_of_its_service() -> None:
    tools = CombinedTools([local(echo), local(shout, add)])
    assert names(tools) == ["echo", "tools2-echo", "add"]
    assert tools.definitions()[1].description == "Say it louder."
    result = (await attempt(tools.execute(call("tools2-echo", text="a"), SCOPE))).unwrap()
    assert (result.tool_name, result.result) == ("tools2-echo", "A")
    failed = (await attempt(tools.execute(call("tools2-echo", text="x"), SCOPE))).failure()
    assert failed == ToolFailed("tools2-echo", "too short", "ValueError")
    invalid = (await attempt(tools.execute(call("tools2-echo"), SCOPE))).failure()
    assert isinstance(invalid, InvalidToolArguments)
    assert invalid.tool_name == "tools2-echo"


async def test_a_tool_that_nobody_has() -> None:
    tools = CombinedTools([local(echo), local(shout)])
    error = (await attempt(tools.execute(call("lost"), SCOPE))).failure()
    assert error == ToolNotFound("lost", ("echo", "tools2-echo"))
    empty = CombinedTools([])
    assert empty.definitions() == ()
    assert (await attempt(empty.execute(call("lost"), SCOPE))).failure() == ToolNotFound("lost", ())


@pytest.mark.system
async def test_tools_of_a_server_are_there_while_it_is_open_and_still_need_approval() -> None:
    near = local(echo)
    server = McpServer("far", command=sys.executable, args=(str(PROGRAM),), trust_hints=True)
    approver = FixedApprover()
    far = McpTools([server], clock=CLOCK, taken=names(near))
    tools = CombinedTools([near, far])
    assert names(tools) == ["echo"]
    assert await far.open() == Success(None)
    try:
        assert {"echo", "far-echo", "erase"} <= set(names(tools))
        result = (await attempt(tools.execute(call("far-echo", text="a"), SCOPE))).unwrap()
        assert (result.tool_name, result.result) == ("far-echo", "a")
        erase = call("erase", path="a")
        assert (await attempt(tools.execute(erase, SCOPE, approver))).unwrap().result == "erased"
        assert [request.tool_name for request in approver.requests] == ["erase"]
        assert isinstance((await attempt(tools.execute(erase, SCOPE))).failure(), ToolNotApproved)
    finally:
        await far.aclose()
    assert names(tools) == ["echo"]
