"""Refusals, invented answers after a failure, and odd reasons of weak models."""

from __future__ import annotations

from typing import Any

import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.core.tasks import TaskResult
from reactive_agents.reasoning.confidence import BY_STATUS
from reactive_agents.testing import ScriptedLLM, Turn, answer, call, say

TASK = "What is the price of Lumo?"


def price(item: str) -> str:
    """Look up a price."""
    return {"Lumo": "34"}.get(item) or f"There is no {item}."


def offline(item: str) -> str:
    """Look up a price."""
    raise LookupError("catalogue offline, code 17")


def run(tool: Any, *turns: Turn, task: str = TASK, required: bool = True) -> tuple[TaskResult, ScriptedLLM]:
    llm = ScriptedLLM(*turns)
    builder = ReactiveAgents.create().with_llm(llm).with_tools(tool).with_reasoning(tool_classifier="off")
    if required:
        builder = builder.with_required_tools(tool.__name__)
    return builder.build().run_sync(task), llm


@pytest.mark.parametrize(
    "invented",
    ["Lumo costs 12 euros.", "Lumo costs 34.", "Lumo costs 5 euros.", "Lumo costs twelve euros."],
)
def test_an_invented_answer_after_a_failure_is_no_abstention(invented: str) -> None:
    turns = [call("offline", item="Lumo"), *[answer(invented)] * 9]
    result, _ = run(offline, *turns)
    assert (result.status, result.success) == ("partial", False)


@pytest.mark.parametrize(
    "honest",
    [
        "I could not find the price of Lumo: the catalogue is offline.",
        "The catalogue is offline, code 17.",
        "The price of Lumo is not known. The catalogue cannot be reached.",
    ],
)
def test_an_answer_that_says_what_failed_is_one(honest: str) -> None:
    again = [call("offline", item="Lumo"), answer(honest), call("offline", item="Lumo "), answer(honest)]
    result, _ = run(offline, *again)
    assert (result.status, result.output) == ("abstained", honest)


@pytest.mark.parametrize(
    "why",
    [["There is no Lumo in", "the catalogue"], {"reason": "There is no Lumo here", "needed": "a newer list"}],
)
def test_a_list_or_an_object_is_a_reason_as_well(why: Any) -> None:
    given = call("final-answer", answer="None.", could_not=why)
    result, _ = run(price, call("price", item="Luma"), given)
    assert result.status == "abstained"
    assert "There is no Lumo" in result.reason


@pytest.mark.parametrize(
    "went_well",
    [
        "Not applicable, everything was done",
        "No issues were encountered.",
        "Es gab keine Probleme.",
        "No hubo ningún problema.",
    ],
)
def test_a_reason_that_denies_nothing_does_not_spoil_a_right_answer(went_well: str) -> None:
    given = call("final-answer", answer="Lumo costs 34.", could_not=went_well)
    result, _ = run(price, call("price", item="Lumo"), given)
    assert (result.status, result.output) == ("completed", "Lumo costs 34.")


def test_a_required_tool_that_is_never_tried_leaves_the_run_partial() -> None:
    given = call("final-answer", answer="I cannot.", could_not="I am a language model without data.")
    result, llm = run(price, *[given] * 3)
    assert result.status == "partial"
    assert "price" in result.reason
    assert len(llm.requests) == 2


@pytest.mark.parametrize("deliver", [answer, say])
@pytest.mark.parametrize(
    "refused",
    ["Sorry, I can't help with that.", "I'm unable to look that up.", "Ich kann dabei leider nicht helfen."],
)
def test_a_refusal_is_asked_about_once_and_then_abstains(refused: str, deliver: Any) -> None:
    result, llm = run(price, *[deliver(refused)] * 3, required=False)
    assert (result.status, result.success, result.output) == ("abstained", False, refused)
    assert result.reason == f"It could not be done: {refused}"
    assert len(llm.requests) == 2
    assert "say why with could_not; otherwise call the tools" in llm.requests[1].messages[-1].content


def test_a_refusal_that_is_withdrawn_costs_one_turn() -> None:
    turns = (answer("I can't do that."), call("price", item="Lumo"), answer("Lumo costs 34."))
    result, _ = run(price, *turns, required=False)
    assert (result.status, result.output) == ("completed", "Lumo costs 34.")


@pytest.mark.parametrize(
    "said",
    [
        "Penguins cannot fly.",
        "The capital is Paris. I could not check it.",
        "I found nothing wrong with the text.",
        "You can't divide by zero.",
    ],
)
def test_answers_that_deny_something_of_their_subject_are_no_refusals(said: str) -> None:
    result, llm = run(price, answer(said), task="Tell me about it.", required=False)
    assert (result.status, result.output) == ("completed", said)
    assert len(llm.requests) == 1


def test_what_a_content_filter_cut_off_is_not_asked_again_while_a_tool_is_required() -> None:
    result, llm = run(price, say("Lumo is a", finish_reason="content_filter"), say("Lumo is 34."))
    assert (result.status, result.output) == ("partial", "Lumo is a")
    assert "content filter" in result.reason
    assert len(llm.requests) == 1


def test_a_rejected_answer_lowers_the_confidence_in_the_next_one() -> None:
    at_once, _ = run(price, call("price", item="Lumo"), answer("Lumo costs 34."))
    late, _ = run(price, answer("Lumo costs."), call("price", item="Lumo"), answer("Lumo costs 34."))
    assert at_once.metadata.confidence == pytest.approx(BY_STATUS["completed"])
    assert late.metadata.confidence == pytest.approx(BY_STATUS["completed"] * 0.9)
