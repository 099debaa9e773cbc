"""The same work by the framework: a service for every phase, hooks around each, a reader of events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Never

from dependency_injector import providers
from returns.future import FutureResult
from returns.maybe import Some
from returns.result import Result, Success

from reactive_agents import ReactiveAgent, ReactiveAgents, Tool
from reactive_agents import tool as as_tool
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.events import AgentEvent
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.models import (
    ModelChunk,
    ModelRequest,
    ModelResponse,
    StreamCompleted,
    TokenPrice,
    Usage,
)
from reactive_agents.effects import Effect, attempt, effect
from reactive_agents.engine import LIFECYCLE_PHASES, ExecutionContext
from reactive_agents.testing import (
    AllowAll,
    FixedRouter,
    FixedVerifier,
    InMemoryMemory,
    RecordingAuditLog,
    RecordingCostTracker,
)

PREFIX = 2
"""Messages before the transcript: the system prompt and the task."""


class LoopModel:
    """Calls tools for ``turns`` turns, then answers; as fast as a model object can be."""

    model = "bench/loop"

    def __init__(self, turns: int, calls: int = 1, tool: str = "work") -> None:
        self.turns = turns
        self.calls = calls
        self.tool = tool

    def price(self, model: str | None) -> Effect[TokenPrice | None, Never]:
        return FutureResult.from_value(TokenPrice(1e-9, 1e-9, 1_000))

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        sent, calls = len(request.messages), self.calls
        turn = (sent - PREFIX) // (1 + calls)
        if turn >= self.turns:
            return Success(
                ModelResponse("The answer is 3.", self.model, usage=Usage(10, 5, 15), cost_usd=0.0)
            )
        made = [
            ToolCall(CallId(f"call-{turn}-{n}"), self.tool, {"number": turn, "text": "x"})
            for n in range(calls)
        ]
        read = 200 + 20 * sent + 80 * len(request.tools)  # about what a provider would count
        usage = Usage(read, 20, read + 20)
        return Success(ModelResponse("", self.model, tuple(made), "", "tool_calls", usage, 0.0))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        answered = await attempt(self.complete(request))
        yield answered.map(StreamCompleted)


def unused_tool(number: int) -> Tool:
    """A tool that no model of a benchmark calls."""

    async def look_up(name: str, limit: int = 10) -> str:
        """Look something up. It takes a while.

        Args:
            name: what to look up.
            limit: how many places to look in.
        """
        return f"{name}{limit}"

    return as_tool(look_up, name=f"look-up-{number}")


def watch(context: ExecutionContext) -> None:
    """A lifecycle hook that does nothing."""


def build_agent(
    model: LoopModel,
    tool: object,
    *,
    max_iterations: int = 1000,
    required_calls: int = 0,
    everything: bool = True,
    other_tools: int = 0,
) -> ReactiveAgent:
    """An agent with everything on.

    Args:
        other_tools: how many tools it has that the model does not call.
        everything: whether it has a service for each phase, hooks around each, and a reader of its events.
        required_calls: how often the tool must have worked; also sets every budget. 0 for neither.
    """
    builder = (
        ReactiveAgents.create()
        .with_llm(model)
        .with_reasoning()
        .with_tools(*map(unused_tool, range(other_tools)), tool)  # type: ignore[arg-type]
        .with_max_iterations(max_iterations)
    )
    if required_calls:
        builder = builder.with_required_tools(model.tool, min_calls={model.tool: required_calls})
        builder = builder.with_budget(tokens=10**9, cost_usd=10**6, calls={model.tool: 10**6})
    if not everything:
        return builder.build()
    for phase in LIFECYCLE_PHASES:
        builder = builder.with_hook(phase, "before", watch).with_hook(phase, "after", watch)
    agent = builder.build()
    services = agent.container
    services.memory.memory.override(providers.Object(Some(InMemoryMemory())))
    governance = services.governance
    governance.guardrail.override(providers.Object(Some(AllowAll())))
    governance.cost_router.override(providers.Object(Some(FixedRouter(model.model))))
    governance.cost_tracker.override(providers.Object(Some(RecordingCostTracker())))
    governance.verifier.override(providers.Object(Some(FixedVerifier(1.0))))
    governance.audit.override(providers.Object(Some(RecordingAuditLog())))
    agent.subscribe(count)
    return agent


def build_real_agent(model: LoopModel, tool: object, directory: Path, *services: str) -> ReactiveAgent:
    """An agent with real services in files, and no hooks.

    Args:
        services: which of ``memory``, ``guardrails``, ``verification``, ``cost`` and ``audit`` it has.
    """
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(tool)  # type: ignore[arg-type]
    if "memory" in services:
        builder = builder.with_memory(directory / "memory.db")
    if "guardrails" in services:
        builder = builder.with_guardrails()
    if "verification" in services:
        builder = builder.with_verification()
    if "cost" in services:
        builder = builder.with_cost(directory / "cost.db", run_usd=1.0, daily_usd=1e6)
    if "audit" in services:
        builder = builder.with_audit(directory / "audit.db")
    agent = builder.build()
    agent.subscribe(count)
    return agent


def count(event: AgentEvent) -> None:
    """An event handler that does nothing."""
