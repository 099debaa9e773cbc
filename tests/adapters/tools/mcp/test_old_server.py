"""A server of an older version of the protocol, and answers that break it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import anyio
import pytest
from attrs import evolve

from reactive_agents.adapters.tools.mcp import McpTools, connection
from reactive_agents.adapters.tools.mcp.stdio import end_server
from reactive_agents.core.errors import ToolFailed, ToolTimedOut
from tests.adapters.tools.mcp.servers import CLOCK, SCOPE, failure, is_gone, old, opened, run, value
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def tools(anyio_backend: str) -> AsyncIterator[McpTools]:
    async with opened(old()) as tools:
        yield tools


async def test_it_is_understood(tools: McpTools) -> None:
    names = [definition.name for definition in tools.definitions()]
    assert names[:4] == ["fine", "refused", "empty", "half"]  # of two pages
    assert len(names) == len(set(names)) == 17
    assert await value(tools, "fine", anything="goes") == "fine"


async def test_a_refusal_is_a_failure_with_its_words(tools: McpTools) -> None:
    assert await failure(tools, "refused") == ToolFailed("refused", "not today", "MCPError")
    assert await failure(tools, "empty") == ToolFailed("empty", "the server did not say why")


async def test_a_refusal_with_the_code_of_a_closed_connection_ends_nothing() -> None:
    """Servers use it for all kinds of errors."""
    async with opened(old(env={"TEST_CODE": "-32000"})) as tools:
        before = await value(tools, "pid")
        assert await failure(tools, "refused") == ToolFailed("refused", "not today", "MCPError")
        assert await value(tools, "pid") == before


async def test_an_answer_that_is_none_is_a_failure(tools: McpTools) -> None:
    error = await failure(tools, "malformed")
    assert isinstance(error, ToolFailed)
    assert error.exception == "ValidationError"
    assert await value(tools, "fine") == "fine"


async def test_a_call_that_is_never_answered_times_out() -> None:
    async with opened(old(timeout_s=0.25)) as tools:
        assert await failure(tools, "never") == ToolTimedOut("never", 0.25)


async def test_half_of_a_surrogate_pair_does_no_harm(tools: McpTools) -> None:
    assert await value(tools, "half") == "half a �"
    assert await value(tools, "fine", anything="half a \ud83d") == "fine"


async def test_an_answer_beyond_all_bounds_ends_the_server(
    tools: McpTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_server, "__kwdefaults__", {"patience_s": 0.2})  # it cannot end by itself
    assert "is gone" in (await failure(tools, "long")).message
    assert await value(tools, "fine") == "fine"


async def test_what_a_server_asks_of_the_model_is_declined(tools: McpTools) -> None:
    assert await value(tools, "asks") == "Sampling not supported"


async def test_a_server_that_no_longer_listens_is_started_again(tools: McpTools) -> None:
    assert await value(tools, "deaf") == "fine"
    assert "is gone" in (await failure(tools, "fine")).message
    assert await value(tools, "fine") == "fine"


async def test_a_server_that_answers_nothing_after_a_call_timed_out_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "_ENDS_BY_ITSELF_S", 0.1)
    monkeypatch.setattr(end_server, "__kwdefaults__", {"patience_s": 0.2})

    async def timed_out(name: str) -> bool:
        scope = evolve(SCOPE, deadline=CLOCK.monotonic() + 0.3)
        return isinstance((await run(tools, name, scope=scope)).failure(), ToolTimedOut)

    async with opened(old()) as tools:
        before = await value(tools, "pid")
        assert await timed_out("never")
        assert await value(tools, "pid") == before  # it answers other calls
        assert await timed_out("hang")
        monkeypatch.setattr(connection, "_PROBE_S", 0.1)
        assert await value(tools, "pid") != before


def test_an_event_loop_that_ends_while_servers_are_closed_ends_them() -> None:
    async def leave_early() -> int:
        tools = McpTools([old()], clock=CLOCK)
        await tools.open()
        pid = int(await value(tools, "pid"))
        closing = asyncio.create_task(tools.aclose())
        await asyncio.sleep(0)
        assert not closing.done()
        return pid

    pid = asyncio.run(leave_early())
    anyio.run(until, lambda: is_gone(pid))


async def test_a_call_that_is_cancelled_from_outside_is_cancelled_at_the_server(tools: McpTools) -> None:
    call = asyncio.create_task(run(tools, "never"))
    while await value(tools, "unanswered") != "1":
        pass
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await value(tools, "cancelled") == "1"


async def test_a_server_without_tools_has_none() -> None:
    async with opened(old("--bare")) as tools:
        assert tools.definitions() == ()


async def test_tools_that_no_client_can_read_are_left_out_and_the_others_remain(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened(old("--odd")) as tools:
        assert [tool.name for tool in tools.definitions()] == ["typeless", "fine"]
        assert await value(tools, "fine") == "fine"
    left_out = [record.getMessage() for record in caplog.records if "is left out" in record.getMessage()]
    assert [message.split()[2] for message in left_out] == [
        '"schemaless"',
        '"textual"',
        '"nonsense"',
        '"properties"',
        '"no',
        '"remote"',
    ]
    assert all("of the MCP server 'old' is left out" in message for message in left_out)


async def test_a_listing_without_an_end_is_cut() -> None:
    async with opened(old("--endless")) as tools:
        assert [definition.name for definition in tools.definitions()] == ["fine"]
