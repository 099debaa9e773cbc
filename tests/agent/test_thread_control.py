"""One agent used from many threads: runs, cancellations, approvals."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from returns.result import Failure, Result, Success

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, tool
from reactive_agents.adapters.tools.mcp import McpServer
from reactive_agents.core.errors import ApprovalNotPending, LLMErrors, RunCancelled, TaskError
from reactive_agents.core.events import (
    AgentEvent,
    ApprovalRequested,
    ExecutionPhaseFailed,
)
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall, ToolMessage, UserMessage
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, Usage
from reactive_agents.core.tasks import Task, TaskResult
from reactive_agents.effects import effect
from reactive_agents.testing import EventRecorder, ScriptedLLM, answer, call, forever, say
from tests.support.mcp_server import PROGRAM
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.sqlite_files import sqlite_file

T = TypeVar("T")
PATIENCE_S = 60.0
"""Seconds until a test that hangs fails; nothing is expected to take that long."""


def on_another_thread(work: Callable[[], T]) -> Future[T]:
    """The future result of a function on a thread that keeps no test from ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


@tool(requires_approval=True)
def send(to: str) -> str:
    """Send the letter."""
    return f"sent to {to}"


def test_cancelling_from_another_thread_closes_the_connection_of_the_model_call() -> None:
    with OpenAIServer(Answer("late", delay_s=PATIENCE_S)) as server:
        agent = (
            ReactiveAgents.create()
            .with_model("openai/gpt-4o-mini", base_url=server.base_url, api_key="sk-test-0123456789")
            .build()
        )
        task = agent.new_task("Say hello.")
        running = on_another_thread(lambda: agent.run_sync(task))
        assert server.asked.wait(PATIENCE_S)
        assert agent.cancel(task.id) == Success(None)
        with pytest.raises(AgentError) as caught:
            running.result(PATIENCE_S)
        assert caught.value.error == RunCancelled(task.id, "think")
        assert server.hung_up.wait(PATIENCE_S)
        assert len(server.requests) == 1


@pytest.mark.parametrize("approved", [True, False])
def test_a_request_is_decided_from_another_thread_as_soon_as_it_is_published(approved: bool) -> None:
    agent = (
        ReactiveAgents.create()
        .with_llm(ScriptedLLM(call("send", to="Ann"), answer("Sent." if approved else "Not sent.")))
        .with_reasoning()
        .with_tools(send)
        .with_approval()
        .build()
    )
    requests: queue.Queue[ApprovalRequested] = queue.Queue()

    def forward(event: AgentEvent) -> None:
        if isinstance(event, ApprovalRequested):
            requests.put(event)

    agent.subscribe(forward)
    running = on_another_thread(lambda: agent.run_sync("Send it."))
    request = requests.get(timeout=PATIENCE_S)
    if approved:
        assert agent.approve(request.run_id, request.approval_id) == Success(None)
    else:
        assert agent.deny(request.run_id, request.approval_id, "not to Ann") == Success(None)
    result = running.result(PATIENCE_S)
    (seen,) = [step.content for step in result.steps if step.type == "observation"]
    assert seen == ("sent to Ann" if approved else "The call of 'send' was not approved: not to Ann")
    late = agent.approve(request.run_id, request.approval_id)
    assert late == Failure(ApprovalNotPending(request.run_id, request.approval_id))


def test_of_many_threads_one_decides_a_request() -> None:
    agent = (
        ReactiveAgents.create()
        .with_llm(ScriptedLLM(call("send", to="Ann"), answer("Done.")))
        .with_reasoning()
        .with_tools(send)
        .with_approval()
        .build()
    )
    requests: queue.Queue[ApprovalRequested] = queue.Queue()
    agent.subscribe(lambda event: requests.put(event) if isinstance(event, ApprovalRequested) else None)
    running = on_another_thread(lambda: agent.run_sync("Send it."))
    request = requests.get(timeout=PATIENCE_S)
    together = threading.Barrier(8)

    def decide(_: int) -> bool:
        together.wait(PATIENCE_S)
        return isinstance(agent.approve(request.run_id, request.approval_id), Success)

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(decide, range(8))) == 1
    assert running.result(PATIENCE_S).status == "completed"


def test_a_request_is_decided_by_an_event_handler() -> None:
    agent = (
        ReactiveAgents.create()
        .with_llm(ScriptedLLM(call("send", to="Ann"), answer("Done.")))
        .with_reasoning()
        .with_tools(send)
        .with_approval()
        .build()
    )

    def approve(event: AgentEvent) -> None:
        if isinstance(event, ApprovalRequested):
            assert agent.approve(event.run_id, event.approval_id) == Success(None)

    agent.subscribe(approve)
    result = on_another_thread(lambda: agent.run_sync("Send it.")).result(PATIENCE_S)
    assert "sent to Ann" in [step.content for step in result.steps]


