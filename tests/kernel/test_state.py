"""Kernel states change by the table and in no other way, and are JSON both ways."""

from __future__ import annotations

import json
import pickle
from copy import deepcopy
from datetime import UTC, datetime
from math import inf
from typing import Any, get_args

import attrs
import pytest
from returns.result import Failure, Success

from reactive_agents.core.errors import DecodeError, IllegalTransition, ModelCallFailed, ModelTimeout
from reactive_agents.core.ids import CallId, StepId
from reactive_agents.core.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from reactive_agents.core.results import ReasoningStep, StepMetadata
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.core.values import replaced
from reactive_agents.kernel import (
    LEGAL_TRANSITIONS,
    TERMINAL,
    Guidance,
    KernelState,
    KernelStatus,
    Proposal,
    deserialize_kernel_state,
    serialize_kernel_state,
    transition_state,
)
from reactive_agents.kernel.context_window.token_estimate import TokenEstimate, Transcript
from reactive_agents.kernel.ledger import CallLedger
from reactive_agents.kernel.state import successor
from tests.support.kernels import new_state

STATUSES: tuple[KernelStatus, ...] = get_args(KernelStatus)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def step(number: int, content: str = "hm") -> ReasoningStep:
    return ReasoningStep(StepId(f"k-{number}"), "thought", content, NOON)


def in_status(status: KernelStatus, **fields: Any) -> KernelState:
    return attrs.evolve(new_state(), status=status, **fields)


def full_state() -> KernelState:
    call = ToolCall(CallId("c1"), "add", {"a": 1, "b": [None, {"x": 1.5}]})
    return in_status(
        "failed",
        steps=(step(1), ReasoningStep(StepId("k-2"), "action", "{}", NOON, StepMetadata(call_id=call.id))),
        messages=(AssistantMessage("hm", (call,)), ToolMessage(call.id, "add", "3"), UserMessage("go")),
        tools_used=frozenset({"web-search", "add", "file-read"}),
        scratchpad={"add-1": "3"},
        iteration=2,
        usage=RunUsage("", Usage(20, 10, 30, reported=False), 0.25, 2, 1, 1),
        run_usage=RunUsage("m", Usage(30, 15, 45), 0.5, 3),
        pending=(call,),
        results=(ToolResult(call.id, "add", 3, duration_ms=1.5),),
        proposal=Proposal("three", "length", call.id),
        guidance=(Guidance("a-policy", "Look again."),),
        error=ModelCallFailed("think", 1, ModelTimeout("No answer.", "m", 3.0)),
        outcome="failed",
        terminated_by="kernel_error",
        reason="No answer.",
        meta={"own": [1, "two"]},
    )


def test_a_run_begins_thinking_with_nothing_done() -> None:
    state = new_state(own=1)
    assert (state.status, state.steps, state.iteration, state.tokens, state.cost) == ("thinking", (), 0, 0, 0)
    assert state.meta == {"own": 1}
    assert state.output is None


@pytest.mark.parametrize("old", STATUSES)
@pytest.mark.parametrize("new", STATUSES)
def test_the_table_decides_which_status_may_follow(old: KernelStatus, new: KernelStatus) -> None:
    before = in_status(old)
    match transition_state(before, status=new):
        case Success(after):
            assert new in LEGAL_TRANSITIONS[old]
            assert after == in_status(new)
        case Failure(error):
            assert new not in LEGAL_TRANSITIONS[old]
            assert isinstance(error, IllegalTransition)
            assert (error.field, error.from_status, error.to_status) == ("status", old, new)
    assert before == in_status(old)


def test_the_table_names_every_status_and_lets_no_terminal_one_go() -> None:
    assert set(LEGAL_TRANSITIONS) == set(STATUSES)
    for status in TERMINAL:
        assert LEGAL_TRANSITIONS[status] == {status}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("iteration", 1),
        ("tokens", 29),
        ("cost", 0.24),
        ("cost", float("nan")),
        ("cost", float("inf")),
        ("steps", ()),
        ("steps", (step(1),)),
        ("steps", (step(9), step(2), step(3))),
        ("steps", (step(1), step(9), step(3))),
        ("steps", (step(1), step(2, "edited"))),
    ],
)
def test_what_was_counted_or_done_is_never_lost(field: str, value: Any) -> None:
    state = in_status(
        "acting", iteration=2, usage=RunUsage("", Usage(0, 0, 30), 0.25), steps=(step(1), step(2))
    )
    changes: Any = {field: value}
    match transition_state(state, **changes):
        case Failure(error):
            assert error.field == field
            assert error.message.startswith(f"{field}: ")
        case Success(_):
            raise AssertionError("went back")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("scratchpad", {"add-1": 3}),
        ("scratchpad", {3: "three"}),
        ("scratchpad", None),
        ("meta", {"own": {1, 2}}),
        ("meta", {"own": [float("inf")]}),
        ("meta", {"own": {1: "one"}}),
        ("meta", ["own"]),
        ("output", {"answer": 3}),
    ],
)
def test_what_has_no_json_form_is_refused(field: str, value: Any) -> None:
    changes: Any = {field: value}
    assert transition_state(new_state(), **changes).failure().field == field
    custom = (
        attrs.evolve(new_state(), output=value) if field == "output" else replaced(new_state(), **changes)
    )
    assert successor(new_state(), custom).failure().field == field


