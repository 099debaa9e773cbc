"""Laws of required tools, budgets and circles, in any run and in any state that a run can reach."""

from __future__ import annotations

import copy
from collections import Counter
from itertools import pairwise
from typing import Any

import anyio
import pytest
from attrs import evolve, frozen
from hypothesis import event, given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from reactive_agents.agent.output_types import output_shape
from reactive_agents.core.errors import ToolFailed
from reactive_agents.core.events import GuidanceGiven, ModelCallCompleted
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.model_settings import ModelSettings
from reactive_agents.core.models import Usage
from reactive_agents.core.settings import BudgetConfig, CallLimit, ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel import (
    STANDARD_POLICIES,
    TERMINAL,
    KernelContext,
    KernelState,
    Redirect,
    Stop,
    decide,
    react_kernel,
)
from reactive_agents.kernel.open_requirements import GIVE_UP_AFTER, call_limits, requirements_of
from reactive_agents.kernel.policies.requirements import PATIENCE
from reactive_agents.kernel.tool_execution import screen_calls
from reactive_agents.reasoning.structured_output.output_type import answer_form
from reactive_agents.testing import FakeTools, Turn, answer, call, calls, malformed_call, say
from tests.support.kernels import (
    KernelBench,
    assert_balanced,
    kernel_bench,
)
from tests.support.profiles import examples
from tests.support.settings import change_settings

POLICY_NAMES = {policy.__name__ for policy in STANDARD_POLICIES}
SCHEMA: dict[str, Any] = {"type": "object"}
WORDS = " ".join(f"word{number}" for number in range(40))


def tools() -> FakeTools:
    """Tools that look, fail now and then, fail for good, change something, and deliver."""
    made = Counter[str]()

    def flaky(**_: Any) -> str | ToolFailed:
        made["flaky"] += 1
        return "it works" if made["flaky"] % 2 == 0 else ToolFailed("flaky", "not now")

    def look(at: str = "") -> str:
        return f"{WORDS} {at}"

    answers: dict[str, Any] = {
        "look": look,
        "flaky": flaky,
        "broken": ToolFailed("broken", "out of order"),
        "change": "changed",
        "report": "delivered",
        "page": "the page",
    }
    definitions = (
        ToolDefinition("flaky", "Works every other time.", SCHEMA),
        ToolDefinition("change", "Changes something.", SCHEMA, risk="medium"),
        ToolDefinition("report", "Delivers the report.", SCHEMA, output=True),
        ToolDefinition("page", "Returns the page.", SCHEMA, return_direct=True),
    )
    return FakeTools(answers, definitions=definitions)


# --- runs -----------------------------------------------------------------------------------------------

names = st.sampled_from(["look", "flaky", "broken", "change", "report", "no-such-tool"])
usages = st.sampled_from([Usage(5, 5, 10), Usage(50, 50, 100), Usage(reported=False)])
single_calls = st.builds(
    lambda name, at: call(name, {} if at is None else {"at": at}),
    names,
    st.sampled_from([None, "a", "b", "c"]),
) | st.builds(lambda: malformed_call("look", "{"))
answers = st.sampled_from(["It is so.", "It is otherwise.", 'report({"at": "a"})', "", "broken()"])
finals = answers.map(lambda text: call("final-answer", answer=text))
turns = st.one_of(
    st.builds(
        lambda text, usage, cost: say(text, usage=usage, cost_usd=cost),
        answers,
        usages,
        st.sampled_from([None, 0.0, 0.5]),
    ),
    st.builds(lambda each, usage: evolve(each, usage=usage), single_calls | finals, usages),
    single_calls,
    st.builds(lambda several: calls(*several), st.lists(single_calls | finals, min_size=1, max_size=4)),
)
scripts = st.lists(turns, min_size=12, max_size=12)
requirements = st.lists(
    st.builds(ToolRequirement, names, st.integers(1, 3)), max_size=3, unique_by=lambda it: it.name
)
limits = st.lists(st.builds(CallLimit, names, st.integers(1, 4)), max_size=3, unique_by=lambda it: it.name)
budgets = st.builds(
    lambda tokens, cost, each: BudgetConfig(tokens, cost, tuple(each)),
    st.none() | st.integers(1, 400),
    st.none() | st.sampled_from([0.25, 1.0, 9.0]),
    limits,
)
ways = st.fixed_dictionaries(
    {
        "max_iterations": st.integers(1, 12),
        "parallel_tool_calls": st.booleans(),
        "needs": st.builds(lambda each: ToolNeeds(tuple(each), frozenset({"look"})), requirements),
        "budget": budgets,
    }
)
answering = st.booleans()


