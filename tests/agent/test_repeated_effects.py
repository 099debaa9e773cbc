"""Calls that change something are not made twice by mistake, in any pass of a run."""

from __future__ import annotations

import json

import anyio
import pytest

from reactive_agents import AgentResult, ModelRetry, ReactiveAgents, tool
from reactive_agents.testing import ScriptedLLM, answer, call, calls, forever, say
from tests.support.plans import plan, tool_step


def booked_by(*turns: object, strategy: str = "reactive") -> tuple[list[str], list[str]]:
    """Return the bookings of a run, and what its model was shown of the calls."""
    booked, result = booked_with(ScriptedLLM(*turns), strategy)  # type: ignore[arg-type]
    return booked, [step.content for step in result.steps if step.type == "observation"]


def booked_with(model: ScriptedLLM, strategy: str = "reactive") -> tuple[list[str], AgentResult]:
    """Return the bookings of a run, and its result."""
    booked: list[str] = []

    @tool(risk="medium")
    def book(hotel: str) -> str:
        """Book a room."""
        booked.append(hotel)
        return f"confirmation {len(booked)}"

    builder = ReactiveAgents.create().with_llm(model).with_tools(book)
    return booked, builder.with_reasoning(strategy).build().run_sync("Get me a room.")


def test_the_model_is_shown_the_first_result() -> None:
    booked, shown = booked_by(
        call("book", hotel="Ritz"), call("book", hotel="Ritz"), answer("It is confirmation 1.")
    )
    assert booked == ["Ritz"]
    assert "confirmation 1" in shown[1]
    assert "once more" in shown[1]


def test_a_second_one_that_is_meant_is_made_once() -> None:
    again = call("book", hotel="Ritz")
    booked, _ = booked_by(again, again, again, again, answer("Done: confirmation 1 and confirmation 2."))
    assert booked == ["Ritz", "Ritz"]


@pytest.mark.parametrize("between", [call("book", hotel="Savoy"), say("I will book now.")])
def test_what_comes_between_changes_nothing(between: object) -> None:
    booked, _ = booked_by(
        call("book", hotel="Ritz"), between, call("book", hotel="Ritz"), answer("confirmation 1")
    )
    assert booked.count("Ritz") == 1


def test_equal_calls_of_one_turn_are_one() -> None:
    both = calls(call("book", hotel="Ritz"), call("book", hotel="Ritz"))
    booked, _ = booked_by(both, answer("confirmation 1"))
    assert booked == ["Ritz"]


def test_a_later_pass_knows_the_calls_of_an_earlier_one() -> None:
    poor = say(json.dumps({"issues": ["It is too short."], "score": 0.2, "satisfied": False}))
    good = say(json.dumps({"issues": [], "score": 1.0, "satisfied": True}))
    attempts = (call("book", hotel="Ritz"), answer("confirmation 1"))
    booked, _ = booked_by(*attempts, poor, *attempts, good, strategy="reflexion")
    assert booked == ["Ritz"]


def test_an_answer_beside_a_call_counts_when_both_are_repeated() -> None:
    """The first time it was written before the result was known."""
    both = calls(call("book", hotel="Ritz"), answer("Your room is booked: confirmation 1."))
    model = ScriptedLLM(both, both)
    booked, result = booked_with(model)
    assert booked == ["Ritz"]
    assert (result.status, result.output) == ("completed", "Your room is booked: confirmation 1.")


def test_an_answer_that_its_result_contradicts_is_still_judged() -> None:
    both = calls(call("book", hotel="Ritz"), answer("Your room is booked: confirmation 7731."))
    model = ScriptedLLM(both, both, answer("Your room is booked: confirmation 1."))
    booked, result = booked_with(model)
    assert booked == ["Ritz"]
    assert "Nothing that you have seen supports: 7731" in model.requests[2].messages[-1].content
    assert result.output == "Your room is booked: confirmation 1."


@pytest.mark.parametrize(
    ("later", "status"), [("Tea costs 3.50 euros.", "completed"), ("Tea costs 4.20 euros.", "partial")]
)
def test_an_answer_about_a_look_up_counts_beside_it_only_when_it_is_new(later: str, status: str) -> None:
    def price(article: str) -> float:
        """Return the price."""
        return 3.5

    look = call("price", article="tea")
    turns = [calls(look, answer("Tea costs 4.20 euros.")), *[calls(look, answer(later))] * 4]
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_tools(price).with_reasoning().build()
    assert agent.run_sync("What does tea cost?").status == status