class Echoing:
    """Implements ``LLM`` without any state: it has the task said again by a tool, and answers with that."""

    model = "echoing/test"

    def __init__(self, tool_name: str) -> None:
        self._tool_name = tool_name

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        """Return a call, or after it the result of the call."""
        results = [each.content for each in request.messages if isinstance(each, ToolMessage)]
        usage = Usage(10, 5, 15)
        if results:
            answered = ToolCall(CallId("b"), "final-answer", {"answer": results[-1]})
            return Success(ModelResponse("", self.model, tool_calls=(answered,), usage=usage))
        users = [each.content for each in request.messages if isinstance(each, UserMessage)]
        text = next(text for text in users if text.startswith("This is task"))
        wanted = ToolCall(CallId("a"), self._tool_name, {"text": text})
        return Success(ModelResponse("", self.model, tool_calls=(wanted,), usage=usage))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """Return nothing: no run of this file streams."""
        raise NotImplementedError
        yield


@pytest.mark.system
@pytest.mark.parametrize("with_server", [False, True])
def test_many_threads_run_tasks_of_one_agent_with_memory_cost_and_audit(
    tmp_path: Path, with_server: bool
) -> None:
    threads, turns = 6, 4

    def echo(text: str) -> str:
        """Say it again."""
        return text

    builder = (
        ReactiveAgents.create()
        .with_llm(Echoing("far-echo" if with_server else "echo"))
        .with_reasoning()
        .with_tools(echo)
        .with_memory(tmp_path / "memory.db")
        .with_cost(tmp_path / "cost.db")
        .with_audit(tmp_path / "audit.db")
    )
    if with_server:
        builder = builder.with_mcp(
            McpServer("far", command=sys.executable, args=(str(PROGRAM),), trust_hints=True)
        )
    agent = builder.build()
    recorder = EventRecorder()
    agent.subscribe(recorder)
    together = threading.Barrier(threads)

    def work(thread: int) -> list[TaskResult]:
        together.wait(PATIENCE_S)
        return [agent.run_sync(f"This is task {thread * turns + turn}.") for turn in range(turns)]

    futures = [on_another_thread(partial(work, thread)) for thread in range(threads)]
    results = [result for future in futures for result in future.result(PATIENCE_S)]
    assert agent.running() == ()
    for number, result in enumerate(results):
        assert result.status == "completed"
        assert f"This is task {number}." in (result.output or "")
    assert [event.error.message for event in recorder.of(ExecutionPhaseFailed)] == []
    with sqlite_file(tmp_path / "audit.db") as audit:
        assert audit.execute("SELECT count(*) FROM entries").fetchone() == (2 * threads * turns,)
    with sqlite_file(tmp_path / "cost.db") as cost:
        assert cost.execute("SELECT count(*) FROM spending_runs").fetchone() == (threads * turns,)


def test_threads_that_first_use_an_agent_at_once_share_its_services() -> None:
    together = threading.Barrier(8)

    def engine_of(agent: ReactiveAgent) -> object:
        together.wait(PATIENCE_S)
        return agent.container.engine.engine()

    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("done"))).build()
            assert len(set(map(id, pool.map(engine_of, [agent] * 8)))) == 1


def begun_on(loop: asyncio.AbstractEventLoop) -> tuple[ReactiveAgent, Task, asyncio.Task[TaskResult]]:
    """An agent, with a task whose run waits in a tool while the loop does not run."""
    waits = asyncio.Event()

    async def wait() -> None:
        """Wait."""
        waits.set()
        await asyncio.Event().wait()

    llm = ScriptedLLM(call("wait"), forever(answer("Done.")))
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(wait).build()
    task = agent.new_task("Wait.")
    run = loop.create_task(agent.run(task))
    loop.run_until_complete(waits.wait())
    return agent, task, run


def test_a_run_is_cancelled_while_its_event_loop_does_not_run() -> None:
    loop = asyncio.new_event_loop()
    agent, task, run = begun_on(loop)
    assert agent.cancel(task.id) == Success(None)
    with pytest.raises(AgentError) as caught:
        loop.run_until_complete(run)
    loop.close()
    assert isinstance(caught.value.error, RunCancelled)


@pytest.mark.parametrize("verb", ["cancel", "stop", "pause", "resume"])
@pytest.mark.filterwarnings("ignore")
def test_a_run_whose_event_loop_was_closed_is_not_running_and_its_task_can_begin_again(verb: str) -> None:
    loop = asyncio.new_event_loop()
    agent, task, run = begun_on(loop)
    loop.close()
    assert agent.running() == ()
    assert getattr(agent, verb)(task.id) == Failure(TaskError(f"Task {task.id} is not running.", task.id))
    assert agent.run_sync(task).output == "Done."
    assert not run.done()