def play(
    script: list[Turn], how: dict[str, Any], answers_by_tool: bool = True
) -> tuple[KernelBench, KernelState]:
    bench = kernel_bench(*script, tools=tools())

    async def run() -> KernelState:
        return await bench.run(react_kernel, options={"answers_by_tool": answers_by_tool}, **how)

    return bench, anyio.run(run)


def context_of(bench: KernelBench, how: dict[str, Any]) -> KernelContext:
    return bench.context(**how)


@examples(25)
@given(scripts, ways, answering)
def test_every_run_ends_in_order_and_keeps_to_its_needs_and_budgets(
    script: list[Turn], how: dict[str, Any], answers_by_tool: bool
) -> None:
    bench, state = play(script, how, answers_by_tool)
    event(f"{state.outcome} by {state.terminated_by}")
    context = context_of(bench, how)

    assert state.status in TERMINAL
    assert state.iteration <= how["max_iterations"]
    assert state.terminated_by in POLICY_NAMES
    assert_balanced(bench, state)
    assert_all_guidance_is_shown(bench)
    assert_limits_hold(bench, how)
    missing = requirements_of(state, context)
    if state.outcome == "completed":
        assert not missing.open
        assert not missing.lost
    elif state.outcome == "abstained":
        assert state.terminated_by == "abstention"
        assert missing.open or missing.lost
    else:
        assert state.outcome == "partial"
        assert "Missing: " in state.reason
        for requirement, _ in (*missing.open, *missing.lost):
            assert f"{requirement.name} (" in state.reason
    spent = how["budget"].tokens
    if spent is not None and state.iteration > 1:
        completed = [told.usage.total_tokens for told in bench.recorder.of(ModelCallCompleted)]
        assert sum(completed[:-1]) < spent, "the model was asked although the budget was spent"


def assert_all_guidance_is_shown(bench: KernelBench) -> None:
    """Each piece of guidance is in the request that follows it, and there is such a request."""
    asked = 0
    for told in bench.recorder.events:
        if isinstance(told, ModelCallCompleted):
            asked += 1
        elif isinstance(told, GuidanceGiven):
            assert told.policy in {*POLICY_NAMES, "last_turn"}
            assert asked < len(bench.llm.requests), f"{told.policy} said something that was never shown"
            assert f"- {told.text}" in bench.shown(asked)


def assert_limits_hold(bench: KernelBench, how: dict[str, Any]) -> None:
    assert bench.tools is not None
    ran = Counter(each.name for each in bench.tools.calls)
    for limit in how["budget"].calls:
        if limit.name != "report":
            assert ran[limit.name] <= limit.max_calls
    if how["parallel_tool_calls"]:
        explicit = {limit.name for limit in how["budget"].calls} | {"report"}
        for requirement in how["needs"].required:
            if requirement.name not in explicit:
                assert ran[requirement.name] <= requirement.min_calls + 2
    else:
        turns_of_calls = Counter(scope.call_key.rpartition(".")[0] for scope in bench.tools.scopes)
        assert all(count == 1 for count in turns_of_calls.values())


@examples(15)
@given(scripts, ways)
def test_a_requirement_that_is_out_of_reach_ends_the_run_soon(
    script: list[Turn], how: dict[str, Any]
) -> None:
    needs = ToolNeeds((ToolRequirement("no-such-tool"),))
    _, state = play(script, {**how, "needs": needs})
    assert state.outcome == "partial"
    assert state.iteration <= PATIENCE
    assert "no-such-tool (there is no such tool here)" in state.reason


