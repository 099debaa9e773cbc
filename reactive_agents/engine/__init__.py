"""The execution engine: ten lifecycle phases around the agent loop.

Everything around the reasoning of a run has its place in one pipeline: what is recalled and checked before,
what is verified, stored, accounted for and audited after. Each phase is a function from context to context
over the services of the run, so that a phase is read, tested and skipped by itself; ``pipeline.py`` alone
decides what the failure of one does. Three things must stay true: a run that began is recorded, however it
ends; an answer that was paid for is handed over, unless a guardrail, a strict hook or a failed verification
withholds it; and no run sees another, on whatever event loop or thread it is.
"""

from __future__ import annotations

from reactive_agents.engine.context import LIFECYCLE_PHASES, ExecutionContext, LifecyclePhase
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
    "LIFECYCLE_PHASES",
    "EnginePorts",
    "ExecutionContext",
    "ExecutionEngine",
    "HookHandler",
    "HookTiming",
    "InvalidHook",
    "LifecycleHook",
    "LifecycleHookRegistry",
    "LifecyclePhase",
]
