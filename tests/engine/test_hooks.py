"""Lifecycle hooks: when they run, what they may change, and that a failing one is never silent."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import anyio
import pytest
from attrs import evolve
from returns.result import Success

from reactive_agents.core.config import TimeoutConfig
from reactive_agents.core.errors import ExecutionError, HookError, ModelUnavailable, ToolFailed
from reactive_agents.core.events import ExecutionCancelled, ExecutionHookFailed, ExecutionHookFired
from reactive_agents.core.messages import UserMessage
from reactive_agents.engine import (
    LIFECYCLE_PHASES,
    ExecutionContext,
    HookTiming,
    InvalidHook,
    LifecycleHook,
    LifecycleHookRegistry,
    LifecyclePhase,
)
from reactive_agents.testing import (
    AllowAll,
    FakeTools,
    FixedRouter,
    FixedVerifier,
    InMemoryMemory,
    RecordingAuditLog,
    RecordingCostTracker,
    ScriptedLLM,
    call,
    calls,
    fail,
    say,
)
from tests.support.engines import bench
from tests.support.virtual_time import LoopClock

pytestmark = pytest.mark.anyio


def script() -> ScriptedLLM:
    return ScriptedLLM(call("add", a=1, b=2), say("The answer is 3."))


async def test_hooks_see_the_state_of_the_agent_and_cannot_change_it() -> None:
    seen: list[str] = []

    def note(context: ExecutionContext) -> ExecutionContext:
        seen.append(context.agent_state)
        return evolve(context, agent_state="idle")

    phases: tuple[LifecyclePhase, ...] = ("bootstrap", "think", "verify", "memory-flush", "complete")
    hooks = [LifecycleHook(phase, "before", note) for phase in phases]
    hooks += [LifecycleHook("complete", "after", note)]
    answering = ScriptedLLM(say("The answer is 3."))
    made = bench(answering, hooks=hooks, verifier=FixedVerifier(1), memory=InMemoryMemory())
    assert (await made.run()).unwrap().output == "The answer is 3."
    assert seen == ["bootstrapping", "running", "verifying", "flushing", "flushing", "completed"]


async def test_hooks_run_before_and_after_every_phase() -> None:
    seen: list[tuple[str, str]] = []

    def watch(phase: LifecyclePhase, timing: HookTiming) -> LifecycleHook:
        return LifecycleHook(phase, timing, lambda context: seen.append((context.phase, timing)))

    timings: tuple[HookTiming, ...] = ("before", "after", "on-error")
    made = bench(
        script(),
        hooks=[watch(phase, timing) for phase in LIFECYCLE_PHASES for timing in timings],
        memory=InMemoryMemory(),
        guardrail=AllowAll(),
        cost_router=FixedRouter("m"),
        verifier=FixedVerifier(1),
        cost_tracker=RecordingCostTracker(),
        audit=RecordingAuditLog(),
    )
    assert isinstance(await made.run(), Success)
    phases = [*LIFECYCLE_PHASES[:7], "think", *LIFECYCLE_PHASES[7:]]
    assert seen == [(phase, timing) for phase in phases for timing in ("before", "after")]
    assert len(made.recorder.of(ExecutionHookFired)) == len(seen)


async def test_a_hook_may_be_async_and_change_what_comes_after() -> None:
    async def remember(context: ExecutionContext) -> ExecutionContext:
        return evolve(context, metadata={**context.metadata, "seen": context.phase})

    def choose(context: ExecutionContext) -> ExecutionContext:
        return evolve(context, selected_model="scripted/other")

    found: list[object] = []
    llm = script()
    made = bench(
        llm,
        hooks=[
            LifecycleHook("bootstrap", "before", remember),
            LifecycleHook("strategy-select", "after", choose),
            LifecycleHook("complete", "before", lambda context: found.append(context.metadata)),
        ],
    )
    await made.run()
    assert found == [{"seen": "bootstrap"}]
    assert {request.model for request in llm.requests} == {"scripted/other"}


async def test_a_hook_may_add_a_message_to_the_loop() -> None:
    def add_note(context: ExecutionContext) -> ExecutionContext | None:
        if context.iteration != 1:
            return None
        return evolve(context, messages=(*context.messages, UserMessage("Mind the units.")))

    llm = script()
    await bench(llm, hooks=[LifecycleHook("think", "before", add_note)]).run()
    assert not any("Mind the units." in message.content for message in llm.requests[0].messages)
    assert llm.requests[1].messages[-1] == UserMessage("Mind the units.")


@pytest.mark.parametrize("phase", ["bootstrap", "think", "act", "observe", "complete"])
async def test_a_failing_hook_is_an_event_and_a_log_line(
    phase: LifecyclePhase, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(context: ExecutionContext) -> None:
        raise RuntimeError("no luck")

    made = bench(script(), hooks=[LifecycleHook(phase, "before", broken)])
    with caplog.at_level(logging.ERROR, "reactive_agents"):
        result = (await made.run()).unwrap()
    assert result.status == "completed"
    failed = made.recorder.of(ExecutionHookFailed)
    assert {(event.phase, event.timing, event.error) for event in failed} == {
        (phase, "before", "RuntimeError: no luck")
    }
    assert "no luck" in caplog.text


@pytest.mark.parametrize("phase", ["bootstrap", "strategy-select", "think", "act", "observe", "complete"])
@pytest.mark.parametrize("timing", ["before", "after"])
async def test_with_strict_hooks_a_failing_hook_fails_the_run(
    phase: LifecyclePhase, timing: HookTiming
) -> None:
    def broken(context: ExecutionContext) -> None:
        raise RuntimeError("no luck")

    made = bench(script(), hooks=[LifecycleHook(phase, timing, broken)], options={"strict_hooks": True})
    outcome = await made.run()
    assert not isinstance(outcome, Success), "the run passed over a strict hook"
    failed = outcome.failure()
    assert isinstance(failed.error, HookError)
    assert (failed.error.phase, failed.error.timing) == (phase, timing)


@pytest.mark.parametrize("phase", ["bootstrap", "think", "complete"])
@pytest.mark.parametrize("strict", [False, True])
async def test_a_hook_that_awaits_what_was_cancelled_fails_and_does_not_end_the_run_as_cancelled(
    phase: LifecyclePhase, strict: bool
) -> None:
    async def broken(context: ExecutionContext) -> None:
        other = asyncio.ensure_future(asyncio.sleep(10))
        other.cancel()
        await other

    made = bench(script(), hooks=[LifecycleHook(phase, "before", broken)], options={"strict_hooks": strict})
    outcome = await made.run()
    if strict:
        assert isinstance(outcome.failure().error, HookError)
    else:
        assert outcome.unwrap().status == "completed"
    assert {event.error for event in made.recorder.of(ExecutionHookFailed)} == {"CancelledError: "}
    assert not made.recorder.of(ExecutionCancelled)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"], indirect=True)
@pytest.mark.parametrize("timing", ["before", "after"])
@pytest.mark.parametrize("phase", ["bootstrap", "strategy-select", "complete"])
async def test_a_hook_is_cut_off_when_the_run_is_out_of_time(
    phase: LifecyclePhase, timing: HookTiming
) -> None:
    async def linger(context: ExecutionContext) -> None:
        await anyio.sleep_forever()

    made = bench(
        ScriptedLLM(say("Too late.", delay=30)),
        hooks=[LifecycleHook(phase, timing, linger)],
        options={"timeouts": TimeoutConfig(run_s=0.05, grace_s=0.05 if phase == "complete" else 60)},
        clock=LoopClock(),
    )
    result = (await made.run()).unwrap()
    assert result.status == "partial"
    (failed,) = made.recorder.of(ExecutionHookFailed)
    assert (failed.phase, failed.timing) == (phase, timing)
    assert failed.error == "TimeoutError: it was cancelled at the time limit of the run"


async def test_past_the_time_limit_a_hook_of_the_end_still_has_a_few_seconds() -> None:
    done: list[str] = []

    async def keep(context: ExecutionContext) -> None:
        await anyio.sleep(0.01)
        done.append(context.phase)

    made = bench(
        ScriptedLLM(say("Too late.", delay=5)),
        hooks=[LifecycleHook("complete", "after", keep)],
        options={"timeouts": TimeoutConfig(run_s=0.02)},
        clock=LoopClock(),
    )
    assert (await made.run()).unwrap().status == "partial"
    assert done == ["complete"]


async def test_a_hook_that_returns_nonsense_is_reported() -> None:
    made = bench(script(), hooks=[LifecycleHook("think", "after", lambda context: 42)])  # type: ignore[arg-type,return-value]
    await made.run()
    assert {event.error for event in made.recorder.of(ExecutionHookFailed)} == {
        "returned int, expected an ExecutionContext or None"
    }


async def test_on_error_hooks_see_the_error() -> None:
    seen: list[ExecutionContext] = []
    error = ModelUnavailable("down", "m")
    made = bench(ScriptedLLM(fail(error)), hooks=[LifecycleHook("think", "on-error", seen.append)])
    await made.run()
    (context,) = seen
    assert context.error is not None
    assert "down" in context.error.message


async def test_hooks_of_one_phase_run_in_order_each_on_what_the_one_before_left() -> None:
    order: list[object] = []

    def mark(context: ExecutionContext) -> ExecutionContext:
        return evolve(context, metadata={"mark": 1})

    hooks = [
        LifecycleHook("bootstrap", "before", mark),
        LifecycleHook("bootstrap", "before", lambda context: order.append(context.metadata)),
    ]
    await bench(script(), hooks=hooks).run()
    assert order == [{"mark": 1}]


def test_the_registry_lists_and_unregisters_hooks() -> None:
    registry = LifecycleHookRegistry()
    hook = LifecycleHook("act", "before", lambda context: None)
    unregister = registry.register(hook)
    assert registry.list() == (hook,)
    assert registry.has("act", "before")
    unregister()
    unregister()
    assert registry.list() == ()
    assert not registry.has("act", "before")


def test_each_registration_of_a_hook_is_ended_by_its_own_alone() -> None:
    registry = LifecycleHookRegistry()
    hook = LifecycleHook("act", "before", lambda context: None)
    other = LifecycleHook("act", "before", lambda context: None)
    first = registry.register(hook)
    registry.register(other)
    second = registry.register(hook)
    first()
    first()
    assert registry.list() == (other, hook)
    second()
    assert registry.list() == (other,)


async def test_on_error_hooks_of_act_see_each_call_that_failed_and_the_run_goes_on() -> None:
    seen: list[tuple[str, object]] = []

    def fall(depth: int) -> str:
        raise RuntimeError(f"it is {depth} deep")

    def look(context: ExecutionContext) -> None:
        error = context.error
        assert isinstance(error, ExecutionError)
        seen.append((error.phase, error.cause))

    made = bench(
        ScriptedLLM(calls(call("fall", depth=1), call("add", a=1, b=2), call("fall", depth=2)), say("3")),
        hooks=[LifecycleHook("act", "on-error", look)],
        tools=FakeTools({"fall": fall, "add": lambda a, b: a + b}),
    )
    assert (await made.run()).unwrap().output == "3"
    assert seen == [
        ("act", ToolFailed("fall", "it is 1 deep", "RuntimeError")),
        ("act", ToolFailed("fall", "it is 2 deep", "RuntimeError")),
    ]


@pytest.mark.parametrize("reasoning", [True, False])
async def test_a_strict_on_error_hook_of_act_that_raises_ends_the_run(reasoning: bool) -> None:
    def give_up(context: ExecutionContext) -> None:
        raise RuntimeError("enough")

    made = bench(
        ScriptedLLM(call("fall"), say("never")),
        reasoning=reasoning,
        hooks=[LifecycleHook("act", "on-error", give_up)],
        tools=FakeTools({"fall": ToolFailed("fall", "it is deep")}),
        options={"strict_hooks": True},
    )
    error = (await made.run()).failure().error
    assert isinstance(error, HookError)
    assert (error.phase, error.timing) == ("act", "on-error")


@pytest.mark.parametrize(
    ("phase", "timing", "handler", "option", "expected"),
    [
        ("memory_flush", "after", print, "hook.phase", "memory-flush"),
        ("think", "After", print, "hook.timing", "before, after, on-error"),
        ("think", "after", "print", "hook.handler", "a function"),
        ([], "after", print, "hook.phase", "one of bootstrap"),
    ],
)
def test_a_hook_that_would_never_run_is_refused(
    phase: Any, timing: Any, handler: Any, option: str, expected: str
) -> None:
    with pytest.raises(InvalidHook) as caught:
        LifecycleHook(phase, timing, handler)
    assert caught.value.error.option == option
    assert expected in str(caught.value)


def test_what_is_no_hook_is_not_registered() -> None:
    made = bench(script())
    with pytest.raises(InvalidHook, match="expected a LifecycleHook"):
        made.engine.register_hook(("think", "after", print))  # type: ignore[arg-type]