@examples(15)
@given(scripts, ways, ways.map(lambda how: how["needs"]))
def test_a_run_without_needs_and_budgets_is_the_same_with_those_that_are_met(
    script: list[Turn], how: dict[str, Any], needs: ToolNeeds
) -> None:
    free = {**how, "needs": ToolNeeds(), "budget": BudgetConfig()}
    _, plain = play(script, free)
    roomy = BudgetConfig(
        10**9, 10.0**9, tuple(CallLimit(each, 10**6) for each in ("look", "flaky", "broken"))
    )
    _, limited = play(script, {**free, "budget": roomy})
    assert evolve(limited, run_usage=None) == plain, "only what is judged by it is noted"


# --- states ---------------------------------------------------------------------------------------------


@frozen
class Moment:
    """A state that some run was in when the policies were asked, and the context of that run."""

    state: KernelState
    context: KernelContext


def moments_of(script: list[Turn], how: dict[str, Any]) -> list[Moment]:
    """Every state that the policies of a run are asked about."""
    bench = kernel_bench(*script, tools=tools())
    seen: list[Moment] = []

    def watch(state: KernelState, context: KernelContext) -> None:
        seen.append(Moment(state, evolve(context, policies=STANDARD_POLICIES)))

    async def run() -> None:
        await bench.run(options={"policies": (watch, *STANDARD_POLICIES)}, **how)

    anyio.run(run)
    return seen


runs = st.builds(moments_of, scripts, ways)
FREE = {"max_iterations": 9, "parallel_tool_calls": True, "needs": ToolNeeds(), "budget": BudgetConfig()}
LOOKED = [call("look", at="a"), *[call("final-answer", answer="It is so.")] * 8]
one_look = st.builds(moments_of, st.just(LOOKED), st.just(FREE))
"""A run that completes after a look, which few of the others do."""


@st.composite
def moments(draw: st.DrawFn) -> Moment:
    return draw(st.sampled_from(draw(runs)))


made_calls = st.lists(
    st.builds(
        lambda name, at: ToolCall(CallId("c"), name, {"at": at}),
        names | st.just("final-answer"),
        st.sampled_from("abz"),
    ),
    max_size=5,
).map(tuple)


@examples(15)
@given(runs)
def test_deciding_is_total_and_pure(run: list[Moment]) -> None:
    for moment in run:
        before = copy.deepcopy(moment.state)
        verdict = decide(moment.state, moment.context)
        assert verdict == decide(before, moment.context)
        assert moment.state == before
        if isinstance(verdict, Redirect | Stop):
            assert verdict.policy in POLICY_NAMES


@examples(15)
@given(runs)
def test_what_is_met_stays_met_and_attempts_and_successes_only_grow(run: list[Moment]) -> None:
    for earlier, later in pairwise(run):
        unmet = {each.name for each, _ in requirements_of(earlier.state, earlier.context).open}
        unmet |= {each.name for each, _ in requirements_of(earlier.state, earlier.context).lost}
        now = requirements_of(later.state, later.context)
        assert {each.name for each, _ in (*now.open, *now.lost)} <= unmet
        for name, count in earlier.state.ledger.calls.attempts.items():
            assert later.state.ledger.calls.attempts[name] >= count
        for name, count in earlier.state.ledger.calls.succeeded.items():
            assert later.state.ledger.calls.succeeded[name] >= count


def without_needs(context: KernelContext) -> KernelContext:
    """Return the context of a run that requires no calls, before which others would have to wait."""
    return evolve(context, input=evolve(context.input, needs=ToolNeeds()))


