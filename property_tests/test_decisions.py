"""Laws of the policies and of their order."""

from __future__ import annotations

import copy
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Success

from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall, ToolMessage
from reactive_agents.core.settings import BudgetConfig, ToolNeeds, ToolRequirement
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.kernel import (
    STANDARD_POLICIES,
    Guidance,
    KernelContext,
    KernelState,
    Proceed,
    Proposal,
    Redirect,
    Stop,
    decide,
)
from reactive_agents.kernel.context import Policy, Verdict
from reactive_agents.kernel.ledger import CallCounts, CallLedger
from reactive_agents.kernel.policies.answers import text_answer, written_call
from reactive_agents.kernel.policies.decision import (
    BACKSTOPS,
    STEPS_PER_ITERATION,
    final_answer,
    iteration_limit,
    with_backstops,
)
from reactive_agents.kernel.reducers import record_actions
from reactive_agents.kernel.termination import redirect_run, stop_run
from reactive_agents.testing.core import START
from tests.support.kernels import add, kernel_bench, new_state
from tests.support.profiles import examples
from tests.support.settings import change_settings

ABOUT_TOOLS = (text_answer, written_call)
"""Policies that are about texts where tools answer, and would object to others too."""
WITH_TOOLS = kernel_bench(tools={"add": add}).context()
WITHOUT_TOOLS = kernel_bench().context()
CALL = ToolCall(CallId("c1"), "add", {"a": 1})
REFUSAL: tuple[Message, ...] = (AssistantMessage("", (CALL,)), ToolMessage(CallId("c1"), "add", "no", True))

texts = st.sampled_from(["", " \n", "3", "I look.", "The sum is 3."])
reasons = st.sampled_from(["stop", "tool_calls", "length", "content_filter", "other"])
PROPOSALS = {
    "thinking": st.none() | st.builds(Proposal, texts, reasons, st.none()),
    "acting": st.none(),
    "observing": st.none() | st.builds(Proposal, texts, reasons, st.just(CallId("c1"))),
}


@st.composite
def states(draw: st.DrawFn) -> KernelState:
    """A run under way, somewhere."""
    called = draw(st.integers(0, 3))
    said = tuple(AssistantMessage(text) for text in draw(st.lists(texts, max_size=2)))
    acted = evolve(new_state(), pending=(CALL,) * called)
    status = draw(st.sampled_from(list(PROPOSALS)))
    return evolve(
        new_state(),
        status=status,
        iteration=draw(st.integers(0, 6)),
        messages=said + REFUSAL * called,
        steps=record_actions(acted, START),
        proposal=draw(PROPOSALS[status]),
        guidance=draw(st.lists(st.builds(Guidance, st.sampled_from("ab"), texts), max_size=2).map(tuple)),
    )


@st.composite
def contexts(draw: st.DrawFn) -> KernelContext:
    """The standard policies, with and without tools, under some limit."""
    context = draw(st.sampled_from([WITH_TOOLS, WITHOUT_TOOLS]))
    return evolve(context, max_iterations=draw(st.integers(1, 6)))


def always(verdict: Verdict | None) -> Policy:
    return lambda _state, _context: verdict


verdicts = st.one_of(
    st.none(),
    st.builds(Redirect, st.sampled_from("ab"), st.just("Not like that.")),
    st.builds(
        Stop,
        st.sampled_from("cd"),
        st.sampled_from(["completed", "partial", "failed"]),
        texts,
        st.just("So."),
    ),
)


@given(states(), contexts(), st.integers(0, 30))
def test_a_verdict_can_always_be_followed(
    state: KernelState, context: KernelContext, kernel_steps: int
) -> None:
    match decide(state, context, kernel_steps):
        case Stop() as stop:
            ended = stop_run(state, stop).unwrap()
            assert ended.terminated_by == stop.policy
            assert ended.status in ("done", "failed")
        case Redirect() as redirect:
            following = redirect_run(state, redirect).unwrap()
            assert following.proposal is None
            assert following.guidance[-1] == Guidance(redirect.policy, redirect.guidance)
            assert state.iteration < context.max_iterations
        case Proceed():
            assert state.iteration < context.max_iterations or state.status != "thinking"
            assert kernel_steps < context.max_iterations * STEPS_PER_ITERATION


ledgers = st.builds(
    CallLedger,
    calls=st.builds(
        CallCounts,
        succeeded=st.sampled_from([{}, {"add": 1}]),
        failed_in_a_row=st.sampled_from([{}, {"add": 3}]),
    ),
    gathered=st.sampled_from([0, 50]),
    novelty=st.sampled_from([None, 0.0, 1.0]),
    idle_turns=st.integers(0, 4),
    repeated=st.booleans(),
    told=st.sampled_from([{}, {"out_of_reach": 3}]),
)
demands = st.tuples(
    st.sampled_from([(), (ToolRequirement("add", 2),), (ToolRequirement("missing"),)]).map(ToolNeeds),
    st.sampled_from([BudgetConfig(), BudgetConfig(tokens=1), BudgetConfig(cost_usd=0.5)]),
)


