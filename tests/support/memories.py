"""Values that the tests of memory are made of."""

from __future__ import annotations

from datetime import datetime

from reactive_agents.core.ids import AgentId, PlanId, SessionId, StepId, TaskId
from reactive_agents.core.memory import MemoryEntry, MemoryId, MemoryKind, MemoryOrigin, SessionSnapshot
from reactive_agents.core.messages import ToolMessage, UserMessage
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.results import (
    ReasoningMetadata,
    ReasoningResult,
    ReasoningStatus,
    ReasoningStep,
    StepMetadata,
)
from reactive_agents.core.tasks import Task
from reactive_agents.testing.core import START

AGENT, OTHER = AgentId("agent-1"), AgentId("agent-2")


def a_task(text: str = "How high is Mount Elbrus?", *, name: str = "task-1", agent: AgentId = AGENT) -> Task:
    """A task of type ``query``."""
    return Task(TaskId(name), agent, text, START)


def observed(tool: str, text: str, *, success: bool = True, key: str | None = None) -> ReasoningStep:
    """An observation of a tool."""
    metadata = StepMetadata(tool_used=tool, success=success, origin="executed", result_key=key)
    return ReasoningStep(StepId(f"step-{tool}"), "observation", text, START, metadata)


def criticised(text: str) -> ReasoningStep:
    """A critique by a strategy of its own answer."""
    return ReasoningStep(StepId("step-critique"), "critique", text, START)


def a_result(
    output: str | None = "Mount Elbrus is 5642 metres high.",
    *steps: ReasoningStep,
    status: ReasoningStatus = "completed",
    cost: float = 0.0,
    confidence: float = 0.8,
    reason: str = "",
    tool_results: dict[str, str] | None = None,
) -> ReasoningResult:
    """The result of a run."""
    metadata = ReasoningMetadata(10.0, cost, 100, len(steps), confidence, reason=reason)
    return ReasoningResult("reactive", steps, output, metadata, status, tool_results or {})


def an_entry(
    name: str,
    content: str,
    *,
    agent: AgentId = AGENT,
    kind: MemoryKind = "semantic",
    origin: MemoryOrigin = "model",
    importance: float = 0.5,
    at: datetime = START,
) -> MemoryEntry:
    """An entry that was seen once."""
    return MemoryEntry(
        MemoryId(name), agent, kind, content, origin, "source", TaskId("task-1"), importance, at, at
    )


def a_plan(name: str = "plan-1", *, agent: AgentId = AGENT, steps: int = 2, at: datetime = START) -> Plan:
    """A plan of pending steps ``s1``, ``s2``, …"""
    made = tuple(
        PlanStep(f"s{seq}", seq, f"Step {seq}", "Do it.", "tool_call", "calculator", {"expression": "1 + 1"})
        for seq in range(1, steps + 1)
    )
    return Plan(PlanId(name), TaskId("task-1"), agent, "Goal", "linear", made, "active", 1, at, at)


def a_session(name: str = "session-1", *, agent: AgentId = AGENT, at: datetime = START) -> SessionSnapshot:
    """A session with a message of two kinds."""
    said = (UserMessage("Hello"), ToolMessage(call_id="c", tool_name="t", content="\ud800 half"))  # type: ignore[arg-type]
    return SessionSnapshot(SessionId(name), agent, said, "Sum", ("a",), (TaskId("t"),), at, at, 0.5, 12)
