"""Cancelling runs, looking into them, and running many at once."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from returns.maybe import Nothing
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ModelUnavailable, RunCancelled, ServiceFailed, TaskError, root_cause
from reactive_agents.core.events import (
    ExecutionCancelled,
    ExecutionPhaseFailed,
    TaskCompleted,
    TaskFailed,
)
from reactive_agents.core.governance import AuditEntry
from reactive_agents.core.ids import TaskId
from reactive_agents.core.tasks import TaskResult
from reactive_agents.effects import effect
from reactive_agents.engine import ExecutionContext, LifecycleHook, LifecyclePhase
from reactive_agents.testing import (
    FakeTools,
    RecordingAuditLog,
    RecordingCostTracker,
    ScriptedLLM,
    Turn,
    answer,
    call,
    calls,
    fail,
    forever,
    say,
)
from tests.support.engines import Bench, bench
from tests.support.virtual_time import Backend, virtual_time
from tests.support.waiting import closed_at

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


async def run_until_cancelled(made: Bench, seconds: float = 0.05) -> Result[TaskResult, TaskFailed]:
    outcomes: list[Result[TaskResult, TaskFailed]] = []

    async def run() -> None:
        outcomes.append(await made.run())

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await anyio.sleep(seconds)
        assert made.engine.running() == ("task-1",)
        assert isinstance(made.engine.cancel(TaskId("task-1")), Success)
    return outcomes[0]


async def test_a_cancelled_model_call_ends_the_run_with_a_typed_error() -> None:
    costs, log = RecordingCostTracker(), RecordingAuditLog()
    llm = ScriptedLLM(call("add", a=1, b=2), say("never", delay=30))
    made = bench(llm, cost_tracker=costs, audit=log)
    failed = (await run_until_cancelled(made)).failure()
    assert failed.error == RunCancelled("task-1", "think")
    assert failed.metadata.tokens_used == 15
    assert [type(event).__name__ for event in made.recorder.events[-1:]] == ["TaskFailed"]
    assert [event.phase for event in made.recorder.of(ExecutionCancelled)] == ["think"]
    assert costs.records[0].usage.total_tokens == 15
    assert "cancelled" in log.of("run")[0].detail
    assert made.engine.running() == ()
    assert made.engine.get_context(TaskId("task-1")) is Nothing


async def test_cancelling_stops_the_tools_that_run() -> None:
    stopped: list[str] = []

    async def slow(name: str) -> str:
        try:
            await anyio.sleep(30)
        except anyio.get_cancelled_exc_class():
            stopped.append(name)
            raise
        return name

    llm = ScriptedLLM(calls(call("slow", name="a"), call("slow", name="b")))
    failed = (await run_until_cancelled(bench(llm, tools=FakeTools({"slow": slow})))).failure()
    assert failed.error == RunCancelled("task-1", "act")
    assert sorted(stopped) == ["a", "b"]


async def test_cancellation_from_outside_passes_on_and_closes_the_run() -> None:
    made = bench(ScriptedLLM(say("never", delay=30)))
    with anyio.move_on_after(0.05) as scope:
        await made.run()
    assert scope.cancelled_caught
    assert isinstance(made.recorder.events[-1], TaskFailed)
    assert len(made.recorder.of(ExecutionCancelled)) == 1
    assert made.engine.running() == ()


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("steps", [[say("never", delay=30)], [fail(ModelUnavailable("down", "m"))]])
async def test_the_last_event_is_told_also_when_a_second_cancellation_breaks_into_the_closing(
    steps: list[Turn],
) -> None:
    closing = anyio.Event()

    async def linger(context: ExecutionContext) -> None:
        closing.set()
        await anyio.sleep(30)

    hook = LifecycleHook("cost-track", "before", linger)
    costs = RecordingCostTracker()
    made = bench(ScriptedLLM(*steps), hooks=[hook], cost_tracker=costs)
    task = asyncio.ensure_future(made.run())
    if not steps[0].error:
        await asyncio.sleep(0.01)
        task.cancel()
    await closing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(made.recorder.events[-1], TaskFailed)
    assert len(made.recorder.of(TaskFailed)) == 1
    assert len(costs.records) == 1
    assert made.engine.running() == ()


async def test_a_run_whose_coroutine_is_closed_says_that_it_is_not_recorded() -> None:
    """Nothing can be awaited then, so neither its costs nor its audit entry can be written."""
    reached, costs, log = anyio.Event(), RecordingCostTracker(), RecordingAuditLog()

    async def wait() -> str:
        reached.set()
        await anyio.sleep_forever()
        return "never"

    made = bench(ScriptedLLM(call("wait")), tools=FakeTools({"wait": wait}), cost_tracker=costs, audit=log)
    await closed_at(reached, made.run())
    *gaps, last = made.recorder.events[-3:]
    assert [(each.phase, each.fatal) for each in gaps if isinstance(each, ExecutionPhaseFailed)] == [
        ("cost-track", False),
        ("audit", False),
    ]
    assert isinstance(last, TaskFailed)
    assert last.error == RunCancelled("task-1", "act")
    assert (costs.records, log.of("run"), made.engine.running()) == ([], [], ())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_audit_log_that_hangs_holds_up_neither_the_run_nor_the_end_of_the_event_loop(
    backend: str,
) -> None:
    class Hanging(RecordingAuditLog):
        @effect
        async def append(self, entry: AuditEntry) -> Result[None, ServiceFailed]:  # type: ignore[override]
            await anyio.sleep_forever()
            return Success(None)

    made = bench(ScriptedLLM(say("never", delay=3_600)), audit=Hanging())

    async def main() -> None:
        with anyio.move_on_after(0.1):
            await made.run()

    name, options = virtual_time(backend)
    anyio.run(main, backend=name, backend_options=options)
    assert [each.phase for each in made.recorder.of(ExecutionPhaseFailed)] == ["audit"]
    assert isinstance(made.recorder.events[-1], TaskFailed)


async def test_cancelling_what_does_not_run_is_a_typed_failure() -> None:
    outcome = bench(ScriptedLLM()).engine.cancel(TaskId("nobody"))
    assert isinstance(outcome, Failure)
    assert outcome.failure() == TaskError("Task nobody is not running.", "nobody")


async def test_the_id_of_a_run_is_refused_with_that_of_its_task() -> None:
    refused: list[Result[None, TaskError]] = []

    async def cancel(context: ExecutionContext) -> None:
        refused.append(made.engine.cancel(TaskId(context.run_id)))

    made = bench(
        ScriptedLLM(say("It is a small green apple.")), hooks=[LifecycleHook("think", "before", cancel)]
    )
    run_id = (await made.run()).unwrap().run_id
    message = f"{run_id} is the id of a run; expected that of its task, task-1."
    assert refused == [Failure(TaskError(message, run_id))]


async def test_a_run_that_is_being_closed_can_no_longer_be_cancelled_and_keeps_its_id() -> None:
    answers: list[object] = []

    async def cancel(context: ExecutionContext) -> None:
        if answers:  # of the run that is refused
            return
        answers.append(made.engine.cancel(context.task_id))
        answers.append((await made.run()).failure().error)

    error = ModelUnavailable("down", "m")
    hook = LifecycleHook("cost-track", "before", cancel)
    costs = RecordingCostTracker()
    made = bench(ScriptedLLM(fail(error)), hooks=[hook], cost_tracker=costs)
    failed = (await made.run()).failure()
    assert root_cause(failed.error) == error
    assert answers == [
        Failure(TaskError("Task task-1 is not running.", "task-1")),
        TaskError("Task task-1 is already running.", "task-1"),
    ]
    assert made.engine.running() == ()


@pytest.mark.parametrize("phase", ["think", "complete"])
async def test_a_run_that_was_cancelled_ends_so_also_when_no_await_comes_any_more(
    phase: LifecyclePhase,
) -> None:
    answers: list[object] = []
    hook = LifecycleHook(phase, "after", lambda context: answers.append(made.engine.cancel(context.task_id)))
    made = bench(ScriptedLLM(answer("three")), hooks=[hook])
    failed = (await made.run()).failure()
    assert answers == [Success(None)]
    assert isinstance(failed.error, RunCancelled)
    assert isinstance(made.recorder.events[-1], TaskFailed)


async def test_a_model_service_that_raises_is_named_and_the_run_is_closed() -> None:
    class Broken(ScriptedLLM):
        @property
        def model(self) -> str:
            return "broken/model"

        def complete(self, request: object) -> object:  # type: ignore[override]
            raise ZeroDivisionError("a defect")

    made = bench(Broken())
    cause = root_cause((await made.run()).failure().error)
    assert isinstance(cause, ModelUnavailable)
    assert cause.message == "The model service Broken raised ZeroDivisionError: a defect"
    assert isinstance(made.recorder.events[-1], TaskFailed)
    assert made.engine.running() == ()


async def test_the_context_can_be_read_while_the_task_runs() -> None:
    seen: list[tuple[int, int]] = []

    def look(a: int, b: int) -> int:
        context = made.engine.get_context(TaskId("task-1")).unwrap()
        seen.append((context.iteration, len(context.messages)))
        return a + b

    llm = ScriptedLLM(call("look", a=1, b=1), call("look", a=2, b=2), say("4"))
    made = bench(llm, tools=FakeTools({"look": look}))
    await made.run()
    assert seen == [(1, 1), (2, 3)]


async def test_the_same_task_cannot_run_twice_at_once() -> None:
    made = bench(ScriptedLLM(forever(say("three", delay=0.05))))
    outcomes: list[Result[TaskResult, TaskFailed]] = []

    async def run() -> None:
        outcomes.append(await made.run())

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        group.start_soon(run)
    refused = [outcome.failure().error for outcome in outcomes if isinstance(outcome, Failure)]
    assert refused == [TaskError("Task task-1 is already running.", "task-1")]
    assert made.engine.running() == ()


async def test_many_runs_at_once_do_not_see_each_other() -> None:
    count = 20
    llm = ScriptedLLM(
        *(call("add", a=n, b=n, when=f"task number {n}.", delay=0.01) for n in range(count)),
        *(answer(f"the sum for {n}", when=f"task number {n}.", delay=0.01) for n in range(count)),
    )
    marks: list[str] = []

    def mark(context: object) -> None:
        marks.append(str(getattr(context, "task_id", "")))

    made = bench(llm, hooks=[LifecycleHook("complete", "before", mark)])
    results: dict[int, TaskResult] = {}

    async def run(n: int) -> None:
        outcome = await made.engine.conduct(made.task(f"task number {n}.", f"t{n}"))
        results[n] = outcome.unwrap()

    async with anyio.create_task_group() as group:
        for n in range(count):
            group.start_soon(run, n)
    for n, result in results.items():
        assert result.output == f"the sum for {n}"
        assert result.metadata.tokens_used == 30
        assert result.steps[1].content == str(2 * n)
    assert sorted(marks) == sorted(f"t{n}" for n in range(count))
    by_run: dict[str, list[int]] = {}
    for event in made.recorder.events:
        by_run.setdefault(event.run_id, []).append(event.sequence)
    assert len(by_run) == count
    assert all(sequence == list(range(1, len(sequence) + 1)) for sequence in by_run.values())
    assert len(made.recorder.of(TaskCompleted)) == count


async def test_a_call_that_was_under_way_is_a_step_and_one_that_was_not_is_none() -> None:
    async def slow() -> str:
        await anyio.sleep(30)
        return "late"

    made = bench(ScriptedLLM(calls(call("slow"), text="I wait.")), tools=FakeTools({"slow": slow}))
    failed = (await run_until_cancelled(made)).failure()
    assert [step.type for step in failed.steps] == ["thought", "action"]
    assert failed.metadata is not None
    assert failed.metadata.steps_count == 2

    async def hold(context: ExecutionContext) -> None:
        await anyio.sleep(30)

    hooks = (LifecycleHook("act", "before", hold),)
    made = bench(
        ScriptedLLM(calls(call("slow"), text="I wait.")), tools=FakeTools({"slow": slow}), hooks=hooks
    )
    failed = (await run_until_cancelled(made)).failure()
    assert [step.type for step in failed.steps] == ["thought"]
