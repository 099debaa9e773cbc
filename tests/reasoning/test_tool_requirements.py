"""Finding the tools that a task needs: by rules, and by asking the model."""

from __future__ import annotations

import json

import pytest

from reactive_agents import ReactiveAgents, tool
from reactive_agents.adapters.tools.builtin import builtin_tools
from reactive_agents.core.errors import ModelUnavailable
from reactive_agents.core.events import ModelCallCompleted, ToolNeedsFound
from reactive_agents.core.settings import ToolNeeds, ToolRequirement
from reactive_agents.reasoning.requirement_rules import (
    RequiredTool,
    ToolVerdict,
    merge_tool_needs,
    needs_of_verdict,
)
from reactive_agents.reasoning.structured_output.answer_parser import read_answer
from reactive_agents.reasoning.structured_output.schema import shape_of
from reactive_agents.testing import EventRecorder, ScriptedLLM, answer, call, calls, fail, say

BUILTIN = tuple(each.definition for each in builtin_tools().values())


def test_what_the_user_required_goes_before_what_was_found() -> None:
    given = ToolNeeds((ToolRequirement("a", 5),), frozenset({"x"}))
    found = ToolNeeds((ToolRequirement("a", 1), ToolRequirement("b", 2)), frozenset({"y"}))
    assert merge_tool_needs(given, found) == ToolNeeds(
        (ToolRequirement("a", 5), ToolRequirement("b", 2)), frozenset({"x", "y"})
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"required": [{"tool": "calculator", "calls": 2}], "relevant": ["file-read", "hammer"]}',
        'Sure:\n```json\n{"required": [{"tool": "calculator", "calls": 2}, {"tool": "hammer", "calls": 1}], '
        '"relevant": ["file-read", "calculator"]}\n```',
    ],
)
def test_a_reply_is_read_and_unknown_tools_are_passed_over(text: str) -> None:
    verdict = read_answer(text, shape_of(ToolVerdict)).unwrap()
    assert needs_of_verdict(verdict, BUILTIN) == ToolNeeds(
        (ToolRequirement("calculator", 2),), frozenset({"file-read"})
    )


def test_numbers_out_of_range_are_held_within_it() -> None:
    verdict = ToolVerdict((RequiredTool("calculator", 900), RequiredTool("shell", -1)))
    assert [each.min_calls for each in needs_of_verdict(verdict, BUILTIN).required] == [20, 1]


# --- through the builder --------------------------------------------------------------------------------


@tool(name="web-search")
async def search(query: str) -> str:
    """Search the web."""
    return f"{query} costs 1 dollar"


COINS = ("XRP", "XLM", "ETH", "Bitcoin")
TASK = "prices for XRP, XLM, ETH and Bitcoin"


def agent_with(classifier: str, llm: ScriptedLLM) -> tuple[EventRecorder, ReactiveAgents]:
    recorder = EventRecorder()
    builder = ReactiveAgents.create().with_llm(llm).with_tools(search)
    return recorder, builder.with_reasoning(tool_classifier=classifier)


def test_the_heuristic_requires_a_call_for_each_coin() -> None:
    searches = calls(*(call("web-search", query=coin) for coin in COINS))
    llm = ScriptedLLM(say("They cost a dollar each."), searches, say("Each costs 1 dollar."))
    recorder, builder = agent_with("heuristic", llm)
    agent = builder.build()
    agent.subscribe(recorder)
    result = agent.run_sync(TASK)
    assert (result.status, result.output) == ("completed", "Each costs 1 dollar.")
    (found,) = recorder.of(ToolNeedsFound)
    assert (found.method, found.required) == ("rules", (ToolRequirement("web-search", 4, derived=True),))
    assert "Required before the answer: web-search (4 calls)." in llm.requests[0].messages[-1].content
    assert "web-search (0 of 4 calls done)" in llm.requests[1].messages[-1].content


def test_the_model_may_be_asked_and_its_call_is_on_the_account() -> None:
    verdict = json.dumps({"required": [{"tool": "web-search", "calls": 1}], "relevant": []})
    llm = ScriptedLLM(say(verdict), say("A dollar."), call("web-search", query="XRP"), say("1 dollar."))
    recorder, builder = agent_with("model", llm)
    agent = builder.build()
    agent.subscribe(recorder)
    result = agent.run_sync("What does XRP cost?")
    assert result.output == "1 dollar."
    assert recorder.of(ToolNeedsFound)[0].method == "model"
    assert recorder.of(ModelCallCompleted)[0].purpose == "classify-tools"
    assert llm.requests[0].response_schema is not None
    assert result.metadata.tokens_used == 60


def test_the_rules_are_on_by_default_and_silent_where_they_find_nothing() -> None:
    llm = ScriptedLLM(answer("It is blue."), answer("They cost a dollar."), *[answer("A dollar.")] * 9)
    recorder = EventRecorder()
    agent = ReactiveAgents.create().with_llm(llm).with_tools(search).with_reasoning().build()
    agent.subscribe(recorder)
    assert agent.run_sync("Why is the sky blue?").status == "completed"
    assert recorder.of(ToolNeedsFound) == []
    assert agent.run_sync("What is the price of XRP?").status == "partial"


def test_an_answer_that_insists_stands_where_the_tool_has_worked() -> None:
    said = answer("Each costs 1 dollar.")
    llm = ScriptedLLM(call("web-search", query="all four coins"), *[said] * 9)
    _, builder = agent_with("heuristic", llm)
    result = builder.build().run_sync(TASK)
    assert (result.status, len(llm.requests)) == ("completed", 4)


@pytest.mark.parametrize(
    ("said", "status", "requests"),
    [
        ("Oslo and Rome have 21 degrees; the station of Lima is down.", "completed", 3),
        ("Oslo and Rome have 21 degrees. Data of Lima is not available.", "completed", 3),
        ("Oslo, Lima and Rome have 21 degrees.", "partial", 5),
        ("Oslo and Rome have 21 degrees.", "partial", 5),
    ],
)
def test_an_answer_stands_that_says_twice_which_of_the_required_calls_failed(
    said: str, status: str, requests: int
) -> None:
    @tool
    def weather(city: str) -> str:
        """Get the weather of a city."""
        if city == "Lima":
            raise ConnectionError("the weather station is down")
        return f"{city}: 21 degrees"

    cities = ("Oslo", "Lima", "Rome")
    llm = ScriptedLLM(calls(*(call("weather", city=each) for each in cities)), *[answer(said)] * 9)
    agent = ReactiveAgents.create().with_llm(llm).with_tools(weather).with_reasoning().build()
    result = agent.run_sync("What is the weather in Oslo, Lima and Rome?")
    assert (result.status, len(llm.requests)) == (status, requests)


@pytest.mark.parametrize("turn", [say("no idea"), fail(ModelUnavailable("down", "m"))])
def test_the_rules_stand_in_for_a_model_that_gives_no_verdict(turn: object) -> None:
    llm = ScriptedLLM(turn, call("web-search", query="XRP"), say("1 dollar."))  # type: ignore[arg-type]
    recorder, builder = agent_with("model", llm)
    agent = builder.build()
    agent.subscribe(recorder)
    assert agent.run_sync("What is the price of XRP?").status == "completed"
    assert recorder.of(ToolNeedsFound)[0].method == "rules"
