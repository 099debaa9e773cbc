"""The policies: each decides one thing, the first verdict wins and names its policy."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import AssistantMessage, ToolCall
from reactive_agents.core.settings import BudgetConfig, ToolNeeds, ToolRequirement
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.kernel import (
    Guidance,
    KernelContext,
    KernelState,
    Proceed,
    Proposal,
    Redirect,
    Stop,
    decide,
)
from reactive_agents.kernel.context import Verdict
from reactive_agents.kernel.policies.decision import (
    STANDARD_POLICIES,
    STEPS_PER_ITERATION,
    empty_reply,
    final_answer,
    iteration_limit,
    last_words,
    no_tool_service,
    with_backstops,
)
from reactive_agents.kernel.reducers import record_actions
from reactive_agents.testing.core import START
from tests.support.kernels import add, kernel_bench, new_state
from tests.support.settings import change_settings

CALL = ToolCall(CallId("c1"), "add")


def context(*policies: Any, max_iterations: int = 3, tools: bool = True) -> KernelContext:
    made = kernel_bench(tools={"add": add} if tools else None).context(max_iterations=max_iterations)
    return evolve(made, policies=policies or STANDARD_POLICIES)


def state(**fields: Any) -> KernelState:
    return evolve(new_state(), **fields)


def after_calls(turns: int) -> KernelState:
    """Thinking again after so many turns of calls."""
    messages = (AssistantMessage("", (CALL,)),) * turns
    acted = state(pending=(CALL,))
    return state(messages=messages, iteration=turns, steps=record_actions(acted, START))


def objects(_: KernelState, __: KernelContext) -> Verdict:
    return Redirect("objects", "Not like that.")


def silent(_: KernelState, __: KernelContext) -> None:
    return None


def test_without_an_objection_the_run_proceeds() -> None:
    assert decide(state(), context()) == Proceed()
    assert decide(state(), context(silent)) == Proceed()


def test_the_first_verdict_wins() -> None:
    proposed = state(proposal=Proposal("3"), iteration=1)
    assert decide(proposed, context(silent, objects, final_answer)) == Redirect("objects", "Not like that.")
    assert isinstance(decide(proposed, context(final_answer, objects)), Stop)


@pytest.mark.parametrize(
    ("finish_reason", "outcome", "missing"),
    [
        ("stop", "completed", ""),
        ("tool_calls", "completed", ""),
        ("other", "completed", ""),
        ("length", "partial", "Missing: the rest"),
        ("content_filter", "partial", "Missing: the rest"),
    ],
)
def test_an_answer_stands_unless_it_was_cut_off(finish_reason: Any, outcome: str, missing: str) -> None:
    verdict = final_answer(state(proposal=Proposal("3", finish_reason)), context())
    assert isinstance(verdict, Stop)
    assert (verdict.policy, verdict.outcome, verdict.output) == ("final_answer", outcome, "3")
    assert missing in verdict.reason


@pytest.mark.parametrize("proposal", [None, Proposal(""), Proposal(" \n")])
def test_no_answer_is_no_final_answer(proposal: Proposal | None) -> None:
    assert final_answer(state(proposal=proposal), context()) is None


def test_an_empty_reply_is_asked_about() -> None:
    assert isinstance(empty_reply(state(proposal=Proposal(" ")), context()), Redirect)
    assert empty_reply(state(proposal=Proposal("3")), context()) is None
    assert empty_reply(state(), context()) is None


def test_an_empty_reply_to_the_last_turn_ends_the_run() -> None:
    spoken = AssistantMessage("I am looking.")
    verdict = decide(state(proposal=Proposal(""), iteration=3, messages=(spoken,)), context())
    assert isinstance(verdict, Stop)
    assert (verdict.policy, verdict.outcome, verdict.output) == (
        "iteration_limit",
        "partial",
        "I am looking.",
    )


@pytest.mark.parametrize(("limit", "words"), [(1, "limit of 1 turn was"), (3, "limit of 3 turns was")])
def test_the_limit_ends_the_run_as_partial_and_says_what_is_missing(limit: int, words: str) -> None:
    verdict = iteration_limit(state(iteration=limit), context(max_iterations=limit))
    assert isinstance(verdict, Stop)
    assert (verdict.policy, verdict.outcome, verdict.output) == ("iteration_limit", "partial", None)
    assert words in verdict.reason
    assert "Missing: a final answer" in verdict.reason


def test_calls_of_the_last_turn_are_still_run() -> None:
    assert iteration_limit(state(status="acting", iteration=3), context()) is None
    assert iteration_limit(state(iteration=2), context()) is None


def test_a_kernel_that_takes_steps_without_a_turn_is_stopped() -> None:
    acting = state(status="acting")
    assert decide(acting, context(), 3 * STEPS_PER_ITERATION - 1) == Proceed()
    verdict = decide(acting, context(), 3 * STEPS_PER_ITERATION)
    assert isinstance(verdict, Stop)
    assert "12 steps" in verdict.reason


def test_no_guidance_is_given_to_a_kernel_that_is_out_of_steps() -> None:
    objecting = evolve(context(), policies=(lambda _state, _context: Redirect("objects", "Not like that."),))
    assert isinstance(decide(state(), objecting), Redirect)
    assert isinstance(decide(state(), objecting, 3 * STEPS_PER_ITERATION), Stop)


def test_without_a_tool_service_a_call_is_followed_by_guidance_once_and_the_next_ends_the_run() -> None:
    none = context(tools=False, max_iterations=9)
    assert no_tool_service(state(), none) is None
    first = no_tool_service(after_calls(1), none)
    assert isinstance(first, Redirect)
    assert "No tools" in first.guidance
    guided = evolve(after_calls(1), guidance=(Guidance("no_tool_service", first.guidance),))
    assert decide(guided, none) == Proceed()
    second = no_tool_service(after_calls(2), none)
    assert isinstance(second, Stop)
    assert (second.outcome, second.policy) == ("partial", "no_tool_service")
    assert "no tool service" in second.reason


def test_with_a_tool_service_that_policy_has_nothing_to_say() -> None:
    assert no_tool_service(after_calls(2), context()) is None


def test_a_policy_redirects_a_turn_once_so_that_none_can_hold_up_the_run() -> None:
    guided = state(guidance=(Guidance("objects", "Not like that."),))
    assert decide(guided, context(objects)) == Proceed()


def test_guidance_that_no_turn_is_left_for_is_not_given() -> None:
    last = state(status="acting", iteration=3)
    assert decide(last, context(objects)) == Proceed()
    verdict = decide(state(iteration=3), context(objects, iteration_limit))
    assert isinstance(verdict, Stop)


@pytest.mark.parametrize("guidance", [(), (Guidance("objects", "Not like that."),)])
def test_an_answer_that_is_turned_down_is_never_completed(guidance: tuple[Guidance, ...]) -> None:
    proposed = state(proposal=Proposal("3"), iteration=2, guidance=guidance)
    assert isinstance(decide(proposed, context(objects, final_answer)), Redirect)
    verdict = decide(evolve(proposed, iteration=3), context(objects, final_answer))
    assert isinstance(verdict, Stop)
    assert (verdict.policy, verdict.outcome, verdict.output) == ("iteration_limit", "partial", "3")
    assert "Missing: an answer that objects accepts: Not like that." in verdict.reason


def test_backstops_follow_policies_that_lack_them() -> None:
    assert with_backstops((objects,)) == (objects, final_answer, iteration_limit)
    assert with_backstops((iteration_limit, objects)) == (iteration_limit, objects, final_answer)
    assert with_backstops(STANDARD_POLICIES) == STANDARD_POLICIES


def test_the_last_words_are_the_proposal_or_the_last_text() -> None:
    said = (AssistantMessage("first"), AssistantMessage("second"), AssistantMessage("", (CALL,)))
    assert last_words(state(messages=said)) == "second"
    assert last_words(state(messages=said, proposal=Proposal("third"))) == "third"
    assert last_words(state(messages=said, proposal=Proposal(" "))) == "second"
    assert last_words(state()) is None


def test_guidance_gives_way_to_a_stop_that_would_come_before_it_is_shown() -> None:
    end = Stop("ends", "partial", None, "Missing: all.")

    def ends(state: KernelState, _: KernelContext) -> Verdict | None:
        return end if state.status == "thinking" and state.proposal is None else None

    thinking, proposed = state(), state(proposal=Proposal("3"))
    assert decide(thinking, context(objects, ends)) == end
    assert decide(proposed, context(objects, ends)) == end
    assert decide(proposed, context(ends, objects)) == end
    assert isinstance(decide(state(status="acting"), context(objects, ends)), Redirect)


def test_an_answer_that_is_turned_down_with_a_spent_budget_ends_the_run() -> None:
    spent = state(proposal=Proposal("3"), iteration=1, usage=RunUsage("", Usage(0, 0, 10)))
    plain = context(objects, final_answer)
    budgeted = change_settings(plain, budget=BudgetConfig(tokens=10))
    verdict = decide(spent, budgeted)
    assert isinstance(verdict, Stop)
    assert (verdict.policy, verdict.outcome, verdict.output) == ("budget", "partial", "3")
    assert "Missing: an answer that objects accepts" in verdict.reason


def test_an_answer_by_the_tool_that_was_turned_down_is_among_the_last_words() -> None:
    delivered = ToolCall(CallId("c2"), "final-answer", {"answer": "3"})
    said = (AssistantMessage("I look.", (CALL,)), AssistantMessage("", (delivered,)))
    assert last_words(state(messages=said)) == "3"


def test_the_limit_names_the_required_tools_that_are_missing() -> None:
    plain = context()
    needy = evolve(plain, input=evolve(plain.input, needs=ToolNeeds((ToolRequirement("add"),))))
    for verdict in (
        iteration_limit(state(iteration=3), needy),
        decide(state(status="acting"), needy, 3 * STEPS_PER_ITERATION),
    ):
        assert isinstance(verdict, Stop)
        assert verdict.reason.endswith("Missing: required calls: add (0 of 1 calls done); a final answer.")
