"""How far required tools have come."""

from __future__ import annotations

import pytest
from attrs import evolve

from reactive_agents.kernel.open_requirements import (
    OpenRequirements,
    describe_missing,
    describe_open,
    how_to_deliver,
    requirements_of,
    still_to_gather,
)
from reactive_agents.kernel.toolset import build_toolset
from tests.support.moments import REPORT, around, moment


def names(now: OpenRequirements) -> tuple[list[str], list[str]]:
    return [each.name for each, _ in now.open], [each.name for each, _ in now.lost]


def test_without_requirements_nothing_is_open_or_lost() -> None:
    assert requirements_of(moment(), around()) == OpenRequirements()


def test_a_requirement_is_open_until_its_tool_has_worked_often_enough() -> None:
    two = around({"look": 2, "report": 1})
    assert names(requirements_of(moment(), two)) == (["look", "report"], [])
    once = requirements_of(moment(succeeded={"look": 1}, attempts={"look": 1}), two)
    assert describe_open(once) == "look (1 of 2 calls done); report (0 of 1 calls done)"
    assert names(requirements_of(moment(succeeded={"look": 2}), two)) == (["report"], [])
    assert requirements_of(moment(succeeded={"look": 3, "report": 1}), two) == OpenRequirements()


def test_what_is_not_there_is_lost() -> None:
    now = requirements_of(moment(), around({"hear": 1}))
    assert describe_missing(now) == "Missing: the required tool hear (there is no such tool here)."
    hidden = around({"look": 1}, allowed_tools=frozenset({"see"}))
    assert names(requirements_of(moment(), hidden)) == ([], ["look"])


@pytest.mark.parametrize(("failures", "lost"), [(2, False), (3, True), (4, True)])
def test_three_failures_in_a_row_are_for_good(failures: int, lost: bool) -> None:
    roomy = around({"look": 1}, limits={"look": 99})
    now = requirements_of(moment(failed_in_a_row={"look": failures}, attempts={"look": failures}), roomy)
    assert names(now) == (([], ["look"]) if lost else (["look"], []))


def test_a_declined_call_is_not_asked_for_again_and_the_others_are() -> None:
    declined = moment(declined={"look": 1}, failed_in_a_row={"look": 1}, attempts={"look": 1})
    assert requirements_of(declined, around({"look": 1})) == OpenRequirements()
    assert requirements_of(declined, around({"look": 1}, limits={"look": 1})) == OpenRequirements()
    assert names(requirements_of(declined, around({"look": 2}, limits={"look": 9}))) == (["look"], [])


def test_what_was_met_stays_met_whatever_fails_later() -> None:
    later = moment(succeeded={"look": 1}, failed_in_a_row={"look": 9}, attempts={"look": 10})
    assert requirements_of(later, around({"look": 1})) == OpenRequirements()


@pytest.mark.parametrize(
    ("limit", "attempts", "lost"), [(3, 1, False), (3, 2, True), (2, 0, True), (3, 3, True)]
)
def test_a_budget_too_small_for_what_is_left_is_a_loss(limit: int, attempts: int, lost: bool) -> None:
    now = requirements_of(
        moment(attempts={"look": attempts}), around({"look": 2 if attempts else 3}, limits={"look": limit})
    )
    assert bool(now.lost) is lost
    if lost:
        assert f"{max(0, limit - attempts)} left in its budget" in describe_missing(now)


def test_a_tool_that_delivers_has_no_budget() -> None:
    now = requirements_of(moment(attempts={"report": 9}), around({"report": 1}, limits={"report": 1}))
    assert names(now) == (["report"], [])


def test_any_answer_meets_a_requirement_of_the_answer() -> None:
    assert requirements_of(moment(), around({"final-answer": 1})) == OpenRequirements()


def test_gathering_is_everything_but_delivery() -> None:
    context = around({"look": 1, "report": 1})
    assert still_to_gather(requirements_of(moment(), context), context)
    assert not still_to_gather(requirements_of(moment(succeeded={"look": 1}), context), context)
    assert [context.toolset.delivers(name) for name in ("look", "report", "final-answer", "hear")] == [
        False,
        True,
        True,
        False,
    ]


def test_the_way_to_deliver_names_the_tool() -> None:
    required = around({"report": 1})
    assert (
        how_to_deliver(moment(), required, requirements_of(moment(), required))
        == "Call report to produce the output."
    )
    wanted = " If the task asks for an output, produce it with report first."
    assert (
        how_to_deliver(moment(), around(), OpenRequirements())
        == f"Call final-answer with the answer.{wanted}"
    )
    done = moment(succeeded={"report": 1})
    assert how_to_deliver(done, around(), OpenRequirements()) == "Call final-answer with the answer."
    in_text = evolve(around(), toolset=build_toolset([REPORT], allowed=None, answers_by_tool=False))
    assert how_to_deliver(done, in_text, OpenRequirements()) == "Give the answer."


def test_what_is_missing_lists_all() -> None:
    now = requirements_of(moment(), around({"hear": 1, "look": 2}))
    assert describe_missing(now, "a final answer") == (
        "Missing: the required tool hear (there is no such tool here); "
        "required calls: look (0 of 2 calls done); a final answer."
    )
