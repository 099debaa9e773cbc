"""Runs on event loops of several threads, and what other threads may ask of them."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import anyio
import pytest
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import LLMErrors, RunCancelled, TaskError
from reactive_agents.core.ids import TaskId
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.core.tasks import TaskResult
from reactive_agents.effects import effect
from reactive_agents.engine import LifecycleHook, LifecycleHookRegistry
from reactive_agents.testing import FakeTools, RecordingCostTracker, ScriptedLLM, call, forever, say
from tests.support.engines import bench

T = TypeVar("T")
BACKENDS = ["asyncio", "trio"]
PATIENCE_S = 30.0
"""Seconds until a test that hangs fails; nothing is expected to take that long."""


def on_another_thread(backend: str, run: Callable[[], Awaitable[T]]) -> Future[T]:
    """The future result of a coroutine function that runs on an event loop of its own thread."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(anyio.run(run, backend=backend))
        except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()  # one that hangs fails its test, and no other
    return future


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_is_cancelled_from_another_thread_within_its_model_call(backend: str) -> None:
    asked, cut_off = threading.Event(), threading.Event()

    class Slow(ScriptedLLM):
        @effect
        async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
            asked.set()
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                cut_off.set()
                raise
            raise AssertionError("it was to be cut off")

    made = bench(Slow(), cost_tracker=(costs := RecordingCostTracker()))
    running = on_another_thread(backend, made.run)
    assert asked.wait(PATIENCE_S)
    assert made.engine.running() == ("task-1",)
    assert made.engine.cancel(TaskId("task-1")) == Success(None)
    failed = running.result(PATIENCE_S).failure()
    assert failed.error == RunCancelled("task-1", "think")
    assert cut_off.is_set()
    assert len(costs.records) == 1
    refused = made.engine.cancel(TaskId("task-1"))
    assert refused == Failure(TaskError("Task task-1 is not running.", "task-1"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_is_cancelled_from_the_thread_of_its_own_tool(backend: str) -> None:
    async def cancel_elsewhere() -> None:
        await anyio.to_thread.run_sync(made.engine.cancel, TaskId("task-1"))
        await anyio.sleep_forever()

    made = bench(ScriptedLLM(call("stop"), say("never")), tools=FakeTools({"stop": cancel_elsewhere}))
    running = on_another_thread(backend, made.run)
    assert running.result(PATIENCE_S).failure().error == RunCancelled("task-1", "act")


def test_cancelling_from_many_threads_agrees_with_how_each_run_ended() -> None:
    """Whoever is told that a run is cancelled finds it cancelled, and nobody else does."""
    made = bench(ScriptedLLM(forever(say("three"))))
    names = [TaskId(f"t{number}") for number in range(100)]
    answers: dict[str, bool] = {}
    begun = threading.Semaphore(0)

    async def run_all() -> dict[str, Result[TaskResult, object]]:
        outcomes: dict[str, Result[TaskResult, object]] = {}
        for name in names:
            begun.release()
            outcomes[name] = await made.engine.conduct(made.task("Say done.", name))
        return outcomes

    def cancel_each() -> None:
        for name in names:
            assert begun.acquire(timeout=PATIENCE_S)
            answers[name] = isinstance(made.engine.cancel(name), Success)

    running = on_another_thread("asyncio", run_all)
    cancelling = threading.Thread(target=cancel_each, daemon=True)
    cancelling.start()
    outcomes = running.result(PATIENCE_S)
    cancelling.join(PATIENCE_S)
    ended = {name: isinstance(outcome, Failure) for name, outcome in outcomes.items()}
    assert ended == answers


def test_runs_of_many_threads_share_one_engine() -> None:
    costs = RecordingCostTracker()
    made = bench(
        ScriptedLLM(forever(call("add", a=1, b=2, when="What is")), forever(say("3"))), cost_tracker=costs
    )
    together = threading.Barrier(8)

    def run(number: int) -> list[str]:
        together.wait(PATIENCE_S)
        outputs = []
        for turn in range(10):
            task = made.task("Say 3.", f"t{number}-{turn}")
            result = anyio.run(made.engine.conduct, task)
            outputs.append(result.unwrap().output or "")
        return outputs

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(8))) == [["3"] * 10] * 8
    assert len(costs.records) == 80
    assert made.engine.running() == ()


def test_one_task_runs_once_however_many_threads_begin_it() -> None:
    refused, all_refused = [], threading.Event()

    class Waiting(ScriptedLLM):
        @effect
        async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
            assert await anyio.to_thread.run_sync(all_refused.wait, PATIENCE_S)
            return Success(ModelResponse("three", self.model))

    made = bench(Waiting())
    together = threading.Barrier(8)

    def run(_: int) -> object:
        together.wait(PATIENCE_S)
        outcome = anyio.run(made.run)
        if isinstance(outcome, Success):
            return outcome.unwrap().output
        refused.append(outcome.failure().error)
        if len(refused) == 7:
            all_refused.set()
        return None

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(run, range(8)))
    assert refused == [TaskError("Task task-1 is already running.", "task-1")] * 7
    assert outcomes.count("three") == 1


def test_hooks_are_registered_and_unregistered_from_many_threads() -> None:
    registry = LifecycleHookRegistry()
    together = threading.Barrier(8)

    def register(_: int) -> None:
        together.wait(PATIENCE_S)
        for turn in range(500):
            unregister = registry.register(LifecycleHook("think", "before", lambda context: None))
            if turn:
                unregister()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(register, range(8)))
    assert len(registry.list()) == 8
