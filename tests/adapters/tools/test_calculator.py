"""The calculator: what it works out and what it refuses."""

from __future__ import annotations

import math
import sys

import pytest

from reactive_agents.adapters.tools.builtin.calculator import calculator
from reactive_agents.core.errors import ToolFailed


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 1", 2),
        (" 2 * (3 + 4) ** 2 ", 98),
        ("7 // 2 + 7 % 2", 4),
        ("-2 ** 2", -4),
        ("1 / 4", 0.25),
        ("10 ** -2", 0.01),
        ("sqrt(2) ** 2", 2.0000000000000004),
        ("sin(pi / 2) + log(e)", 2.0),
        ("log(8, 2)", 3.0),
        ("round(2.567, 2)", 2.57),
        ("round(1234, -2)", 1200),
        ("min(3, 1, 2) + max(1, 2) + abs(-1) + sum(1, 2, 3)", 10),
        ("factorial(20)", math.factorial(20)),
        ("2 ** 1000", 2**1000),
        ("1 < 2 <= 2", True),
        ("1 if 3 > 4 else 2", 2),
        ("not true", False),
        ("1_000 * 1e3", 1e6),
    ],
)
def test_answers(expression: str, expected: float) -> None:
    answer = calculator(expression).unwrap()
    assert answer == expected
    assert type(answer) is type(expected)


@pytest.mark.parametrize(
    ("expression", "detail"),
    [
        ("1 / 0", "division by zero"),
        ("2 ^ 3", "^ is not a power here, write ** instead"),
        ("1 << 9", "the operators are"),
        ("9 ** 9 ** 9", "too large"),
        ("(2 ** 2000) * (2 ** 2001)", "too large"),
        ("factorial(10 ** 9)", "too large"),
        ("1e308 * 10", "too large"),
        ("1e309 - 1e309", "undefined"),
        ("round(1, -10 ** 9)", "at most 500 digits"),
        ("(-8) ** 0.5", "complex"),
        ("sqrt(-1)", "math domain error" if sys.version_info < (3, 14) else "expected a nonnegative input"),
        ("x + 1", "'x' is not defined"),
        ("1,000 + 1", "1000 and not 1,000"),
        ("2(3 + 4)", "2 * 3 and not 2(3)"),
        ("sum([1, 2])", "sum(1, 2) and not sum([1, 2])"),
        ("open('/etc/passwd')", "'open' not defined"),
        ("(1).__class__", "not arithmetic"),
        ("[1][0]", "not arithmetic"),
        ("[x for x in [1]]", "not arithmetic"),
        ("'a' * 9", "'a' is not a number"),
        ("1j", "not a number"),
        ("sin", "not a number"),
        ("max()", "at least 1 argument"),
        ("1 +", "not an arithmetic expression"),
        ("", "not an arithmetic expression"),
        ("a = 1", "not an arithmetic expression"),
        ("1; 2", "not an arithmetic expression"),
        ("1" * 501, "expected at most 500"),
        ("(" * 400, "not an arithmetic expression"),
        ("-" * 499 + "1", "nested too deep"),
    ],
)
def test_refusals(expression: str, detail: str) -> None:
    error = calculator(expression).failure()
    assert isinstance(error, ToolFailed)
    assert detail in error.detail
