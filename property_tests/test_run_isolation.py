"""Runs of one agent at once, each with other options: none sees anything of another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Result

from reactive_agents import ReactiveAgents, RunContext
from reactive_agents.core import models
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.events import TaskStarted
from reactive_agents.core.messages import ToolMessage
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import attempt, effect
from reactive_agents.testing import ScriptedLLM, call, say
from tests.support.profiles import examples


class CallsThenAnswers:
    """Calls ``who`` once in each run, and answers with what it was told; it keeps only the requests."""

    model = "test/own"

    def __init__(self) -> None:
        self.requests: list[models.ModelRequest] = []

    @effect
    async def complete(self, request: models.ModelRequest) -> Result[models.ModelResponse, LLMErrors]:
        self.requests.append(request)
        await anyio.lowlevel.checkpoint()
        told = [each.content for each in request.messages if isinstance(each, ToolMessage)]
        turn = say(told[0]) if told else call("who")
        return await attempt(ScriptedLLM(turn).complete(request))

    async def stream(
        self, request: models.ModelRequest
    ) -> AsyncIterator[Result[models.ModelChunk, LLMErrors]]:
        raise AssertionError("not asked for")
        yield


@frozen
class Options:
    """Options of a run, as a test makes them.

    Attributes:
        number: of the run, which all that is its own contains.
    """

    number: int
    model: bool
    tool: bool
    number_as_output: bool
    limited: bool
    filtered: bool

    @property
    def own(self) -> str:
        return f"run-{self.number}-"


async def who(ctx: RunContext[Options]) -> str:
    """Say whose run it is."""
    for _ in range(ctx.deps.number % 3):
        await anyio.lowlevel.checkpoint()
    if ctx.deps.number_as_output:
        return str(ctx.deps.number)
    return f"{ctx.deps.own} {ctx.user} {ctx.tags[0]} {ctx.metadata['own']}"


def extra() -> None:
    """Do nothing."""


async def introduce(ctx: RunContext[Options]) -> str:
    await anyio.lowlevel.checkpoint()
    return f"Speak with {ctx.deps.own}."


def keeps(ctx: RunContext[Options], definition: ToolDefinition) -> bool:
    return not ctx.deps.filtered


@settings(examples(20))
@given(
    st.lists(st.tuples(*[st.booleans()] * 5), min_size=2, max_size=8).map(
        lambda rows: [Options(number, *row) for number, row in enumerate(rows)]
    )
)
def test_no_run_sees_anything_of_another(runs: list[Options]) -> None:
    model = CallsThenAnswers()
    builder = ReactiveAgents.create(deps=Options).with_llm(model).with_reasoning().with_tools(who)
    agent = builder.with_instructions(introduce).with_toolset([extra], prefix="kept_", filter=keeps).build()
    started: list[TaskStarted] = []
    agent.subscribe(lambda event: started.append(event) if isinstance(event, TaskStarted) else None)
    results: dict[int, Any] = {}

    async def run(each: Options) -> None:
        given: dict[str, Any] = {"user": each.own, "tags": [each.own], "metadata": {"own": each.own}}
        if each.model:
            given["model"] = each.own
        if each.tool:
            given["tools"] = [extra]
        if each.number_as_output:
            given["output"] = int
        if each.limited:
            given["budget"] = {"calls": {"who": 1}}
        results[each.number] = await agent.run(f"Whose run is {each.own}?", deps=each, **given)

    async def run_all() -> None:
        async with anyio.create_task_group() as group:
            for each in runs:
                group.start_soon(run, each)

    anyio.run(run_all)
    for each in runs:
        result = results[each.number]
        wanted = each.number if each.number_as_output else " ".join([each.own] * 4)
        assert (result.status, result.output) == ("completed", wanted)
        assert (result.metadata.tags, result.metadata.given) == ((each.own,), {"own": each.own})
        asked = [request for request in model.requests if each.own in request.messages[0].content]
        assert len(asked) == 2
        for request in asked:
            text = repr(request)
            assert not [other.own for other in runs if other is not each and other.own in text]
            assert request.model == (each.own if each.model else None)
            names = {tool.name for tool in request.tools} - {"final-answer", "recall"}
            assert names == {
                "who",
                *(("extra",) if each.tool else ()),
                *(() if each.filtered else ("kept_extra",)),
            }
    assert sorted(event.tags for event in started) == sorted((each.own,) for each in runs)
    assert agent.running() == ()
