"""Kernel states change by the table and in no other way, and are JSON both ways."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, get_args

import attrs
import pytest
from returns.result import Failure, Success

from reactive_agents.core.errors import DecodeError, IllegalTransition, ModelCallFailed, ModelTimeout
from reactive_agents.core.ids import CallId, StepId
from reactive_agents.core.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from reactive_agents.core.results import ReasoningStep, StepMetadata
from reactive_agents.core.tools import ToolResult
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
from reactive_agents.kernel.context_window.token_estimate import Extent
from reactive_agents.kernel.state import check_successor
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
        tokens=30,
        cost=0.25,
        unreported_turns=1,
        unpriced_turns=1,
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
        ("steps", ()),
        ("steps", (step(1),)),
        ("steps", (step(9), step(2), step(3))),
        ("steps", (step(1), step(9), step(3))),
        ("steps", (step(1), step(2, "edited"))),
    ],
)
def test_what_was_counted_or_done_is_never_lost(field: str, value: Any) -> None:
    state = in_status("acting", iteration=2, tokens=30, cost=0.25, steps=(step(1), step(2)))
    changes: Any = {field: value}
    match transition_state(state, **changes):
        case Failure(error):
            assert error.field == field
            assert error.message.startswith(f"{field}: ")
        case Success(_):
            raise AssertionError("went back")


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

COUNTED = Extent(sized=2, bytes=900, counted=2, tokens=300, fixed=100, fixed_tokens=30, limit=8_000, tools=1)
FORGOTTEN = Extent(fixed=100, fixed_tokens=30, limit=8_000, tools=1)


@pytest.mark.parametrize(
    ("messages", "extent"),
    [
        ((UserMessage("a"), UserMessage("b")), COUNTED),
        ((UserMessage("a"), UserMessage("b"), UserMessage("c")), COUNTED),
        ((UserMessage("a"), UserMessage("another")), FORGOTTEN),
        ((UserMessage("new"), UserMessage("a"), UserMessage("b")), FORGOTTEN),
        ((UserMessage("a"),), FORGOTTEN),
    ],
)
def test_counts_of_other_messages_are_forgotten(messages: tuple[UserMessage, ...], extent: Extent) -> None:
    state = in_status("thinking", messages=(UserMessage("a"), UserMessage("b")), extent=COUNTED)
    assert transition_state(state, messages=messages).unwrap().extent == extent
    assert check_successor(state, Success(attrs.evolve(state, messages=messages))).unwrap().extent == extent


def test_counts_that_are_given_with_the_messages_are_kept() -> None:
    state = in_status("thinking", messages=(UserMessage("a"), UserMessage("b")), extent=COUNTED)
    new = Extent(sized=1, bytes=9)
    assert transition_state(state, messages=(UserMessage("c"),), extent=new).unwrap().extent == new
