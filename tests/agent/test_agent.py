"""The facade: every way to run a task, and every way that a run ends."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import pickle
import threading
import traceback
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import anyio
import anyio.to_thread
import pytest
from attrs import evolve, fields, has
from returns.io import IOFailure, IOSuccess
from returns.result import Failure

from reactive_agents import AgentError, AgentResult, Personas, ReactiveAgent, ReactiveAgents, RunContext, Task
from reactive_agents.core.errors import (
    ExecutionError,
    InvalidConfig,
    ModelUnavailable,
    RunCancelled,
    TaskError,
    root_cause,
)
from reactive_agents.core.events import (
    AgentEvent,
    ModelTextRetracted,
    ModelTextStreamed,
    TaskCompleted,
    TaskFailed,
    TaskStarted,
    ToolCallStarted,
)
from reactive_agents.core.ids import AgentId, TaskId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.effects import attempt
from reactive_agents.testing import (
    EventRecorder,
    InMemoryPersonaStore,
    ScriptedLLM,
    Turn,
    answer,
    call,
    fail,
    forever,
    say,
)
from tests.support.waiting import until


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent_of(*turns: Turn) -> ReactiveAgent:
    return ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(add).build()


SUM = (call("add", a=1, b=2), say("The answer is 3."))


@pytest.mark.anyio
async def test_run_gives_the_result() -> None:
    async with agent_of(*SUM) as agent:
        result = await agent.run("What is 1 + 2?")
    assert isinstance(result, AgentResult)
    assert (result.output, result.success, result.status) == ("The answer is 3.", True, "completed")
    assert [step.type for step in result.steps] == ["action", "observation", "thought"]
    figures = result.metadata
    assert (figures.tokens_used, figures.cost_usd, figures.steps_count) == (30, 0.0, 3)
    assert (figures.strategy_used, figures.model) == ("reactive", "scripted/test")
    assert figures.terminated_by == "final_answer"
    assert figures.duration_ms > 0


@pytest.mark.anyio
async def test_run_raises_the_typed_error_with_what_was_done_and_spent() -> None:
    agent = agent_of(call("add", a=1, b=2), fail(ModelUnavailable("The server is down.", "m", 503)))
    with pytest.raises(AgentError, match="The server is down") as caught:
        await agent.run("What is 1 + 2?")
    error = caught.value
    assert isinstance(error.error, ExecutionError)
    assert root_cause(error.error) == ModelUnavailable("The server is down.", "m", 503)
    assert [step.type for step in error.steps] == ["action", "observation"]
    assert error.metadata is not None
    assert error.metadata.tokens_used == 15
    assert error.run_id


@pytest.mark.anyio
async def test_an_effect_runs_once_and_a_retry_makes_another() -> None:
    llm = ScriptedLLM(fail(ModelUnavailable("down", "m")), say("Hello."))
    agent = ReactiveAgents.create().with_llm(llm).build()
    pending = agent.run_effect("Say hello.")
    first, again = await attempt(pending), await attempt(pending)
    assert first == again
    assert isinstance(first, Failure)
    assert len(llm.requests) == 1
    assert (await attempt(agent.run_effect("Say hello."))).unwrap().output == "Hello."


@pytest.mark.anyio
async def test_run_effect_gives_values_for_both_ways() -> None:
    match await agent_of(*SUM).run_effect("What is 1 + 2?"):
        case IOSuccess():
            pass
        case other:
            pytest.fail(f"expected a success, got {other}")
    match await agent_of(say("unused")).run_effect("  "):
        case IOFailure(Failure(error)):
            assert isinstance(error, TaskError)
        case other:
            pytest.fail(f"expected a failure, got {other}")


async def _awaited(run: Callable[[Any], Any], task: Any) -> None:
    answer = run(task)
    if inspect.isawaitable(answer):
        await answer


@pytest.mark.anyio
@pytest.mark.parametrize(("task", "told"), [(None, "None"), (5, "5"), (b"x", "a bytes")])
async def test_a_task_that_is_no_text_is_refused_whichever_way_it_is_run(task: Any, told: str) -> None:
    agent = agent_of(say("unused"))
    given = evolve(agent.new_task("x"), input=task)
    for each in (task, given):
        runs: tuple[Callable[[Any], Any], ...] = (
            agent.run,
            agent.run_sync,
            agent.new_task,
            lambda it: anext(agent.stream(it)),
        )
        for run in runs:
            with pytest.raises(AgentError, match=f"The task's input is {told}.*; expected a text") as caught:
                await _awaited(run, each)
            assert isinstance(caught.value.error, TaskError)
        failed = await attempt(agent.run_effect(each))
        assert isinstance(failed.failure(), TaskError)


@pytest.mark.anyio
async def test_a_task_object_keeps_its_id() -> None:
    agent = agent_of(*SUM)
    task = agent.new_task("What is 1 + 2?")
    assert agent.new_task(task) is task
    other = Task(TaskId("mine"), AgentId("agent"), "What is 1 + 2?", task.created_at, type="arithmetic")
    assert (await agent.run(other)).task_id == "mine"


def test_run_sync_works_without_an_event_loop_and_again() -> None:
    agent = agent_of(*SUM, *SUM)
    assert agent.run_sync("What is 1 + 2?").output == "The answer is 3."
    assert agent.run_sync("What is 1 + 2?").output == "The answer is 3."


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_run_sync_works_inside_a_running_event_loop(backend: str) -> None:
    agent = agent_of(*SUM)

    async def as_in_a_notebook() -> str | None:
        return agent.run_sync("What is 1 + 2?").output

    assert anyio.run(as_in_a_notebook, backend=backend) == "The answer is 3."


def test_run_sync_works_in_a_callback_of_a_running_event_loop() -> None:
    agent, outputs = agent_of(*SUM), list[str | None]()

    async def as_in_the_asyncio_console() -> None:
        asked = asyncio.Event()

        def ask() -> None:
            asked.set()
            outputs.append(agent.run_sync("What is 1 + 2?").output)

        asyncio.get_running_loop().call_soon(ask)
        await asked.wait()

    asyncio.run(as_in_the_asyncio_console())
    assert outputs == ["The answer is 3."]


def test_run_sync_raises_the_typed_error() -> None:
    with pytest.raises(AgentError) as caught:
        agent_of(fail(ModelUnavailable("down", "m"))).run_sync("What is 1 + 2?")
    assert root_cause(caught.value.error) == ModelUnavailable("down", "m")
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[1:] == ["run_sync", "result_or_raise"]  # none of the event loop


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_stream_gives_every_event_and_the_text_piece_by_piece() -> None:
    agent = agent_of(*SUM)
    recorder = EventRecorder()
    agent.subscribe(recorder)
    events = [event async for event in agent.stream("What is 1 + 2?")]
    assert events == recorder.events
    assert isinstance(events[0], TaskStarted)
    assert isinstance(events[-1], TaskCompleted)
    pieces = [event.text for event in events if isinstance(event, ModelTextStreamed)]
    assert len(pieces) > 1
    assert "".join(pieces) == "The answer is 3."
    assert events[-1].result.output == "The answer is 3."


@pytest.mark.anyio
async def test_a_streamed_text_that_is_turned_down_is_retracted() -> None:
    shown, text = "", ""
    async for event in agent_of(say("Let me add them."), *SUM).stream("What is 1 + 2?"):
        match event:
            case ModelTextStreamed(text=piece):
                text += piece
            case ModelTextRetracted(policy=policy):
                assert (policy, text) == ("text_answer", "Let me add them.")
                shown, text = "retracted", ""
    assert (shown, text) == ("retracted", "The answer is 3.")


@pytest.mark.anyio
async def test_stream_ends_with_the_failure() -> None:
    events = [event async for event in agent_of(fail(ModelUnavailable("down", "m"))).stream("What?")]
    assert isinstance(events[-1], TaskFailed)
    assert root_cause(events[-1].error) == ModelUnavailable("down", "m")


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_closing_a_stream_early_cancels_the_run() -> None:
    agent = agent_of(call("add", a=1, b=2), say("never", delay=30))
    recorder = EventRecorder()
    agent.subscribe(recorder)
    async with aclosing(agent.stream("What is 1 + 2?")) as events:
        async for event in events:
            if event.sequence == 8:
                break
    assert agent.running() == ()
    assert isinstance(recorder.events[-1], TaskFailed)
    assert isinstance(recorder.events[-1].error, RunCancelled)


@pytest.mark.anyio
async def test_leaving_a_stream_by_break_cancels_the_run() -> None:
    agent = agent_of(say("never", delay=30))
    before = asyncio.all_tasks()
    async for _ in agent.stream("What is 1 + 2?"):
        break
    gc.collect()
    await until(lambda: agent.running() == () and asyncio.all_tasks() == before)


@pytest.mark.anyio
async def test_a_consumer_that_raises_cancels_the_run() -> None:
    agent = agent_of(say("never", delay=30))

    async def consume() -> None:
        async with aclosing(agent.stream("What is 1 + 2?")) as events:
            async for _ in events:
                raise KeyError("in the consumer")

    with pytest.raises(KeyError):
        await consume()
    assert agent.running() == ()


@pytest.mark.anyio
async def test_cancel_ends_a_run_with_a_typed_error() -> None:
    llm = ScriptedLLM(say("never", delay=600))
    agent = ReactiveAgents.create().with_llm(llm).build()
    errors: list[AgentError] = []

    async def run() -> None:
        try:
            await agent.run("What is 1 + 2?")
        except AgentError as error:
            errors.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await until(lambda: llm.requests)
        (task_id,) = agent.running()
        agent.cancel(task_id)
    assert errors[0].error == RunCancelled(task_id, "think")


@pytest.mark.anyio
async def test_many_tasks_run_at_once() -> None:
    agent = agent_of(forever(say("done", delay=0.001)))
    results: list[AgentResult] = []

    async def run() -> None:
        results.append(await agent.run("anything"))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(run)
    assert len({result.run_id for result in results}) == 50


@pytest.mark.anyio
async def test_subscribe_hears_all_runs_until_it_is_ended() -> None:
    agent = agent_of(answer("one"), answer("two"), answer("three"))
    recorder = EventRecorder()
    end = agent.subscribe(recorder)
    await agent.run("first")
    await agent.run("second")
    end()
    await agent.run("third")
    assert [event.input for event in recorder.of(TaskStarted)] == ["first", "second"]


@pytest.mark.anyio
@pytest.mark.parametrize("plain", [True, False])
async def test_what_a_tool_raises_is_logged_with_its_traceback_and_without_secrets(
    plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fall_down() -> str:
        raise RuntimeError("the key is sk-proj-abcdefghijklmnopqrstuvwx1234")

    async def fall() -> str:
        return fall_down()

    llm = ScriptedLLM(call("fall_down" if plain else "fall"), say("It fell."))
    agent = ReactiveAgents.create().with_llm(llm).with_tools(fall_down if plain else fall).build()
    with caplog.at_level(logging.WARNING, "reactive_agents"):
        await agent.run("Fall.")
    assert "in fall_down" in caplog.text
    assert "RuntimeError: the key is" in caplog.text
    assert "abcdefghijklmnop" not in caplog.text
    assert {record.levelname for record in caplog.records} == {"WARNING"}


@pytest.mark.anyio
async def test_a_handler_that_masks_arguments_in_its_event_changes_no_call() -> None:
    sent: list[str] = []

    def send(to: str) -> str:
        """Send the letter."""
        sent.append(to)
        return f"sent to {to}"

    def mask(event: AgentEvent) -> None:
        if isinstance(event, ToolCallStarted):
            event.arguments["to"] = "***"

    model = ScriptedLLM(call("send", to="Ann"), answer("It was sent to Ann."))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(send).build()
    agent.subscribe(mask)
    assert (await agent.run("Send it to Ann.")).tool_results == {"send-1": "sent to Ann"}
    assert sent == ["Ann"]


@pytest.mark.anyio
async def test_a_handler_that_changes_the_data_in_its_events_changes_nothing_in_the_run() -> None:
    known: list[JsonObject] = []

    def look(context: RunContext, what: str) -> list[int]:
        """Look up the prices."""
        known.append(dict(context.metadata))
        return [1, 2]

    def spoil(value: Any) -> None:
        for each in value.values() if isinstance(value, dict) else value if not_text(value) else ():
            spoil(each)
        if isinstance(value, dict):
            value["spoiled"] = True
        elif isinstance(value, list):
            value.append("spoiled")
        elif has(type(value)):
            spoil([getattr(value, each.name) for each in fields(type(value))])

    def not_text(value: Any) -> bool:
        return isinstance(value, list | tuple)

    model = ScriptedLLM(call("look", what="apples"), answer("From 1 to 2."))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(look).build()
    agent.subscribe(spoil)
    result = await agent.run("What do apples cost?", metadata={"order": {"id": 7}})
    assert known == [{"order": {"id": 7}}]
    assert result.metadata.given == {"order": {"id": 7}}
    assert list(result.tool_results.values()) == ["[1, 2]"]
    assert "spoiled" not in f"{model.requests} {result.messages}"


@pytest.mark.anyio
async def test_arguments_that_are_nested_deeply_do_not_fail_a_run_with_a_handler() -> None:
    deep: Json = 1
    for _ in range(800):
        deep = {"in": deep}

    def pack(parcel: dict[str, Any]) -> str:
        """Pack a parcel."""
        return "packed"

    model = ScriptedLLM(call("pack", parcel=deep), answer("It is packed."))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(pack).build()
    kinds: list[type] = []
    agent.subscribe(lambda event: kinds.append(type(event)))
    assert (await agent.run("Pack it.")).tool_results == {"pack-1": "packed"}
    assert {ToolCallStarted, TaskCompleted} < set(kinds)


@pytest.mark.anyio
async def test_what_is_no_function_handles_no_events() -> None:
    persona = Personas.create("Ada").with_llm(ScriptedLLM()).with_store(InMemoryPersonaStore())
    handlers: tuple[tuple[Any, str], ...] = ((None, "None"), (lambda: None, "a function"))
    for wrong, given in handlers:
        for subject in (agent_of(), persona.with_domain("chat").build()):
            with pytest.raises(
                AgentError, match=f"handler: got {given}, expected a function of an event"
            ) as refused:
                subject.subscribe(wrong)
            assert isinstance(refused.value.error, InvalidConfig)


def test_an_async_handler_is_refused_outside_of_an_event_loop() -> None:
    async def listen(event: AgentEvent) -> None: ...

    with pytest.raises(AgentError, match="subscribed within its event loop"):
        agent_of().subscribe(listen)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.anyio
async def test_an_async_handler_gets_all_events_in_order_and_holds_up_no_run() -> None:
    go_on = anyio.Event()
    handled: list[int] = []

    class Listener:
        async def __call__(self, event: AgentEvent) -> None:
            await go_on.wait()
            handled.append(event.sequence)

    recorder = EventRecorder()
    async with agent_of(*SUM) as agent:
        agent.subscribe(recorder)
        agent.subscribe(Listener())
        assert (await agent.run("What is 1 + 2?")).status == "completed"
        assert handled == []
        go_on.set()
    assert handled == [event.sequence for event in recorder.events]


@pytest.mark.anyio
async def test_an_async_handler_that_raises_is_logged_and_gets_the_next_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handled: list[AgentEvent] = []

    async def listen(event: AgentEvent) -> None:
        handled.append(event)
        if len(handled) == 1:
            raise OSError("the socket is closed")

    recorder = EventRecorder()
    async with agent_of(answer("Hello.")) as agent:
        agent.subscribe(recorder)
        agent.subscribe(listen)
        await agent.run("Say hello.")
    assert handled == recorder.events
    (logged,) = [record for record in caplog.records if "event handler" in record.message]
    assert logged.levelname == "WARNING"
    assert "the socket is closed" in caplog.text


@pytest.mark.anyio
async def test_an_async_handler_is_called_on_its_own_loop_for_runs_of_other_threads() -> None:
    threads: set[int] = set()
    done = anyio.Event()

    async def listen(event: AgentEvent) -> None:
        threads.add(threading.get_ident())
        if isinstance(event, TaskCompleted):
            done.set()

    agent = agent_of(answer("Hello."))
    agent.subscribe(listen)
    await anyio.to_thread.run_sync(agent.run_sync, "Say hello.")
    await done.wait()
    assert threads == {threading.get_ident()}


@pytest.mark.anyio
async def test_an_async_handler_gets_nothing_after_it_was_unsubscribed() -> None:
    handled: list[AgentEvent] = []

    async def listen(event: AgentEvent) -> None:
        handled.append(event)

    async with agent_of(answer("Hello.")) as agent:
        unsubscribe = agent.subscribe(listen)
        await agent.run("Say hello.")
        seen = len(handled)
        unsubscribe()
    assert len(handled) == seen


def test_events_for_an_async_handler_whose_loop_has_ended_are_dropped() -> None:
    async def listen(event: AgentEvent) -> None:
        raise AssertionError("its loop has ended")

    async def subscribe() -> None:
        agent.subscribe(listen)

    agent = agent_of(answer("Hello."))
    anyio.run(subscribe)
    assert agent.run_sync("Say hello.").output == "Hello."


@pytest.mark.anyio
async def test_an_agent_closes_what_was_opened_and_can_be_used_again() -> None:
    closed: list[str] = []

    async def close(name: str) -> None:
        closed.append(name)
        if name == "broken":
            raise OSError("cannot be closed")

    agent = agent_of(answer("one"), answer("two"))
    for name in ("first", "broken", "last"):
        agent.container.core.lifetimes().add(lambda name=name: close(name))
    async with agent:
        await agent.run("first")
        assert closed == []
        with pytest.raises(ExceptionGroup) as caught:
            await agent.aclose()
        agent.container.core.lifetimes.reset()
    assert closed == ["last", "broken", "first"]
    assert [str(error) for error in caught.value.exceptions] == ["cannot be closed"]
    assert (await agent.run("second")).output == "two"


def test_an_agent_that_is_pickled_says_what_to_do_instead() -> None:
    with pytest.raises(TypeError, match="build it in the process that uses it"):
        pickle.dumps(agent_of())
