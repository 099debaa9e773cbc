"""The ReAct kernel makes one step a call: think, act, observe; and recovers from every failed call."""

from __future__ import annotations

import pytest
from attrs import evolve
from returns.result import Failure, Success

from reactive_agents.core.errors import ModelCallFailed, RateLimited, ToolFailed
from reactive_agents.core.events import FinalAnswerProduced, ToolCallCompleted
from reactive_agents.core.messages import ToolMessage
from reactive_agents.effects import attempt
from reactive_agents.kernel import KernelStatus, Proposal, react_kernel
from reactive_agents.testing import answer, call, calls, fail, malformed_call, say
from tests.support.kernels import add, assert_balanced, kernel_bench, new_state, steps_of
from tests.support.virtual_time import Backend, virtual_time

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


async def test_each_call_of_the_kernel_makes_one_step() -> None:
    bench = kernel_bench(calls(call("add", a=1, b=2), text="I add."), tools={"add": add})
    context, state = bench.context(), new_state()
    thought = (await attempt(react_kernel(state, context))).unwrap()
    assert (thought.status, len(thought.pending)) == ("acting", 1)
    acted = (await attempt(react_kernel(thought, context))).unwrap()
    assert (acted.status, acted.pending, acted.results[0].result) == ("observing", (), 3)
    observed = (await attempt(react_kernel(acted, context))).unwrap()
    assert (observed.status, observed.results) == ("thinking", ())
    assert [step.type for step in observed.steps] == ["thought", "action", "observation"]
    assert state == new_state()


@pytest.mark.parametrize("status", ["done", "failed"])
async def test_a_run_that_has_ended_stays_as_it_is(status: KernelStatus) -> None:
    bench = kernel_bench()
    ended = evolve(new_state(), status=status)
    assert (await attempt(react_kernel(ended, bench.context()))).unwrap() is ended
    assert bench.llm.requests == []


async def test_a_model_that_does_not_answer_is_a_typed_failure() -> None:
    busy = RateLimited("Later.", "m")
    context = kernel_bench(fail(busy)).context()
    assert await attempt(react_kernel(new_state(), context)) == Failure(ModelCallFailed("think", 0, busy))


async def test_the_same_answer_twice_in_a_turn_is_the_answer() -> None:
    bench = kernel_bench(
        calls(call("final-answer", answer="3"), call("final-answer", answer="3")), tools={"add": add}
    )
    state = await bench.run()
    assert (state.outcome, state.output, state.iteration) == ("completed", "3", 1)
    assert_balanced(bench, state)


async def test_different_answers_in_a_turn_are_refused_for_being_several() -> None:
    bench = kernel_bench(
        calls(call("final-answer", answer="3"), call("final-answer", answer="4")),
        call("final-answer", answer="4"),
        tools={"add": add},
    )
    state = await bench.run()
    assert (state.outcome, state.output) == ("completed", "4")
    refusals = {message.content for message in bench.sent() if isinstance(message, ToolMessage)}
    assert refusals == {"Not accepted: there were 2 answers in one turn, and one is expected. Give that one."}
    assert_balanced(bench, state)


async def test_a_run_with_calls_ends_in_the_answer_that_the_answer_tool_delivers() -> None:
    bench = kernel_bench(
        calls(call("add", a=1, b=2), text="I add."),
        call("final-answer", answer="The sum is 3."),
        tools={"add": add},
    )
    state = await bench.run()
    assert (state.status, state.outcome, state.terminated_by) == ("done", "completed", "final_answer")
    assert state.output == "The sum is 3."
    assert state.tools_used == {"add"}
    assert (state.iteration, state.tokens) == (2, 30)
    assert len(bench.recorder.of(FinalAnswerProduced)) == 1
    assert_balanced(bench, state)


async def test_calls_of_one_turn_are_answered_in_their_order() -> None:
    bench = kernel_bench(
        calls(call("add", a=1, b=2), call("look"), call("add", a=2, b=2)),
        say("done"),
        tools={"add": add, "look": "x"},
    )
    state = await bench.run()
    results = [message.content for message in bench.sent() if isinstance(message, ToolMessage)]
    assert results == ["3", "x", "4"]
    assert state.scratchpad == {"add-1": "3", "look-2": "x", "add-3": "4"}
    assert_balanced(bench, state)


async def test_the_model_recovers_from_calls_that_fail() -> None:
    def explode() -> None:
        raise OSError("no such file")

    bench = kernel_bench(
        call("ad", a=1, b=2),
        malformed_call("add", '{"a": 1'),
        call("add", a=1),
        call("explode"),
        call("canned"),
        call("add", a=1, b=2),
        call("final-answer", answer="3"),
        tools={"add": add, "explode": explode, "canned": ToolFailed("canned", "broken")},
    )
    state = await bench.run(max_iterations=9)
    assert (state.outcome, state.output) == ("completed", "3")
    observations = [step.content for step in steps_of(state, "observation")]
    for text, words in zip(
        observations, ("Unknown tool", "not valid", "not valid", "no such file", "broken", "3"), strict=True
    ):
        assert words in text
    assert [event.success for event in bench.recorder.of(ToolCallCompleted)] == [False] * 5 + [True]
    flags = [message.is_error for message in bench.sent() if isinstance(message, ToolMessage)]
    assert flags == [True] * 5 + [False]
    assert_balanced(bench, state)


async def test_an_answer_among_other_calls_waits_for_their_results() -> None:
    bench = kernel_bench(
        calls(call("add", a=1, b=2), call("final-answer", answer="4?")),
        call("final-answer", answer=" "),
        call("final-answer", answer="3"),
        tools={"add": add},
    )
    state = await bench.run()
    assert (state.output, state.iteration) == ("3", 3)
    assert state.tools_used == {"add"}
    assert_balanced(bench, state)


async def test_text_without_calls_is_an_answer_too() -> None:
    state = await kernel_bench(answer("3"), tools={"add": add}).run()
    assert (state.output, state.outcome) == ("3", "completed")


async def test_a_proposal_waits_for_its_judgement() -> None:
    bench = kernel_bench(call("final-answer", answer="3"), tools={"add": add})
    context = bench.context()
    thought = (await attempt(react_kernel(new_state(), context))).unwrap()
    match await attempt(react_kernel(thought, context)):
        case Success(acted):
            assert acted.status == "observing"
            assert acted.proposal == Proposal("3", "tool_calls", thought.pending[0].id)
        case Failure(error):
            raise AssertionError(error)
