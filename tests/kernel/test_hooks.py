"""Every kernel event is published once, by the hooks alone."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from reactive_agents.core.events import FinalAnswerProduced, ReasoningStepCompleted, ToolCallCompleted
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.kernel import KernelHooks, RunEvents, build_kernel_hooks, noop_hooks
from reactive_agents.testing import EventRecorder, FakeClock, InMemoryEventBus
from reactive_agents.testing.core import START
from tests.support.kernels import RUN, TASK, new_state

CALL = ToolCall(CallId("c1"), "add", {"a": 1})
STATE = evolve(new_state(), iteration=2, usage=RunUsage("", Usage(0, 0, 30)))


def watched(kernel_pass: str = "test:main") -> tuple[KernelHooks, EventRecorder]:
    bus, recorder = InMemoryEventBus(), EventRecorder()
    bus.subscribe(recorder)
    return build_kernel_hooks(RunEvents(bus, FakeClock(), RUN, TASK), kernel_pass=kernel_pass), recorder


def test_a_thought_is_one_step_event() -> None:
    hooks, recorder = watched()
    hooks.on_thought(STATE, "hm")
    expected = ReasoningStepCompleted(RUN, TASK, 1, START, "reactive", 2, "test:main", thought="hm")
    assert recorder.events == [expected]


def test_an_action_is_one_step_event() -> None:
    hooks, recorder = watched()
    hooks.on_action(STATE, CALL)
    (event,) = recorder.of(ReasoningStepCompleted)
    assert event.action == '{"tool": "add", "arguments": {"a": 1}}'
    assert (event.thought, event.observation, event.call_id) == (None, None, "c1")
    assert len(recorder.events) == 1


@pytest.mark.parametrize("error", ["", "no such file"])
@pytest.mark.anyio
async def test_the_end_of_a_call_and_its_observation_are_an_event_each(error: str) -> None:
    hooks, recorder = watched()
    result = ToolResult(CallId("c1"), "add", 3, error, duration_ms=7.0)
    await hooks.on_result(result)
    await hooks.on_observations(STATE, (result,), ("shown",))
    assert recorder.tags() == ["ToolCallCompleted", "ReasoningStepCompleted"]
    (step,) = recorder.of(ReasoningStepCompleted)
    assert (step.observation, step.call_id) == ("shown", "c1")
    (ended,) = recorder.of(ToolCallCompleted)
    assert (ended.tool_name, ended.call_id, ended.success) == ("add", "c1", not error)
    assert (ended.duration_ms, ended.error) == (7.0, error)


def test_the_end_of_a_run_is_one_event() -> None:
    hooks, recorder = watched()
    done = evolve(STATE, status="done", output="3", outcome="partial", terminated_by="iteration_limit")
    hooks.on_done(done)
    assert recorder.events == [
        FinalAnswerProduced(RUN, TASK, 1, START, "reactive", "3", "partial", "iteration_limit", 2, 30)
    ]


@pytest.mark.anyio
async def test_without_a_bus_the_hooks_do_nothing() -> None:
    assert build_kernel_hooks(None) is noop_hooks
    noop_hooks.on_thought(STATE, "hm")
    noop_hooks.on_action(STATE, CALL)
    await noop_hooks.on_result(ToolResult(CallId("c1"), "add"))
    await noop_hooks.on_observations(STATE, (ToolResult(CallId("c1"), "add"),), ("shown",))
    noop_hooks.on_done(STATE)


def test_a_malformed_call_is_described_by_what_came() -> None:
    described = json.loads(ToolCall(CallId("c1"), "add", malformed='{"a": ').described)
    assert described == {"tool": "add", "arguments": '{"a": '}
