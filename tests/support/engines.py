"""Engines made of scripted and in-memory services."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen
from returns.maybe import Maybe, Nothing, Some
from returns.result import Result

from reactive_agents.adapters.telemetry.event_bus import LocalEventBus
from reactive_agents.core.config import ReasoningConfig
from reactive_agents.core.events import TaskFailed
from reactive_agents.core.ids import AgentId, TaskId
from reactive_agents.core.settings import RunSettings
from reactive_agents.core.tasks import Task, TaskResult
from reactive_agents.engine import EnginePorts, ExecutionEngine, LifecycleHook, LifecycleHookRegistry
from reactive_agents.ports import LLM, Clock, EventBus
from reactive_agents.reasoning import ReasoningService, StrategyRegistry
from reactive_agents.testing import EventRecorder, FakeClock, FakeTools, SequentialIds

TEN_PHASES = (
    "bootstrap",
    "guardrail",
    "cost-route",
    "strategy-select",
    "loop",
    "verify",
    "memory-flush",
    "cost-track",
    "audit",
    "complete",
)
SERVICES = ("memory", "guardrail", "cost_router", "cost_tracker", "verifier", "audit")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@frozen(eq=False)
class Bench:
    """An engine and what watches it."""

    engine: ExecutionEngine
    recorder: EventRecorder
    tools: FakeTools

    async def run(
        self, text: str = "What is 1 + 2?", task_id: str = "task-1"
    ) -> Result[TaskResult, TaskFailed]:
        """One task through all phases."""
        return await self.engine.conduct(self.task(text, task_id))

    def task(self, text: str = "What is 1 + 2?", task_id: str = "task-1") -> Task:
        """A task for the engine."""
        clock = self.engine.ports.clock
        return Task(TaskId(task_id), AgentId("tester"), text, clock.now())


def bench(
    llm: LLM,
    *,
    reasoning: bool = True,
    hooks: Iterable[LifecycleHook] = (),
    tools: FakeTools | None = None,
    options: dict[str, Any] | None = None,
    clock: Clock | None = None,
    bus: EventBus | None = None,
    reasoning_service: ReasoningService | None = None,
    open_service: Any = None,
    **services: object,
) -> Bench:
    """An engine with the given services, and no others."""
    config = ReasoningConfig() if reasoning else None
    settings: dict[str, Any] = {"name": "tester", "reasoning": config, **(options or {})}
    fakes = tools or FakeTools({"add": add})
    registry = LifecycleHookRegistry()
    for hook in hooks:
        registry.register(hook)
    service: Maybe[ReasoningService] = Nothing
    if config is not None:
        service = Some(reasoning_service or ReasoningService(StrategyRegistry(), config))
    ports = EnginePorts(
        llm=llm,
        events=bus or LocalEventBus(),
        clock=clock or FakeClock(step_s=0.001),
        ids=SequentialIds(),
        hooks=registry,
        tools=Some(fakes),
        reasoning=service,
        opens=tuple if open_service is None else lambda: (open_service,),
        **{name: Some(each) for name, each in services.items()},  # type: ignore[arg-type]
    )
    recorder = EventRecorder()
    ports.events.subscribe(recorder)
    return Bench(ExecutionEngine(RunSettings(**settings), ports), recorder, fakes)
