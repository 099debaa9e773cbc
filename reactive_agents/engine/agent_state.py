"""The states of an agent that works on a task, and which may follow which."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import IllegalAgentState

AgentState: TypeAlias = Literal[
    "idle", "bootstrapping", "running", "paused", "verifying", "flushing", "completed", "failed"
]

LEGAL_AGENT_STATES: Mapping[AgentState, frozenset[AgentState]] = MappingProxyType(
    {
        "idle": frozenset({"bootstrapping", "failed"}),
        "bootstrapping": frozenset({"running", "failed"}),
        "running": frozenset({"paused", "verifying", "failed"}),
        "paused": frozenset({"running", "failed"}),
        "verifying": frozenset({"running", "flushing", "failed"}),
        "flushing": frozenset({"completed", "failed"}),
        "completed": frozenset(),
        "failed": frozenset(),
    }
)


def may_follow(current: AgentState, wanted: AgentState) -> bool:
    """Whether an agent in one state may come to another, or stay in the same."""
    return wanted == current or wanted in LEGAL_AGENT_STATES[current]


def next_agent_state(current: AgentState, wanted: AgentState) -> Result[AgentState, IllegalAgentState]:
    """``wanted``, which may also be the current state, or ``IllegalAgentState`` if it may not follow."""
    if may_follow(current, wanted):
        return Success(wanted)
    return Failure(IllegalAgentState(current, wanted))
