"""Calls of the tools of a real server over its standard streams, and what they end in."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import attrs
import pytest
from returns.result import Result, Success

from reactive_agents.adapters.tools.mcp import McpTools
from reactive_agents.core.content import Image
from reactive_agents.core.errors import (
    InvalidToolArguments,
    ServiceFailed,
    ToolFailed,
    ToolNotApproved,
    ToolNotFound,
    ToolTimedOut,
)
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.effects import attempt, effect, gather
from reactive_agents.testing import FixedApprover
from tests.adapters.tools.mcp.servers import CLOCK, SCOPE, Log, failure, opened, program, run, value
from tests.support.mcp_server import PICTURE

pytestmark = [pytest.mark.anyio, pytest.mark.system]


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return Log(tmp_path_factory.mktemp("mcp"))


@pytest.fixture(scope="module")
async def tools(anyio_backend: str, log: Log) -> AsyncIterator[McpTools]:
    env = {**log.env, "SECRET": "s3cret-value"}
    async with opened(program("test", "--garbage", env=env)) as tools:
        yield tools


async def test_tools_are_defined(tools: McpTools) -> None:
    by_name = {definition.name: definition for definition in tools.definitions()}
    assert list(by_name)[:5] == ["forecast", "echo", "note", "erase", "dotted_name"]
    forecast = by_name["forecast"]
    assert forecast.description == "Tell the weather."
    assert forecast.parameters["required"] == ["city"]
    assert (forecast.risk, forecast.requires_approval, forecast.timeout_s) == ("low", False, 60.0)
    assert (by_name["erase"].risk, by_name["erase"].requires_approval) == ("high", True)
    assert (by_name["note"].risk, by_name["note"].idempotent) == ("medium", True)


async def test_structured_content_is_json(tools: McpTools) -> None:
    result = (await run(tools, "forecast", city="Oslo", days=2)).unwrap()
    assert result.result == {"city": "Oslo", "degrees": 22.5}
    assert (result.call_id, result.tool_name, result.success) == ("c1", "forecast", True)
    assert result.duration_ms > 0


async def test_text_is_text(tools: McpTools) -> None:
    assert await value(tools, "echo", text="grüße\n🙂") == "grüße\n🙂"
    assert await value(tools, "echo", text="") == ""
    assert await value(tools, "echo", text="half a \ud83d") == "half a �"
    large = "x" * 2_000_000
    assert await value(tools, "echo", text=large) == large


async def test_pictures_and_resources_are_described(tools: McpTools) -> None:
    assert await value(tools, "picture") == f"Look:\n{Image.from_bytes(PICTURE).label}"
    assert await value(tools, "resource") == {
        "result": {"n": 1},
        "attachments": ["[resource: file:///a.txt, text/plain, 3 bytes]\näh"],
    }


async def test_a_tool_whose_name_had_to_be_changed_runs(tools: McpTools) -> None:
    assert await value(tools, "dotted_name") == "dots"


async def test_what_is_no_message_is_passed_over(tools: McpTools) -> None:
    assert await value(tools, "babble") == "babbled"


async def test_the_environment_is_what_was_configured(tools: McpTools) -> None:
    assert await value(tools, "variable", name="SECRET") == "s3cret-value"
    assert await value(tools, "variable", name="PYTEST_CURRENT_TEST") == ""


async def test_a_tool_that_fails(tools: McpTools) -> None:
    error = await failure(tools, "fail", reason="no such city, and s3cret-value")
    assert isinstance(error, ToolFailed)
    assert error.detail == "Error executing tool fail: no such city, and [redacted:known]"


async def test_calls_that_do_not_reach_the_server(tools: McpTools) -> None:
    assert isinstance(await failure(tools, "nothing"), ToolNotFound)
    wrong = await failure(tools, "forecast", city=3)
    assert isinstance(wrong, InvalidToolArguments)
    assert "city: got 3, expected a value of type string" in wrong.message
    malformed = ToolCall(CallId("c1"), "echo", {}, malformed='{"text": ')
    outcome = await attempt(tools.execute(malformed, SCOPE))
    assert isinstance(outcome.failure(), InvalidToolArguments)


async def test_a_destructive_tool_runs_when_it_is_approved(tools: McpTools, log: Log) -> None:
    yes, no = FixedApprover(), FixedApprover(False)
    assert (await run(tools, "erase", approver=yes, path="old")).unwrap().result == "erased"
    assert isinstance((await run(tools, "erase", approver=no, path="new")).failure(), ToolNotApproved)
    assert isinstance(await failure(tools, "erase", path="new"), ToolNotApproved)
    assert [line for line in log.lines() if "erased" in line] == ["erased old"]
    assert [request.tool_name for request in (*yes.requests, *no.requests)] == ["erase", "erase"]
    log.clear()


class Editor:
    """An approver that changes the arguments."""

    def __init__(self, **arguments: Json) -> None:
        self.decision = ApprovalDecision(True, arguments=arguments)

    @effect
    async def decide(self, request: ApprovalRequest) -> Result[ApprovalDecision, ServiceFailed]:
        return Success(self.decision)


async def test_a_tool_runs_with_the_arguments_of_its_approver_if_they_fit(tools: McpTools, log: Log) -> None:
    edited = (await run(tools, "erase", approver=Editor(path="other"), path="old")).unwrap()
    assert (edited.result, edited.arguments) == ("erased", {"path": "other"})
    for wrong in (Editor(), Editor(path=3)):
        refused = (await run(tools, "erase", approver=wrong, path="old")).failure()
        assert isinstance(refused, ToolNotApproved)
        assert "path: got" in refused.reason
    assert [line for line in log.lines() if "erased" in line] == ["erased other"]
    log.clear()


async def test_a_slow_call_times_out_and_is_cancelled_at_the_server(tools: McpTools, log: Log) -> None:
    scope = attrs.evolve(SCOPE, deadline=CLOCK.monotonic() + 0.5)
    error = (await run(tools, "slow", scope=scope, seconds=30)).failure()
    assert isinstance(error, ToolTimedOut)
    assert 0 < error.timeout_s <= 0.5
    await log.has("slow cancelled")
    log.clear()


async def test_a_call_after_the_deadline_is_not_made(tools: McpTools, log: Log) -> None:
    scope = attrs.evolve(SCOPE, deadline=CLOCK.monotonic() - 1)
    assert isinstance((await run(tools, "note", scope=scope, text="late")).failure(), ToolTimedOut)
    assert log.lines() == []


async def test_cancelling_a_call_cancels_it_at_the_server(tools: McpTools, log: Log) -> None:
    ended = False
    async with anyio.create_task_group() as group:

        async def call() -> None:
            nonlocal ended
            await run(tools, "slow", seconds=30)
            ended = True

        group.start_soon(call)
        await log.has("slow begun")
        group.cancel_scope.cancel()
    assert not ended
    await log.has("slow cancelled")
    assert await value(tools, "echo", text="still there") == "still there"
    log.clear()


async def test_calls_run_at_the_same_time(tools: McpTools) -> None:
    calls = [ToolCall(CallId(f"c{number}"), "meet", {"people": 8}) for number in range(8)]
    results = await gather([tools.execute(call, SCOPE) for call in calls])
    assert [result.unwrap().call_id for result in results] == [call.id for call in calls]
