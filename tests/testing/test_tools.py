"""Fake tools answer with results, failures or functions, and remember every call."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import (
    InvalidToolArguments,
    ToolErrors,
    ToolFailed,
    ToolNotFound,
    ToolTimedOut,
)
from reactive_agents.core.ids import AgentId, CallId, RunId, SessionId, TaskId
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition, ToolResult, ToolScope
from reactive_agents.effects import attempt, gather
from reactive_agents.ports import ToolService
from reactive_agents.testing import FakeTools
from tests.support.virtual_time import Backend, virtual_time

pytestmark = pytest.mark.anyio

SCOPE = ToolScope(RunId("run"), TaskId("task"), AgentId("agent"), SessionId("session"), "key")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


def add(left: int, right: int = 1) -> int:
    """Add two numbers."""
    return left + right


async def slow(text: str) -> str:
    """Repeat the text."""
    await anyio.lowlevel.checkpoint()
    return text * 2


def broken() -> None:
    raise LookupError("nothing there")


def made(name: str, malformed: str = "", **arguments: Json) -> ToolCall:
    return ToolCall(CallId("c1"), name, arguments, malformed)


async def outcome(tools: ToolService, call: ToolCall) -> Result[ToolResult, ToolErrors]:
    return await attempt(tools.execute(call, SCOPE))


async def test_a_canned_result_is_given_for_any_arguments() -> None:
    tools = FakeTools({"weather": {"degrees": 12}, "nothing": None})
    assert await outcome(tools, made("weather", city="Oslo")) == Success(
        ToolResult(CallId("c1"), "weather", {"degrees": 12})
    )
    assert (await outcome(tools, made("nothing"))).unwrap().result is None
    assert tools.calls == [made("weather", city="Oslo"), made("nothing")]
    assert tools.scopes == [SCOPE, SCOPE]
    assert tools.arguments_of("weather") == [{"city": "Oslo"}]


async def test_functions_are_called_with_the_arguments_by_name() -> None:
    tools = FakeTools({"add": add, "slow": slow})
    assert (await outcome(tools, made("add", left=2, right=3))).unwrap().result == 5
    assert (await outcome(tools, made("add", left=2))).unwrap().result == 3
    assert (await outcome(tools, made("slow", text="ab"))).unwrap().result == "abab"


async def test_failures_are_canned_returned_or_raised() -> None:
    late = ToolTimedOut("late", 1.0)
    tools = FakeTools({"late": late, "returns": lambda: late, "broken": broken})
    assert await outcome(tools, made("late")) == Failure(late)
    assert await outcome(tools, made("returns")) == Failure(late)
    assert await outcome(tools, made("broken")) == Failure(
        ToolFailed("broken", "nothing there", "LookupError")
    )


async def test_calls_that_cannot_be_run_fail_as_they_do_in_the_live_service() -> None:
    tools = FakeTools({"add": add})
    assert await outcome(tools, made("subtract")) == Failure(ToolNotFound("subtract", ("add",)))
    for call in (made("add"), made("add", left=1, other=2), made("add", malformed="{oops")):
        match await outcome(tools, call):
            case Failure(InvalidToolArguments(name, problems)):
                assert name == "add"
                assert problems
            case other:
                pytest.fail(f"got {other}")
    assert len(tools.calls) == 4


async def test_a_type_error_inside_a_function_is_the_functions_own() -> None:
    def adds_wrongly(left: str) -> object:
        return left + 1  # type: ignore[operator]

    match await outcome(FakeTools({"wrong": adds_wrongly}), made("wrong", left="a")):
        case Failure(ToolFailed(_, _, exception)):
            assert exception == "TypeError"
        case other:
            pytest.fail(f"got {other}")


async def test_every_call_can_be_made_to_fail() -> None:
    problem = ToolTimedOut("add", 5.0)
    tools = FakeTools({"add": add}, fails_with=problem)
    assert await outcome(tools, made("add", left=1)) == Failure(problem)
    assert tools.calls == [made("add", left=1)]
    tools.fails_with = None
    assert (await outcome(tools, made("add", left=1))).unwrap().result == 2


async def test_nothing_happens_before_a_call_is_awaited_and_calls_may_overlap() -> None:
    tools = FakeTools({"slow": slow})
    pending = [tools.execute(made("slow", text=text), SCOPE) for text in "abc"]
    assert tools.calls == []
    assert [each.unwrap().result for each in await gather(pending)] == ["aa", "bb", "cc"]
    assert len(tools.calls) == 3


async def test_a_waiting_tool_can_be_cancelled() -> None:
    with anyio.move_on_after(0.02) as scope:
        await outcome(FakeTools({"sleep": anyio.sleep_forever}), made("sleep"))
    assert scope.cancelled_caught


def test_tools_present_themselves() -> None:
    own = ToolDefinition("canned", "Mine.", {"type": "object"}, requires_approval=True)
    tools = FakeTools(
        {"add": add, "canned": 1, "plain": 2, "anything": lambda **named: 3}, definitions=(own,)
    )
    definitions = {definition.name: definition for definition in tools.definitions()}
    assert list(definitions) == ["add", "canned", "plain", "anything"]
    assert definitions["add"] == ToolDefinition(
        "add",
        "Add two numbers.",
        {
            "type": "object",
            "properties": {"left": {"type": "integer"}, "right": {"type": "integer"}},
            "required": ["left"],
        },
    )
    assert definitions["canned"] is own
    assert definitions["plain"] == ToolDefinition("plain", "The tool plain.", {"type": "object"})
    assert definitions["anything"].parameters["properties"] == {}
