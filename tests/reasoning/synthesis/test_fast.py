"""Earlier turns by templates."""

from __future__ import annotations

from reactive_agents.reasoning.synthesis.methods import fast_records
from reactive_agents.reasoning.synthesis.notes import LEFT_OUT
from tests.support.transcripts import material, turn


def test_each_thing_said_and_each_call_is_a_line() -> None:
    records = fast_records(
        material(
            turn(1, "XRP costs\n1 dollar", None, said="I look at\nthe price.", arguments={"coin": "XRP"}),
            turn(2, "", arguments={}, tool="wait"),
            turn(3, said="It costs 1 dollar."),
            records=("- known before",),
        )
    )
    assert records == (
        "- known before",
        "- said: I look at the price.",
        '- [look-1] look {"coin": "XRP"} gave: XRP costs 1 dollar',
        '- look {"coin": "XRP"} failed: it broke',
        "- [wait-2] wait gave: nothing",
        "- said: It costs 1 dollar.",
    )


def test_long_texts_are_cut_to_an_excerpt() -> None:
    (line,) = fast_records(material(turn(1, "x" * 9_000, arguments={"text": "y" * 9_000})))
    assert len(line) < 450
    assert line.endswith("x…")


def test_the_oldest_records_go_where_there_is_no_room_and_a_line_says_so() -> None:
    turns = [turn(number, f"result {number}") for number in range(100)]
    records = fast_records(material(*turns, budget=1_000))
    assert records[0] == LEFT_OUT
    assert records[-1].endswith("gave: result 99")
    assert 900 < sum(map(len, records)) + len(records) <= 1_000


def test_without_any_room_nothing_but_that_line_is_left() -> None:
    assert fast_records(material(turn(1, "seen"), budget=20)) == (LEFT_OUT,)