@examples(30)
@given(moments() | one_look.map(lambda run: run[-1]), made_calls, limits, st.integers(0, 5))
def test_a_larger_budget_refuses_nothing_that_a_smaller_one_lets_through(
    moment: Moment, asked: tuple[ToolCall, ...], tight: list[CallLimit], more: int
) -> None:
    context = without_needs(moment.context)
    small = evolve(context, call_limits={limit.name: limit.max_calls for limit in tight})
    large = evolve(context, call_limits={limit.name: limit.max_calls + more for limit in tight})
    if not moment.context.input.settings.parallel_tool_calls:
        asked = asked[:1]  # of several, which is the one that runs may differ
    for narrow, wide in zip(
        screen_calls(moment.state, small, asked), screen_calls(moment.state, large, asked), strict=True
    ):
        if narrow is None:
            assert wide is None
        elif narrow.origin == "stored":
            assert wide == narrow


@examples(15)
@given(moments(), made_calls)
def test_tools_that_deliver_are_never_over_budget(moment: Moment, asked: tuple[ToolCall, ...]) -> None:
    strict = dict.fromkeys(("look", "flaky", "broken", "change", "report", "final-answer"), 1)
    parallel = change_settings(evolve(moment.context, call_limits=strict), parallel_tool_calls=True)
    for made, screened in zip(asked, screen_calls(moment.state, parallel, asked), strict=True):
        if made.name in ("report", "final-answer"):
            assert screened is None or "budget" not in screened.error


@examples(15)
@given(moments(), made_calls)
def test_one_call_a_turn_is_run_in_sequential_mode(moment: Moment, asked: tuple[ToolCall, ...]) -> None:
    one = change_settings(moment.context, parallel_tool_calls=False)
    screened = screen_calls(moment.state, one, asked)
    let_through = [each.name for each, answer in zip(asked, screened, strict=True) if answer is None]
    assert len([name for name in let_through if name != "final-answer"]) <= 1


@examples(15)
@given(
    runs | one_look,
    st.builds(ToolRequirement, names, st.integers(1, 3)) | st.just(ToolRequirement("look")),
)
def test_one_more_required_tool_never_completes_what_was_not_completed(
    run: list[Moment], requirement: ToolRequirement
) -> None:
    for moment in run:
        needs = moment.context.input.needs
        stricter = evolve(needs, required=(*needs.required, requirement))
        strict = evolve(moment.context, input=evolve(moment.context.input, needs=stricter))
        verdict = decide(moment.state, strict)
        if isinstance(verdict, Stop) and verdict.outcome == "completed":
            assert decide(moment.state, moment.context) == verdict


@given(requirements, limits, st.booleans())
def test_explicit_limits_win_and_only_the_parallel_mode_derives_any(
    required: list[ToolRequirement], explicit: list[CallLimit], parallel: bool
) -> None:
    derived = call_limits(ToolNeeds(tuple(required)), BudgetConfig(calls=tuple(explicit)), parallel=parallel)
    expected = {each.name: each.min_calls + 2 for each in required} if parallel else {}
    assert derived == {**expected, **{each.name: each.max_calls for each in explicit}}


@examples(15)
@given(st.integers(1, 3), st.booleans(), st.booleans())
def test_a_tool_that_fails_for_good_ends_the_run_before_its_limit(
    min_calls: int, parallel: bool, same: bool
) -> None:
    script = [call("broken", at="a" if same else f"{number}") for number in range(20)]
    how = {
        "max_iterations": 20,
        "parallel_tool_calls": parallel,
        "needs": ToolNeeds((ToolRequirement("broken", min_calls),)),
    }
    _, state = play(script, how)
    assert (state.outcome, state.terminated_by) == ("partial", "required_tools")
    assert state.iteration <= GIVE_UP_AFTER + PATIENCE
    assert "the required tool broken" in state.reason


# --- every verdict --------------------------------------------------------------------------------------

NEEDS_LOOK = {"needs": ToolNeeds((ToolRequirement("look"),))}
NEEDS_TWO = {"needs": ToolNeeds((ToolRequirement("look", 2), ToolRequirement("report")))}
LOOKS = [call("look", at=place) for place in "abcdefgh"]
GIVES_UP = call("final-answer", could_not="There is no such thing.")


class Number(TypedDict):
    n: int


