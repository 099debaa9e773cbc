"""The direct kernel answers when the model stops calling tools."""

from __future__ import annotations

import pytest

from reactive_agents.kernel import direct_kernel
from reactive_agents.testing import call, forever, say
from tests.support.kernels import add, assert_balanced, kernel_bench

pytestmark = pytest.mark.anyio
BY_TEXT = {"answers_by_tool": False}


async def test_the_first_reply_without_calls_is_the_answer() -> None:
    bench = kernel_bench(call("add", a=1, b=2), say("The sum is 3."), tools={"add": add})
    state = await bench.run(direct_kernel, options=BY_TEXT)
    assert (state.output, state.outcome, state.iteration) == ("The sum is 3.", "completed", 2)
    assert [tool.name for tool in bench.llm.requests[0].tools] == ["add"]
    assert_balanced(bench, state)


async def test_a_model_that_keeps_calling_tools_reaches_the_limit() -> None:
    bench = kernel_bench(forever(call("add", a=1, b=2)), tools={"add": add})
    state = await bench.run(direct_kernel, max_iterations=3, options=BY_TEXT)
    assert (state.outcome, state.terminated_by, state.iteration) == ("partial", "iteration_limit", 3)
    assert len(bench.llm.requests) == 3
    assert_balanced(bench, state)


async def test_the_answer_tool_is_an_unknown_tool_here() -> None:
    bench = kernel_bench(call("final-answer", answer="3"), say("3"), tools={"add": add})
    state = await bench.run(direct_kernel, options=BY_TEXT)
    assert "Unknown tool 'final-answer'" in bench.shown()
    assert state.output == "3"
