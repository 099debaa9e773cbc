"""Instructions: texts and functions of the run, called once in each, in the prefix of every request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from reactive_agents import AgentError, ReactiveAgents, RunContext
from reactive_agents.core.errors import ExecutionError, ServiceFailed
from reactive_agents.core.events import TaskFailed, ToolCallCompleted
from reactive_agents.testing import EventRecorder, ScriptedLLM, Turn, answer, call, forever, say

pytestmark = pytest.mark.anyio


def for_user(ctx: RunContext[str]) -> str:
    """Return who asks."""
    return f"You speak with {ctx.user} of {ctx.deps}."


async def in_session(ctx: RunContext[str]) -> str | None:
    """Return the session, if there is one."""
    await anyio.lowlevel.checkpoint()
    return None if ctx.session is None else f"The session is {ctx.session}."


def politely() -> str:
    """Return how to speak."""
    return "Be polite."


def instructions_of(model: ScriptedLLM) -> list[str]:
    return [request.messages[0].content for request in model.requests]


def builder_with(*turns: Any) -> tuple[Any, ScriptedLLM]:
    model = ScriptedLLM(*turns)
    return ReactiveAgents.create(deps=str).with_llm(model).with_reasoning().with_tools("calculator"), model


async def test_texts_come_first_and_then_the_functions_in_their_order() -> None:
    builder, model = builder_with(answer("Hello."), answer("Hello."))
    agent = (
        builder.with_system_prompt("You are a clerk.")
        .with_instructions(for_user, "Answer briefly.", in_session)
        .with_instructions("Say no more.", politely)
        .build()
    )
    await agent.run("Hello?", deps="Acme", user="Ada", session="s1")
    await agent.run("Hello?", deps="Umbrella", user="Bob")
    first, second = instructions_of(model)
    texts = ["You are a clerk.", "Answer briefly.", "Say no more."]
    ada = [*texts, "You speak with Ada of Acme.", "The session is s1.", "Be polite."]
    assert first.split("\n\n")[: len(ada)] == ada
    bob = [*texts, "You speak with Bob of Umbrella.", "Be polite."]
    assert second.split("\n\n")[: len(bob)] == bob


@pytest.mark.parametrize("strategy", ["reactive", "reflexion", "plan-execute-reflect", "tree-of-thought"])
async def test_a_function_is_called_once_a_run_whatever_the_run_asks(strategy: str) -> None:
    called: list[str] = []

    def count(ctx: RunContext[str]) -> str:
        called.append(ctx.run_id)
        return f"Number {len(called)}."

    model = ScriptedLLM(call("calculator", expression="1 + 1"), forever(answer("It is 2.")))
    builder = ReactiveAgents.create(deps=str).with_llm(model).with_reasoning(strategy)
    agent = builder.with_tools("calculator").with_instructions(count).with_verification().build()
    try:
        await agent.run("What is 1 + 1?", deps="x")
    except AgentError:
        assert strategy != "reactive"
    assert len(called) == 1
    told = [request for request in model.requests if "Number 1." in repr(request.messages)]
    assert told
    assert "Number 2." not in repr(model.requests)


def raising(ctx: RunContext[str]) -> str:
    """Raise."""
    raise KeyError(ctx.deps)


def no_text() -> Any:
    """Return a number."""
    return 3


async def cancelled() -> str:
    """Wait for a task that was cancelled."""
    raise anyio.get_cancelled_exc_class()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raising, "The instructions 'raising' raised KeyError: 'Acme'."),
        (no_text, "The instructions 'no_text' returned 3, expected a text."),
        (
            cancelled,
            "The instructions 'cancelled' raised RuntimeError: something that it waited for was cancelled.",
        ),
    ],
)
async def test_a_function_that_raises_fails_the_run_by_its_name(function: Any, message: str) -> None:
    builder, model = builder_with(answer("Hello."))
    agent, recorder = builder.with_instructions(function).build(), EventRecorder()
    agent.subscribe(recorder)
    with pytest.raises(AgentError) as failed:
        await agent.run("Hello?", deps="Acme")
    error = failed.value.error
    assert isinstance(error, ExecutionError)
    assert error.cause == ServiceFailed(message, "instructions", function.__name__)
    assert error.message == message
    assert model.requests == []
    assert len(recorder.of(TaskFailed)) == 1
    assert agent.running() == ()


async def test_a_function_that_hangs_ends_with_the_run() -> None:
    begun = anyio.Event()

    async def hanging() -> str:
        begun.set()
        await anyio.sleep_forever()
        return ""

    builder, _ = builder_with(answer("Hello."))
    agent = builder.with_instructions(hanging).build()
    task = agent.new_task("Hello?")
    errors: list[str] = []

    async def run() -> None:
        with pytest.raises(AgentError) as failed:
            await agent.run(task, deps="Acme")
        errors.append(type(failed.value.error).__name__)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await begun.wait()
        agent.cancel(task.id).unwrap()
    assert errors == ["RunCancelled"]
    late = builder.with_instructions(hanging).with_timeout(run=0.05).build()
    with pytest.raises(AgentError, match="did not end before the time limit of the run"):
        await late.run("Hello?", deps="Acme")


def test_what_cannot_be_an_instruction_is_refused_by_build() -> None:
    def needs_two(one: object, two: object) -> str:
        return ""

    for wrong in (3, needs_two, None):
        builder, _ = builder_with(say(""))
        with pytest.raises(AgentError, match=r"instructions: got .*, expected a text, or a func"):
            builder.with_instructions(wrong).build()
    builder, _ = builder_with(say(""))
    with pytest.raises(AgentError, match="instructions: got politely, expected texts, to be serialised"):
        ReactiveAgents.create().with_model("offline").with_instructions(politely).to_config()
    texts = ReactiveAgents.create().with_model("offline").with_instructions("One.", "Two.")
    assert texts.to_config().system_prompt == "One.\n\nTwo."


async def test_a_durable_run_that_goes_on_has_the_instructions_that_it_began_with(tmp_path: Path) -> None:
    called: list[int] = []

    def number(ctx: RunContext[str]) -> str:
        called.append(1)
        return f"Number {len(called)} of {ctx.deps}."

    def build(*turns: Turn) -> tuple[Any, ScriptedLLM]:
        builder, model = builder_with(*turns)
        return builder.with_instructions(number).with_durability(tmp_path / "runs.db").build(), model

    interrupted, _ = build(call("calculator", expression="1 + 1"), Turn("", delay=60.0))
    async with interrupted:
        with anyio.CancelScope() as scope:
            interrupted.subscribe(
                lambda event: scope.cancel() if isinstance(event, ToolCallCompleted) else None
            )
            await interrupted.run("What is 1 + 1?", deps="Acme", run_id="sum")
    continued, model = build(answer("It is 2."))
    async with continued:
        result = await continued.run("What is 1 + 1?", deps="Acme", run_id="sum")
    assert (result.output, called) == ("It is 2.", [1])
    assert "Number 1 of Acme." in instructions_of(model)[0]
