"""A secret that is planted anywhere in a run is in no event, no log line and no audit file."""

from __future__ import annotations

import logging
import threading
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
from dependency_injector import providers

from reactive_agents import AgentError, ReactiveAgents, tool
from reactive_agents.adapters.governance.audit_log import read_entries
from reactive_agents.containers import RuntimeContainer
from reactive_agents.core import redaction
from reactive_agents.core.codec import to_json
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import HookError, InvalidConfig, ModelUnavailable
from reactive_agents.core.events import (
    AgentEvent,
    ApprovalRequested,
    ModelTextStreamed,
    ReasoningStepCompleted,
    TaskCompleted,
)
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.secret_patterns import signs_in
from reactive_agents.core.settings import RunSettings
from reactive_agents.engine import ExecutionContext
from reactive_agents.testing import EventRecorder, ScriptedLLM, Turn, answer, call, fail, forever, say
from tests.support.streams import PiecewiseLLM

pytestmark = pytest.mark.anyio

SECRET = "sk-proj-Zq8Rt5Yw2Lm9Xv4Kb7Nc"


@tool(name="look-up")
async def look_up(word: str) -> dict[str, object]:
    """Look a word up."""
    return {"word": word, "found": [f"the key is {SECRET}", {"deep": SECRET}]}


@tool(name="break-down")
async def break_down() -> str:
    """Fail."""
    raise ValueError(f"refused: {SECRET}")


@tool(name="send", requires_approval=True)
async def send(password: str, text: str) -> str:
    """Send a text."""
    return f"sent with {password}"


def start(*turns: Turn) -> ReactiveAgents:
    llm = ScriptedLLM(*turns)
    return ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(look_up, break_down, send)


RUNS = {
    "task": (f"Use {SECRET} to log in.", (answer("Done."),)),
    "tool result": ("Look it up.", (call("look-up", word="key"), answer("Done."))),
    "tool error": ("Break.", (call("break-down"), answer("Done."))),
    "arguments": ("Look it up.", (call("look-up", word=SECRET), answer("Done."))),
    "approval": ("Send it.", (call("send", password=SECRET, text="x"), answer("Done."))),
    "model text": ("What is it?", (say(f"It is {SECRET}, of course."),)),
    "model error": ("What is it?", (fail(ModelUnavailable(f"down: {SECRET}", "m")),)),
    "unknown tool": ("What is it?", (call(SECRET), answer("Done."))),
}


def bytes_in(directory: Path) -> bytes:
    return b"".join(each.read_bytes() for each in directory.iterdir())


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(("task", "turns"), RUNS.values(), ids=RUNS)
async def test_a_planted_secret_is_nowhere(
    task: str,
    turns: tuple[Turn, ...],
    streaming: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "audit.db"
    recorder = EventRecorder()

    def clumsy(event: AgentEvent) -> None:
        if isinstance(event, ReasoningStepCompleted):
            raise ValueError(f"cannot handle {SECRET}")

    agent = start(*turns).with_audit(path).with_approval(lambda _: True).build()
    with caplog.at_level(logging.DEBUG):
        async with agent:
            agent.subscribe(recorder)
            agent.subscribe(clumsy)
            if streaming:
                async with aclosing(agent.stream(task)) as events:
                    assert [event async for event in events]
            else:
                with suppress(AgentError):
                    await agent.run(task)
    told = "\n".join(to_json(event, AgentEvent) for event in recorder.events)
    assert SECRET not in told
    assert "[redacted:" in told
    assert SECRET not in caplog.text
    assert SECRET.encode() not in bytes_in(tmp_path)
    assert read_entries(path).unwrap()


async def test_the_caller_gets_the_answer_as_it_is_and_the_event_does_not() -> None:
    recorder = EventRecorder()
    agent = start(answer(f"It is {SECRET}.")).build()
    agent.subscribe(recorder)
    result = await agent.run("What is it?")
    assert result.output == f"It is {SECRET}."
    (completed,) = recorder.of(TaskCompleted)
    assert completed.result.output == "It is [redacted:openai-key]."


async def test_what_a_failed_run_raises_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "supersecretvalue123")

    def broken(context: ExecutionContext) -> None:
        if context.tool_results:
            raise ValueError("bad supersecretvalue123")

    agent = (
        start(call("look-up", word="supersecretvalue123"), say("Done."))
        .with_strict_hooks()
        .with_hook("think", "before", broken)
        .build()
    )
    with pytest.raises(AgentError) as raised:
        await agent.run("Look it up.")
    failed = raised.value
    assert isinstance(failed.error, HookError)
    assert "bad [redacted:environment]" in str(failed)
    assert len(failed.steps) == 2
    assert failed.metadata is not None
    assert failed.metadata.tokens_used == 15
    for text in (repr(failed), str(failed), to_json(failed.error), to_json(failed.steps)):
        assert "supersecretvalue123" not in text
        assert SECRET not in text


