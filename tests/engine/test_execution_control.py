"""Pausing, resuming and stopping a run, on its own event loop and from other threads."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable

import anyio
import pytest
from returns.result import Failure, Result, Success

from reactive_agents.core.config import TimeoutConfig
from reactive_agents.core.errors import RunCancelled, ServiceFailed, TaskError
from reactive_agents.core.events import (
    ExecutionPaused,
    ExecutionResumed,
    ExecutionStopped,
    ModelCallCompleted,
    ResultVerified,
    TaskCompleted,
    TaskFailed,
    TaskStarted,
    ToolCallCompleted,
)
from reactive_agents.core.governance import (
    GuardrailReport,
    GuardrailStage,
    ModelRoute,
    RouteNeeds,
    VerificationReport,
)
from reactive_agents.core.ids import TaskId
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.tasks import Task, TaskResult
from reactive_agents.effects import effect
from reactive_agents.engine import ExecutionContext, LifecycleHook, LifecyclePhase
from reactive_agents.ports import LLM
from reactive_agents.testing import (
    BlockWords,
    FakeTools,
    FixedRouter,
    FixedVerifier,
    InMemoryMemory,
    RecordingAuditLog,
    RecordingCostTracker,
    ScriptedLLM,
    answer,
    call,
    calls,
    say,
)
from tests.support.engines import Bench, bench
from tests.support.virtual_time import Backend, LoopClock, virtual_time

pytestmark = pytest.mark.anyio
TASK = TaskId("task-1")
PATIENCE_S = 30.0
"""Seconds until a test that hangs fails; nothing is expected to take that long."""


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


async def run_beside(made: Bench, beside: Callable[[], Awaitable[None]]) -> Result[TaskResult, TaskFailed]:
    """The outcome of a run, and something done while it goes on."""
    outcomes: list[Result[TaskResult, TaskFailed]] = []

    async def run() -> None:
        outcomes.append(await made.run())

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await beside()
    return outcomes[0]


async def test_a_paused_run_is_held_before_its_next_model_call_until_it_is_resumed() -> None:
    async def pause(a: int, b: int) -> int:
        assert made.engine.pause(TASK) == Success(None)
        return a + b

    llm = ScriptedLLM(call("add", a=1, b=2), say("3"))
    made = bench(llm, tools=FakeTools({"add": pause}))

    async def resume_later() -> None:
        await anyio.sleep(1)
        assert len(llm.requests) == 1
        assert made.engine.get_context(TASK).unwrap().agent_state == "paused"
        assert made.engine.resume(TASK) == Success(None)

    result = (await run_beside(made, resume_later)).unwrap()
    assert (result.status, result.output) == ("completed", "3")
    kinds = [type(event) for event in made.recorder.events]
    order = [ModelCallCompleted, ToolCallCompleted, ExecutionPaused, ExecutionResumed, ModelCallCompleted]
    assert [kind for kind in kinds if kind in order] == order
    assert [event.next_step for event in made.recorder.of(ExecutionPaused)] == ["model call"]


async def test_a_paused_run_is_held_before_its_tool_calls() -> None:
    tools = FakeTools({"add": lambda a, b: a + b})
    made = bench(ScriptedLLM(calls(call("add", a=1, b=2), call("add", a=2, b=2)), say("3")), tools=tools)
    made.engine.register_hook(LifecycleHook("think", "after", lambda context: _pause_first(made, context)))

    async def resume_later() -> None:
        await anyio.sleep(1)
        assert tools.calls == []
        assert made.engine.resume(TASK) == Success(None)

    assert (await run_beside(made, resume_later)).unwrap().output == "3"
    assert len(made.recorder.of(ExecutionPaused)) == len(made.recorder.of(ExecutionResumed)) == 1
    assert made.recorder.of(ExecutionPaused)[0].next_step == "call of add"


def _pause_first(made: Bench, context: object) -> None:
    if getattr(context, "iteration", 0) == 1:
        made.engine.pause(TASK)


async def test_a_paused_run_can_be_cancelled() -> None:
    async def pause() -> str:
        made.engine.pause(TASK)
        return "paused"

    made = bench(ScriptedLLM(call("pause"), say("never")), tools=FakeTools({"pause": pause}))

    async def cancel_later() -> None:
        await anyio.sleep(1)
        assert made.engine.cancel(TASK) == Success(None)

    assert (await run_beside(made, cancel_later)).failure().error == RunCancelled("task-1", "think")


async def test_pausing_twice_is_pausing_and_resuming_needs_a_pause() -> None:
    answers: list[object] = []

    async def ask() -> str:
        answers.extend(
            (
                made.engine.resume(TASK),
                made.engine.pause(TASK),
                made.engine.pause(TASK),
                made.engine.resume(TASK),
                made.engine.resume(TASK),
            )
        )
        return "asked"

    made = bench(ScriptedLLM(call("ask"), answer("three")), tools=FakeTools({"ask": ask}))
    assert (await made.run()).unwrap().status == "completed"
    not_paused = Failure(TaskError("Task task-1 is not paused.", "task-1"))
    assert answers == [not_paused, Success(None), Success(None), Success(None), not_paused]
    assert made.recorder.of(ExecutionPaused) == []


async def test_a_pause_counts_for_the_time_limit_of_the_run() -> None:
    async def pause() -> str:
        made.engine.pause(TASK)
        return "paused"

    made = bench(
        ScriptedLLM(call("pause"), say("never")),
        tools=FakeTools({"pause": pause}),
        options={"timeouts": TimeoutConfig(run_s=5)},
        clock=LoopClock(),
    )
    result = (await made.run()).unwrap()
    assert (result.status, result.metadata.terminated_by) == ("partial", "deadline")


async def test_a_stopped_run_ends_at_once_as_partial_with_what_there_is() -> None:
    costs, log, memory = RecordingCostTracker(), RecordingAuditLog(), InMemoryMemory()
    llm = ScriptedLLM(calls(call("add", a=1, b=2), text="It is three, I think."), say("never", delay=30))
    made = bench(llm, cost_tracker=costs, audit=log, memory=memory)

    async def stop_later() -> None:
        await anyio.sleep(1)
        assert made.engine.stop(TASK, "the user closed the window.") == Success(None)

    result = (await run_beside(made, stop_later)).unwrap()
    assert (result.status, result.success, result.output) == ("partial", False, "It is three, I think.")
    assert result.metadata.terminated_by == "stopped"
    assert result.reason == "The run was stopped: the user closed the window. Missing: a final answer."
    assert [step.content for step in result.steps if step.type == "observation"] == ["3"]
    assert result.metadata.tokens_used == 15
    assert isinstance(made.recorder.events[-1], TaskCompleted)
    assert [(event.phase, event.reason) for event in made.recorder.of(ExecutionStopped)] == [
        ("think", "the user closed the window.")
    ]
    assert (len(costs.records), [entry.status for entry in log.of("run")]) == (1, ["partial"])
    assert len(memory.flushed) == 1
    assert made.engine.running() == ()


async def test_a_stopped_run_cuts_off_its_tools_and_says_so() -> None:
    cut_off: list[str] = []

    async def slow() -> str:
        try:
            await anyio.sleep(30)
        except anyio.get_cancelled_exc_class():
            cut_off.append("slow")
            raise
        return "late"

    made = bench(ScriptedLLM(call("slow")), tools=FakeTools({"slow": slow}))

    async def stop_later() -> None:
        await anyio.sleep(1)
        made.engine.stop(TASK)

    result = (await run_beside(made, stop_later)).unwrap()
    assert result.reason == "The run was stopped. Missing: a final answer."
    assert [step.type for step in result.steps] == ["action"]
    assert cut_off == ["slow"]


async def test_a_paused_run_can_be_stopped() -> None:
    async def pause() -> str:
        made.engine.pause(TASK)
        return "paused"

    made = bench(
        ScriptedLLM(calls(call("pause"), text="Soon."), say("never")), tools=FakeTools({"pause": pause})
    )

    async def stop_later() -> None:
        await anyio.sleep(1)
        assert made.engine.stop(TASK) == Success(None)

    result = (await run_beside(made, stop_later)).unwrap()
    assert (result.output, result.metadata.terminated_by) == ("Soon.", "stopped")


@pytest.mark.parametrize("phase", ["memory-flush", "cost-track"])
async def test_a_stopped_run_can_be_cancelled_while_it_ends(phase: LifecyclePhase) -> None:
    async def cancel(context: ExecutionContext) -> None:
        if not cancelled:
            cancelled.append(made.engine.cancel(TASK))
            await anyio.sleep(30)

    cancelled: list[object] = []
    costs = RecordingCostTracker()
    made = bench(
        ScriptedLLM(call("add", a=1, b=2), say("never", delay=30)),
        hooks=[LifecycleHook(phase, "before", cancel)],
        memory=InMemoryMemory(),
        cost_tracker=costs,
    )

    async def stop_later() -> None:
        await anyio.sleep(1)
        made.engine.stop(TASK)

    assert (await run_beside(made, stop_later)).failure().error == RunCancelled("task-1", phase)
    assert cancelled == [Success(None)]
    assert len(costs.records) == 1


async def test_a_run_that_is_stopped_before_its_loop_has_nothing() -> None:
    class Slow(FixedRouter):
        @effect
        async def select_model(self, task: Task, needs: RouteNeeds) -> Result[ModelRoute, ServiceFailed]:
            await anyio.sleep(30)
            return Success(ModelRoute("m", "late"))

    memory = InMemoryMemory()
    made = bench(ScriptedLLM(say("never")), cost_router=Slow("m"), memory=memory)

    async def stop_later() -> None:
        await anyio.sleep(1)
        made.engine.stop(TASK)

    result = (await run_beside(made, stop_later)).unwrap()
    assert (result.status, result.output, result.steps) == ("partial", None, ())
    assert memory.flushed == []


async def test_an_answer_whose_verification_is_stopped_is_handed_over_as_partial() -> None:
    class Slow(FixedVerifier):
        @effect
        async def verify(
            self, task: Task, result: ReasoningResult, *, llm: LLM, model: str | None = None
        ) -> Result[VerificationReport, ServiceFailed]:
            await anyio.sleep(30)
            return Success(VerificationReport(1.0, True))

    made = bench(ScriptedLLM(answer("It is 3.")), verifier=Slow(1.0))

    async def stop_later() -> None:
        await anyio.sleep(1)
        made.engine.stop(TASK)

    result = (await run_beside(made, stop_later)).unwrap()
    assert (result.status, result.output) == ("partial", "It is 3.")
    assert result.reason == "The run was stopped. Missing: the verification of the answer."
    assert result.metadata.terminated_by == "stopped"
    assert made.recorder.of(ResultVerified) == []


async def test_what_a_stopped_run_hands_over_passes_the_guardrail() -> None:
    llm = ScriptedLLM(calls(call("add", a=1, b=2), text="The pin is 1234."), say("never", delay=30))
    made = bench(llm, guardrail=BlockWords("1234", stages=["output"]))

    async def stop_later() -> None:
        await anyio.sleep(1)
        made.engine.stop(TASK)

    failed = (await run_beside(made, stop_later)).failure()
    assert "blocked" in failed.error.message
    assert "1234" not in str(failed)


async def test_an_input_that_was_not_checked_yet_is_not_remembered() -> None:
    class Slow(BlockWords):
        @effect
        async def check(
            self, text: str, stage: GuardrailStage, llm: LLM | None = None
        ) -> Result[GuardrailReport, ServiceFailed]:
            await anyio.sleep(30)
            return Success(GuardrailReport(allowed=True))

    memory = InMemoryMemory()
    made = bench(ScriptedLLM(say("never")), guardrail=Slow(), memory=memory)

    async def stop_later() -> None:
        await anyio.sleep(1)
        made.engine.stop(TASK)

    assert (await run_beside(made, stop_later)).unwrap().output is None
    assert memory.flushed == []


async def test_a_run_that_has_its_answer_can_no_longer_be_stopped_or_paused() -> None:
    answers: list[object] = []

    def stop(context: object) -> None:
        answers.extend((made.engine.stop(TASK), made.engine.pause(TASK)))

    made = bench(
        ScriptedLLM(answer("three")),
        hooks=[LifecycleHook("memory-flush", "before", stop)],
        memory=InMemoryMemory(),
    )
    assert (await made.run()).unwrap().status == "completed"
    ending = Failure(TaskError("Task task-1 is being ended.", "task-1"))
    assert answers == [ending, ending]


@pytest.mark.parametrize("verb", ["stop", "cancel"])
@pytest.mark.parametrize("phase", ["bootstrap", "strategy-select"])
async def test_a_run_that_is_ended_before_its_loop_asks_no_model(verb: str, phase: LifecyclePhase) -> None:
    llm = ScriptedLLM(say("never asked"))  # answers without waiting, so that no await would cut it off
    made = bench(llm, hooks=[LifecycleHook(phase, "before", lambda _: getattr(made.engine, verb)(TASK))])
    outcome = await made.run()
    assert llm.requests == []
    if verb == "stop":
        assert (outcome.unwrap().status, outcome.unwrap().output) == ("partial", None)
    else:
        assert isinstance(outcome.failure().error, RunCancelled)


@pytest.mark.parametrize("verb", ["stop", "cancel"])
async def test_a_run_that_is_ended_in_a_tool_runs_no_further_tool(verb: str) -> None:
    def end() -> str:
        getattr(made.engine, verb)(TASK)
        return "ended"

    tools = FakeTools({"end": end, "add": lambda a, b: a + b})
    llm = ScriptedLLM(call("end"), call("add", a=1, b=2), say("3"))
    made = bench(llm, tools=tools)
    await made.run()
    assert [each.name for each in tools.calls] == ["end"]
    assert len(llm.requests) == 1


async def test_what_a_run_that_is_being_ended_cannot_do_is_refused() -> None:
    answers: list[object] = []

    async def end() -> str:
        engine = made.engine
        answers.extend((engine.pause(TASK), engine.cancel(TASK), engine.resume(TASK)))
        answers.extend((engine.stop(TASK), engine.pause(TASK)))
        return "ended"

    made = bench(ScriptedLLM(call("end"), say("never")), tools=FakeTools({"end": end}))
    assert isinstance((await made.run()).failure().error, RunCancelled)
    done, ending = Success(None), Failure(TaskError("Task task-1 is being ended.", "task-1"))
    assert answers == [done, done, Failure(TaskError("Task task-1 is not paused.", "task-1")), ending, ending]


@pytest.mark.parametrize("verb", ["pause", "resume", "stop"])
async def test_what_does_not_run_can_be_neither_paused_nor_resumed_nor_stopped(verb: str) -> None:
    made = bench(ScriptedLLM(say("three")))
    unknown = Failure(TaskError("Task task-1 is not running.", "task-1"))
    assert getattr(made.engine, verb)(TASK) == unknown
    await made.run()
    assert getattr(made.engine, verb)(TASK) == unknown


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_run_is_paused_resumed_and_stopped_from_another_thread(backend: str) -> None:
    asked, paused, go_on = threading.Event(), threading.Event(), threading.Event()

    async def look(place: str) -> str:
        asked.set()
        await anyio.to_thread.run_sync(go_on.wait, PATIENCE_S, abandon_on_cancel=True)
        return f"{place} is empty"

    tools = FakeTools({"look": look})
    made = bench(ScriptedLLM(call("look", place="a"), call("look", place="b")), tools=tools)
    made.engine.ports.events.subscribe(lambda e: paused.set() if isinstance(e, ExecutionPaused) else None)
    outcome: list[Result[TaskResult, TaskFailed]] = []
    task = made.task()
    thread = threading.Thread(
        target=lambda: outcome.append(anyio.run(made.engine.conduct, task, backend=backend)),
        daemon=True,
    )
    thread.start()
    assert asked.wait(PATIENCE_S)
    assert made.engine.pause(task.id) == Success(None)
    go_on.set()
    assert paused.wait(PATIENCE_S)
    asked.clear()
    go_on.clear()
    assert made.engine.resume(task.id) == Success(None)
    assert asked.wait(PATIENCE_S)
    assert made.engine.stop(task.id) == Success(None)
    thread.join(PATIENCE_S)
    result = outcome[0].unwrap()
    assert (result.status, result.metadata.terminated_by) == ("partial", "stopped")
    assert [event.next_step for event in made.recorder.of(ExecutionPaused)] == ["model call"]


# --- at the very beginning --------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", ["cancel", "stop", "pause"])
async def test_a_subscriber_of_the_first_event_controls_the_run(request_: str) -> None:
    made = bench(ScriptedLLM(answer("three")))
    answers: list[Result[None, TaskError]] = []

    def control(event: object) -> None:
        if isinstance(event, TaskStarted):
            answers.append(getattr(made.engine, request_)(event.task_id))
        if isinstance(event, ExecutionPaused):
            answers.append(made.engine.resume(event.task_id))

    made.engine.ports.events.subscribe(control)
    outcome = await made.run()
    match request_:
        case "cancel":
            assert answers == [Success(None)]
            assert isinstance(outcome.failure().error, RunCancelled)
        case "stop":
            assert answers == [Success(None)]
            assert outcome.unwrap().metadata.terminated_by == "stopped"
        case _:
            assert answers == [Success(None)] * 2
            assert outcome.unwrap().output == "three"
    assert made.engine.running() == ()


@pytest.mark.parametrize("reason", [None, 5])
async def test_a_reason_that_is_no_text_is_refused_at_the_call(reason: object) -> None:
    made = bench(ScriptedLLM(answer("three", delay=1.0)))

    async def stop() -> None:
        await anyio.sleep(0.5)
        refused = made.engine.stop(TASK, reason)  # type: ignore[arg-type]
        kind = type(reason).__name__
        assert refused == Failure(TaskError(f"reason: got {kind}, expected a sentence as a text.", TASK))

    assert (await run_beside(made, stop)).unwrap().output == "three"
