"""Answers, announcements, calls as text, and figures without a source."""

from __future__ import annotations

import pytest

from reactive_agents.kernel.answer_check import (
    Seen,
    announces,
    ends_with_evidence,
    plainly_answers,
    unmade_call,
    unsupported_figures,
)

PRICES = Seen(
    "What do A-10 and B-20 cost together?",
    ('{"item": "A-10", "price": 12.5}', '{"item": "B-20", "price": 30.25}'),
)
TOOLS = ("get_price", "search", "final-answer")


@pytest.mark.parametrize(
    "answer",
    [
        "Together 42.75 euros.",
        "A-10 costs 12.50 and B-20 costs 30.25.",
        "1. A-10: 12.5\n2. B-20: 30.25",
        "The mean is 21.375, about 21.4.",
        "B-20 is 142 % dearer, by 17.75.",
        "There are 3 parts in all.",
        "It costs 12,50 euros.",
        "Two of each are 85.5.",
        "",
        "Nothing to count here.",
    ],
)
def test_what_was_seen_or_follows_from_it_is_supported(answer: str) -> None:
    assert unsupported_figures(answer, PRICES) == ()


@pytest.mark.parametrize(
    ("answer", "figures"),
    [
        ("Together 57.18 euros.", ("57.18",)),
        ("C-30 costs 99.99, A-10 costs 12.5.", ("C-30", "99.99")),
        ("The confirmation is R11077.", ("R11077",)),
        ("It was on 2024-05-13, and 2024-05-13 it is.", ("2024-05-13",)),
    ],
)
def test_what_nothing_seen_supports_is_named_once_and_in_order(answer: str, figures: tuple[str, ...]) -> None:
    assert unsupported_figures(answer, PRICES) == figures


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("Paid on 13/05/2024 at 10:00.", "2024-05-13T10:00:00"),
        ("It is 1,234,567 people.", "population 1234567"),
        ("It takes 90 minutes.", "duration 1.5 h"),
        ("There are 23 files.", "\n".join(f"file {chr(97 + n)}" for n in range(23))),
        ("COVID-19 is named.", "covid-19 is named"),
    ],
)
def test_other_ways_of_writing_and_counting_are_supported(answer: str, result: str) -> None:
    assert unsupported_figures(answer, Seen("Look it up.", (result,))) == ()


def test_among_many_numbers_only_names_are_judged() -> None:
    many = Seen("", (" ".join(str(n * n + 0.5) for n in range(60)),))
    assert unsupported_figures("It is 777.77 by order Z-777.", many) == ("Z-777",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A-10 costs 12.5 euros.", True),
        ("I looked it up. Together 42.75.", True),
        ("A-10 costs 12.5 euros. Now I will add them.", False),
        ("Now I look up B-20.", False),
        ("Shall I look up 30.25?", False),
        ("The prices are 12.5 and 30.25:", False),
        ("", False),
    ],
)
def test_evidence_is_at_the_end(text: str, expected: bool) -> None:
    assert ends_with_evidence(text, PRICES) is expected


def test_evidence_can_be_words_but_not_a_few_common_ones() -> None:
    seen = Seen("What is the capital of Australia?", ("With this in mind, Canberra was chosen.",))
    assert ends_with_evidence("The capital is Canberra.", seen)
    assert not ends_with_evidence("Let me check this with another source before going on.", seen)
    assert not ends_with_evidence("The capital of Australia.", seen)
    assert not ends_with_evidence("The capital is Canberra.", Seen("What is the capital?"))


def test_a_small_number_is_evidence_beside_a_short_result_only() -> None:
    assert ends_with_evidence("It is 3.", Seen("Add them.", ("3",)))
    assert not ends_with_evidence("Step 3 comes now.", Seen("Add them.", ("3 " + "x " * 300,)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Next I will use get_price.", True),
        ("I'll call get price now", True),
        ("Would you like me to go on?", True),
        ("Looking it up:", True),
        ("One moment…", True),
        ("A-10 costs 12.5 by get_price.", False),
        ("I could not find it.", False),
    ],
)
def test_announcements(text: str, expected: bool) -> None:
    assert announces(text, TOOLS, PRICES) is expected


def test_an_answer_beyond_doubt_names_no_tool() -> None:
    assert plainly_answers("Together 42.75.", TOOLS, PRICES)
    assert plainly_answers("The search gave 12.5.", TOOLS, PRICES), "a common word may be a tool's name"
    assert not plainly_answers("With 12.5 found, get_price comes next.", TOOLS, PRICES)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"name": "lookup", "arguments": {"a": 1}}', "lookup"),
        ('Calling tool: {"tool": "lookup", "args": {}}', "lookup"),
        ('<tool_call>\n{"name": "lookup", "argum', "lookup"),
        ("<tool_call>\n", ""),
        ("Action: lookup\nAction Input: a", ""),
        ('<tool_call>{"name": "lookup", "arguments": {}}</tool_call>', "lookup"),
        ('The file holds {"name": "Ada", "arguments": 3}, which is JSON.', None),
        ('{"name": "Ada", "age": 36}', None),
        ("Just prose (with brackets).", None),
        ("", None),
    ],
)
def test_calls_that_nobody_could_read(text: str, name: str | None) -> None:
    assert unmade_call(text) == name
