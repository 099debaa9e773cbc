"""Kernel runs made of scripted and in-memory services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from returns.maybe import Nothing, Some
from returns.result import Result

from reactive_agents.core.errors import KernelErrors
from reactive_agents.core.events import (
    ModelCallAbandoned,
    ModelCallCompleted,
    ReasoningStepCompleted,
    ToolCallCompleted,
)
from reactive_agents.core.ids import AgentId, RunId, SessionId, TaskId
from reactive_agents.core.messages import AssistantMessage, Message, ToolMessage
from reactive_agents.core.results import ReasoningStep
from reactive_agents.effects import attempt
from reactive_agents.kernel import (
    KernelContext,
    KernelInput,
    KernelRunOptions,
    KernelServices,
    KernelState,
    MeteredLLM,
    RunEvents,
    ThoughtKernel,
    initial_kernel_state,
    react_kernel,
    run_kernel,
)
from reactive_agents.kernel.runner import assemble_context
from reactive_agents.ports import Clock
from reactive_agents.testing import EventRecorder, FakeClock, FakeTools, InMemoryEventBus, ScriptedLLM, Turn
from reactive_agents.testing.core import Answer, SequentialIds
from tests.support.settings import take_settings

RUN, TASK, AGENT, SESSION = RunId("run-1"), TaskId("task-1"), AgentId("agent-1"), SessionId("session-1")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def kernel_input(task: str = "What is 1 + 2?", **fields: Any) -> KernelInput:
    """The input of a run."""
    settings = take_settings(fields)
    return KernelInput(task, RUN, TASK, AGENT, SESSION, settings, **fields)


def new_state(**fields: Any) -> KernelState:
    """The state that a run begins in."""
    return initial_kernel_state(
        id="k", task_id=TASK, strategy="reactive", kernel_type="react", meta=fields or None
    )


@frozen(eq=False)
class KernelBench:
    """Services for kernel runs, and what watches them."""

    llm: ScriptedLLM
    tools: FakeTools | None
    clock: Clock
    meter: MeteredLLM
    services: KernelServices
    recorder: EventRecorder
    bus: InMemoryEventBus

    async def attempt(
        self,
        kernel: ThoughtKernel = react_kernel,
        *,
        max_iterations: int = 5,
        options: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Result[KernelState, KernelErrors]:
        """Return the result of one run."""
        how = KernelRunOptions(max_iterations, "reactive", "react", "test:main", **(options or {}))
        return await attempt(run_kernel(kernel, kernel_input(**fields), how, self.services))

    async def run(self, kernel: ThoughtKernel = react_kernel, **how: Any) -> KernelState:
        """The final state of one run."""
        return (await self.attempt(kernel, **how)).unwrap()

    def context(self, *, max_iterations: int = 5, **fields: Any) -> KernelContext:
        """The context of a run."""
        how = KernelRunOptions(max_iterations, "reactive", "react")
        return assemble_context(kernel_input(**fields), how, self.services)

    def sent(self, index: int = -1) -> tuple[Message, ...]:
        """The messages of one request."""
        return self.llm.requests[index].messages

    def shown(self, index: int = -1) -> str:
        """The last message of one request."""
        return self.sent(index)[-1].content


def kernel_bench(
    *turns: Turn, tools: Mapping[str, Answer] | FakeTools | None = None, clock: Clock | None = None
) -> KernelBench:
    """A bench with a scripted model. Without ``tools`` there is no tool service."""
    time = clock or FakeClock(step_s=0.001)
    llm = ScriptedLLM(*turns)
    bus, recorder = InMemoryEventBus(), EventRecorder()
    bus.subscribe(recorder)
    events = RunEvents(bus, time, RUN, TASK)
    meter = MeteredLLM(llm, events, time)
    fakes = FakeTools(tools) if isinstance(tools, Mapping) else tools
    services = KernelServices(
        meter,
        time,
        SequentialIds(),
        Nothing if fakes is None else Some(fakes),
        Some(events),
        account=meter.account,
    )
    return KernelBench(llm, fakes, time, meter, services, recorder, bus)


# --- what holds for every run ---------------------------------------------------------------------------


def assert_valid_transcript(messages: Sequence[Message]) -> None:
    """Each call of an assistant is answered once, by its id, before anybody else speaks."""
    open_calls: list[str] = []
    for message in messages:
        match message:
            case ToolMessage(call_id):
                assert call_id in open_calls, f"a result without its call: {call_id}"
                open_calls.remove(call_id)
            case _:
                assert not open_calls, f"calls without a result: {open_calls}"
                if isinstance(message, AssistantMessage):
                    open_calls = [call.id for call in message.tool_calls]
                    assert len(set(open_calls)) == len(open_calls)
    assert not open_calls, f"calls without a result: {open_calls}"


def steps_of(state: KernelState, kind: str) -> list[ReasoningStep]:
    """The steps of one kind."""
    return [step for step in state.steps if step.type == kind]


def call_ids(steps: Sequence[ReasoningStep]) -> list[str | None]:
    """The ids of the calls that actions or observations belong to."""
    return [step.metadata.call_id if step.metadata else None for step in steps]


def assert_balanced(bench: KernelBench, state: KernelState) -> None:
    """Events and totals of a run agree with its state and with what the model was asked.

    Every action has one observation and one ``ToolCallCompleted``; only the call that delivered the answer
    has none, as ``FinalAnswerProduced`` tells of it.
    """
    recorder = bench.recorder
    assert bench.bus.raised == []
    assert [event.sequence for event in recorder.events] == list(range(1, len(recorder.events) + 1))
    told = recorder.of(ReasoningStepCompleted)
    for kind in ("thought", "action", "observation"):
        contents = [getattr(event, kind) for event in told if getattr(event, kind) is not None]
        assert contents == [step.content for step in steps_of(state, kind)]
    actions, observations = call_ids(steps_of(state, "action")), call_ids(steps_of(state, "observation"))
    assert sorted(event.call_id for event in recorder.of(ToolCallCompleted)) == sorted(map(str, observations))
    assert [call_id for call_id in actions if call_id in observations] == observations
    assert len(actions) - len(observations) in (0, 1)
    completed = recorder.of(ModelCallCompleted)
    abandoned = recorder.of(ModelCallAbandoned)
    spent = [each for event in (*completed, *abandoned) for each in event.spent]
    assert state.tokens == sum(each.usage.total_tokens for each in spent)
    assert state.tokens == bench.meter.usage.tokens
    assert state.iteration == len(completed) == bench.meter.usage.calls
    assert len(completed) + len(abandoned) == len(bench.llm.requests)
    for request in bench.llm.requests:
        assert_valid_transcript(request.messages)