def test_an_entry_that_is_added_to_a_map_is_checked_too() -> None:
    state = transition_state(new_state(), scratchpad={"add-1": "3"}, meta={"own": 1}).unwrap()
    more: Any = {"add-2": "5"}
    assert transition_state(state, scratchpad=state.scratchpad | more).unwrap().scratchpad["add-2"] == "5"
    wrong: Any = {"add-2": 5}
    assert transition_state(state, scratchpad=state.scratchpad | wrong).failure().field == "scratchpad"
    assert transition_state(state, meta=state.meta | {"own": inf}).failure().field == "meta"
    assert transition_state(state, meta=state.meta | {"more": inf}).failure().field == "meta"


CALL_OF_AN_OBJECT = ToolCall(CallId("c"), "add", {"a": object()})  # type: ignore[dict-item]
CALL_OF_NAN = ToolCall(CallId("c"), "add", {"a": float("nan")})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("id", 5, "id: got 5, expected a string"),
        ("iteration", True, "iteration: got True, expected an integer"),
        ("iteration", 1.5, "iteration: got 1.5, expected an integer"),
        ("steps", (step(1), step(2, 5)), "steps[1].content: got 5, expected a string"),  # type: ignore[arg-type]
        ("steps", ("no step",), "steps: got an array of 1 item, expected a PersistentList of ReasoningStep"),
        ("messages", (UserMessage(5),), "messages[0].content: got 5, expected a string"),  # type: ignore[arg-type]
        (
            "messages",
            (AssistantMessage("", (CALL_OF_NAN,)),),
            "messages[0].tool_calls[0].arguments['a']: got nan, ",
        ),
        ("pending", (CALL_OF_AN_OBJECT,), "pending[0].arguments['a']: got an object, expected a JSON value"),
        ("tools_used", frozenset({object()}), "tools_used[0]: got an object, expected a string"),
        ("usage", RunUsage("", Usage("1")), "usage.usage.input_tokens: got '1', expected an integer"),  # type: ignore[arg-type]
        ("transcript", None, "transcript: got None, expected Transcript"),
        ("proposal", "an answer", "proposal: got 'an answer', expected Proposal or None"),
        ("guidance", (Guidance("p", 5),), "guidance[0].text: got 5, expected a string"),  # type: ignore[arg-type]
        ("ledger", CallLedger(novelty=inf), "ledger.novelty: got inf, expected a finite number"),
        ("outcome", "good", "outcome: got 'good', expected one of 'completed', "),
        ("meta", {"own": inf}, "meta['own']: got inf, expected a finite number"),
    ],
)
def test_a_refused_value_is_named_with_its_place_and_what_is_expected(
    field: str, value: Any, message: str
) -> None:
    error = transition_state(new_state(), **{field: value}).failure()
    assert (error.field, error.message[: len(message)]) == (field, message)


def test_only_the_new_part_of_what_grows_is_checked() -> None:
    never_checked = UserMessage(5)  # type: ignore[arg-type]
    wrong: Any = None
    right = transition_state(replaced(new_state(), guidance=wrong), guidance=(Guidance("p", "Look."),))
    assert right.unwrap().guidance == (Guidance("p", "Look."),)
    state = replaced(new_state(), messages=(never_checked,))
    assert len(transition_state(state, messages=(never_checked, UserMessage("new"))).unwrap().messages) == 2
    assert transition_state(state, messages=(UserMessage("new"), never_checked)).failure().field == "messages"


@pytest.mark.parametrize("name", ["scratchpad", "meta"])
def test_maps_are_read_only_whoever_made_them(name: str) -> None:
    made = attrs.evolve(new_state(), **{name: {"a": "b"}})
    following = transition_state(new_state(), **{name: {"a": "b"}}).unwrap()
    restored = deserialize_kernel_state(serialize_kernel_state(made)).unwrap()
    for state in (new_state(), made, following, restored):
        with pytest.raises(TypeError):
            getattr(state, name)["a"] = "c"
    assert getattr(following, name) == getattr(restored, name) == {"a": "b"}


