"""Messages about wrong arguments, from which a model can correct them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, Field

from reactive_agents.adapters.tools.call_checks import convert_arguments, malformed_arguments
from reactive_agents.adapters.tools.decorator import tool
from reactive_agents.adapters.tools.json_value import shorten
from reactive_agents.core.errors import ArgumentProblem
from reactive_agents.core.json import JsonObject


def _explode(value: int) -> int:
    if value == 13:
        raise LookupError("unlucky")
    if value == 14:
        raise ValueError("not fourteen")
    return value


@tool
def order(
    count: int,
    price: float = 1.0,
    either: int | list[int] = 0,
    rows: list[dict[str, int]] = [],  # noqa: B006 - never changed
    checked: Annotated[int, AfterValidator(_explode)] = 0,
) -> None:
    """Order."""


def problems_of(arguments: JsonObject) -> tuple[ArgumentProblem, ...]:
    return convert_arguments("order", order.schema, arguments).failure().problems


def test_conversions_that_lose_nothing() -> None:
    sent: JsonObject = {"count": "3", "price": "2.5", "either": 4.0}
    assert convert_arguments("order", order.schema, sent).unwrap() == {"count": 3, "price": 2.5, "either": 4}


@pytest.mark.parametrize("count", [3.5, "3.5", "three", None, [], {}])
def test_conversions_that_would_lose_something(count: Any) -> None:
    (problem,) = problems_of({"count": count})
    assert problem.argument == "count"
    assert "integer" in problem.expected


def test_missing_and_unknown_arguments_are_named() -> None:
    assert problems_of({"amount": 3}) == (
        ArgumentProblem("count", "nothing", "a value, since it is required"),
        ArgumentProblem(
            "amount", "3", "no argument of that name; known arguments: count, price, either, rows, checked"
        ),
    )


def test_paths_lead_to_the_value() -> None:
    (problem,) = problems_of({"count": 1, "rows": [{}, {"a": 1}, {"b": 2, "name": "x"}]})
    assert (problem.argument, problem.got) == ("rows[2].name", '"x"')


def test_the_members_of_a_union_are_one_problem() -> None:
    (problem,) = problems_of({"count": 1, "either": {}})
    assert problem.argument == "either"
    assert problem.expected == "a valid integer or a valid list"


def test_validators_of_the_user() -> None:
    assert problems_of({"count": 1, "checked": 14}) == (ArgumentProblem("checked", "14", "not fourteen"),)
    (problem,) = problems_of({"count": 1, "checked": 13})
    assert problem.argument == "arguments"
    assert "unlucky" in problem.expected


@tool
def add_up(
    numbers: Iterable[int] = (),
    rows: Iterable[Iterable[int]] | None = None,
    once: Iterator[int] | None = None,
    generated: Generator[int, None, None] | None = None,
    bounded: Annotated[Iterator[int], Field(min_length=2)] | None = None,
    anything: Iterable = (),  # type: ignore[type-arg]
) -> None:
    """Add up."""


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"numbers": [1, "a"]}, "numbers[1]"),
        ({"rows": [[1], ["a"]]}, "rows[1][0]"),
        ({"once": ["a"]}, "once[0]"),
        ({"generated": ["a"]}, "generated[0]"),
        ({"bounded": [1]}, "bounded"),
        ({"numbers": "12"}, "numbers"),
        ({"anything": 3}, "anything"),
    ],
)
def test_what_is_iterated_over_is_checked_before_the_call(arguments: JsonObject, path: str) -> None:
    (problem,) = convert_arguments("add_up", add_up.schema, arguments).failure().problems
    assert problem.argument == path


def test_what_is_iterated_over_is_of_its_kind() -> None:
    sent: JsonObject = {name: [1, "2"] for name in ("numbers", "once", "generated", "bounded", "anything")}
    given = convert_arguments("add_up", add_up.schema, sent).unwrap()
    assert (given["numbers"], given["anything"]) == ([1, 2], [1, "2"])
    assert (next(given["once"]), next(given["bounded"])) == (1, 1)
    assert (given["generated"].send(None), list(given["generated"])) == (1, [2])
    properties = add_up.definition.parameters["properties"]
    assert properties["numbers"] == {"default": [], "items": {"type": "integer"}, "type": "array"}  # type: ignore[call-overload,index]


def test_many_problems_are_counted_and_long_values_cut() -> None:
    problems = problems_of({"count": "x" * 500, "rows": ["bad"] * 50})
    assert len(problems) == 11
    assert problems[-1].got == "41 more problems"
    assert len(problems[0].got) == 80
    assert problems[0].got.endswith("…")


def test_numbers_that_are_none() -> None:
    (problem,) = problems_of({"count": 1, "price": "nan"})
    assert problem.expected == "a finite number"


def test_a_truth_is_no_number() -> None:
    assert problems_of({"count": True, "price": False}) == (
        ArgumentProblem("count", "true", "a value of the type integer"),
        ArgumentProblem("price", "false", "a value of the type number"),
    )


def test_malformed_arguments_say_so() -> None:
    message = malformed_arguments("order", "{count}").message
    assert message == (
        "The arguments of 'order' are not valid: arguments: got {count}, expected a JSON object "
        "(this text could not be read as JSON)."
    )
    broken_off = malformed_arguments("order", '{"count": ').message
    assert broken_off.endswith("(this text could not be read as JSON: it breaks off; send less in one call).")


def test_shortened_values_are_json() -> None:
    assert shorten({"ü": [None, True]}) == '{"ü": [null, true]}'
