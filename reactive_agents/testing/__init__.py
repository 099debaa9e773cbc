"""What agents are tested with: a scripted model, stand-ins for every service, and an event recorder."""

from __future__ import annotations

from reactive_agents.testing.clock import FakeClock, SequentialIds
from reactive_agents.testing.events import EventRecorder, InMemoryEventBus
from reactive_agents.testing.governance import (
    AllowAll,
    BlockWords,
    FixedApprover,
    FixedRouter,
    FixedVerifier,
    InMemoryBudget,
    RecordingAuditLog,
    RecordingCostTracker,
)
from reactive_agents.testing.memory import InMemoryEffectivenessTracker, InMemoryMemory, InMemoryPlanStore
from reactive_agents.testing.personas import InMemoryPersonaStore
from reactive_agents.testing.scripted_llm import (
    ScriptedLLM,
    Turn,
    call,
    calls,
    fail,
    forever,
    malformed_call,
    say,
)
from reactive_agents.testing.tools import FakeTools

__all__ = [
    "AllowAll",
    "BlockWords",
    "EventRecorder",
    "FakeClock",
    "FakeTools",
    "FixedApprover",
    "FixedRouter",
    "FixedVerifier",
    "InMemoryBudget",
    "InMemoryEffectivenessTracker",
    "InMemoryEventBus",
    "InMemoryMemory",
    "InMemoryPersonaStore",
    "InMemoryPlanStore",
    "RecordingAuditLog",
    "RecordingCostTracker",
    "ScriptedLLM",
    "SequentialIds",
    "Turn",
    "call",
    "calls",
    "fail",
    "forever",
    "malformed_call",
    "say",
]
