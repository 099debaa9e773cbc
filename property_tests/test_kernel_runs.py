"""Whatever a model does, a kernel run ends in order, within its limit, and its accounts agree."""

from __future__ import annotations

from typing import Any

import anyio
from attrs import evolve
from hypothesis import assume, event, given
from hypothesis import strategies as st
from returns.result import Result, Success

from reactive_agents.core.errors import (
    LLMErrors,
    ModelCallFailed,
    ModelUnavailable,
    RateLimited,
    ScriptExhausted,
    ToolFailed,
    refused_attempts,
)
from reactive_agents.core.events import FinalAnswerProduced, GuidanceGiven
from reactive_agents.core.ids import CallId
from reactive_agents.core.models import ModelRequest, ModelResponse, Usage
from reactive_agents.core.usage import RunUsage, unknown_usage
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel import (
    TERMINAL,
    KernelContext,
    KernelState,
    MeteredLLM,
    Redirect,
    RunEvents,
    deserialize_kernel_state,
    direct_kernel,
    one_shot_kernel,
    react_kernel,
    serialize_kernel_state,
)
from reactive_agents.kernel.context import Policy
from reactive_agents.testing import ScriptedLLM, Turn, call, calls, fail, malformed_call, say
from tests.support.kernels import (
    KernelBench,
    add,
    assert_balanced,
    assert_valid_transcript,
    kernel_bench,
)
from tests.support.profiles import examples

KERNELS = {"react": react_kernel, "direct": direct_kernel, "one-shot": one_shot_kernel}
STATUSES = ["thinking", "acting", "observing"]


def explode() -> None:
    raise ValueError("it blew up")


TOOLS: dict[str, Any] = {
    "add": add,
    "look": {"seen": ["a", None]},
    "explode": explode,
    "broken": ToolFailed("broken", ""),
    "long": "x" * 9_000,
}

# --- scripts --------------------------------------------------------------------------------------------

IN_VAIN = (
    RunUsage("m", Usage(4, 3, 7), 0.5),
    unknown_usage("n"),
)
usages = st.builds(lambda a, b: Usage(a, b, a + b), st.integers(0, 99), st.integers(0, 99)) | st.just(
    Usage(reported=False)
)
costs = st.none() | st.sampled_from([0.0, 0.25, 1.5])
paid = st.fixed_dictionaries({"usage": usages, "cost_usd": costs})
texts = st.sampled_from(["", " \n", "The sum is 3.", "I look."]) | st.text(max_size=20)
disguised = st.sampled_from(
    ['FINAL ANSWER: add({"a": 1, "b": 2})', "look()", "explode()", 'final-answer({"answer": "3"})', "ad({})"]
)
single_calls = st.one_of(
    st.builds(lambda a, b: call("add", a=a, b=b), st.integers(), st.integers()),
    st.sampled_from(
        [
            call("look"),
            call("explode"),
            call("broken"),
            call("long"),
            call("ad", a=1),
            call("add", a="?"),
            call(""),
        ]
    ),
    st.builds(
        malformed_call, st.sampled_from(["add", "ad", "final-answer"]), st.text(min_size=1, max_size=9)
    ),
    st.sampled_from(["3", "", "look()"]).map(lambda answer: call("final-answer", answer=answer)),
    st.sampled_from([call("final-answer"), call("final-answer", answer=3)]),
)
turns = st.one_of(
    st.builds(
        lambda text, thinking, reason, bill: say(text, thinking=thinking, finish_reason=reason, **bill),
        texts | disguised,
        st.sampled_from(["", "hm"]),
        st.sampled_from(["stop", "length", "content_filter", "other", "tool_calls"]),
        paid,
    ),
    st.builds(lambda each, bill: evolve(each, **bill), single_calls, paid),
    st.builds(
        lambda several, text, bill: calls(*several, text=text, **bill),
        st.lists(single_calls, min_size=1, max_size=4),
        texts | disguised,
        paid,
    ),
    st.sampled_from(
        [fail(RateLimited("Later.", "m")), fail(ModelUnavailable("Down.", "m", refused=IN_VAIN))]
    ),
)
scripts = st.lists(turns, max_size=2) | st.lists(turns, min_size=3, max_size=8)


class SloppyIds:
    """A model whose calls have an id that is missing, or always the same; it never answers at once."""

    def __init__(self, inner: ScriptedLLM, call_id: str) -> None:
        self.inner = inner
        self.call_id = CallId(call_id)
        self.model = inner.model
        self.stream = inner.stream

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        answer = await attempt(self.inner.complete(request))
        return answer.map(
            lambda it: evolve(
                it,
                tool_calls=tuple(evolve(each, id=self.call_id) for each in it.tool_calls),
                refused=IN_VAIN,
            )
        )


def sloppy(bench: KernelBench, call_id: str) -> KernelBench:
    events: RunEvents = bench.services.events.unwrap()
    meter = MeteredLLM(SloppyIds(bench.llm, call_id), events, bench.clock)
    return evolve(bench, meter=meter, services=evolve(bench.services, llm=meter, account=meter.account))


def advise(name: str, when: str) -> Policy:
    def policy(state: KernelState, _: KernelContext) -> Redirect | None:
        return Redirect(name, f"{name} has a word at {when}.") if state.status == when else None

    return policy


policies = st.none() | st.lists(
    st.builds(advise, st.sampled_from(["one", "two"]), st.sampled_from(STATUSES)), max_size=3
).map(tuple)
endings = st.fixed_dictionaries(
    {
        "max_iterations": st.integers(1, 5),
        "parallel_tool_calls": st.booleans(),
        "allowed_tools": st.none() | st.just(frozenset({"add", "look"})),
        "options": st.fixed_dictionaries({"policies": policies, "answers_by_tool": st.booleans()}),
    }
)


