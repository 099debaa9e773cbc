"""The context window from the builder to the answer: compaction, recall, and a provider that refuses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from attrs import evolve
from returns.result import Result

from reactive_agents import AgentError, ReactiveAgents
from reactive_agents.core.errors import ContextOverflow, LLMErrors, root_cause
from reactive_agents.core.events import (
    ContextCompacted,
    ModelCallAbandoned,
    ModelCallCompleted,
)
from reactive_agents.core.messages import ToolMessage
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, Usage
from reactive_agents.effects import attempt, effect
from reactive_agents.testing import EventRecorder, ScriptedLLM, answer, call, say
from tests.support.kernels import assert_valid_transcript
from tests.support.openai_server import Answer, Call, OpenAIServer, refusal


def chapter(number: int) -> str:
    """Read a chapter of the book."""
    return f"Chapter {number}. " + "Nothing happened on this day. " * 60


def test_a_book_that_is_larger_than_the_window_is_read_to_its_end() -> None:
    model = ScriptedLLM(
        *(call("chapter", number=number) for number in range(1, 16)),
        call("recall", key="chapter-1", start=0, length=12),
        call("final-answer", answer="Nothing happened."),
    )
    agent = (
        ReactiveAgents.create()
        .with_llm(model)
        .with_reasoning(compaction={"method": "drop"})
        .with_tools(chapter)
        .with_max_iterations(20)
        .with_context_profile(window_tokens=6_000)
        .build()
    )
    recorder = EventRecorder()
    agent.subscribe(recorder)
    result = agent.run_sync("What happens in the book?")

    assert (result.output, result.success) == ("Nothing happened.", True)
    assert list(result.tool_results) == [f"chapter-{number}" for number in range(1, 16)]
    assert result.tool_results["chapter-1"] == chapter(1)
    compacted = recorder.of(ContextCompacted)
    assert compacted
    assert {event.window_tokens for event in compacted} == {6_000}
    for request in model.requests:
        assert_valid_transcript(request.messages)
        assert sum(len(message.content) for message in request.messages) <= 6_000
        assert request.messages[:2] == model.requests[0].messages[:2]
    last = model.requests[-1].messages[-1]
    assert isinstance(last, ToolMessage)
    assert last.content.startswith("Chapter 1. N")
    assert any("stored as chapter-1; recall it]" in m.content for m in model.requests[15].messages)
    assert [step.type for step in result.steps].count("observation") == 16


def test_a_task_that_no_window_of_that_size_can_hold_is_refused_before_any_call() -> None:
    model = ScriptedLLM(say("never"))
    agent = (
        ReactiveAgents.create()
        .with_llm(model)
        .with_reasoning()
        .with_context_profile(window_tokens=1_024)
        .build()
    )
    with pytest.raises(AgentError) as raised:
        agent.run_sync("Sum this up: " + "word " * 5_000)
    cause = root_cause(raised.value.error)
    assert isinstance(cause, ContextOverflow)
    assert "The system prompt, the task and the tools take" in cause.message
    assert model.requests == []


def test_a_provider_that_refuses_the_length_is_asked_once_more_with_half_of_it() -> None:
    too_long = refusal(
        400,
        "This model's maximum context length is 1500 tokens. However, your messages resulted in 9999 tokens.",
        code="context_length_exceeded",
    )
    with OpenAIServer(
        Answer(calls=(Call("chapter", {"number": 1}, "a"),), usage=(400, 20)),
        Answer(calls=(Call("chapter", {"number": 2}, "b"),), usage=(900, 20)),
        too_long,
        Answer("Nothing happened.", usage=(700, 5)),
    ) as server:
        agent = (
            ReactiveAgents.create()
            .with_model("openai/gpt-4o-mini", api_key="sk-test-000000", base_url=server.base_url)
            .with_reasoning()
            .with_tools(chapter)
            .build()
        )
        recorder = EventRecorder()
        agent.subscribe(recorder)
        result = agent.run_sync("What happens in the book?")

    assert result.output == "Nothing happened."
    assert len(server.requests) == 4
    refused, again = (sent(request.body) for request in server.requests[2:])
    assert len(again) < len(refused)
    assert "stored as chapter-1; recall it]" in again
    (event,) = recorder.of(ContextCompacted)
    assert event.reason == "refused"
    assert event.window_tokens == 1_500
    assert len(recorder.of(ModelCallAbandoned)) == 1
    assert len(recorder.of(ModelCallCompleted)) == 3
    assert result.tool_results == {"chapter-1": chapter(1), "chapter-2": chapter(2)}


def sent(body: dict[str, Any]) -> str:
    """The messages of a request."""
    return json.dumps(body["messages"])


# --- together with summaries ----------------------------------------------------------------------------


class Counting:
    """A scripted model whose provider counts a token for four characters."""

    def __init__(self, script: ScriptedLLM) -> None:
        self.script = script
        self.model = script.model

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        answer = await attempt(self.script.complete(request))
        sent = sum(len(message.content) + 60 for message in request.messages)
        sent += sum(len(tool.description) + len(json.dumps(tool.parameters)) for tool in request.tools)
        return answer.map(partial(evolve, usage=Usage(sent // 4, 10, sent // 4 + 10)))

    def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        return self.script.stream(request)


@pytest.mark.parametrize(("counts", "window"), [(False, 8_000), (True, 6_000)])
def test_summaries_come_first_and_results_are_dropped_for_a_turn_that_is_too_large_alone(
    counts: bool, window: int
) -> None:
    def scene(number: int) -> str:
        """Read a scene."""
        return f"Scene {number}. " + "x" * (50_000 if number == 15 else 880)

    script = ScriptedLLM(*(call("scene", number=number) for number in range(1, 31)), answer("It ends well."))
    agent = (
        ReactiveAgents.create()
        .with_llm(Counting(script) if counts else script)
        .with_reasoning()
        .with_tools(scene)
        .with_max_iterations(40)
        .with_context_profile(window_tokens=window, tool_result_chars=50_000)
        .build()
    )
    recorder = EventRecorder()
    agent.subscribe(recorder)
    result = agent.run_sync("How does it end?")

    assert (result.output, result.success) == ("It ends well.", True)
    assert result.tool_results == {f"scene-{number}": scene(number) for number in range(1, 31)}
    told = [
        (each.method, sum(isinstance(before, ModelCallCompleted) for before in recorder.events[:at]))
        for at, each in enumerate(recorder.events)
        if isinstance(each, ContextCompacted)
    ]
    assert [turns for kind, turns in told if kind == "drop"] == [15]
    shortened = [turns for kind, turns in told if kind == "template"]
    assert min(shortened) < 15
    assert max(shortened) > 16
    for request in script.requests:
        assert_valid_transcript(request.messages)
        assert request.messages[:2] == script.requests[0].messages[:2]
        size = sum(len(message.content) for message in request.messages)
        assert size <= (4 if counts else 1) * window * 7 // 8
    for sent, request in enumerate(script.requests[1:], 1):
        assert sent == 15 or request.messages[-1].content == scene(sent)
    (cut,) = [each for each in recorder.of(ContextCompacted) if each.method == "drop"]
    assert cut.reason == "window"
    assert cut.size_before > window * 3 // 4 > cut.size_after
