"""The pure halves of a turn."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import AssistantMessage, ToolCall, ToolMessage
from reactive_agents.core.models import ModelResponse, Usage
from reactive_agents.core.results import StepMetadata
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.usage import RunUsage
from reactive_agents.kernel import Guidance, Proposal
from reactive_agents.kernel.reducers import (
    absorb_response,
    absorb_results,
    record_actions,
    thought_of,
)
from reactive_agents.testing.core import START
from tests.support.kernels import kernel_bench, new_state

USAGE = Usage(10, 5, 15)


def call(call_id: str, name: str = "add", **arguments: Any) -> ToolCall:
    return ToolCall(CallId(call_id), name, arguments)


def response(text: str = "", *calls: ToolCall, **fields: Any) -> ModelResponse:
    return ModelResponse(text, "m", calls, **{"usage": USAGE, "cost_usd": 0.5, **fields})


def test_text_is_a_thought_and_a_proposed_answer() -> None:
    state = absorb_response(new_state(), response("three", finish_reason="length"), START)
    assert [(step.id, step.type, step.content) for step in state.steps] == [("k-1", "thought", "three")]
    assert state.messages == (AssistantMessage("three"),)
    assert state.proposal == Proposal("three", "length")
    assert (state.status, state.iteration, state.tokens, state.cost) == ("thinking", 1, 15, 0.5)


def test_calls_are_pending_and_propose_nothing() -> None:
    state = absorb_response(new_state(), response("Let me add.", call("c1")), START)
    assert (state.status, state.proposal, state.pending) == ("acting", None, (call("c1"),))
    assert state.messages == (AssistantMessage("Let me add.", (call("c1"),)),)


def test_an_empty_turn_leaves_no_message_that_a_provider_would_refuse() -> None:
    state = absorb_response(new_state(), response("  \n", thinking="hm"), START)
    assert state.messages == ()
    assert state.proposal == Proposal("  \n", thought=True)
    assert [step.content for step in state.steps] == ["hm"]


def test_guidance_is_shown_once() -> None:
    guided = evolve(new_state(), guidance=(Guidance("p", "Look again."),))
    assert absorb_response(guided, response("three"), START).guidance == ()


def test_totals_are_the_providers_own_and_unknown_figures_are_counted_as_unknown() -> None:
    state = absorb_response(new_state(), response("a"), START)
    unknown = response("b", usage=Usage(reported=False), cost_usd=None)
    state = absorb_response(state, unknown, START)
    assert (state.iteration, state.tokens, state.cost) == (2, 15, 0.5)
    assert (state.usage.unreported_calls, state.usage.unpriced_calls) == (1, 1)


def test_missing_and_repeated_ids_are_replaced_so_that_results_can_be_paired() -> None:
    turns = (call("x"), call("x"), call(""), call("y"))
    state = absorb_response(new_state(), response("", *turns), START)
    assert [each.id for each in state.pending] == ["x", "x-1.2", "call-1.3", "y"]
    again = absorb_response(evolve(state, status="thinking"), response("", call("")), START)
    assert [each.id for each in again.pending] == ["call-2.1"]


def test_an_id_that_an_earlier_turn_had_is_replaced_too() -> None:
    first = absorb_response(new_state(), response("", call("x")), START)
    answered = evolve(first, status="thinking", iteration=3)
    state = absorb_response(answered, response("", call("x"), call("y")), START)
    assert [each.id for each in state.pending] == ["x-4.1", "y"]
    assert state.ledger.call_ids == {"x", "x-4.1", "y"}


@pytest.mark.parametrize(
    ("content", "thinking", "thought"), [("a", "b", "a"), (" ", " b ", "b"), ("", "", "")]
)
def test_what_counts_as_the_thought(content: str, thinking: str, thought: str) -> None:
    assert thought_of(response(content, thinking=thinking)) == thought


def test_one_action_is_recorded_for_each_pending_call() -> None:
    state = evolve(new_state(), pending=(call("c1", a=1), call("c2", "look")))
    first, second = record_actions(state, START)
    assert first.metadata is not None
    assert (first.id, first.type, first.metadata.tool_used, first.metadata.call_id) == (
        "k-1",
        "action",
        "add",
        "c1",
    )
    assert first.content == '{"tool": "add", "arguments": {"a": 1}}'
    assert second.id == "k-2"


def test_results_become_observations_messages_and_stored_texts() -> None:
    context = kernel_bench().context()
    results = (
        ToolResult(CallId("c1"), "add", {"sum": 3}, duration_ms=2.0),
        ToolResult(CallId("c2"), "look", error="Not there."),
    )
    state = evolve(new_state(), status="observing", results=results)
    following, shown = absorb_results(state, context, START)
    after = following
    assert shown == ('{"sum": 3}', "Not there.")
    assert after.messages == (
        ToolMessage(CallId("c1"), "add", '{"sum": 3}'),
        ToolMessage(CallId("c2"), "look", "Not there.", is_error=True),
    )
    assert (after.status, after.results, after.scratchpad) == ("thinking", (), {"add-1": '{"sum": 3}'})
    assert after.tools_used == {"add"}
    good, bad = (step.metadata for step in after.steps)
    assert good is not None
    assert bad is not None
    assert (good.success, good.result_key, good.duration) == (True, "add-1", 2.0)
    assert (bad.success, bad.result_key) == (False, None)
    assert state.scratchpad == {}


def test_an_observation_has_the_cost_of_the_models_that_its_tool_asked() -> None:
    asked = (RunUsage("m", cost_usd=0.25), RunUsage("n", cost_usd=0.5))
    results = (ToolResult(CallId("c1"), "add", 3, usage=asked), ToolResult(CallId("c2"), "add", 4))
    state = evolve(new_state(), status="observing", results=results)
    after, _ = absorb_results(state, kernel_bench().context(), START)
    assert [step.metadata.cost for step in after.steps if step.metadata] == [0.75, None]


def test_the_full_text_is_kept_and_a_view_of_it_shown() -> None:
    long = "x" * 20_000
    results = (ToolResult(CallId("c1"), "add", long), ToolResult(CallId("c2"), "add", error=long))
    following, shown = absorb_results(
        evolve(new_state(), status="observing", results=results), kernel_bench().context(), START
    )
    assert following.scratchpad == {"add-1": long}
    assert all(len(text) < 8_200 for text in shown)


def test_a_thought_has_the_cost_the_time_and_the_confidence_of_its_turn() -> None:
    made = evolve(response("Let me add.", call("c1")), cost_usd=0.25)
    (step,) = absorb_response(new_state(), made, START, took_ms=40.0).steps
    assert step.metadata == StepMetadata(duration=40.0, cost=0.25, confidence=0.8)
    repaired = evolve(made, tool_calls=(evolve(call("c1"), repairs=("a", "b")),))
    for worse in (evolve(made, finish_reason="length"), repaired):
        (step,) = absorb_response(new_state(), worse, START).steps
        assert step.metadata is not None
        assert step.metadata.confidence is not None
        assert step.metadata.confidence < 0.8
