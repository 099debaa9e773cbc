"""Progress that tools report: plain and async functions, other threads, MCP servers."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest

from reactive_agents import ReactiveAgents, RunContext
from reactive_agents.adapters.tools.mcp import McpServer
from reactive_agents.core.codec import from_json, to_json
from reactive_agents.core.events import (
    AgentEvent,
    CustomEvent,
    TaskCompleted,
    ToolCallCompleted,
    ToolProgressed,
)
from reactive_agents.testing import ScriptedLLM, answer, call, forever
from tests.support.mcp_server import PROGRAM

pytestmark = pytest.mark.anyio


async def in_turn(ctx: RunContext[Any], pages: int) -> str:
    """Read pages."""
    for page in range(1, pages + 1):
        await ctx.progress(page / pages, f"page {page}")
    return "read"


def in_thread(ctx: RunContext[Any], pages: int) -> str:
    """Read pages."""
    ctx.progress(message="begins")
    for page in range(pages):
        ctx.progress(page / pages)
    ctx.progress(1.0, "page sk-" + "a1B2c3D4e5F6g7H8i9J0" * 2)
    return "read"


async def events_of(tool: Any, **arguments: Any) -> list[AgentEvent]:
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(call(tool.__name__, **arguments), answer("Done.")))
    return [event async for event in builder.with_reasoning().with_tools(tool).build().stream("Read.")]


def reports(events: list[AgentEvent]) -> list[tuple[float | None, str]]:
    return [(each.progress, each.message) for each in events if isinstance(each, ToolProgressed)]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_async_tool_reports_each_step() -> None:
    events = await events_of(in_turn, pages=4)
    assert reports(events) == [(0.25, "page 1"), (0.5, "page 2"), (0.75, "page 3"), (1.0, "page 4")]
    places = [number for number, each in enumerate(events) if isinstance(each, ToolProgressed)]
    ended = next(number for number, each in enumerate(events) if isinstance(each, ToolCallCompleted))
    assert max(places) < ended
    completed = events[ended]
    assert isinstance(completed, ToolCallCompleted)
    assert {each.call_id for each in events if isinstance(each, ToolProgressed)} == {completed.call_id}
    assert [each.sequence for each in events] == list(range(1, len(events) + 1))


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_plain_tool_reports_from_its_thread_and_floods_nobody() -> None:
    events = await events_of(in_thread, pages=20_000)
    told = reports(events)
    assert told[-1] == (1.0, "page [redacted:openai-key]")
    assert len(told) < 20_000
    assert [each.sequence for each in events] == list(range(1, len(events) + 1))


async def test_reports_that_nobody_reads_or_that_come_late_go_nowhere() -> None:
    kept: list[RunContext[Any]] = []

    async def keep(ctx: RunContext[Any]) -> str:
        """Keep the context."""
        kept.append(ctx)
        await ctx.progress(math.nan, "x" * 10_000)
        await ctx.progress(17)
        return "kept"

    events = await events_of(keep)
    assert reports(events) == [(None, "x" * 500), (1.0, "")]
    await kept[0].progress(0.5, "late")
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(call("keep"), answer("Done.")))
    await builder.with_reasoning().with_tools(keep).build().run("Keep.")
    assert kept[1].progress(0.5) is not None
    await kept[1].progress(0.5)


# --- data of the program ----------------------------------------------------------------------------------

KEY = "sk-" + "a1B2c3D4e5F6g7H8i9J0" * 2


async def found_in_turn(ctx: RunContext[Any], rows: int) -> str:
    """Find rows."""
    for row in range(rows):
        await ctx.emit("row", {"number": row, "cells": [KEY, None]})
    ctx.emit("end", "all found")
    return "found"


def found_in_thread(ctx: RunContext[Any], rows: int) -> str:
    """Find rows."""
    for row in range(rows):
        ctx.emit("row", {"number": row, "cells": [KEY, None]})
    ctx.emit("end", "all found")
    return "found"


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("tool", [found_in_turn, found_in_thread])
async def test_all_data_that_a_tool_emits_is_published_in_order_and_redacted(tool: Any) -> None:
    found = await events_of(tool, rows=500)
    emitted = [each for each in found if isinstance(each, CustomEvent)]
    data = [{"number": row, "cells": ["[redacted:openai-key]", None]} for row in range(500)]
    assert [(each.name, each.data) for each in emitted] == [
        *(("row", each) for each in data),
        ("end", "all found"),
    ]
    (completed,) = [each for each in found if isinstance(each, ToolCallCompleted)]
    assert {(each.tool_name, each.call_id) for each in emitted} == {(tool.__name__, completed.call_id)}
    assert max(map(found.index, emitted)) < found.index(completed)
    assert from_json(to_json(emitted[0]), CustomEvent).unwrap() == emitted[0]
    assert "all found" not in str(completed.result)


async def test_data_that_is_changed_later_or_emitted_late_is_published_as_it_was() -> None:
    kept: list[RunContext[Any]] = []

    async def keep(ctx: RunContext[Any]) -> str:
        """Keep the context."""
        kept.append(ctx)
        rows = [1]
        ctx.emit("rows", rows)
        rows.append(2)
        return "kept"

    found = await events_of(keep)
    assert [each.data for each in found if isinstance(each, CustomEvent)] == [[1]]
    await kept[0].emit("rows", [3])
    await RunContext(None).emit("rows", [4])


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ((3, {}), "emit: got 3 and an object of 0 fields, expected a name and"),
        (("rows", {1}), "emit: got 'rows' and "),
        (("rows", math.nan), "emit: got 'rows' and nan, expected a name and"),
        (("rows", "x" * 100_000), "emit: got 100,012 characters of JSON, expected at most 100,000"),
    ],
)
async def test_what_cannot_be_emitted_fails_the_call_also_without_readers(given: Any, problem: str) -> None:
    def wrong(ctx: RunContext[Any]) -> str:
        """Emit nonsense."""
        ctx.emit(*given)
        return "never"

    model = ScriptedLLM(call("wrong"), forever(answer("It failed.")))
    result = (
        await ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(wrong).build().run("Go.")
    )
    assert problem in "".join(step.content for step in result.steps if step.type == "observation")


async def test_what_is_no_number_fails_the_call() -> None:
    async def wrong(ctx: RunContext[Any]) -> str:
        """Report nonsense."""
        await ctx.progress("half")  # type: ignore[arg-type]
        return "never"

    events = await events_of(wrong)
    completed = next(each for each in events if isinstance(each, ToolCallCompleted))
    assert "progress: got str, expected a number from 0 to 1." in completed.error


@pytest.mark.system
async def test_progress_of_an_mcp_server_arrives() -> None:
    server = McpServer("far", command=sys.executable, args=(str(PROGRAM),), trust_hints=True)
    llm = ScriptedLLM(call("pages", count=3), answer("Done."))
    async with ReactiveAgents.create().with_llm(llm).with_mcp(server).with_reasoning().build() as agent:
        events = [event async for event in agent.stream("Read.")]
    assert isinstance(events[-1], TaskCompleted)
    told = reports(events)
    assert told[-1] == (1.0, "page 3")
    assert {message for _, message in told} <= {"page 1", "page 2", "page 3"}
