"""Acts that a task orders and no call carried out, at the end of every strategy."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from attrs import evolve

from reactive_agents import AgentResult, ReactiveAgents, tool
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.events import GuidanceGiven
from reactive_agents.core.ids import CallId
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.effects import Effect
from reactive_agents.testing import EventRecorder, ScriptedLLM, Turn, answer, call, calls, forever, say

pytestmark = pytest.mark.anyio

CANCELLED = "Order 1001 has been cancelled."
BOTH = "The orders 1001 and 1003 have been cancelled."
PLAN = "plan-execute-reflect"
LOOK, CANCEL = call("get_order", order_id=1001), call("cancel_order", order_id=1001)
ACCEPTED = say('{"issues": [], "score": 1.0, "satisfied": true}')
THOUGHTS = say('{"thoughts": ["Cancel it."]}'), say('{"scores": [0.9]}'), say('{"thoughts": []}')


def planned(*calls: tuple[str, Mapping[str, object]]) -> Turn:
    """A plan of calls with an analysis after them."""
    steps: list[dict[str, object]] = [
        {"title": name, "instruction": name, "type": "tool_call", "tool_name": name, "tool_args": arguments}
        for name, arguments in calls
    ]
    told = {"title": "Answer", "instruction": "Tell what was done.", "type": "analysis"}
    return say(json.dumps({"steps": [*steps, told]}))


def satisfied(step: str) -> Turn:
    return say(json.dumps({"verdict": "SATISFIED", "confidence": 0.95, "answer_step": step}))


async def run(
    strategy: str, task: str, *turns: Turn, model: type[ScriptedLLM] = ScriptedLLM
) -> tuple[AgentResult, list[str]]:
    def get_order(order_id: int) -> dict[str, object]:
        """Get an order by its id."""
        return {"id": order_id, "total": order_id - 990.5}

    @tool(risk="high")
    def cancel_order(order_id: int) -> str:
        """Cancel an order."""
        return "ok"

    @tool(risk="medium")
    def refund(order_id: int, amount: float) -> str:
        """Refund an order."""
        return "refunded"

    builder = ReactiveAgents.create().with_llm(model(*turns[:-1], forever(turns[-1])))
    if strategy:
        builder = builder.with_reasoning(strategy, tool_classifier="off")
    agent, recorder = builder.with_tools(get_order, cancel_order, refund).build(), EventRecorder()
    agent.subscribe(recorder)
    result = await agent.run(task)
    return result, [event.policy for event in recorder.of(GuidanceGiven)]


GOT = ("get_order", {"order_id": 1001})
DID, DID_OTHER = ("cancel_order", {"order_id": 1001}), ("cancel_order", {"order_id": 1003})


@pytest.mark.parametrize(
    ("strategy", "turns"),
    [
        (PLAN, [planned(GOT), say(CANCELLED), satisfied("s2"), answer(CANCELLED)]),
        ("reflexion", [LOOK, *([answer(CANCELLED)] * 2 + [ACCEPTED]) * 4]),
        ("tree-of-thought", [*THOUGHTS, LOOK, answer(CANCELLED)]),
        ("reactive", [LOOK, answer(CANCELLED)]),
        ("direct", [LOOK, say(CANCELLED)]),
        ("", [LOOK, say(CANCELLED)]),
    ],
)
async def test_no_strategy_completes_an_order_that_no_call_carried_out(
    strategy: str, turns: list[Turn]
) -> None:
    result, _ = await run(strategy, "Cancel order 1001.", *turns)
    assert (result.status, result.output) == ("partial", CANCELLED)
    assert "no call of cancel_order was made" in result.reason
    assert (result.metadata.confidence or 0) <= 0.4


@pytest.mark.parametrize(
    ("strategy", "turns"),
    [
        (PLAN, [planned(DID), say(CANCELLED), satisfied("s2")]),
        ("reflexion", [CANCEL, answer(CANCELLED), ACCEPTED]),
        ("tree-of-thought", [*THOUGHTS, CANCEL, answer(CANCELLED)]),
        ("direct", [CANCEL, say(CANCELLED)]),
        ("", [CANCEL, say(CANCELLED)]),
        ("", [LOOK, say("I cannot cancel order 1001, since it was shipped.")]),
        ("", [say("Which of the two items shall I cancel?")]),
    ],
)
async def test_what_was_done_or_denied_costs_nothing_more(strategy: str, turns: list[Turn]) -> None:
    result, asked = await run(strategy, "Cancel order 1001.", *turns)
    assert (result.status, "not_done" in asked) == ("completed", False)
    assert result.metadata.model_calls == len(turns)


@pytest.mark.parametrize(
    ("strategy", "turns"),
    [
        (PLAN, [planned(GOT), say("Order 1010: 10.50"), satisfied("s2")]),
        ("reflexion", [LOOK, *([answer("Order 1010: 10.50")] * 2), ACCEPTED]),
        ("reactive", [LOOK, answer("Order 1010: 10.50")]),
        ("direct", [LOOK, say("Order 1010: 10.50")]),
    ],
)
async def test_the_reason_of_every_strategy_names_what_another_look_up_stands_for(
    strategy: str, turns: list[Turn]
) -> None:
    result, _ = await run(strategy, "What is the total of order 1010?", *turns)
    assert result.status == "completed"
    assert "No call was made for: 1010." in result.reason


async def test_a_plan_that_leaves_an_act_out_is_asked_about_it_in_its_answer() -> None:
    task, claim = "Refund order 1001 with 3.50.", "Order 1001 was refunded with 3.50."
    turns = planned(GOT), say(claim), satisfied("s2")
    result, asked = await run(PLAN, task, *turns, answer(claim))
    assert (result.status, asked.count("not_done")) == ("partial", 1)
    assert "no call of refund was made" in result.reason
    mended, asked = await run(PLAN, task, *turns, call("refund", order_id=1001, amount=3.5), answer(claim))
    assert (mended.status, mended.output, asked) == ("completed", claim, [])


@pytest.mark.parametrize("step", ["s2", ""])
async def test_a_plan_for_a_part_of_a_list_does_not_stand_for_all(step: str) -> None:
    task, missing = "Cancel the orders 1001 and 1003.", call("cancel_order", order_id=1003)
    turns = planned(DID), say(BOTH), satisfied(step)
    result, _ = await run(PLAN, task, *turns, answer(BOTH))
    assert (result.status, result.metadata.terminated_by) == ("partial", "not_done")
    assert "no call for 1003 has worked" in result.reason
    # the calls of all steps count, and those of the answer
    mended, asked = await run(PLAN, task, *turns, missing, answer(BOTH))
    assert (mended.status, asked) == ("completed", [])
    whole = planned(DID, DID_OTHER), say(BOTH), satisfied("s3" if step else "")
    assert (await run(PLAN, task, *whole, answer(BOTH)))[0].status == "completed"


TOTAL = "The order 1001 is of 7316.42 euros."
COMPOSITE = say(
    json.dumps(
        {"steps": [{"title": "All", "instruction": "Find the total.", "type": "composite", "tool_hints": []}]}
    )
)


@pytest.mark.parametrize(
    ("strategy", "turns"),
    [
        ("reflexion", [LOOK, *([answer(TOTAL)] * 2 + [ACCEPTED]) * 4]),
        (PLAN, [COMPOSITE, LOOK, answer(TOTAL), answer(TOTAL), answer(TOTAL), satisfied("s1")]),
        ("tree-of-thought", [*THOUGHTS, LOOK, answer(TOTAL)]),
        ("reactive", [LOOK, answer(TOTAL)]),
    ],
)
async def test_the_reason_of_every_strategy_names_figures_without_a_source(
    strategy: str, turns: list[Turn]
) -> None:
    result, _ = await run(strategy, "What is the total of order 1001?", *turns)
    assert result.status == "completed"
    assert "These figures have no source: 7316.42." in result.reason


async def test_an_accepted_answer_without_a_call_is_named_by_its_critic_too() -> None:
    result, _ = await run("reflexion", "Is the order late?", say("It may be."), say("It may be."), ACCEPTED)
    assert result.status == "completed"
    assert result.reason == "The critic was satisfied with attempt 1. No tool was called."


@pytest.mark.parametrize("strategy", ["reflexion", PLAN])
async def test_an_act_that_failed_in_an_earlier_pass_is_not_done_in_a_later_one(strategy: str) -> None:
    def cancel_order(order_id: int) -> str:
        """Cancel an order."""
        raise ValueError("The order 1001 is locked.")

    judged = ACCEPTED if strategy == "reflexion" else satisfied("s1")
    turns = [CANCEL, *([answer(CANCELLED)] * 2), *([judged, answer(CANCELLED)] * 6)]
    model = ScriptedLLM(*([COMPOSITE] if strategy == PLAN else []), *turns, forever(judged))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning(strategy, tool_classifier="off")
    result = await builder.with_tools(cancel_order).build().run("Cancel order 1001.")
    assert result.status == "partial"


async def test_an_item_that_no_pass_looked_up_is_named() -> None:
    texts = "Order 1001 is of 10.5 and order 1003 is late."
    turns = [LOOK, *([answer(texts)] * 2), *([ACCEPTED, answer(texts)] * 6)]
    result, _ = await run("reflexion", "Look up the orders 1001 and 1003.", *turns, ACCEPTED)
    assert result.reason.endswith("No call was made for: 1003.")


class RepeatingIds(ScriptedLLM):
    """A model that numbers the calls of each turn anew, as some servers do."""

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        return (
            super()
            .complete(request)
            .map(
                lambda said: evolve(
                    said,
                    tool_calls=tuple(
                        evolve(each, id=CallId(f"call_{at}")) for at, each in enumerate(said.tool_calls)
                    ),
                )
            )
        )


REJECTED = say('{"issues": ["not cancelled"], "score": 0.2, "satisfied": false}')


@pytest.mark.parametrize(
    ("task", "turns"),
    [
        (
            "Cancel order 1001.",
            [
                calls(call("order_canceller", order_id=1001), call("get_order", order_id=1001)),
                answer("The order 1001 is open: it could not be cancelled."),
                REJECTED,
                CANCEL,
                answer(CANCELLED),
            ],
        ),
        (
            "Cancel the orders 1001 and 1003.",
            [
                calls(CANCEL, call("cancel_order", order_id=1003)),
                answer(BOTH),
                REJECTED,
                calls(call("get_order", order_id=1005), call("get_order", order_id=1006)),
                answer(BOTH),
            ],
        ),
    ],
)
async def test_calls_of_two_passes_may_have_the_same_ids(task: str, turns: list[Turn]) -> None:
    result, _ = await run("reflexion", task, *turns, ACCEPTED, model=RepeatingIds)
    assert (result.status, result.metadata.iterations) == ("completed", 4)