# --- laws -----------------------------------------------------------------------------------------------


def play(bench: KernelBench, kernel: str, how: dict[str, Any], backend: str) -> KernelState:
    async def run() -> KernelState:
        return await bench.run(KERNELS[kernel], **how)

    return anyio.run(run, backend=backend)


@examples(20)
@given(
    script=scripts,
    tools=st.sampled_from([TOOLS, {}, None]),
    kernel=st.sampled_from(sorted(KERNELS)),
    how=endings,
    call_id=st.sampled_from([None, None, "", "same"]),
    backend=st.sampled_from(["asyncio", "asyncio", "asyncio", "trio"]),
)
def test_every_run_ends_in_order(
    script: list[Turn],
    tools: dict[str, Any] | None,
    kernel: str,
    how: dict[str, Any],
    call_id: str | None,
    backend: str,
) -> None:
    bench = kernel_bench(*script, tools=tools)
    if call_id is not None:
        bench = sloppy(bench, call_id)
    state = play(bench, kernel, how, backend)
    event(f"{state.status} {state.outcome} by {state.terminated_by}")

    assert state.status in TERMINAL
    assert state.iteration <= how["max_iterations"]
    assert len(bench.llm.requests) <= how["max_iterations"]
    assert_ended_for_a_reason(state, bench)
    assert_balanced(bench, state)
    assert_totals(state, bench, script, IN_VAIN if call_id is not None else ())
    assert_guidance_was_rendered(bench)
    assert deserialize_kernel_state(serialize_kernel_state(state)) == Success(state)


def assert_ended_for_a_reason(state: KernelState, bench: KernelBench) -> None:
    assert state.terminated_by
    assert state.reason
    assert len(bench.recorder.of(FinalAnswerProduced)) == (state.status == "done")
    match state.outcome:
        case "completed":
            assert state.output
            assert state.error is None
        case "partial":
            assert "Missing" in state.reason
        case "failed":
            assert isinstance(state.error, ModelCallFailed)
            assert isinstance(state.error.cause, RateLimited | ModelUnavailable | ScriptExhausted)
        case None:
            raise AssertionError("no outcome")


def assert_totals(
    state: KernelState, bench: KernelBench, script: list[Turn], before_answers: tuple[RunUsage, ...]
) -> None:
    played = script[: len(bench.llm.requests)]
    answered = [turn for turn in played if turn.error is None]
    in_vain = [*before_answers * len(answered)]
    in_vain += [each for turn in played if turn.error for each in refused_attempts(turn.error)]
    assert state.iteration == len(answered)
    assert state.tokens == sum(each.usage.total_tokens for each in (*answered, *in_vain))
    assert state.cost == sum(each.cost_usd or 0.0 for each in (*answered, *in_vain))
    assert state.usage.unreported_calls == sum(not each.usage.reported for each in (*answered, *in_vain))
    assert state.usage.unpriced_calls == sum(turn.cost_usd is None for turn in answered) + sum(
        each.unpriced_calls for each in in_vain
    )
    spending = bench.meter.usage
    assert (spending.cost_usd, spending.unpriced_calls) == (state.cost, state.usage.unpriced_calls)
    assert spending.usage.reported == (state.usage.unreported_calls == 0)


def assert_guidance_was_rendered(bench: KernelBench) -> None:
    """Whatever a policy said is in the request that came next, unless the run ended before it."""
    position = 0
    for told in bench.recorder.events:
        if type(told).__name__ in ("ModelCallCompleted", "ModelCallAbandoned"):
            position += 1
        elif isinstance(told, GuidanceGiven) and position < len(bench.llm.requests):
            assert told.text in bench.shown(position)


@examples(15)
@given(script=scripts, how=endings)
def test_a_run_is_the_same_when_it_is_played_again(script: list[Turn], how: dict[str, Any]) -> None:
    first, second = kernel_bench(*script, tools=TOOLS), kernel_bench(*script, tools=TOOLS)
    assert play(first, "react", how, "asyncio") == play(second, "react", how, "asyncio")
    assert first.recorder.events == second.recorder.events
    assert first.llm.requests == second.llm.requests


@examples(15)
@given(script=scripts, how=endings, seconds=st.floats(0.0, 0.05))
def test_a_run_with_a_deadline_ends_in_order_too(
    script: list[Turn], how: dict[str, Any], seconds: float
) -> None:
    bench = kernel_bench(*script, tools=TOOLS)
    state = play(bench, "react", {**how, "deadline": seconds}, "asyncio")
    assert state.status in TERMINAL
    assert_balanced(bench, state)
    for request in bench.llm.requests:
        assert_valid_transcript(request.messages)


@examples(15)
@given(script=scripts, cause=st.sampled_from([RateLimited("Later.", "m"), ModelUnavailable("Down.", "m")]))
def test_what_was_done_before_a_failure_is_kept(script: list[Turn], cause: LLMErrors) -> None:
    calling = [turn for turn in script if turn.calls and turn.calls[0].name != "final-answer"]
    bench = kernel_bench(*calling, fail(cause), tools=TOOLS)
    state = play(bench, "react", {"max_iterations": len(calling) + 1}, "asyncio")
    assume(state.terminated_by != "loop_detection")
    assert state.error == ModelCallFailed("think", len(calling), cause)
    assert len([step for step in state.steps if step.type == "observation"]) == sum(
        len(turn.calls) for turn in calling
    )
