"""Calls that change something are not made twice by mistake, in any pass of a run."""

from __future__ import annotations

import json

import pytest

from reactive_agents import ReactiveAgents, tool
from reactive_agents.testing import ScriptedLLM, answer, call, calls, say


def booked_by(*turns: object, strategy: str = "reactive") -> tuple[list[str], list[str]]:
    """Return the bookings of a run, and what its model was shown of the calls."""
    booked: list[str] = []

    @tool(risk="medium")
    def book(hotel: str) -> str:
        """Book a room."""
        booked.append(hotel)
        return f"confirmation {len(booked)}"

    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_tools(book)  # type: ignore[arg-type]
    result = builder.with_reasoning(strategy).build().run_sync("Get me a room.")
    return booked, [step.content for step in result.steps if step.type == "observation"]


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
