"""The time limit of a run: thinking is cut off, calls end by themselves, and everything is on record."""

from __future__ import annotations

from math import inf

import anyio
import pytest
from returns.result import Failure, Result

from reactive_agents.core.errors import KernelErrors, ToolErrors, ToolNotApproved, ToolTimedOut
from reactive_agents.core.events import ToolCallCompleted
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition, ToolResult, ToolScope
from reactive_agents.effects import effect
from reactive_agents.kernel import KernelContext, KernelState, transition_state
from reactive_agents.kernel.termination import seconds_left
from reactive_agents.kernel.tool_execution import CUT_OFF, NO_TIME
from reactive_agents.ports import Approver
from reactive_agents.testing import FakeClock, FakeTools, call, calls, say
from tests.support.kernels import assert_balanced, kernel_bench
from tests.support.virtual_time import Backend, LoopClock, virtual_time

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


ENDED: dict[str, ToolErrors] = {
    "waited": ToolTimedOut("waited", 0.0),
    "began": ToolTimedOut("began", 0.1),
    "asked": ToolNotApproved("asked", "no answer came."),
}


async def linger() -> str:
    await anyio.sleep(5)
    return "too late"


def test_what_is_left_is_told_by_the_runs_own_clock() -> None:
    clock = FakeClock()
    bench = kernel_bench(clock=clock)
    assert seconds_left(bench.context()) == inf
    context = bench.context(deadline=2.0)
    assert seconds_left(context) == 2.0
    clock.advance(3.0)
    assert seconds_left(context) == -1.0


async def test_a_model_that_takes_too_long_is_cut_off_and_the_run_is_partial() -> None:
    bench = kernel_bench(
        calls(call("look"), text="I am looking."), say("too late", delay=5), tools={"look": "x"}
    )
    state = await bench.run(deadline=0.1)
    assert (state.status, state.outcome, state.terminated_by) == ("done", "partial", "deadline")
    assert state.output == "I am looking."
    assert "time limit" in state.reason


async def test_past_the_deadline_the_model_is_not_asked() -> None:
    clock = FakeClock()
    bench = kernel_bench(say("3"), clock=clock)
    clock.advance(1.0)
    state = await bench.run(deadline=1.0)
    assert state.terminated_by == "deadline"
    assert bench.llm.requests == []


async def test_calls_are_cut_off_at_the_deadline_and_those_that_ended_keep_their_results() -> None:
    bench = kernel_bench(
        calls(call("linger"), call("look")),
        say("never"),
        tools={"linger": linger, "look": "seen"},
        clock=LoopClock(),
    )
    state = await bench.run(deadline=anyio.current_time() + 2)
    assert state.terminated_by == "deadline"
    assert [event.error for event in bench.recorder.of(ToolCallCompleted)] == ["", CUT_OFF]
    assert state.scratchpad == {"look-1": "seen"}
    assert_balanced(bench, state)


async def test_an_act_that_is_cut_off_is_in_doubt() -> None:
    pay = ToolDefinition("pay", "Pay a bill.", {"type": "object"}, risk="high")
    tools = FakeTools({"pay": linger}, definitions=(pay,))
    bench = kernel_bench(call("pay"), tools=tools, clock=LoopClock())
    await bench.run(deadline=anyio.current_time() + 2)
    (event,) = bench.recorder.of(ToolCallCompleted)
    assert (event.error, event.origin) == (CUT_OFF, "in_doubt")


async def test_a_tool_service_that_ends_its_calls_by_itself_says_whether_they_ran() -> None:
    async def wait_until(deadline: float) -> None:
        await anyio.sleep(deadline - anyio.current_time())

    limit = anyio.current_time() + 0.2

    class Deadlined(FakeTools):
        @effect
        async def execute(
            self, call: ToolCall, scope: ToolScope, approver: Approver | None = None
        ) -> Result[ToolResult, ToolErrors]:
            await wait_until(limit)
            return Failure(ENDED[call.name])

    tools = Deadlined(dict.fromkeys(ENDED, "never"))
    bench = kernel_bench(calls(*map(call, ENDED)), tools=tools, clock=LoopClock())
    state = await bench.run(deadline=limit)
    errors = {event.error for event in bench.recorder.of(ToolCallCompleted)}
    assert errors == {NO_TIME, CUT_OFF, ENDED["asked"].message}
    assert state.terminated_by == "deadline"
    assert_balanced(bench, state)


async def test_past_the_deadline_no_call_is_begun() -> None:
    bench = kernel_bench(
        calls(call("look"), call("look")), tools={"look": "seen"}, clock=FakeClock(step_s=0.4)
    )
    state = await bench.run(deadline=1.0)
    assert bench.tools is not None
    assert bench.tools.calls == []
    assert [event.error for event in bench.recorder.of(ToolCallCompleted)] == [NO_TIME, NO_TIME]
    assert state.terminated_by == "deadline"
    assert_balanced(bench, state)


async def test_a_custom_kernel_cannot_hold_up_the_end() -> None:
    @effect
    async def hang(state: KernelState, _: KernelContext) -> Result[KernelState, KernelErrors]:
        if state.status == "acting":
            await anyio.sleep(5)
        return transition_state(state, status="acting")

    state = await kernel_bench().run(hang, deadline=0.05)
    assert state.terminated_by == "deadline"
