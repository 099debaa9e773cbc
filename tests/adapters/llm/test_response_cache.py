"""Recorded answers: which requests are the same, what they cost, and files that cannot be used."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve
from returns.pipeline import is_successful

from reactive_agents import AgentError, ModelSettings, ReactiveAgents
from reactive_agents.adapters.llm.response_cache import CachedLLM
from reactive_agents.core.errors import ModelUnavailable
from reactive_agents.core.events import ModelCallCompleted
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import ModelRequest, ModelResponse, StreamCompleted, TextDelta
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.effects import attempt, gather
from reactive_agents.testing import EventRecorder, ScriptedLLM, call, fail, say
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.sqlite_files import sqlite_file
from tests.support.waiting import until

pytestmark = pytest.mark.anyio
SILENT = ModelResponse("", "m")
QUESTION = ModelRequest((UserMessage("What now?"),), temperature=0.5)
TOOL = ToolDefinition("add", "Adds.", {"type": "object"})


async def test_the_same_request_is_answered_without_a_call(tmp_path: Path) -> None:
    model = ScriptedLLM(say("Nothing.", cost_usd=0.5))
    llm = CachedLLM(model, tmp_path / "cache.db")
    first = (await attempt(llm.complete(QUESTION))).unwrap()
    again = (await attempt(llm.complete(evolve(QUESTION, purpose="other", stable=1)))).unwrap()
    await llm.aclose()
    other = CachedLLM(ScriptedLLM(), tmp_path / "cache.db")
    chunks = [chunk.unwrap() async for chunk in other.stream(QUESTION)]
    await other.aclose()
    assert (first.cached, again.cached, len(model.requests)) == (False, True, 1)
    assert again == evolve(first, cached=True)
    assert again.spent == (RunUsage(first.model, calls=1, cached=1),)
    assert chunks == [TextDelta("Nothing."), StreamCompleted(again)]


async def test_equal_requests_at_one_time_are_made_once(tmp_path: Path) -> None:
    turns = (fail(ModelUnavailable("gone", "m"), delay=0.01), say("one", delay=0.01), say("two", delay=0.01))
    model = ScriptedLLM(*turns)
    llm = CachedLLM(model, tmp_path / "cache.db")
    answers = await gather([llm.complete(QUESTION) for _ in range(4)])
    await llm.aclose()
    assert len(model.requests) == 2  # the first failed, and the next that waited asked
    assert [answer.unwrap().content for answer in answers if is_successful(answer)] == ["one"] * 3


async def test_after_two_failures_nobody_waits_for_a_third(tmp_path: Path) -> None:
    gone = ModelUnavailable("gone", "m")
    model = ScriptedLLM(*[fail(gone, delay=0.01)] * 2, say("one", delay=60), say("two"))
    llm = CachedLLM(model, tmp_path / "cache.db")
    answers: list[str] = []

    async def one() -> None:
        answers.append((await attempt(llm.complete(QUESTION))).value_or(SILENT).content)
        if answers[-1]:
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(one)
    await llm.aclose()
    assert answers == ["", "", "two"]


async def test_a_request_that_waits_takes_the_place_of_a_cancelled_one(tmp_path: Path) -> None:
    model = ScriptedLLM(say("one", delay=60), say("two"))
    llm = CachedLLM(model, tmp_path / "cache.db")
    async with anyio.create_task_group() as group:
        first = anyio.CancelScope()

        async def cancelled() -> None:
            with first:
                await attempt(llm.complete(QUESTION))

        group.start_soon(cancelled)
        await until(lambda: bool(model.requests))
        group.start_soon(lambda: attempt(llm.complete(QUESTION)))
        await anyio.wait_all_tasks_blocked()
        first.cancel()
    assert (await attempt(llm.complete(QUESTION))).unwrap().content == "two"
    await llm.aclose()
    assert len(model.requests) == 2


async def test_nobody_waits_for_the_reader_of_an_answer_that_is_there(tmp_path: Path) -> None:
    model = ScriptedLLM(say("one"))
    llm = CachedLLM(model, tmp_path / "cache.db")
    async with aclosing(llm.stream(QUESTION)) as chunks:
        while not isinstance((await anext(chunks)).unwrap(), StreamCompleted):
            pass
        assert (await attempt(llm.complete(QUESTION))).unwrap().content == "one"
    await llm.aclose()


def test_threads_that_ask_the_same_at_one_time_ask_once(tmp_path: Path) -> None:
    with OpenAIServer(Answer("one", delay_s=0.2), Answer("two")) as server:
        builder = ReactiveAgents.create().with_model("openai/m", base_url=server.base_url, api_key="k")
        agent = builder.with_response_cache(tmp_path / "cache.db").build()
        with ThreadPoolExecutor(4) as threads:
            outputs = [each.output for each in threads.map(agent.run_sync, ["What now?"] * 4)]
    assert (outputs, len(server.requests)) == (["one"] * 4, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"messages": (UserMessage("What then?"),)},
        {"tools": (TOOL,)},
        {"model": "another"},
        {"temperature": 0.6},
        {"max_tokens": 5},
        {"response_schema": {"type": "object"}},
        {"settings": ModelSettings(seed=1)},
        {"settings": ModelSettings(headers={"x": "1"})},
        {"sample": 1},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_whatever_differs_is_another_request(tmp_path: Path, change: dict[str, Any]) -> None:
    llm = CachedLLM(ScriptedLLM(say("one"), say("two")), tmp_path / "cache.db")
    await attempt(llm.complete(QUESTION))
    assert (await attempt(llm.complete(evolve(QUESTION, **change)))).unwrap().content == "two"
    await llm.aclose()


async def test_another_address_may_give_another_answer(tmp_path: Path) -> None:
    for address in ("http://a", "http://b"):
        llm = CachedLLM(ScriptedLLM(say(address)), tmp_path / "cache.db", address=address)
        assert (await attempt(llm.complete(QUESTION))).unwrap().content == address
        await llm.aclose()


async def test_failures_are_not_recorded(tmp_path: Path) -> None:
    llm = CachedLLM(ScriptedLLM(fail(ModelUnavailable("gone", "m")), say("back")), tmp_path / "cache.db")
    assert (await attempt(llm.complete(QUESTION))).failure().message == "gone"
    assert (await attempt(llm.complete(QUESTION))).unwrap().content == "back"
    await llm.aclose()


def number() -> int:
    """Return a number."""
    return NUMBERS.pop(0)


NUMBERS: list[int] = []


def test_a_run_is_repeated_without_calls_until_a_tool_gives_something_else(tmp_path: Path) -> None:
    NUMBERS[:] = [1, 1, 2]
    model = ScriptedLLM(call("number"), say("It is 1."), say("It is 2."))
    agent = (
        ReactiveAgents.create()
        .with_llm(model)
        .with_tools(number)
        .with_reasoning()
        .with_response_cache(tmp_path / "cache.db")
        .build()
    )
    recorder = EventRecorder()
    agent.subscribe(recorder)
    first, again, other = [agent.run_sync("Which number?") for _ in range(3)]
    assert [each.output for each in (first, again, other)] == ["It is 1.", "It is 1.", "It is 2."]
    assert (first.metadata.tokens_used, again.metadata.tokens_used) == (30, 0)
    assert (again.metadata.cost_usd, again.metadata.model_calls, again.metadata.models[0].cached) == (0, 2, 2)
    events = recorder.of(ModelCallCompleted)
    assert [event.cached for event in events] == [False, False, True, True, True, False]
    assert (events[2].usage, events[2].cost_usd) == (Usage(), 0.0)
    assert sum(part.tokens for event in events for part in event.spent) == 45


def test_a_server_is_asked_once(tmp_path: Path) -> None:
    with OpenAIServer(Answer("Yes.")) as server:
        agent = (
            ReactiveAgents.create()
            .with_model("openai/house-brand", api_key="k", base_url=server.base_url)
            .with_response_cache(tmp_path / "cache.db")
            .build()
        )
        assert [agent.run_sync("Well?").output for _ in range(2)] == ["Yes.", "Yes."]
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", ["text", "another program's", "a directory"])
def test_a_file_that_is_none_of_ours_is_refused_by_build(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "cache.db"
    if kind == "text":
        path.write_text("not a database, and long enough to be read as one" * 10)
    elif kind == "a directory":
        path.mkdir()
    else:
        with sqlite_file(path) as file:
            file.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(AgentError, match=r"model\.response_cache: got .*expected a usable file"):
        ReactiveAgents.create().with_model("offline").with_response_cache(path).build()
    assert not path.is_file() or path.read_bytes() == before


async def test_a_file_that_breaks_later_costs_calls_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "cache.db"
    path.write_text("not a database, and long enough to be read as one" * 10)
    llm = CachedLLM(ScriptedLLM(say("one"), say("two")), path)
    assert [(await attempt(llm.complete(QUESTION))).unwrap().content for _ in range(2)] == ["one", "two"]
    await llm.aclose()
    assert "response-cache" in caplog.text


async def test_a_record_that_cannot_be_read_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    llm = CachedLLM(ScriptedLLM(say("one"), say("two")), path)
    await attempt(llm.complete(QUESTION))
    await llm.aclose()
    with sqlite_file(path) as file:
        file.execute("UPDATE model_responses SET body = '{}'")
    assert (await attempt(llm.complete(QUESTION))).unwrap().content == "two"
    assert (await attempt(llm.complete(QUESTION))).unwrap().cached
    await llm.aclose()


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    ReactiveAgents.create().with_model("offline").with_response_cache(path).build().run_sync("Hi?")
    assert path.stat().st_mode & 0o077 == 0
