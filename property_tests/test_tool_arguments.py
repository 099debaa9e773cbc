"""Laws of tools: no JSON makes validation raise, every value has a JSON form, the calculator always ends."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import uuid
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, TypedDict

import attrs
import pydantic
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from reactive_agents.adapters.tools.builtin.calculator import calculator
from reactive_agents.adapters.tools.call_checks import convert_arguments
from reactive_agents.adapters.tools.decorator import tool
from reactive_agents.adapters.tools.json_value import to_json_value
from reactive_agents.core.errors import InvalidToolArguments, ToolFailed
from reactive_agents.core.json import JsonObject


class Colour(enum.Enum):
    RED = "red"
    ONE = 1


@dataclass
class Address:
    city: str
    number: int | None = None


@attrs.frozen
class Point:
    x: int
    y: float = attrs.field(default=0.0, validator=attrs.validators.instance_of(float))


class Movie(TypedDict):
    title: str


class Book(pydantic.BaseModel):
    pages: Annotated[int, pydantic.Field(ge=1)]


@tool
def everything(
    a: int,
    b: float = 0,
    c: bool = False,
    d: str = "",
    e: list[int] | dict[str, float] = [],  # noqa: B006 - never changed
    f: Literal["a", 1] = "a",
    g: Colour = Colour.RED,
    h: Optional[Address] = None,  # noqa: UP045
    i: list[Point] = [],  # noqa: B006 - never changed
    j: tuple[Movie, ...] = (),
    k: dict[str, Book] = {},  # noqa: B006 - never changed
    m: datetime.datetime | None = None,
    n: decimal.Decimal | uuid.UUID | bytes | None = None,
    o: datetime.timedelta | None = None,
    p: set[int] | frozenset[str] | None = None,
    q: Any = None,
) -> None:
    """Take one of each."""


NAMES = [*everything.definition.parameters["properties"], "x", "y", "city", "title", "pages", ""]  # type: ignore[misc]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**30, -(2**63), 10**400, 2**53 + 1])
    | st.floats()
    | st.text()
    | st.sampled_from(["3", "3.0", "1e999", "nan", "red", "2026-01-01", "true", "\ud800", "P1D", "9" * 5000])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), values, max_size=8)
mostly_right = st.fixed_dictionaries({"a": st.integers()}, optional=dict.fromkeys("bcdhijkmq", values))


@given(objects | mostly_right)
def test_validation_never_raises_and_says_something_for_each_refusal(arguments: JsonObject) -> None:
    match convert_arguments("everything", everything.schema, arguments):
        case Success(converted):
            assert set(converted) == set(arguments)
            assert type(converted["a"]) is int
        case Failure(error):
            assert isinstance(error, InvalidToolArguments)
            assert error.problems
            assert all(problem.argument and problem.expected for problem in error.problems)
            assert len(error.message) < 5_000


@given(st.integers())
def test_a_number_in_text_is_the_number(number: int) -> None:
    converted = convert_arguments("everything", everything.schema, {"a": str(number)})
    assert converted.unwrap() == {"a": number}


@given(st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer()))
def test_a_fraction_is_never_made_an_integer(number: float) -> None:
    assert isinstance(convert_arguments("everything", everything.schema, {"a": number}), Failure)


class Hostile:
    """Raises wherever it is touched."""

    def __str__(self) -> str:
        raise RuntimeError("str")

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


anything = st.recursive(
    scalars
    | st.binary()
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.timedeltas()
    | st.decimals()
    | st.fractions()
    | st.complex_numbers()
    | st.uuids()
    | st.ip_addresses()
    | st.sampled_from([Colour.RED, object(), int, len, ..., Point(1, 2.0), Book(pages=1)])
    | st.builds(Hostile),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(scalars, inner, max_size=4)
        | st.builds(Address, inner, inner)
        | st.frozensets(scalars, max_size=4)
        | st.iterables(inner, max_size=3)
    ),
    max_leaves=10,
)


@given(anything)
def test_every_value_has_a_json_form(value: object) -> None:
    text = json.dumps(to_json_value(value), allow_nan=False, ensure_ascii=False)
    text.encode()


@given(values.filter(lambda value: "\\ud800" not in json.dumps(value)))
def test_json_stays_as_it_is(value: Any) -> None:
    if "NaN" not in (text := json.dumps(value)) and "Infinity" not in text:
        assert to_json_value(value) == value


TOKENS = (
    "1 2.5 9 99999 1e300 ( ) + - * / // % ** ^ < == , [ ] { } . ' ~ << pi e x True __class__ lambda: "
    "sqrt( log( round( factorial( max( pow( sum( floor( gcd("
)
tokens = st.sampled_from([*TOKENS.split(), " ", "\n", " if ", " else ", " and ", "not "])


@given(st.text() | st.lists(tokens, max_size=30).map("".join))
def test_the_calculator_ends_in_a_number_or_a_typed_failure(expression: str) -> None:
    match calculator(expression):
        case Success(number):
            assert type(number) in (int, float, bool)
            json.dumps(number, allow_nan=False)
        case Failure(error):
            assert isinstance(error, ToolFailed)
            assert error.detail
