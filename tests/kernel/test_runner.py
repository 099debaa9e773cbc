"""The loop: nine duties, from resolving services to the final state, and every way that a run can end."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import anyio
import pytest
from attrs import evolve
from returns.maybe import Nothing, Some
from returns.result import Failure, Result, Success

from reactive_agents.core.config import CONTEXT_PROFILES, ContextProfile, ContextProfileOverrides
from reactive_agents.core.errors import (
    IllegalTransition,
    KernelErrors,
    KernelFailed,
    ModelCallFailed,
    ModelTimeout,
    PolicyFailed,
)
from reactive_agents.core.events import (
    FinalAnswerProduced,
    GuidanceGiven,
    ModelCallAbandoned,
    ToolCallCompleted,
)
from reactive_agents.core.messages import ToolMessage, UserMessage
from reactive_agents.core.settings import ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.core.values import replaced
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel import (
    REACT_INSTRUCTIONS,
    STANDARD_POLICIES,
    KernelContext,
    KernelState,
    KernelStep,
    Redirect,
    Stop,
    ThoughtKernel,
    Verdict,
    direct_kernel,
    execute_react_kernel,
    noop_hooks,
    one_shot_kernel,
    react_kernel,
    run_kernel,
    transition_state,
)
from reactive_agents.kernel.context import KernelRunOptions, Policy
from reactive_agents.kernel.tool_execution import NO_TOOL_SERVICE
from reactive_agents.testing import FakeTools, ScriptedLLM, call, calls, fail, forever, say
from tests.support.kernels import (
    add,
    assert_balanced,
    assert_valid_transcript,
    call_ids,
    kernel_bench,
    kernel_input,
    new_state,
    steps_of,
)
from tests.support.virtual_time import Backend, virtual_time

pytestmark = pytest.mark.anyio


class Judge:
    """A policy that is an object, and no good one."""

    def __call__(self, *_: object) -> Any:
        return 1


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


# --- assembly -------------------------------------------------------------------------------------------


async def test_the_context_is_made_once_and_passed_unchanged_to_every_step() -> None:
    seen: list[KernelContext] = []

    def watching(state: KernelState, context: KernelContext) -> Any:
        seen.append(context)
        return react_kernel(state, context)

    bench = kernel_bench(call("add", a=1, b=2), say("3"), tools={"add": add})
    await bench.run(watching)
    assert len(seen) == 4
    assert all(context is seen[0] for context in seen)
    with pytest.raises(AttributeError):
        seen[0].max_iterations = 99  # type: ignore[misc]


async def test_the_kernel_begins_with_the_initial_state() -> None:
    first: list[KernelState] = []

    @effect
    async def finish(state: KernelState, _: KernelContext) -> Result[KernelState, KernelErrors]:
        first.append(state)
        return transition_state(state, status="done", output="ok")

    state = await kernel_bench().run(finish, options={"meta": {"own": 1}})
    assert first == [evolve(new_state(own=1), id="id-0001")]
    assert (state.kernel_type, state.strategy) == ("react", "reactive")


def test_the_profile_is_the_models_with_the_overrides_merged_over_it() -> None:
    bench = kernel_bench()
    assert bench.context().profile == CONTEXT_PROFILES["mid"]
    assert bench.context(model="ollama/qwen3").profile == CONTEXT_PROFILES["local"]
    overrides = ContextProfileOverrides(tool_result_chars=300)
    assert bench.context(context_profile=overrides).profile == ContextProfile("mid", 300)
    chosen = ContextProfileOverrides(tier="frontier", list_items=7)
    merged = bench.context(model="ollama/qwen3", context_profile=chosen).profile
    assert merged == evolve(CONTEXT_PROFILES["frontier"], list_items=7)


def test_the_model_of_the_service_decides_where_the_input_names_none() -> None:
    bench = kernel_bench()
    large = evolve(bench, services=evolve(bench.services, llm=ScriptedLLM(model="openai/gpt-4o")))
    assert large.context().profile == CONTEXT_PROFILES["large"]


def test_tools_are_described_in_as_many_words_as_the_model_can_take() -> None:
    wordy = ToolDefinition("look", "Look around. Then look again.", {"type": "object", "title": "Looking"})
    bench = kernel_bench(tools=FakeTools({"look": "x"}, definitions=(wordy,)))
    offered = {
        model: bench.context(model=model).toolset.offered[0] for model in ("ollama/x", "", "claude-opus-4-5")
    }
    assert offered["claude-opus-4-5"] is wordy
    assert offered[""] == evolve(wordy, parameters={"type": "object"})
    assert offered["ollama/x"] == evolve(offered[""], description="Look around.")


async def test_the_profile_bounds_what_is_shown_of_a_result() -> None:
    bench = kernel_bench(call("read"), say("ok"), tools={"read": "x" * 5_000})
    profile = ContextProfileOverrides(tool_result_chars=300)
    state = await bench.run(context_profile=profile)
    assert len(bench.shown()) <= 300
    assert state.scratchpad == {"read-1": "x" * 5_000}


def test_services_that_are_absent_are_resolved_to_nothing() -> None:
    bench = kernel_bench()
    silent = evolve(bench, services=evolve(bench.services, events=Nothing))
    context = silent.context()
    assert context.tools is Nothing
    assert context.toolset.offered == ()
    assert context.hooks is noop_hooks
    assert context.policies == STANDARD_POLICIES


async def test_a_run_without_a_bus_is_the_same_run() -> None:
    turns = (call("add", a=1, b=2), say("3"))
    loud, quiet = kernel_bench(*turns, tools={"add": add}), kernel_bench(*turns, tools={"add": add})
    silent = evolve(quiet, services=evolve(quiet.services, events=Nothing, llm=quiet.llm))
    heard, unheard = await loud.run(), await silent.run()
    assert [step.content for step in heard.steps] == [step.content for step in unheard.steps]
    assert (heard.output, heard.tokens) == (unheard.output, unheard.tokens)
    assert quiet.recorder.events == []


async def test_the_wrap_is_put_around_each_step() -> None:
    statuses: list[str] = []

    def wrap(inner: KernelStep) -> KernelStep:
        def step(state: KernelState, context: KernelContext) -> Any:
            statuses.append(state.status)
            return inner(state, context)

        return step

    bench = kernel_bench(call("add", a=1, b=2), say("3"), tools={"add": add})
    await evolve(bench, services=evolve(bench.services, wrap=wrap)).run()
    assert statuses == ["thinking", "acting", "observing", "thinking"]


# --- ends -----------------------------------------------------------------------------------------------


async def test_the_limit_ends_a_run_as_partial_with_the_last_words() -> None:
    bench = kernel_bench(forever(calls(call("add", a=1, b=2), text="Adding.")), tools={"add": add})
    state = await bench.run(max_iterations=3)
    assert (state.status, state.outcome, state.output) == ("done", "partial", "Adding.")
    assert (state.terminated_by, state.iteration, len(bench.llm.requests)) == ("iteration_limit", 3, 3)
    (answer,) = bench.recorder.of(FinalAnswerProduced)
    assert (answer.status, answer.terminated_by) == ("partial", "iteration_limit")
    assert_balanced(bench, state)


@pytest.mark.parametrize("kernel", [react_kernel, direct_kernel, one_shot_kernel])
async def test_a_model_that_fails_ends_the_run_as_failed_with_all_that_was_done(
    kernel: ThoughtKernel,
) -> None:
    late = ModelTimeout("No answer.", "m", 3.0)
    bench = kernel_bench(call("add", a=1, b=2), fail(late), tools={"add": add})
    state = await bench.run(kernel)
    if kernel is one_shot_kernel:
        assert state.iteration == 1
    else:
        assert [step.type for step in state.steps] == ["action", "observation"]
    assert (state.status, state.outcome, state.terminated_by) == ("failed", "failed", "kernel_error")
    assert state.error == ModelCallFailed("think", 1, late)
    assert state.tokens == 15
    assert bench.recorder.of(FinalAnswerProduced) == []
    assert len(bench.recorder.of(ModelCallAbandoned)) == 1
    assert_balanced(bench, state)


async def test_without_a_tool_service_the_run_degrades_and_says_so() -> None:
    bench = kernel_bench(call("web-search", query="a"), say("I could not look it up."))
    state = await bench.run()
    assert state.output == "I could not look it up."
    messages = bench.sent()
    assert any(
        isinstance(message, ToolMessage) and message.content == NO_TOOL_SERVICE for message in messages
    )
    assert "No tools can be run here" in bench.shown()
    assert_balanced(bench, state)


async def test_without_a_tool_service_a_model_that_insists_is_stopped() -> None:
    bench = kernel_bench(forever(call("web-search", query="a")))
    state = await bench.run(max_iterations=9)
    assert (state.outcome, state.terminated_by, state.iteration) == ("partial", "no_tool_service", 2)
    assert "Missing: the tool results" in state.reason
    assert_balanced(bench, state)


async def test_an_empty_reply_is_asked_about_and_the_run_goes_on() -> None:
    bench = kernel_bench(say(""), say("3"))
    state = await bench.run()
    assert state.output == "3"
    assert "Your last reply was empty" in bench.shown()
    (given,) = bench.recorder.of(GuidanceGiven)
    assert given.policy == "empty_reply"


async def test_a_model_that_only_thinks_is_told_so() -> None:
    bench = kernel_bench(forever(say("", thinking="The answer is 3.")))
    state = await bench.run(max_iterations=10)
    assert "Your last reply was empty but for your thinking, which nobody sees." in bench.shown()
    assert "empty in 5 turns, the last time but for its thinking." in state.reason


async def test_a_model_that_goes_on_saying_nothing_is_asked_four_times() -> None:
    state = await kernel_bench(forever(say(""))).run(max_iterations=10)
    assert (state.outcome, state.terminated_by, state.iteration) == ("partial", "empty_reply", 5)
    assert "empty in 5 turns" in state.reason


async def test_a_call_between_empty_replies_starts_over() -> None:
    empty = [say("")] * 4
    bench = kernel_bench(*empty, call("add", a=1, b=2), *empty, say("3"), tools={"add": add})
    state = await bench.run(max_iterations=12)
    assert (state.outcome, state.output) == ("completed", "3")


async def test_a_model_that_says_nothing_ever_ends_at_the_limit() -> None:
    state = await kernel_bench(forever(say(""))).run(max_iterations=3)
    assert (state.outcome, state.output, state.iteration) == ("partial", None, 3)


@pytest.mark.parametrize("status", ["done", "failed"])
async def test_a_kernel_may_end_the_run_itself(status: str) -> None:
    @effect
    async def own(state: KernelState, _: KernelContext) -> Result[KernelState, KernelErrors]:
        changes: Any = {"status": status, "output": "so far"}
        return transition_state(state, **changes)

    bench = kernel_bench()
    state = await bench.run(own)
    outcome = "completed" if status == "done" else "failed"
    assert (state.status, state.outcome, state.terminated_by) == (status, outcome, "kernel")
    assert len(bench.recorder.of(FinalAnswerProduced)) == (status == "done")


async def test_a_kernel_that_ends_the_run_without_the_required_tools_leaves_it_partial() -> None:
    @effect
    async def hasty(state: KernelState, _: KernelContext) -> Result[KernelState, KernelErrors]:
        return transition_state(state, status="done", output="3")

    bench = kernel_bench(tools={"add": add})
    assert (await bench.run(hasty)).outcome == "completed"
    state = await bench.run(hasty, needs=ToolNeeds((ToolRequirement("add"),)))
    assert (state.outcome, state.output, state.terminated_by) == ("partial", "3", "kernel")
    assert state.reason.endswith("Missing: required calls: add (0 of 1 calls done).")


async def test_a_kernel_that_gives_up_ends_the_run_as_failed() -> None:
    error = KernelFailed("It gave up.", "own")

    @effect
    async def own(_: KernelState, __: KernelContext) -> Result[KernelState, KernelErrors]:
        return Failure(error)

    state = await kernel_bench().run(own)
    assert (state.status, state.error, state.reason) == ("failed", error, "It gave up.")


@pytest.mark.parametrize(
    "change",
    [
        {"status": "observing"},
        {"usage": RunUsage("", Usage(0, 0, -1))},
        {"usage": RunUsage(cost_usd=float("nan"))},
    ],
)
async def test_a_kernel_that_breaks_the_rules_is_a_typed_failure(change: dict[str, Any]) -> None:
    @effect
    async def own(state: KernelState, _: KernelContext) -> Result[KernelState, KernelErrors]:
        return Success(evolve(state, **change))

    match await kernel_bench().attempt(own):
        case Failure(error):
            assert isinstance(error, IllegalTransition)
        case Success(state):
            raise AssertionError(state)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"proposal": "an answer"}, "proposal: got 'an answer', expected Proposal or None"),
        ({"meta": {"own": {1}}}, "meta['own']: got a set, expected a JSON value"),
        ({"ledger": {}}, "ledger: got an object of 0 fields, expected CallLedger"),
        ({"status": "observing"}, "status: thinking may not become observing"),
    ],
)
async def test_a_bad_state_is_blamed_on_the_kernel_by_its_name(change: dict[str, Any], problem: str) -> None:
    @effect
    async def own(state: KernelState, _: KernelContext) -> Result[KernelState, KernelErrors]:
        return Success(replaced(state, **change))

    error = (await kernel_bench().attempt(own)).failure()
    assert isinstance(error, IllegalTransition)
    assert error.message == f"The kernel react returned an illegal state: {problem}"


async def test_a_kernel_whose_effect_decorator_was_forgotten_runs_all_the_same() -> None:
    async def plain(state: KernelState, _: KernelContext) -> Result[KernelState, KernelErrors]:
        return transition_state(state, status="done", output="ok")

    assert (await kernel_bench().run(cast(ThoughtKernel, plain))).output == "ok"


async def _returns_the_state(state: KernelState, _: KernelContext) -> Any:
    return state


async def _succeeds_with_a_text(*_: object) -> Any:
    return Success("done")


async def _fails_with_a_text(*_: object) -> Any:
    return Failure("no luck")


async def _raises_later(*_: object) -> Any:
    raise ValueError("no such key")


def _raises(*_: object) -> Any:
    raise KeyError("a")


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (lambda state, _: state, "returned KernelState, expected an effect"),
        (lambda state, _: Success(state), "returned Success, expected an effect"),
        (lambda *_: None, "returned NoneType, expected an effect"),
        (_returns_the_state, "returned KernelState, expected Success(KernelState) or a Failure."),
        (_succeeds_with_a_text, "returned Success(str), expected KernelState."),
        (_fails_with_a_text, "failed with str, which is no typed error: 'no luck'"),
        (_raises_later, "raised ValueError: no such key"),
        (_raises, "raised KeyError: 'a'"),
    ],
)
async def test_a_kernel_that_breaks_its_contract_fails_the_run_and_is_named(
    broken: Any, problem: str
) -> None:
    state = await kernel_bench().run(broken)
    assert state.status == "failed"
    assert isinstance(state.error, KernelFailed)
    assert state.error.message.startswith(f"The kernel react {problem}")


async def _async_policy(*_: object) -> Verdict | None:
    return None


def _raising_policy(*_: object) -> Verdict | None:
    raise ZeroDivisionError("division by zero")


def _policy_of_words(*_: object) -> Any:
    return "stop"


@pytest.mark.parametrize(
    ("policy", "name", "problem"),
    [
        (
            _policy_of_words,
            "_policy_of_words",
            "returned str, expected a Proceed, Redirect or Stop, or None.",
        ),
        (_async_policy, "_async_policy", "returned coroutine, "),
        (_raising_policy, "_raising_policy", "raised ZeroDivisionError: division by zero"),
        (partial(_raising_policy, 1), "_raising_policy", "raised ZeroDivisionError: division by zero"),
        (Judge(), "Judge", "returned int, "),
    ],
)
@pytest.mark.filterwarnings("error")  # of a coroutine that nobody awaits
async def test_a_policy_that_breaks_its_contract_fails_the_run_and_is_named(
    policy: Any, name: str, problem: str
) -> None:
    state = await kernel_bench(say("3")).run(options={"policies": (policy,)})
    assert (state.status, state.outcome) == ("failed", "failed")
    assert isinstance(state.error, PolicyFailed)
    assert (state.error.policy, state.error.problem[: len(problem)]) == (name, problem)
    assert state.reason == f"The policy {name} {state.error.problem}"


@pytest.mark.parametrize(
    ("verdict", "problem"),
    [
        (Stop("own", "good", "3", ""), "returned a Stop whose outcome is 'good', expected "),  # type: ignore[arg-type]
        (Stop("own", "completed", 3, ""), "returned a Stop whose output is of type int, expected a text."),  # type: ignore[arg-type]
        (Redirect(" ", "No."), "returned a Redirect whose policy is ' ', expected its name."),
        (Stop("", "completed", "a", "."), "returned a Stop whose policy is '', expected its name."),
        (Redirect("own", None), "returned a Redirect whose guidance is of type NoneType, expected a text."),  # type: ignore[arg-type]
    ],
)
async def test_a_verdict_with_a_wrong_value_is_blamed_on_its_policy(verdict: Verdict, problem: str) -> None:
    def own(*_: object) -> Verdict:
        return verdict

    state = await kernel_bench(say("3")).run(options={"policies": (own,)})
    assert isinstance(state.error, PolicyFailed)
    assert state.error.message.startswith(f"The policy own {problem}")


async def test_a_policy_that_fails_after_a_redirect_is_named_too() -> None:
    def asks_again(state: KernelState, _: KernelContext) -> Verdict | None:
        return Redirect("asks_again", "Once more.") if state.proposal else None

    def fails_without_answer(state: KernelState, _: KernelContext) -> Verdict | None:
        if state.iteration and state.proposal is None:
            raise ValueError("no answer")
        return None

    state = await kernel_bench(say("3")).run(options={"policies": (asks_again, fails_without_answer)})
    assert state.error == PolicyFailed("fails_without_answer", "raised ValueError: no answer")


async def test_a_kernel_that_makes_no_progress_is_stopped() -> None:
    steps = 0

    @effect
    async def idle(state: KernelState, _: KernelContext) -> Result[KernelState, KernelErrors]:
        nonlocal steps
        steps += 1
        return Success(state)

    state = await kernel_bench().run(idle, max_iterations=2)
    assert (state.terminated_by, steps, state.outcome) == ("iteration_limit", 8, "partial")
    assert "The kernel made 8 steps without finishing." in state.reason


async def test_cancellation_passes_through_the_loop() -> None:
    bench = kernel_bench(say("late", delay=5))
    with anyio.move_on_after(0.05) as scope:
        await bench.run()
    assert scope.cancelled_caught


# --- policies -------------------------------------------------------------------------------------------


def once(verdict: Redirect | Stop, when: str) -> Policy:
    def policy(state: KernelState, _: KernelContext) -> Redirect | Stop | None:
        return verdict if state.status == when and state.iteration == 1 else None

    return policy


async def test_an_answer_that_a_policy_turns_down_is_refused_to_the_model_with_the_guidance() -> None:
    demand = once(Redirect("units", "Name the unit."), "observing")
    bench = kernel_bench(
        call("final-answer", answer="3"), call("final-answer", answer="3 m"), tools={"add": add}
    )
    state = await bench.run(options={"policies": (demand,)})
    assert (state.output, state.outcome, state.iteration) == ("3 m", "completed", 2)
    *_, refusal, guidance = bench.sent()
    assert isinstance(refusal, ToolMessage)
    assert refusal.content == "Not accepted: Name the unit."
    assert isinstance(guidance, UserMessage)
    assert "Name the unit." in guidance.content
    (refused,) = bench.recorder.of(ToolCallCompleted)
    assert (refused.tool_name, refused.success) == ("final-answer", False)
    assert call_ids(steps_of(state, "action"))[0] == refused.call_id
    assert_balanced(bench, state)


@pytest.mark.parametrize("when", ["acting", "observing"])
async def test_guidance_in_the_middle_of_a_turn_loses_neither_calls_nor_results(when: str) -> None:
    advice = once(Redirect("advice", "Mind the units."), when)
    bench = kernel_bench(call("add", a=1, b=2), say("3"), tools={"add": add})
    state = await bench.run(options={"policies": (advice,)})
    assert (state.output, state.outcome) == ("3", "completed")
    assert "Mind the units." in bench.shown()
    assert len(bench.recorder.of(GuidanceGiven)) == 1
    assert_balanced(bench, state)


async def test_a_policy_that_always_objects_cannot_hold_up_the_run() -> None:
    def objects(_: KernelState, __: KernelContext) -> Redirect:
        return Redirect("objects", "Not like that.")

    bench = kernel_bench(forever(call("final-answer", answer="3")), tools={"add": add})
    state = await bench.run(max_iterations=3, options={"policies": (objects,)})
    assert (state.outcome, state.terminated_by, state.output) == ("partial", "iteration_limit", "3")
    assert "Missing: an answer that objects accepts" in state.reason
    assert len(bench.llm.requests) == 3
    assert_balanced(bench, state)


async def test_a_policy_may_stop_a_run_before_its_calls_are_run() -> None:
    stop = once(Stop("budget", "failed", None, "Too dear."), "acting")
    bench = kernel_bench(call("add", a=1, b=2), tools={"add": add})
    state = await bench.run(options={"policies": (stop,)})
    assert (state.status, state.terminated_by, state.reason) == ("failed", "budget", "Too dear.")
    assert bench.tools is not None
    assert bench.tools.calls == []
    assert state.error is None


# --- totals and the wrapped form ------------------------------------------------------------------------


async def test_totals_are_the_sum_of_the_models_own_figures() -> None:
    bench = kernel_bench(
        call("add", a=1, b=2, usage=Usage(100, 10, 110), cost_usd=0.25),
        call("add", a=1, b=2, usage=Usage(reported=False), cost_usd=None),
        say("3", usage=Usage(200, 20, 220), cost_usd=0.5),
        tools={"add": add},
    )
    state = await bench.run()
    assert (state.tokens, state.cost) == (330, 0.75)
    assert (state.usage.unreported_calls, state.usage.unpriced_calls) == (1, 1)
    spending = bench.meter.usage
    assert (spending.usage, spending.cost_usd, spending.calls) == (
        Usage(300, 30, 330, reported=False),
        0.75,
        3,
    )
    assert_balanced(bench, state)


async def test_the_wrapped_form_says_it_in_short() -> None:
    bench = kernel_bench(call("add", a=1, b=2), call("final-answer", answer="3"), tools={"add": add})
    result = (await attempt(execute_react_kernel(kernel_input(), bench.services, max_iterations=4))).unwrap()
    assert (result.output, result.total_tokens, result.total_cost) == ("3", 30, 0.0)
    assert (result.iterations, result.terminated_by) == (2, "final_answer")
    assert result.tools_used == {"add"}
    assert (result.state.usage.unreported_calls, result.state.usage.unpriced_calls) == (0, 0)
    assert result.steps == result.state.steps
    assert result.state.kernel_type == "react"
    assert REACT_INSTRUCTIONS in bench.sent(0)[0].content


async def test_the_wrapped_form_keeps_instructions_of_its_callers_own() -> None:
    bench = kernel_bench(say("3"))
    ready = kernel_input(instructions="Count on your fingers.")
    await attempt(execute_react_kernel(ready, bench.services, parent_strategy="reflexion", kernel_pass="r:g"))
    system = bench.sent()[0].content
    assert "Count on your fingers." in system
    assert REACT_INSTRUCTIONS not in system
    (answer,) = bench.recorder.of(FinalAnswerProduced)
    assert answer.strategy == "reflexion"


async def test_two_runs_of_one_run_share_its_numbering_and_differ_in_their_ids() -> None:
    bench = kernel_bench(say("one"), say("two"))
    options = KernelRunOptions(2, "reactive", "react")
    first = (await attempt(run_kernel(react_kernel, kernel_input(), options, bench.services))).unwrap()
    second = (await attempt(run_kernel(react_kernel, kernel_input(), options, bench.services))).unwrap()
    assert first.id != second.id
    assert first.steps[0].id != second.steps[0].id
    assert [event.sequence for event in bench.recorder.events] == list(range(1, 9))
    for state in (first, second):
        assert_valid_transcript(state.messages)


async def test_a_tool_service_is_asked_for_its_tools_once_a_run() -> None:
    bench = kernel_bench(call("add", a=1, b=2), say("3"), tools={"add": add})
    assert bench.tools is not None
    assert bench.services.tools == Some(bench.tools)
    await bench.run()
    offered = [request.tools for request in bench.llm.requests]
    assert offered[0] is offered[1]
