"""Answers that come by a call of the ``final-answer`` tool."""

from __future__ import annotations

from typing import Any

import pytest

from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.kernel import Proposal
from reactive_agents.kernel.termination import proposed_answer, refused_answer, without_repeated_answers


def call(call_id: str, name: str = "add", **arguments: Any) -> ToolCall:
    return ToolCall(CallId(call_id), name, arguments)


@pytest.mark.parametrize(
    "calls",
    [
        (),
        (call("c1", "add"),),
        (call("c1", "final-answer"),),
        (call("c1", "final-answer", answer=" "),),
        (call("c1", "final-answer", answer=3),),
        (call("c1", "final-answer", answer="3"), call("c2")),
    ],
)
def test_only_a_lone_and_well_formed_call_delivers_an_answer(calls: tuple[ToolCall, ...]) -> None:
    assert proposed_answer(calls) is None


def test_an_answer_that_was_delivered_names_its_call() -> None:
    assert proposed_answer((call("c1", "final-answer", answer="3"),)) == Proposal(
        "3", "tool_calls", CallId("c1")
    )


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        ("It is 3.", "It is 3."),
        ('"It is 3."', "It is 3."),
        ('"It is 3', ""),
        ("It is 3", ""),
        ('{"answer": "It is 3.', ""),
    ],
)
def test_a_sentence_in_place_of_the_arguments_is_the_answer(sent: str, answer: str) -> None:
    delivered = ToolCall(CallId("c1"), "final-answer", malformed=sent)
    proposal = proposed_answer((delivered,))
    assert (proposal.text if proposal else "") == answer
    assert "must be a JSON object" in refused_answer(delivered, (delivered,)).error


def test_a_refused_answer_says_why() -> None:
    answer = call("c1", "final-answer", answer="3")
    assert "other tools were called" in refused_answer(answer, (answer, call("c2"))).error
    assert "must be a text" in refused_answer(answer, (answer,)).error


def test_of_several_answers_it_is_said_that_one_is_expected() -> None:
    one, other = call("c1", "final-answer", answer="3"), call("c2", "final-answer", answer="4")
    assert refused_answer(one, (one, other)).error == (
        "Not accepted: there were 2 answers in one turn, and one is expected. Give that one."
    )
    assert "other tools were called" in refused_answer(one, (one, other, call("c3"))).error


def test_only_a_turn_of_nothing_but_the_same_answer_is_that_answer() -> None:
    one, again = call("c1", "final-answer", answer="3"), call("c2", "final-answer", answer="3")
    other, added = call("c3", "final-answer", answer="4"), call("c4", a=1)
    assert without_repeated_answers((one, again)) == (one,)
    for calls in ((), (one,), (one, again, other), (one, added, again), (added, added)):
        assert without_repeated_answers(calls) == calls
