"""What agents are tested with: a scripted model, stand-ins for every service, and an event recorder."""

from __future__ import annotations

from reactive_agents.testing.budgets import InMemoryBudget
from reactive_agents.testing.governance import (
    AllowAll,
    BlockWords,
    FixedApprover,
    FixedRouter,
    FixedVerifier,
    RecordingAuditLog,
    RecordingCostTracker,
)
from reactive_agents.testing.memory import InMemoryEffectivenessTracker, InMemoryMemory, InMemoryPlanStore
from reactive_agents.testing.personas import InMemoryPersonaStore
from reactive_agents.testing.recorder import EventRecorder, InMemoryEventBus
from reactive_agents.testing.scripted import ScriptedLLM
from reactive_agents.testing.system import FakeClock, SequentialIds
from reactive_agents.testing.tools import FakeTools
from reactive_agents.testing.turns import Turn, call, calls, fail, forever, malformed_call, say

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
