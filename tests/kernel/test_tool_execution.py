"""Tool calls run concurrently, and whatever goes wrong becomes a result that the model can read."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from attrs import evolve

from reactive_agents.core.errors import ToolNotApproved
from reactive_agents.core.events import ToolCallCompleted
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import SystemMessage, ToolCall, UserMessage
from reactive_agents.core.settings import UntrustedArguments
from reactive_agents.core.tools import ToolDefinition, ToolResult
from reactive_agents.kernel.tool_execution import (
    NO_TOOL_SERVICE,
    guards_written_calls,
    run_calls,
    texts_from_outside,
)
from reactive_agents.testing import FakeClock, FakeTools, answer, call
from reactive_agents.testing.core import START
from tests.support.kernels import AGENT, RUN, SESSION, TASK, KernelBench, add, kernel_bench, new_state
from tests.support.virtual_time import Backend, LoopClock, virtual_time

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


def made(*names: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(CallId(f"c{index}"), name) for index, name in enumerate(names, start=1))


async def run(bench: KernelBench, calls: tuple[ToolCall, ...], **fields: object) -> tuple[ToolResult, ...]:
    state = evolve(new_state(), status="acting", pending=calls, iteration=2)
    return await run_calls(state, bench.context(**fields), calls)  # type: ignore[arg-type]


class Meeting:
    """A tool that ends only when it was called twice at once."""

    def __init__(self) -> None:
        self.present = 0
        self.most = 0
        self.complete = anyio.Event()

    async def attend(self) -> str:
        self.present += 1
        self.most = max(self.most, self.present)
        if self.present == 2:
            self.complete.set()
        with anyio.move_on_after(0.05):
            await self.complete.wait()
        self.present -= 1
        return "met"


async def test_calls_of_one_turn_run_concurrently_and_come_back_in_their_order() -> None:
    meeting = Meeting()
    results = await run(
        kernel_bench(tools={"meet": meeting.attend, "look": "x"}), made("meet", "look", "meet")
    )
    assert meeting.complete.is_set()
    assert [(result.call_id, result.result) for result in results] == [
        ("c1", "met"),
        ("c2", "x"),
        ("c3", "met"),
    ]


async def test_the_end_of_a_call_is_published_when_it_ends_and_not_with_those_beside_it() -> None:
    async def slow() -> str:
        await anyio.sleep(3)
        return "late"

    async def fails() -> None:
        await anyio.sleep(1)
        raise OSError("no such file")

    tools: dict[str, Any] = {"slow": slow, "fails": fails, "mail": ToolNotApproved("mail", "it is late")}
    bench = kernel_bench(tools=tools, clock=LoopClock())
    began = anyio.current_time()
    results = await run(bench, made("slow", "fails", "unknown", "mail"))
    assert [result.call_id for result in results] == ["c1", "c2", "c3", "c4"]
    ended = bench.recorder.of(ToolCallCompleted)
    after = {each.call_id: (each.at - START).total_seconds() - began for each in ended}
    assert after == {"c1": pytest.approx(3), "c2": pytest.approx(1), "c3": 0, "c4": 0}
    assert [each.call_id for each in ended[-2:]] == ["c2", "c1"]
    assert [each.sequence for each in ended] == [1, 2, 3, 4]


async def test_a_call_that_ended_is_published_also_where_the_one_beside_it_is_cut_off() -> None:
    async def slow() -> str:
        await anyio.sleep(3)
        return "late"

    bench = kernel_bench(tools={"slow": slow, "look": "x"})
    with anyio.move_on_after(1) as scope:
        await run(bench, made("slow", "look"))
    assert scope.cancelled_caught
    assert [each.tool_name for each in bench.recorder.of(ToolCallCompleted)] == ["look"]


async def test_without_parallel_calls_they_run_one_after_the_other() -> None:
    meeting = Meeting()
    bench = kernel_bench(tools={"meet": meeting.attend})
    assert len(await run(bench, made("meet", "meet"), parallel_tool_calls=False)) == 2
    assert meeting.most == 1


async def test_every_call_says_on_whose_behalf_it_runs_under_a_key_of_its_own() -> None:
    bench = kernel_bench(tools={"look": "x"})
    await run(bench, made("look", "look"), deadline=1e9)
    assert bench.tools is not None
    for scope in bench.tools.scopes:
        assert (scope.run_id, scope.task_id, scope.agent_id, scope.session_id) == (RUN, TASK, AGENT, SESSION)
        assert scope.deadline == 1e9
    assert [scope.call_key for scope in bench.tools.scopes] == ["k-2.0", "k-2.1"]


async def test_an_unknown_tool_is_named_with_those_there_are() -> None:
    (result,) = await run(kernel_bench(tools={"add": add}), made("ad"))
    assert result.error == "Unknown tool 'ad'. Known tools: add, final-answer."
    assert result.tool_name == "ad"


async def test_bad_arguments_a_raising_tool_and_a_refused_call_are_results_too() -> None:
    def explode() -> None:
        raise OSError("no such file")

    bench = kernel_bench(
        tools={"add": add, "explode": explode, "mail": ToolNotApproved("mail", "there is no approver")}
    )
    malformed = ToolCall(CallId("c4"), "add", malformed='{"a": ')
    results = await run(bench, (*made("add", "explode", "mail"), malformed))
    assert [result.call_id for result in results] == ["c1", "c2", "c3", "c4"]
    assert not any(result.success for result in results)
    for result, words in zip(
        results, ("not valid", "no such file", "there is no approver", '{"a": '), strict=True
    ):
        assert words in result.error


async def test_a_tool_outside_the_scope_is_not_run() -> None:
    bench = kernel_bench(tools={"add": add, "look": "x"})
    (result,) = await run(bench, made("look"), allowed_tools=frozenset({"add"}))
    assert "Unknown tool 'look'" in result.error
    assert bench.tools is not None
    assert bench.tools.calls == []


async def test_without_a_tool_service_the_result_says_so() -> None:
    (result,) = await run(kernel_bench(), made("look"))
    assert result.error == NO_TOOL_SERVICE


async def test_an_answer_among_other_calls_is_refused_and_they_run() -> None:
    bench = kernel_bench(tools={"look": "x"})
    answer = ToolCall(CallId("c9"), "final-answer", {"answer": "3"})
    looked, refused = await run(bench, (*made("look"), answer))
    assert looked.result == "x"
    assert "Not accepted" in refused.error


async def test_a_failed_call_is_timed_by_the_runs_clock() -> None:
    clock = FakeClock()

    def slow() -> None:
        clock.advance(0.5)
        raise TimeoutError

    bench = kernel_bench(tools={"slow": slow}, clock=clock)
    (result,) = await run(bench, made("slow"))
    assert result.duration_ms == 500.0


async def test_a_tool_services_own_tool_cannot_take_the_answers_place() -> None:
    impostor = ToolDefinition("final-answer", "Mine.", {"type": "object"})
    tools = FakeTools({"final-answer": "mine", "look": "x"}, definitions=(impostor,))
    bench = kernel_bench(tools=tools)
    (result,) = await run(bench, made("final-answer"))
    assert "must be a text" in result.error
    assert tools.calls == []


def test_the_instructions_and_the_task_are_not_from_outside() -> None:
    bench = kernel_bench(tools={"look": "x"})
    context = bench.context()
    assert list(map(type, context.prefix)) == [SystemMessage, UserMessage]
    assert texts_from_outside(new_state(), context) == ()
    recalled = evolve(context, prefix=(*context.prefix, UserMessage("Recalled: Ada likes tea.")))
    assert texts_from_outside(new_state(), recalled) == ("Recalled: Ada likes tea.",)


async def test_a_tool_service_that_raises_is_named_in_the_result_of_the_call() -> None:
    class Broken(FakeTools):
        def execute(self, *_: object) -> Any:
            raise ZeroDivisionError("a defect")

    bench = kernel_bench(call("add", a=1, b=2), answer("It has a defect."), tools=Broken({"add": add}))
    state = await bench.run()
    (result,) = [step.content for step in state.steps if step.type == "observation"]
    assert result == "The tool service Broken raised ZeroDivisionError: a defect"
    assert state.output == "It has a defect."


@pytest.mark.parametrize(("policy", "guarded"), [("allow", False), ("ask", False), ("block", True)])
async def test_without_texts_from_outside_written_calls_are_guarded_only_where_they_are_blocked(
    policy: UntrustedArguments, guarded: bool
) -> None:
    bench = kernel_bench(tools={"add": add})
    assert guards_written_calls(new_state(), bench.context(written_calls=policy)) is guarded
