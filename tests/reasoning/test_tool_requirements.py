"""Finding the tools that a task needs: by rules, and by asking the model."""

from __future__ import annotations

import json

import pytest

from reactive_agents import ReactiveAgents, tool
from reactive_agents.adapters.tools.builtin import builtin_tools
from reactive_agents.core.errors import ModelUnavailable
from reactive_agents.core.events import ModelCallCompleted, ToolNeedsFound
from reactive_agents.core.requirements import ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.reasoning.structured_output import read_answer, shape_of
from reactive_agents.reasoning.tool_requirements import (
    RequiredTool,
    ToolVerdict,
    count_items,
    merge_tool_needs,
    needs_by_rules,
    needs_of_verdict,
)
from reactive_agents.testing import EventRecorder, ScriptedLLM, call, calls, fail, say

BUILTIN = tuple(each.definition for each in builtin_tools().values())


def required(task: str, definitions: tuple[ToolDefinition, ...] = BUILTIN) -> dict[str, int]:
    return {each.name: each.min_calls for each in needs_by_rules(task, definitions).required}


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("prices for XRP, XLM, ETH and Bitcoin", {"web-search": 4}),
        ("What are the latest prices for XRP, XLM, and ETH?", {"web-search": 3}),
        ("What happened in AI this week?", {"web-search": 1}),
        ("What is 17 * 23?", {"calculator": 1}),
        ("What is 12 % of 250?", {"calculator": 1}),
        ("Read notes.md and say what it is about", {"file-read": 1}),
        ("Summarise https://example.com/a.html", {"http-get": 1, "file-read": 1}),
        (
            "Search the news about Rome and Paris and write a report to report.md",
            {"web-search": 2, "file-write": 1},
        ),
        ("Why is the sky blue?", {}),
        ("", {}),
    ],
)
def test_the_rules_find_required_tools_and_how_often(task: str, expected: dict[str, int]) -> None:
    assert required(task) == expected


@pytest.mark.parametrize(
    ("task", "count"),
    [
        ("prices for XRP, XLM, ETH and Bitcoin", 4),
        ("compare Rust and Go", 2),
        ("the population of France", 1),
        ("prices for A, B and C and then write a report", 3),
        ("find out about all that was said, which is a very long clause, and what follows from it", 1),
        ("nothing", 1),
    ],
)
def test_enumerations_are_counted(task: str, count: int) -> None:
    assert count_items(task) == count


def test_tools_of_ones_own_are_found_by_their_names_and_descriptions() -> None:
    price = ToolDefinition("get_price", "The price of a coin.", {"type": "object"})
    history = ToolDefinition("chart", "Draws prices over time.", {"type": "object"})
    other = ToolDefinition("send_mail", "Sends a mail.", {"type": "object"})
    needs = needs_by_rules("Tell me the prices of Bitcoin and Ether", (price, history, other))
    assert needs == ToolNeeds((ToolRequirement("get_price", 2),), frozenset({"chart"}))


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
    verdict = read_answer(text, shape_of(ToolVerdict)).unwrap().value
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
    assert (found.method, found.required) == ("rules", (ToolRequirement("web-search", 4),))
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


@pytest.mark.parametrize("turn", [say("no idea"), fail(ModelUnavailable("down", "m"))])
def test_the_rules_stand_in_for_a_model_that_gives_no_verdict(turn: object) -> None:
    llm = ScriptedLLM(turn, call("web-search", query="XRP"), say("1 dollar."))  # type: ignore[arg-type]
    recorder, builder = agent_with("model", llm)
    agent = builder.build()
    agent.subscribe(recorder)
    assert agent.run_sync("the price of XRP").status == "completed"
    assert recorder.of(ToolNeedsFound)[0].method == "rules"
