"""Dividing a transcript into what is put in short and what stays."""

from __future__ import annotations

from reactive_agents.core.messages import SystemMessage, UserMessage
from reactive_agents.kernel.context_window.token_estimate import characters_of
from reactive_agents.reasoning.synthesis.notes import divide, write_notes
from tests.support.transcripts import turn

FIRST, SECOND, LAST = turn(1, "a" * 50), turn(2, "b" * 50, None), turn(3, "c" * 50)


def test_the_last_turn_stays_whatever_its_length() -> None:
    divided = divide(FIRST + SECOND + LAST, room=0)
    assert (divided.dropped, divided.kept, divided.turns) == (FIRST + SECOND, LAST, 2)


def test_turns_before_it_stay_as_a_whole_where_there_is_room() -> None:
    exact = characters_of(SECOND + LAST)
    assert divide(FIRST + SECOND + LAST, room=exact).kept == SECOND + LAST
    assert divide(FIRST + SECOND + LAST, room=exact - 1).kept == LAST
    assert divide(FIRST + SECOND + LAST, room=10_000).dropped == ()


def test_earlier_notes_are_taken_up_and_messages_of_others_stay() -> None:
    notes, hint, order = write_notes(("- known",), (), ()), UserMessage("A hint."), SystemMessage("Be quick.")
    divided = divide((notes, *FIRST, hint, order, *SECOND, *LAST), room=0)
    assert divided.records == ("- known",)
    assert divided.foreign == (hint, order)
    assert divided.dropped == FIRST + SECOND
    assert divide((*FIRST, *LAST, hint), room=0).kept == (*LAST, hint)


def test_without_a_turn_nothing_is_dropped() -> None:
    assert divide((UserMessage("A hint."),), room=0).kept == (UserMessage("A hint."),)
    assert divide((), room=0).kept == ()
