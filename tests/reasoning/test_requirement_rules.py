"""Tools that a task plainly requires, measured on labelled tasks."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from attrs import frozen

from reactive_agents.core.settings import ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.reasoning.requirement_rules import MOST_CALLS, may_require, requirements_in
from tests.reasoning.labelled_tasks import LABELLED, NEAR_MISSES, TOOLS, LabelledTask

LEAST_PRECISION = 0.98
LEAST_RECALL = 0.9


@frozen
class Measured:
    """Requirements found, those of them that are right, calls labelled, and those of them that were found."""

    found: int
    right: int
    labelled: int
    required: int


def required(task: str, *names: str) -> dict[str, int]:
    needs = requirements_in(task, [TOOLS[name] for name in names])
    return {each.name: each.min_calls for each in needs.required}


def measured(tasks: Iterable[LabelledTask]) -> Measured:
    found = right = labelled = hits = 0
    for task in tasks:
        given = {each.name: each.min_calls for each in requirements_in(task.text, task.tools).required}
        found += len(given)
        right += sum(calls <= task.calls.get(name, 0) for name, calls in given.items())
        labelled += sum(task.calls.values())
        hits += sum(min(calls, given.get(name, 0)) for name, calls in task.calls.items())
    return Measured(found, right, labelled, hits)


@pytest.mark.parametrize("half", ["tuning", "held-back"])
def test_what_is_required_is_right_and_most_of_it_is_found(half: str) -> None:
    assert len(LABELLED) == 150
    figures = measured(each for each in LABELLED if each.half == half)
    assert figures.right / figures.found >= LEAST_PRECISION
    assert figures.required / figures.labelled >= LEAST_RECALL


def test_near_misses_require_nothing_that_is_not_labelled() -> None:
    for task in NEAR_MISSES:
        for each in requirements_in(task.text, task.tools).required:
            assert each.min_calls <= task.calls.get(each.name, 0), task.text


def test_what_requires_a_tool_has_a_sign_of_it() -> None:
    """So that it makes no difference that tasks without any are not judged."""
    words = [word for each in LABELLED for word in each.text.split()]
    mixed = random.Random(0)
    tasks = [each.text for each in (*LABELLED, *NEAR_MISSES)]
    tasks += [" ".join(mixed.sample(words, 8)) for _ in range(20)]
    required = 0
    for task in tasks:
        for tool in TOOLS.values():
            needs = requirements_in(task, [tool])
            required += len(needs.required)
            assert may_require(task, [tool]) or not needs.required, (task, tool.name)
    assert required >= 100
    assert not may_require("What is 1 + 2?", [TOOLS["price"], TOOLS["send_email"], TOOLS["http-get"]])


def test_requirements_are_marked_as_derived_and_other_tools_as_relevant() -> None:
    needs = requirements_in("What is the price of Kelto?", [TOOLS["price"], TOOLS["query_db"]])
    assert needs == ToolNeeds((ToolRequirement("price", 1, derived=True),))
    assert requirements_in("An article?", [TOOLS["weigh"]]) == ToolNeeds((), frozenset({"weigh"}))


def test_of_two_tools_for_one_subject_neither_is_required() -> None:
    assert required("What is the price of Kelto?", "price", "get_price") == {}
    assert required("What is the price of Kelto?", "price", "weigh") == {"price": 1}


def test_there_is_a_limit_to_what_is_counted_and_to_what_is_read() -> None:
    names = [f"Item{number}" for number in range(60)]
    assert required(f"Look up the prices of {', '.join(names)} and Last.", "price") == {"price": MOST_CALLS}
    assert required("What is the price of Kelto? " + "It is a lamp. " * 200, "price") == {}


@pytest.mark.parametrize("rest", ["", ", in euros", ", in EUR", ", for today", ", each with its unit"])
def test_what_follows_a_list_is_no_item_of_it(rest: str) -> None:
    assert required(f"What are the prices of Kelto and Varn{rest}?", "price") == {"price": 2}
    assert required(f"What are the prices of Kelto, Mora and Varn{rest}?", "price") == {"price": 3}


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"properties": {"a": True}}, {"type": "string"}])
def test_odd_schemas_and_names_are_no_problem(schema: dict[str, object]) -> None:
    for name in ("-", "_", "a", "get_", "price", "web-search", "calculator"):
        definition = ToolDefinition(name, "", schema)  # type: ignore[arg-type]
        needs = requirements_in("What is the price of Kelto? Use web-search. Read a.txt.", [definition])
        assert [each.name for each in needs.required] == [name] * (name in ("price", "web-search"))


def test_an_order_in_the_words_of_a_tools_description_requires_it() -> None:
    reserve = ToolDefinition("reserve", "Reserve a table.", {"type": "object", "properties": {}})
    task = "Reserve a table for 2 at Kiyomi on 2026-12-10 and give me the confirmation code."
    assert [each.name for each in requirements_in(task, [reserve]).required] == ["reserve"]
    assert requirements_in("Reserve a seat for 2 at Kiyomi.", [reserve]).required == ()


def test_words_between_numbers_are_no_subjects() -> None:
    times = ToolDefinition(
        "opening_times",
        "Return the opening times of a day.",
        {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]},
    )
    assert requirements_in("What is 18 times 12?", [times]).required == ()
    assert requirements_in("What are the opening times of Monday?", [times]).required


def test_telling_others_something_looks_nothing_up() -> None:
    menu = ToolDefinition(
        "school_menu",
        "School lunch menu",
        {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]},
    )
    assert requirements_in("Tell the school Ben has a fever and stays home", [menu]).required == ()
    assert requirements_in("Tell me the school menu of Monday.", [menu]).required


def of_id(name: str, description: str, parameter: str = "id") -> ToolDefinition:
    return ToolDefinition(
        name, description, {"type": "object", "properties": {parameter: {"type": "string"}}}
    )


ORDERS = (
    of_id("get_order", "Get an order by its id."),
    of_id("cancel_order", "Cancel an order."),
    of_id("place_order", "Place an order.", "item"),
    of_id("get_report", "Get the report of a month.", "month"),
    of_id("archive_report", "Archive a report.", "month"),
)


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("Cancel order 1001 and order 1003.", "cancel_order"),
        ("Cancel order 1001, then order 1003.", "cancel_order"),
        ("Cancel order 1001, order 1002 and order 1003.", "cancel_order"),
        ("Cancel order A-17 and order B-4.", "cancel_order"),
        ("Cancel order 1001. Order 1002 stays.", "cancel_order"),
        ("Cancel order 1001. Order 1002 is fine.", "cancel_order"),
        ("Order 1003 has to be cancelled.", ""),
        ("Order 1003 arrives tomorrow.", ""),
        ("Archive report March and report April.", "archive_report"),
        ("Archive the March report, then report April.", "archive_report"),
    ],
)
def test_a_noun_that_is_a_verb_elsewhere_requires_no_look_up(task: str, names: str) -> None:
    assert [each.name for each in requirements_in(task, ORDERS).required] == names.split()


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("Look up order 1001 and order 1003.", "get_order"),
        ("Order 1001 and order 1002, please", "get_order"),
        ("Cancel order 1001. Get order 1002.", "get_order cancel_order"),
        ("Get the report of March.", "get_report"),
        ("Order two chairs.", "place_order"),
        ("Cancel order 1001 and order two chairs.", "cancel_order place_order"),
    ],
)
def test_what_is_looked_up_or_ordered_by_such_a_word_is_required(task: str, names: str) -> None:
    assert [each.name for each in requirements_in(task, ORDERS).required] == names.split()