NUMBER = answer_form(output_shape(Number).unwrap())
GUIDES: dict[str, tuple[list[Turn], dict[str, Any]]] = {
    "no_tool_service": ([call("look"), say("So.")], {}),
    "loop_detection": ([call("look", at="a")] * 2 + [say("So.")], {}),
    "required_tools": ([say("So."), call("look"), say("So it is.")], NEEDS_LOOK),
    "empty_reply": ([say(""), say("So.")], {}),
    "out_of_reach": ([say("So.")], {"needs": ToolNeeds((ToolRequirement("no-such-tool"),))}),
    "diminishing_returns": ([*LOOKS[:2], say("So.")], {}),
    "synthesis": ([*LOOKS[:2], call("report"), say("So.")], NEEDS_TWO),
    "progress": ([*LOOKS[:2], call("report"), say("So.")], NEEDS_TWO),
    "output_type": ([answer({"n": "?"}), answer({"n": 1})], {"answer_form": NUMBER}),
    "cut_off": ([say("So", finish_reason="length"), answer("So.")], {}),
    "written_call": ([say("<tool_call>"), answer("So.")], {}),
    "failed_call": ([call("broken"), answer("So."), answer("So.")], {}),
    "text_answer": ([say("I think so."), answer("So.")], {}),
    "left_out": (
        [call("look", at="a"), answer("So."), answer("So.")],
        {"task": "Look at the places a, b and c."},
    ),
    "not_done": ([answer("It is changed."), answer("So.")], {"task": "Change it."}),
    "refusal": ([answer("I cannot do that."), answer("So.")], {}),
    "abstention": ([GIVES_UP, call("look"), answer("So.")], NEEDS_LOOK),
    "unsupported": ([call("change"), answer("It is 4711."), answer("So.")], {}),
}
STOPS: dict[str, tuple[list[Turn], dict[str, Any]]] = {
    "no_tool_service": ([call("look")] * 3, {}),
    "return_direct": ([call("look", at="a"), call("page")], {}),
    "budget": (LOOKS, {"budget": BudgetConfig(tokens=20)}),
    "loop_detection": ([call("look", at="a")] * 9, {}),
    "tool_choice": (
        [answer("So.")] * 3,
        {"model_settings": ModelSettings(tool_choice="look")},
    ),
    "required_tools": (
        [call("broken", at=place) for place in "abcdefgh"],
        {"needs": ToolNeeds((ToolRequirement("broken"),))},
    ),
    "final_answer": ([answer("So.")], {}),
    "cut_off": ([say("", finish_reason="content_filter")], {}),
    "written_call": ([say(f"<tool_call>{n}") for n in "abcdefgh"], {}),
    "text_answer": ([call("broken"), *(say(f"Then {n}:") for n in "abcdefgh")], {}),
    "not_done": ([answer("It is changed.")] * 2, {"task": "Change it."}),
    "output_type": ([answer({"n": "?"})] * 3, {"answer_form": NUMBER}),
    "abstention": ([GIVES_UP], {}),
    "iteration_limit": (LOOKS, {"max_iterations": 3}),
}


def example(name: str, script: list[Turn], how: dict[str, Any]) -> tuple[KernelBench, KernelState]:
    bench = kernel_bench(*script, tools=None if name == "no_tool_service" else tools())

    async def run() -> KernelState:
        return await bench.run(**{"max_iterations": 9, **how})

    return bench, anyio.run(run)


@pytest.mark.parametrize("name", GUIDES)
def test_each_guidance_can_come_about_and_is_shown_under_its_name(name: str) -> None:
    bench, _ = example(name, *GUIDES[name])
    assert name in {told.policy for told in bench.recorder.of(GuidanceGiven)}
    assert_all_guidance_is_shown(bench)


@pytest.mark.parametrize("name", STOPS)
def test_each_stop_can_come_about_and_is_named(name: str) -> None:
    _, state = example(name, *STOPS[name])
    assert state.terminated_by == name
    assert state.reason


def test_there_is_an_example_of_every_policy() -> None:
    assert GUIDES.keys() | STOPS.keys() == POLICY_NAMES