def test_a_repeat_beside_an_answer_is_no_request_for_a_second_effect() -> None:
    book = call("book", hotel="Ritz")
    other = calls(call("book", hotel="Savoy"), answer("confirmation 2"))
    both = calls(book, answer("confirmation 1"))
    model = ScriptedLLM(book, both, other, both, answer("confirmation 1 and confirmation 2"))
    booked, _ = booked_with(model)
    assert booked == ["Ritz", "Savoy"]
    assert "without final-answer beside it" in str(model.requests[2].messages)


def test_a_call_that_failed_is_made_again_beside_the_answer() -> None:
    tried: list[str] = []

    @tool(risk="medium")
    def book(hotel: str) -> str:
        """Book a room."""
        tried.append(hotel)
        if len(tried) == 1:
            raise ModelRetry("Try again.")
        return "confirmation 1"

    both = calls(call("book", hotel="Ritz"), answer("Your room is booked: confirmation 1."))
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(both, both, both)).with_tools(book).with_reasoning()
    assert agent.build().run_sync("Get me a room.").status == "completed"
    assert tried == ["Ritz", "Ritz"]


@pytest.mark.parametrize("strategy", ["reactive", "plan-execute-reflect"])
def test_one_that_did_not_end_in_time_may_have_taken_effect_and_is_not_asked_for_again(strategy: str) -> None:
    booked: list[str] = []

    @tool(risk="medium", timeout_s=0.05)
    async def book(hotel: str) -> str:
        """Book a room."""
        booked.append(hotel)
        await anyio.sleep_forever()
        return "confirmed"

    made = call("book", hotel="Ritz") if strategy == "reactive" else plan(tool_step("book", hotel="Ritz"))
    model = ScriptedLLM(made, forever(answer("A room is booked.")))
    builder = ReactiveAgents.create().with_llm(model).with_tools(book).with_reasoning(strategy)
    result = builder.build().run_sync("Book a room in the Ritz.")
    assert (result.status, booked) == ("partial", ["Ritz"])
    (shown,) = [step.content for step in result.steps if step.type == "observation"]
    assert shown.startswith("The tool 'book' did not end within 0.05 seconds. It may have taken effect.")


@pytest.mark.parametrize(
    ("does", "is_in_doubt"),
    [
        ("Make a payment.", True),
        ("Gives the money for an order back.", True),
        ("Do what a step of the job needs.", True),
        ("Open the gate.", True),
        ("Give the weather of a city.", False),
        ("Make sure that a host answers.", False),
    ],
)
def test_a_description_with_a_verb_of_any_act_leaves_the_risk_to_say_what_a_late_call_did(
    does: str, is_in_doubt: bool
) -> None:
    @tool(risk="medium", timeout_s=0.05, description=does)
    async def act(what: str) -> str:
        await anyio.sleep_forever()
        return what

    model = ScriptedLLM(call("act", what="A7"), forever(answer("It is not known.")))
    result = ReactiveAgents.create().with_llm(model).with_tools(act).build().run_sync("Do it for A7.")
    seen = [each.metadata for each in result.steps if each.type == "observation" and each.metadata]
    assert ("in_doubt" in {each.origin for each in seen if each.tool_used == "act"}) == is_in_doubt


def test_a_look_up_that_did_not_end_in_time_is_not_in_doubt_whatever_its_risk() -> None:
    @tool(risk="high", timeout_s=0.05)  # as the tools of an MCP server without hints
    async def get_page(name: str) -> str:
        """Get a page by its name."""
        await anyio.sleep_forever()
        return "never"

    @tool
    def search(text: str) -> str:
        """Search the web."""
        return "The fair opens on 3 May."

    both = calls(call("get_page", name="fair"), call("search", text="fair"))
    model = ScriptedLLM(both, answer("The fair opens on 3 May."))
    builder = ReactiveAgents.create().with_llm(model).with_tools(get_page, search).with_reasoning()
    result = builder.build().run_sync("When does the fair open?")
    assert (result.status, result.metadata.terminated_by) == ("completed", "final_answer")
    (shown, _) = [step.content for step in result.steps if step.type == "observation"]
    assert shown == "The tool 'get_page' did not end within 0.05 seconds."
