"""The ten lifecycle phases as a composed pipeline; lifecycle hooks; cancellation."""

from __future__ import annotations

from reactive_agents.engine.context import (
    LEGAL_AGENT_STATES,
    LIFECYCLE_PHASES,
    AgentState,
    ExecutionContext,
    LifecyclePhase,
    next_agent_state,
)
from reactive_agents.engine.execution import ExecutionEngine
from reactive_agents.engine.hooks import (
    HookHandler,
    HookTiming,
    InvalidHook,
    LifecycleHook,
    LifecycleHookRegistry,
)
from reactive_agents.engine.services import EnginePorts

__all__ = [
    "LEGAL_AGENT_STATES",
    "LIFECYCLE_PHASES",
    "AgentState",
    "EnginePorts",
    "ExecutionContext",
    "ExecutionEngine",
    "HookHandler",
    "HookTiming",
    "InvalidHook",
    "LifecycleHook",
    "LifecycleHookRegistry",
    "LifecyclePhase",
    "next_agent_state",
]
