"""The account of a run's tool calls."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition, ToolResult
from reactive_agents.kernel.ledger import (
    CallCounts,
    CallLedger,
    LedgerEntry,
    digest,
    enter_answer,
    enter_guidance,
    enter_turn,
    has_side_effects,
    words_of,
)

LOOK = ToolDefinition("look", "Look.", {"type": "object"})
EDIT = evolve(LOOK, name="edit", risk="medium")
REPORT = evolve(LOOK, name="report", output=True)


def entry(
    definition: ToolDefinition = LOOK,
    text: str = "a red door",
    *,
    at: str = "a",
    error: bool = False,
    origin: Any = "executed",
    counts: bool = False,
) -> LedgerEntry:
    call = ToolCall(CallId("c"), definition.name, {"at": at})
    result = ToolResult(call.id, call.name, None if error else text, text if error else "", origin=origin)
    return LedgerEntry(call, definition, result, text, None if error else f"{definition.name}-{at}", counts)


def after(*turns: list[LedgerEntry]) -> CallLedger:
    ledger = CallLedger()
    for turn in turns:
        ledger = enter_turn(ledger, turn)
    return ledger


def test_two_calls_ask_the_same_when_tool_and_arguments_are_the_same() -> None:
    one = ToolCall(CallId("c1"), "look", {"at": "a", "how": [1, {"x": None}]})
    other = ToolCall(CallId("c2"), "look", {"how": [1, {"x": None}], "at": "a"})
    assert one.fingerprint == other.fingerprint
    different = [
        evolve(one, name="see"),
        evolve(one, arguments={"at": "a"}),
        evolve(one, arguments={"at": "a", "how": [True, {"x": None}]}),
        evolve(one, arguments={}, malformed="{"),
    ]
    assert len({each.fingerprint for each in (one, *different)}) == 5


@pytest.mark.parametrize(
    ("definition", "changes"), [(LOOK, False), (EDIT, True), (REPORT, True), (None, True)]
)
def test_what_may_change_other_answers(definition: ToolDefinition | None, changes: bool) -> None:
    assert has_side_effects(definition) is changes


def test_attempts_successes_and_failures_are_counted() -> None:
    ledger = after(
        [entry(), entry(at="b", text="no", error=True)],
        [entry(at="b", text="still no", error=True)],
    )
    assert (ledger.calls.attempts, ledger.calls.succeeded, ledger.calls.failed_in_a_row) == (
        {"look": 3},
        {"look": 1},
        {"look": 2},
    )
    assert after([entry(error=True)], [entry()]).calls.failed_in_a_row == {}


@pytest.mark.parametrize("origin", ["stored", "refused"])
def test_what_was_not_run_is_not_counted(origin: Any) -> None:
    ledger = after([entry(origin=origin)])
    assert (ledger.calls.attempts, ledger.calls.succeeded, ledger.words) == ({}, {}, frozenset())
    assert (ledger.idle_turns, ledger.repeated) == (1, origin == "stored")


def test_answers_are_kept_until_something_changes_the_world() -> None:
    kept = after([entry(), entry(at="b")])
    assert set(kept.answers.values()) == {"look-a", "look-b"}
    assert enter_turn(kept, [entry(EDIT)]).answers == {}
    assert enter_turn(kept, [entry(REPORT)]).answers == {}


def test_a_change_that_failed_may_have_taken_effect() -> None:
    assert enter_turn(after([entry()]), [entry(EDIT, "cut off", error=True)]).answers == {}


@pytest.mark.parametrize("turn", [[entry(EDIT), entry()], [entry(), entry(EDIT)]])
def test_what_was_found_beside_a_change_is_not_kept(turn: list[LedgerEntry]) -> None:
    assert after(turn).answers == {}


def test_novelty_is_the_share_of_words_that_were_not_known() -> None:
    ledger = after([entry(text="a red door")])
    assert (ledger.novelty, ledger.gathered) == (1.0, 0)
    ledger = enter_turn(ledger, [entry(at="b", text="A red, RED house.")])
    assert ledger.novelty == pytest.approx(1 / 3)
    assert (ledger.gathered, ledger.words) == (3, {"a", "red", "door", "house"})
    assert enter_turn(ledger, [entry(at="c", text="no", error=True)]).novelty is None


def test_what_a_delivery_says_is_not_gathered() -> None:
    ledger = after([entry(REPORT, "delivered")])
    assert (ledger.novelty, ledger.words) == (None, frozenset())


def test_a_turn_is_idle_when_each_call_came_to_what_it_came_to_before() -> None:
    failing = [entry(text="no", error=True)]
    assert after(failing).idle_turns == 0
    assert after(failing, failing, failing).idle_turns == 2
    assert after(failing, failing, [entry(text="another no", error=True)]).idle_turns == 0
    assert after([entry(EDIT)], [entry(EDIT)]).idle_turns == 1
    assert after([entry(EDIT)], [entry(EDIT, "changed again")]).idle_turns == 0
    assert after([entry(EDIT)], [entry(EDIT), entry(EDIT, at="b")]).idle_turns == 0
    assert after([]).idle_turns == 1


def test_a_success_that_counts_is_never_idle() -> None:
    press = entry(EDIT, "pressed", counts=True)
    assert after([press], [press], [press]).idle_turns == 0


def test_an_answer_given_again_is_idle_whatever_its_case_and_marks() -> None:
    ledger = enter_answer(CallLedger(), "It is so.")
    assert ledger.idle_turns == 0
    assert enter_answer(ledger, "it  IS so!").idle_turns == 1
    other = enter_answer(ledger, "It is otherwise.")
    assert other.idle_turns == 0
    assert enter_answer(other, "It is so.").idle_turns == 1
    unread = enter_turn(ledger, [entry(origin="refused")])
    assert (unread.idle_turns, enter_answer(unread, "It is new.").idle_turns) == (1, 0)


def test_an_answer_is_known_again_in_another_process() -> None:
    assert enter_answer(CallLedger(), "Rome, Paris and Oslo.").said == {digest("and oslo paris rome")}
    assert enter_answer(enter_answer(CallLedger(), ""), " ").idle_turns == 0


def test_an_answer_is_new_again_after_something_was_found() -> None:
    ledger = enter_answer(CallLedger(), "It is so.")
    assert enter_answer(enter_turn(ledger, [entry()]), "It is so.").idle_turns == 0
    assert enter_answer(enter_turn(ledger, [entry(origin="stored")]), "It is so.").idle_turns == 2


def test_an_answer_ends_what_was_said_of_the_last_results() -> None:
    ledger = enter_answer(after([entry()], [entry(origin="stored"), entry(at="b")]), "So.")
    assert (ledger.novelty, ledger.repeated) == (None, False)


def test_guidance_is_counted_by_policy() -> None:
    ledger = enter_guidance(enter_guidance(enter_guidance(CallLedger(), "one"), "two"), "one")
    assert ledger.told == {"one": 2, "two": 1}


def test_a_digest_takes_any_text() -> None:
    assert digest("a") == digest("a") != digest("b")
    assert len(digest("\ud800")) == 16


def test_words_are_compared_in_small_letters_in_any_script() -> None:
    assert words_of("Größe: 3,5 м²!") == ["größe", "3", "5", "м²"]


def test_calls_that_were_declined_are_counted_by_tool() -> None:
    once = CallCounts().with_calls([("pay", False)], declined=["pay"])
    assert once.declined == {"pay": 1}
    both = once.with_calls([("look", True)]).with_calls([], declined=["pay", "send"])
    assert both.declined == {"pay": 2, "send": 1}
