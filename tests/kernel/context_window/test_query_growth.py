"""The bound of what a JMESPath expression may make of a text."""

from __future__ import annotations

import pytest

from reactive_agents.kernel.context_window.previews import compile_query


@pytest.mark.parametrize(
    ("expression", "growth"),
    [
        ("a", 1),
        ("a.b[0]", 1),
        ("`1`", 1),
        ("`12`", 2),
        ("`1234`", 3),
        ("[a, b]", 2),
        ("{x: a, y: b}", 2),
        ("{name: a}", 3),
        ("a || b", 1),
        ("[?a == 'a text that is no part of the result']", 1),
    ],
)
def test_the_growth_is_that_of_the_largest_part(expression: str, growth: int) -> None:
    assert compile_query(expression).unwrap().growth == growth
