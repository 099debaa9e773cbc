"""Claims of an answer, and how numbers are read."""

from __future__ import annotations

from decimal import Decimal

import pytest

from reactive_agents.adapters.governance.claims import claims_of, numbers_of, observed_numbers, rounds_to
from tests.support.operations import assert_linear


def claims(answer: str) -> list[tuple[str, str]]:
    return [(claim.kind, claim.text) for claim in claims_of(answer)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Roses are red.", []),
        ("It has 1,000 rooms and costs $5.50.", [("number", "1,000"), ("number", "$5.50")]),
        ("About 12 % of 3.5 km.", [("number", "12 %"), ("number", "3.5 km")]),
        ("On 2024-05-01 at 12:30.", [("number", "2024-05-01"), ("number", "12:30")]),
        ("It is version 3.11.4.", [("number", "3.11.4")]),
        ("It is 1.234.567 in all.", [("number", "1.234.567")]),
        ("1. first\n2. second", []),
        ("## 3 Results\nnothing", []),
        ('She said "it is 5 o\'clock now".', [("quote", "it is 5 o'clock now")]),
        ("> to be or not to be", [("quote", "to be or not to be")]),
        ("He likes „gute alte Zeit“.", [("quote", "gute alte Zeit")]),
        ("It was built by Ada Lovelace for NASA.", [("name", "Ada Lovelace"), ("name", "NASA")]),
        ("We went to Bank of England yesterday.", [("name", "Bank of England")]),
        ("Yesterday was fine. Today is not.", []),
        ("I saved the table as `out/table.csv`.", [("file", "out/table.csv")]),
        ("The file report.md has been written.", [("file", "report.md")]),
        ("I wrote a.txt and b.txt for you.", [("file", "a.txt"), ("file", "b.txt")]),
        ("I could not write it, so nothing was saved to a.txt.", [("name", "a.txt")]),
        ("See settings.toml for that.", [("name", "settings.toml")]),
        ("Der Bericht wurde in bericht.md gespeichert.", [("file", "bericht.md")]),
        ("It is small, i.e. tiny.", []),
        ("5 and again 5.", [("number", "5")]),
    ],
)
def test_claims_are_found(answer: str, expected: list[tuple[str, str]]) -> None:
    assert claims(answer) == expected


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,000", {"1000", "1.000"}),
        ("1.234,56", {"1234.56"}),
        ("1,234,567.8", {"1234567.8"}),
        ("1'000", {"1000"}),
        ("-5", {"-5"}),
        ("−5", {"-5"}),
        ("2.5e3", {"2500"}),
        ("3 million", {"3000000"}),
        ("0,12", {"0.12"}),
    ],
)
def test_a_number_has_every_value_that_it_may_mean(text: str, values: set[str]) -> None:
    (number,) = numbers_of(text)
    assert set(number.values) == set(map(Decimal, values))


@pytest.mark.parametrize(
    ("one", "other"), [("12 %", "0.12 "), ("1.5 km", "1500 m"), ("2 h", "120 minutes"), ("250 g", "0.25 kg")]
)
def test_units_are_compared_in_the_basic_unit(one: str, other: str) -> None:
    (first,), (second,) = numbers_of(one), numbers_of(other)
    assert set(first.quantities) & set(second.quantities)


def test_observed_numbers_are_read_in_every_way() -> None:
    values = {value for number in observed_numbers('{"a":[1,2,3],"b":-4.5} five') for value in number.values}
    assert {Decimal(each) for each in ("1", "2", "3", "-4.5", "5")} <= values


def test_rounding_counts_with_the_decimals_that_are_written() -> None:
    assert rounds_to(Decimal("3.14159"), Decimal("3.14"), 2)
    assert not rounds_to(Decimal("3.14159"), Decimal("3.15"), 2)
    assert not rounds_to(Decimal("3.2"), Decimal("3"), 0)


@pytest.mark.system
@pytest.mark.parametrize(
    "piece", ["A", "a.", '"', "1,", "1-", "> ", "Ab ", "wrote a.txt ", "a/", "9", "1.", "„a "]
)
def test_the_work_grows_with_the_length_alone(piece: str) -> None:
    assert_linear(lambda size: claims_of(piece * (size // len(piece))), 2_000)
