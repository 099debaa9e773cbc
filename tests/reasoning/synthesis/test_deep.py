"""Earlier turns put in short by a model."""

from __future__ import annotations

import pytest
from returns.result import Failure

from reactive_agents.core.errors import ModelUnavailable
from reactive_agents.core.usage import ModelSpending, Usage
from reactive_agents.effects import attempt
from reactive_agents.reasoning.synthesis.methods import DeepAnswer, deep_records, records_of, request_for
from reactive_agents.testing import ScriptedLLM, Turn, call, fail, say
from tests.support.transcripts import material, turn

pytestmark = pytest.mark.anyio

SPENT = ModelSpending("m", Usage(1, 2, 3), 0.5)
TURNS = (turn(1, "seen", said="I look."), turn(2, None))


async def answer_to(*script: Turn, budget: int = 4_000) -> DeepAnswer:
    asked = deep_records(
        material(*TURNS, budget=budget), ScriptedLLM(*script), model="m", temperature=0.0, room=9_000
    )
    result = await attempt(asked)
    assert not isinstance(result, Failure)
    return result.unwrap()


async def test_the_lines_of_the_answer_are_the_records() -> None:
    answer = await answer_to(say("- It was seen [look-1].\n\n* open: the rest", cost_usd=0.5))
    assert answer.records == ("- It was seen [look-1].", "- * open: the rest")
    assert answer.problem == ""
    assert [each.cost_usd for each in answer.spent] == [0.5]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (say(" \n"), "The model gave no text."),
        (call("look"), "The model gave no text."),
        (say("It was", finish_reason="length"), "The model's text was cut off."),
        (say("It was", finish_reason="content_filter"), "The model's text was cut off."),
        (fail(ModelUnavailable("It is down.", "m", refused=(SPENT,))), "It is down."),
    ],
)
async def test_what_goes_wrong_is_the_problem_and_costs_are_kept(script: Turn, problem: str) -> None:
    answer = await answer_to(script)
    assert (answer.records, answer.problem) == ((), problem)
    assert len(answer.spent) == 1
    assert (answer.spent == (SPENT,)) == (script.error is not None)


async def test_no_script_is_a_problem_too() -> None:
    assert "script" in (await answer_to()).problem


def test_the_question_holds_task_notes_and_turns_each_fenced() -> None:
    asked = request_for(material(*TURNS, records=("- known",)), "other/model", 0.3, 9_000)
    system, question = asked.messages
    assert (asked.purpose, asked.model, asked.temperature) == ("synthesize-context", "other/model", 0.3)
    assert asked.tools == ()
    assert "at most 4000 characters" in system.content
    assert question.content == (
        "The task:\n<task>\nFind it.\n</task>\n\n"
        "What is in short already:\n<earlier-notes>\n- known\n</earlier-notes>\n\n"
        "The turns to put in short:\n<turns>\n"
        'Agent: I look.\nCall: look {"at": 1}\n[look-1] look gave: seen\n'
        'Agent: \nCall: look {"at": 2}\nlook failed: it broke\n</turns>'
    )


def test_long_turns_are_cut_to_the_room_that_there_is() -> None:
    long = material(*(turn(number, "x" * 5_000) for number in range(10)))
    question = request_for(long, None, 0.0, 8_000).messages[1].content
    assert 3_000 < len(question) < 8_500
    assert question.count("[look-") == 10


def test_a_text_is_cut_to_its_budget() -> None:
    assert records_of("one\ntwo\nthree", 12) == ("- one", "- two")
    assert records_of("x" * 50, 10) == ("- " + "x" * 7 + "…",)
    assert records_of("", 10) == ()