@given(states(), contexts(), ledgers, demands)
def test_policies_that_are_not_asked_have_nothing_to_say(
    state: KernelState, context: KernelContext, ledger: CallLedger, demanded: tuple[ToolNeeds, BudgetConfig]
) -> None:
    """So that it makes no difference that they are not asked."""
    needs, budget = demanded
    state = evolve(state, ledger=ledger, usage=RunUsage("", Usage(0, 0, 5), 1.0))
    context = change_settings(evolve(context, input=evolve(context.input, needs=needs)), budget=budget)
    asked = set(context.within_turns)
    assert asked < set(context.policies)
    assert asked <= set(context.before_turns) < set(context.asked) <= set(context.policies)
    for policy in context.policies:
        if policy not in context.asked and policy not in ABOUT_TOOLS:
            assert policy(state, context) is None
        if state.status != "thinking" and state.proposal is None:
            assert policy in asked or policy(state, context) is None
        if state.status == "thinking" and state.proposal is None:
            assert policy in context.before_turns or policy(state, context) is None


@given(states(), contexts())
def test_deciding_is_pure(state: KernelState, context: KernelContext) -> None:
    before = copy.deepcopy(state)
    assert decide(state, context) == decide(state, context)
    assert state == before


@given(states(), contexts(), st.lists(verdicts, max_size=4))
def test_the_first_verdict_wins(
    state: KernelState, context: KernelContext, given_verdicts: list[Any]
) -> None:
    early = evolve(state, iteration=0, guidance=())
    context = evolve(context, policies=tuple(map(always, given_verdicts)))
    first = next((verdict for verdict in given_verdicts if verdict is not None), Proceed())
    verdict = decide(early, context)
    if isinstance(first, Redirect) and isinstance(verdict, Stop):  # guidance that would never be shown
        assert verdict == next(each for each in given_verdicts if isinstance(each, Stop))
    else:
        assert verdict == first


@given(states(), contexts(), st.lists(verdicts, max_size=4), st.lists(verdicts, max_size=2))
def test_policies_behind_a_stop_change_nothing(
    state: KernelState, context: KernelContext, before: list[Any], behind: list[Any]
) -> None:
    short = evolve(context, policies=(*map(always, before), final_answer, iteration_limit))
    longer = evolve(context, policies=(*short.policies, *map(always, behind)))
    verdict = decide(state, short)
    if isinstance(verdict, Stop):
        assert decide(state, longer) == verdict


@given(states(), contexts(), st.integers(1, 4))
def test_a_higher_limit_never_ends_a_run_earlier(
    state: KernelState, context: KernelContext, more: int
) -> None:
    roomier = evolve(context, max_iterations=context.max_iterations + more)
    if isinstance(decide(state, roomier), Stop):
        is_last = state.iteration >= context.max_iterations  # it ends after the results
        assert is_last or isinstance(decide(state, context), Stop)


@given(states(), contexts(), st.sampled_from("xy"))
def test_an_objection_never_ends_a_run_earlier_and_never_completes_it(
    state: KernelState, context: KernelContext, name: str
) -> None:
    strict = evolve(context, policies=(always(Redirect(name, "Use the tool.")), *context.policies))
    plain, objected = decide(state, context), decide(state, strict)
    if not isinstance(plain, Stop):
        assert not isinstance(objected, Stop)
    if isinstance(objected, Stop):
        assert objected.outcome != "completed"


@given(states(), contexts(), st.lists(verdicts, max_size=4))
def test_a_policy_can_hold_up_a_run_only_so_often(
    state: KernelState, context: KernelContext, given_verdicts: list[Any]
) -> None:
    context = evolve(context, policies=with_backstops(tuple(map(always, given_verdicts))))
    redirects = 0
    while isinstance(verdict := decide(state, context), Redirect):
        match redirect_run(state, verdict):
            case Success(following):
                state = following
                redirects += 1
            case failed:
                raise AssertionError(failed)
    assert redirects <= 1 + len(given_verdicts)


@given(states(), contexts())
def test_what_is_less_than_an_answer_says_what_is_missing(state: KernelState, context: KernelContext) -> None:
    verdict = decide(state, context)
    if isinstance(verdict, Stop) and verdict.outcome != "completed":
        assert "Missing" in verdict.reason


@given(states(), contexts())
def test_an_output_is_always_something_that_the_model_said(
    state: KernelState, context: KernelContext
) -> None:
    said = {message.content for message in state.messages if isinstance(message, AssistantMessage)}
    said |= {state.proposal.text} if state.proposal else set()
    verdict = decide(state, context)
    if isinstance(verdict, Stop):
        assert verdict.output is None or (verdict.output in said and verdict.output.strip())


@given(st.lists(st.sampled_from([*STANDARD_POLICIES, always(None)]), unique=True))
def test_backstops_come_last_keep_the_order_and_are_there_once(policies: list[Policy]) -> None:
    complete = with_backstops(tuple(policies))
    assert complete[: len(policies)] == tuple(policies)
    assert all(complete.count(backstop) == 1 for backstop in BACKSTOPS)
    assert with_backstops(complete) == complete
    assert set(complete[len(policies) :]) <= set(BACKSTOPS)


@examples(10)
@given(states())
def test_at_the_limit_a_run_that_thinks_is_stopped(state: KernelState) -> None:
    for context in (WITH_TOOLS, WITHOUT_TOOLS):
        at_limit = evolve(state, status="thinking", iteration=context.max_iterations)
        assert isinstance(decide(at_limit, context), Stop)
