"""The one-shot kernel asks once and takes the text."""

from __future__ import annotations

import pytest
from returns.result import Failure

from reactive_agents.core.errors import ModelCallFailed, RateLimited
from reactive_agents.effects import attempt
from reactive_agents.kernel import one_shot_kernel
from reactive_agents.testing import call, calls, fail, say
from tests.support.kernels import add, assert_balanced, kernel_bench, new_state

pytestmark = pytest.mark.anyio


async def test_one_call_and_its_text_is_the_answer() -> None:
    bench = kernel_bench(say("3", thinking="hm"), tools={"add": add})
    state = await bench.run(one_shot_kernel, max_iterations=1)
    assert (state.output, state.outcome, state.iteration) == ("3", "completed", 1)
    (request,) = bench.llm.requests
    assert (request.tools, request.parallel_tool_calls) == ((), None)
    assert_balanced(bench, state)


async def test_calls_that_were_not_offered_are_not_run() -> None:
    bench = kernel_bench(calls(call("add", a=1, b=2), text="3"), tools={"add": add})
    state = await bench.run(one_shot_kernel, max_iterations=1)
    assert state.output == "3"
    assert bench.tools is not None
    assert bench.tools.calls == []


async def test_an_empty_answer_is_none() -> None:
    state = await kernel_bench(say("")).run(one_shot_kernel, max_iterations=1)
    assert (state.output, state.outcome, state.terminated_by) == (None, "partial", "iteration_limit")


async def test_a_model_that_does_not_answer_is_a_typed_failure() -> None:
    busy = RateLimited("Later.", "m")
    context = kernel_bench(fail(busy)).context()
    assert await attempt(one_shot_kernel(new_state(), context)) == Failure(ModelCallFailed("think", 0, busy))