def test_the_data_of_a_custom_kernel_is_read_only_in_its_depth() -> None:
    meta: dict[str, Any] = {"seen": [["a"]], "counts": {"a": 1}}
    following = transition_state(new_state(), meta=meta).unwrap()
    restored = deserialize_kernel_state(json.loads(json.dumps(serialize_kernel_state(following)))).unwrap()
    for state in (attrs.evolve(new_state(), meta=meta), following, restored):
        kept: Any = state.meta
        for change in (
            lambda kept: kept["seen"].append({1, 2}),
            lambda kept: kept["seen"][0].clear(),
            lambda kept: kept["counts"].update(a=2),
            lambda kept: kept["counts"].__setitem__("a", 2),
        ):
            with pytest.raises(TypeError, match="read-only"):
                change(kept)
        assert state.meta == meta
        changed = transition_state(state, meta={**kept, "seen": [*kept["seen"], ["b"]]}).unwrap()
        assert changed.meta["seen"] == [["a"], ["b"]]
        for copied in (deepcopy(kept["seen"]), pickle.loads(pickle.dumps(kept["seen"]))):
            copied[0].append("b")
            assert copied == [["a", "b"]]


def test_maps_of_the_ledger_are_read_only_too() -> None:
    ledger = deserialize_kernel_state(serialize_kernel_state(full_state())).unwrap().ledger
    for each in (ledger.answers, ledger.outcomes, ledger.told, ledger.calls.attempts, ledger.calls.succeeded):
        with pytest.raises(TypeError):
            each["add"] = 9  # type: ignore[index]


def test_a_map_that_is_changed_by_who_made_it_does_not_change_the_state() -> None:
    given: dict[str, Any] = {"own": [1]}
    state = transition_state(new_state(), meta=given).unwrap()
    given["own"].append(2)
    assert state.meta == {"own": [1]}


@pytest.mark.parametrize("change", [{"iteration": "x"}, {"tokens": "x"}, {"messages": 5}, {"status": []}])
def test_a_value_of_a_wrong_type_is_refused(change: dict[str, Any]) -> None:
    assert isinstance(transition_state(new_state(), **change).failure(), IllegalTransition)


def test_an_unknown_field_is_a_programming_error() -> None:
    changes: Any = {"no_such_field": 1}
    with pytest.raises(TypeError):
        transition_state(new_state(), **changes)


def test_a_full_state_survives_the_way_through_json() -> None:
    state = full_state()
    text = json.dumps(serialize_kernel_state(state))
    restored = deserialize_kernel_state(json.loads(text)).unwrap()
    assert restored == state
    assert json.dumps(serialize_kernel_state(restored)) == text


def test_sets_are_written_sorted_and_times_with_their_zone() -> None:
    data: Any = serialize_kernel_state(full_state())
    assert data["tools_used"] == ["add", "file-read", "web-search"]
    assert data["steps"][0]["timestamp"] == "2026-01-01T12:00:00+00:00"
    assert data["error"]["tag"] == "ModelCallFailed"
    assert data["error"]["cause"]["tag"] == "ModelTimeout"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"status": "sleeping"}, "$.status"),
        ({"iteration": "2"}, "$.iteration"),
        ({"surprise": 1}, "$"),
        ({"steps": [{"id": "k-1"}]}, "$.steps[0]"),
    ],
)
def test_data_that_describes_no_state_is_refused_with_the_path(change: dict[str, Any], path: str) -> None:
    data: Any = serialize_kernel_state(full_state())
    match deserialize_kernel_state({**data, **change}):
        case Failure(error):
            assert isinstance(error, DecodeError)
            assert any(problem.path.startswith(path) for problem in error.problems), error.problems
        case Success(_):
            raise AssertionError("decoded")


# --- what is known of the messages ----------------------------------------------------------------------

COUNTED = TokenEstimate(
    sized=2, bytes=900, counted=2, tokens=300, fixed=100, fixed_tokens=30, limit=8_000, tools=1
)
FORGOTTEN = TokenEstimate(fixed=100, fixed_tokens=30, limit=8_000, tools=1)


@pytest.mark.parametrize(
    ("messages", "estimate"),
    [
        ((UserMessage("a"), UserMessage("b")), COUNTED),
        ((UserMessage("a"), UserMessage("b"), UserMessage("c")), COUNTED),
        ((UserMessage("a"), UserMessage("another")), FORGOTTEN),
        ((UserMessage("new"), UserMessage("a"), UserMessage("b")), FORGOTTEN),
        ((UserMessage("a"),), FORGOTTEN),
    ],
)
def test_counts_of_other_messages_are_forgotten(
    messages: tuple[UserMessage, ...], estimate: TokenEstimate
) -> None:
    state = in_status(
        "thinking", messages=(UserMessage("a"), UserMessage("b")), transcript=Transcript(COUNTED)
    )
    assert transition_state(state, messages=messages).unwrap().transcript.estimate == estimate
    assert successor(state, attrs.evolve(state, messages=messages)).unwrap().transcript.estimate == estimate


def test_counts_that_are_given_with_the_messages_are_kept() -> None:
    state = in_status(
        "thinking", messages=(UserMessage("a"), UserMessage("b")), transcript=Transcript(COUNTED)
    )
    new = TokenEstimate(sized=1, bytes=9)
    assert (
        transition_state(state, messages=(UserMessage("c"),), transcript=Transcript(new))
        .unwrap()
        .transcript.estimate
        == new
    )
