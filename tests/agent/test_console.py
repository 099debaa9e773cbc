"""The console of a program: lines, a live view on a terminal, approvals, and what strangers send to it."""

from __future__ import annotations

import io
import os

import anyio
import pytest

from reactive_agents import AgentError, ReactiveAgents, agent_tool, tool
from reactive_agents.adapters.telemetry.console import LiveView, PlainView, RunConsole, progress_view
from reactive_agents.core.errors import ModelUnavailable
from reactive_agents.testing import ScriptedLLM, answer, call, fail, forever, say
from tests.support.command_line import Terminal
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202eevil\x1b[?1049h\x00"


def look_up(name: str) -> str:
    """Look a name up."""
    return f"{name} {HOSTILE}"


async def test_lines_are_written_where_there_is_no_terminal() -> None:
    output = io.StringIO()
    llm = ScriptedLLM(call("look_up", name="Mars"), answer("Mars."))
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(look_up)
    result = await builder.with_console(output).build().run("Which planet?")
    lines = output.getvalue().splitlines()
    assert result.output == "Mars."
    assert any(line.startswith("action    ") and '"name": "Mars"' in line for line in lines)
    assert any(line.startswith("tool      look_up succeeded") for line in lines)
    assert lines[-1].startswith("done      ")
    assert "tokens" in lines[-1]


async def test_sub_agents_and_failures_are_shown() -> None:
    output = io.StringIO()
    worker = ReactiveAgents.create().with_name("worker").with_llm(ScriptedLLM(say("Done.")))
    boss = ScriptedLLM(call("worker", task="Work."), fail(ModelUnavailable("The server is down.", "m")))
    agent = ReactiveAgents.create().with_llm(boss).with_tools(agent_tool(worker.build())).with_console(output)
    with pytest.raises(AgentError):
        await agent.build().run("Have it done.")
    lines = output.getvalue().splitlines()
    assert any("[worker] Done." in line for line in lines)
    assert lines[-1].startswith("failed ")
    assert "The server is down." in lines[-1]


@pytest.mark.parametrize("live", [False, True])
async def test_no_text_of_a_stranger_steers_the_terminal(live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    output: io.StringIO = Terminal() if live else io.StringIO()
    worker = ReactiveAgents.create().with_name(f"w{HOSTILE}").with_llm(ScriptedLLM(say(HOSTILE)))
    turns = (
        call("look_up", name=HOSTILE),
        call("w", task=HOSTILE),
        say(f"{HOSTILE} The end.", thinking=HOSTILE),
    )
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
    builder = builder.with_tools(look_up, agent_tool(worker.build(), name="w"))
    await builder.with_console(output).build().run(f"Go. {HOSTILE}")
    shown = output.getvalue()
    assert "evil" in shown
    for steering in ("\x1b]", "\x07", "\x1b[2J", "\x9b", "\u202e", "\x1b[?1049h", "\x00"):
        assert steering not in shown


async def test_a_terminal_gets_the_live_view_and_colours_only_where_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert isinstance(progress_view(Terminal()), LiveView)
    coloured, plain = Terminal(), Terminal()
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("Hi."))))
    await agent.with_console(coloured).build().run("Say hi.")
    monkeypatch.setenv("NO_COLOR", "1")
    await agent.with_console(plain).build().run("Say hi.")
    assert "32m" in coloured.getvalue()
    assert "32m" not in plain.getvalue()
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(progress_view(Terminal()), PlainView)


async def test_runs_at_once_share_one_view() -> None:
    output = Terminal()
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("Hi.")))).with_console(output).build()
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(agent.run, "Say hi.")
    assert output.getvalue().count("ended by") == 3
    await agent.run("Say hi.")
    assert output.getvalue().count("ended by") == 4


async def test_approvals_are_asked_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    @tool(requires_approval=True)
    def send(text: str) -> str:
        """Send a text."""
        sent.append(text)
        return "sent"

    class Keyboard(Terminal):
        def isatty(self) -> bool:
            return True

    llm = ScriptedLLM(call("send", text="a"), call("send", text="b"), answer("b was denied."))
    keyboard, errors = Keyboard("y\nno\n"), Terminal()
    monkeypatch.setattr("sys.stdin", keyboard)
    monkeypatch.setattr("sys.stderr", errors)
    await (
        ReactiveAgents.create()
        .with_llm(llm)
        .with_reasoning()
        .with_tools(send)
        .with_console()
        .build()
        .run("Send.")
    )
    assert sent == ["a"]
    assert errors.getvalue().count("[y/N]") == 2


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals here")
async def test_a_question_that_was_given_up_takes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    @tool(requires_approval=True)
    def send(text: str) -> str:
        """Send a text."""
        sent.append(text)
        return "sent"

    keyboard, line = os.openpty()
    errors = Terminal()
    with os.fdopen(line) as stdin, os.fdopen(keyboard, "wb", buffering=0) as keys:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("sys.stderr", errors)
        llm = ScriptedLLM(call("send", text="a"), call("send", text="b"), answer("Done."))
        agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(send).with_console().build()
        async with anyio.create_task_group() as group:
            group.start_soon(agent.run, "Send a.")
            await until(lambda: "[y/N]" in errors.getvalue())
            group.cancel_scope.cancel()
        shown = errors.getvalue()
        async with anyio.create_task_group() as group:
            group.start_soon(agent.run, "Send b.")
            await until(lambda: "[y/N]" in errors.getvalue()[len(shown) :])
            keys.write(b"y\n")
        assert sent == ["b"]


def test_a_console_that_is_no_file_is_refused() -> None:
    with pytest.raises(AgentError, match="console"):
        ReactiveAgents.create().with_model("offline").with_console(3).build()  # type: ignore[arg-type]
    assert RunConsole(io.StringIO()).can_ask is False