async def test_a_secret_that_streams_in_pieces_is_held_back() -> None:
    pieces = [f"It is {SECRET[:9]}", SECRET[9:15], f"{SECRET[15:]} and", " that is all."]
    agent = ReactiveAgents.create().with_llm(PiecewiseLLM(*pieces)).build()
    async with aclosing(agent.stream("What is it?")) as events:
        shown = [event.text async for event in events if isinstance(event, ModelTextStreamed)]
    assert "".join(shown) == "It is [redacted:openai-key] and that is all."
    assert shown[0] == "It is "


async def test_fields_that_are_named_a_secret_are_redacted_whatever_they_hold() -> None:
    recorder = EventRecorder()
    agent = start(call("send", password="plain word", text="hello"), answer("Not sent.")).with_approval(
        lambda _: False
    )
    built = agent.build()
    built.subscribe(recorder)
    await built.run("Send it.")
    (asked,) = recorder.of(ApprovalRequested)
    assert asked.arguments == {"password": "[redacted:field]", "text": "hello"}


async def test_patterns_of_ones_own_are_data() -> None:
    builder = (
        start(forever(answer("It is CASE-42.")))
        .with_redaction(r"CASE-\d+")
        .with_redaction(r"pin (?P<secret>\d+)")
    )
    recorder = EventRecorder()
    agent = builder.build()
    agent.subscribe(recorder)
    await agent.run("Which one has pin 4711?")
    told = "\n".join(to_json(event, AgentEvent) for event in recorder.events)
    assert "CASE-42" not in told
    assert "pin 4711" not in told
    assert "pin [redacted:pattern]" in told
    config = ReactiveAgents.create().with_model("offline").with_redaction("a+", "b").to_config()
    assert config.redaction.patterns == ("a+", "b")
    assert (
        ReactiveAgents.from_config({"redaction": {"patterns": ["a+", "b"]}}).config.redaction
        == config.redaction
    )


def test_a_pattern_that_is_none_is_named() -> None:
    with pytest.raises(AgentError) as caught:
        start().with_redaction("fine", "(").build()
    assert isinstance(caught.value.error, InvalidConfig)
    assert caught.value.error.option == "redaction.patterns"
    assert caught.value.error.value == "'('"


async def test_the_configured_key_and_the_environment_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "correct horse battery")
    said = "Use not-a-usual-key, or correct horse battery, or kept@gateway."
    builder = start(answer(said)).with_model(
        "openai/x", api_key="not-a-usual-key", base_url="https://ada:kept%40gateway@models.example/v1"
    )
    assert "gateway" not in repr(builder)
    recorder = EventRecorder()
    agent = builder.build()
    agent.subscribe(recorder)
    await agent.run("How do I log in?")
    output = recorder.of(TaskCompleted)[0].result.output
    assert output == "Use [redacted:known], or [redacted:environment], or [redacted:known]."


async def test_one_redactor_serves_events_log_and_audit_and_can_be_swapped(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    recorder = EventRecorder()
    agent = start(fail(ModelUnavailable("the tulip is down", "m"))).with_audit(path).build()
    agent.container.core.redactor.override(providers.Object(Redactor(["tulip"])))
    async with agent:
        agent.subscribe(recorder)
        with pytest.raises(AgentError):
            await agent.run("What is it?")
    assert "tulip" not in "\n".join(to_json(event, AgentEvent) for event in recorder.events)
    assert b"tulip" not in path.read_bytes()


def test_a_container_has_a_redactor_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "not-to-be-seen")
    runtime = RuntimeContainer(RunSettings("a"), ModelConfig(model="offline"))
    assert runtime.core.redactor().redact("It is not-to-be-seen.") == "It is [redacted:environment]."
    assert runtime.core.redactor() is runtime.core.redactor()


@tool(name="fetch")
async def fetch(table: bool) -> list[dict[str, str]] | str:
    """Fetch a page, or a table."""
    rows = [{"name": f"user {number}", "note": f"the token {SECRET}{number}"} for number in range(2_000)]
    return rows if table else "\n".join(row["note"] for row in rows)


async def test_long_results_are_not_redacted_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here, on_the_loop = threading.get_ident(), list[int]()

    def counting(plain: str) -> set[str]:
        if threading.get_ident() == here:
            on_the_loop.append(len(plain))
        return signs_in(plain)

    monkeypatch.setattr(redaction, "signs_in", counting)
    llm = ScriptedLLM(
        call("fetch", table=False), call("fetch", table=True), answer("Each row of the table has one.")
    )
    recorder = EventRecorder()
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(fetch)
    agent = builder.with_sessions(tmp_path / "sessions.db").with_run_log(tmp_path / "runs.db").build()
    async with agent:
        agent.subscribe(recorder)
        result = await agent.run("Which users have tokens?", session="s")
    assert sum(map(len, result.tool_results.values())) > 150_000
    assert max(on_the_loop) < redaction.LONGEST_AT_ONCE
    assert len(on_the_loop) < 500, "nor are the many short texts of the table"
    events = [to_json(event, AgentEvent) for event in recorder.events]
    assert sum(map(len, events)) > 400_000
    assert not any(SECRET in event for event in events)
    assert not agent.container.core.redactor()._prepared, "it keeps no result of a run that has ended"
