"""``file-write`` replaces no text that the run has not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve

from reactive_agents import ReactiveAgent, ReactiveAgents, RunContext, agent_tool
from reactive_agents.core.events import ToolCallCompleted
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import RunTool, ToolResult
from reactive_agents.testing import EventRecorder, ScriptedLLM, answer, call, forever

pytestmark = pytest.mark.anyio

NOTES = "milk\nbread\ntea\n"
READ = call("file-read", path="notes.md")


def write(text: str, **options: Any) -> Any:
    return call("file-write", path="notes.md", content=text, **options)


def described(workspace: Path, *turns: Any, tools: tuple[Any, ...] = ("file-read", "file-write")) -> Any:
    (workspace / "notes.md").write_text(NOTES)
    llm = ScriptedLLM(*turns, forever(answer("Done.")))
    return ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(*tools).with_workspace(workspace)


async def errors_of(agent: ReactiveAgent, **options: Any) -> list[str]:
    """Run the agent; return the errors of its calls of ``file-write``, empty for those that worked."""
    events = EventRecorder()
    agent.subscribe(events)
    await agent.run("Write notes.md.", **options)
    return [each.error for each in events.of(ToolCallCompleted) if each.tool_name == "file-write"]


async def test_a_line_to_add_does_not_replace_the_file(tmp_path: Path) -> None:
    turns = (write("sugar\n"), write("sugar\n", mode="append"))
    refused, appended = await errors_of(described(tmp_path, *turns).build())
    assert "has not read all of its present text" in refused
    assert "use mode append" in refused
    assert "read it to its end" in refused
    assert "use mode overwrite" in refused
    assert not appended
    assert (tmp_path / "notes.md").read_text() == f"{NOTES}sugar\n"


async def test_a_file_that_was_read_or_written_is_replaced(tmp_path: Path) -> None:
    assert await errors_of(described(tmp_path, READ, write("one"), write("two")).build()) == ["", ""]
    assert (tmp_path / "notes.md").read_text() == "two"


async def test_a_new_and_an_empty_file_are_written(tmp_path: Path) -> None:
    agent = described(tmp_path, call("file-write", path="new.md", content="x"), write("one")).build()
    (tmp_path / "notes.md").write_text("")
    assert await errors_of(agent) == ["", ""]


async def test_a_file_is_overwritten_unread_if_the_call_says_so(tmp_path: Path) -> None:
    agent = described(tmp_path, write("one", mode="overwrite"), tools=("file-write",)).build()
    assert await errors_of(agent) == [""]
    assert (tmp_path / "notes.md").read_text() == "one"


async def test_a_file_read_in_parts_is_known_when_each_line_was_shown(tmp_path: Path) -> None:
    def part(start: int) -> Any:
        return call("file-read", path="notes.md", start_line=start, max_lines=1)

    turns = (part(1), part(3), write("one"), part(2), write("two"))
    refused, written = await errors_of(described(tmp_path, *turns).build())
    assert "has not read all" in refused
    assert not written


async def test_a_file_that_changed_since_it_was_read_is_read_again(tmp_path: Path) -> None:
    def other_process() -> str:
        """Change the file."""
        (tmp_path / "notes.md").write_text("milk\nbread\ntea\nrice\n")
        return "ok"

    turns = (READ, call("other_process"), write("one"), READ, write("two"))
    agent = described(tmp_path, *turns, tools=("file-read", "file-write", other_process)).build()
    refused, written = await errors_of(agent)
    assert "present text" in refused
    assert not written


@pytest.mark.parametrize("text", ["x" * 2_001, b"caf\xe9"])
async def test_a_text_that_cannot_be_shown_as_it_is_counts_as_unread(
    text: str | bytes, tmp_path: Path
) -> None:
    agent = described(tmp_path, READ, write("one")).build()
    (tmp_path / "notes.md").write_bytes(text.encode() if isinstance(text, str) else text)
    (refused,) = await errors_of(agent)
    assert "has not read all" in refused


async def test_a_text_that_the_guardrail_changed_counts_as_unread(tmp_path: Path) -> None:
    checked = described(tmp_path, READ, write("one")).with_guardrails()
    (tmp_path / "notes.md").write_text("Ann's card: 4111 1111 1111 1111\n")
    (refused,) = await errors_of(checked.build())
    assert "has not read all" in refused


@pytest.mark.parametrize("shows_all", [True, False])
async def test_a_text_that_a_wrapper_changed_counts_as_unread(shows_all: bool, tmp_path: Path) -> None:
    async def wrap(context: RunContext, call: ToolCall, run: RunTool) -> ToolResult:
        result = await run(call.arguments)
        changed = result.result if shows_all else "milk"
        return evolve(result, result=changed) if call.name == "file-read" else result

    agent = described(tmp_path, READ, write("one")).with_tool_wrapper(wrap).build()
    (told,) = await errors_of(agent)
    assert ("has not read all" in told) is not shows_all


async def test_what_another_agent_has_read_is_unread(tmp_path: Path) -> None:
    reader = described(tmp_path, READ, tools=("file-read",)).with_name("reader").build()
    tools = (agent_tool(reader, description="Reads files."), "file-write")
    agent = described(tmp_path, call("reader", task="Read notes.md."), write("one"), tools=tools).build()
    (refused,) = await errors_of(agent)
    assert "has not read all" in refused


async def test_a_continued_run_knows_what_it_has_read(tmp_path: Path) -> None:
    hanging = anyio.Event()

    async def wait() -> str:
        """Wait."""
        hanging.set()
        await anyio.sleep_forever()
        return ""

    def agent(*turns: Any) -> ReactiveAgent:
        made = described(tmp_path, *turns, tools=("file-read", "file-write", wait))
        return made.with_durability(tmp_path / "runs.db", recover=False).build()

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: agent(READ, call("wait")).run("Write notes.md.", run_id="r"))
        await hanging.wait()
        group.cancel_scope.cancel()
    assert await errors_of(agent(write("one")), run_id="r") == [""]
    assert (tmp_path / "notes.md").read_text() == "one"
