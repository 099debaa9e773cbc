"""Test doubles for agents: a scripted model, fakes of services, an event recorder.

Each port has a fake here that works in memory, answers as a test says, and records what it was asked, so
that a test needs neither network nor files nor time. ``fails_with=`` makes any of them fail with a typed
error. The fakes know only values and ports; they behave as the ports promise, and the tests of the live
services run on them too. The scripted model is strict: a request that no turn of its script fits is an error
that shows the request and the unused turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactive_agents.lazy_imports import lazy_names

if TYPE_CHECKING:
    from reactive_agents.testing.core import (
        EventRecorder,
        FakeClock,
        FakeTools,
        InMemoryEventBus,
        RecordedRunPlayer,
        SequentialIds,
    )
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
    from reactive_agents.testing.memory import (
        InMemoryEffectivenessTracker,
        InMemoryMemory,
        InMemoryPersonaStore,
        InMemoryPlanStore,
    )
    from reactive_agents.testing.scripted_llm import (
        ScriptedLLM,
        Turn,
        answer,
        call,
        calls,
        fail,
        forever,
        malformed_call,
        say,
        streamed,
    )

_HOMES = {
    "AllowAll": "reactive_agents.testing.governance",
    "BlockWords": "reactive_agents.testing.governance",
    "EventRecorder": "reactive_agents.testing.core",
    "FakeClock": "reactive_agents.testing.core",
    "FakeTools": "reactive_agents.testing.core",
    "FixedApprover": "reactive_agents.testing.governance",
    "FixedRouter": "reactive_agents.testing.governance",
    "FixedVerifier": "reactive_agents.testing.governance",
    "InMemoryBudget": "reactive_agents.testing.governance",
    "InMemoryEffectivenessTracker": "reactive_agents.testing.memory",
    "InMemoryEventBus": "reactive_agents.testing.core",
    "InMemoryMemory": "reactive_agents.testing.memory",
    "InMemoryPersonaStore": "reactive_agents.testing.memory",
    "InMemoryPlanStore": "reactive_agents.testing.memory",
    "RecordedRunPlayer": "reactive_agents.testing.core",
    "RecordingAuditLog": "reactive_agents.testing.governance",
    "RecordingCostTracker": "reactive_agents.testing.governance",
    "ScriptedLLM": "reactive_agents.testing.scripted_llm",
    "SequentialIds": "reactive_agents.testing.core",
    "Turn": "reactive_agents.testing.scripted_llm",
    "answer": "reactive_agents.testing.scripted_llm",
    "call": "reactive_agents.testing.scripted_llm",
    "calls": "reactive_agents.testing.scripted_llm",
    "fail": "reactive_agents.testing.scripted_llm",
    "forever": "reactive_agents.testing.scripted_llm",
    "malformed_call": "reactive_agents.testing.scripted_llm",
    "say": "reactive_agents.testing.scripted_llm",
    "streamed": "reactive_agents.testing.scripted_llm",
}

__getattr__ = lazy_names(__name__, _HOMES)

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
    "RecordedRunPlayer",
    "RecordingAuditLog",
    "RecordingCostTracker",
    "ScriptedLLM",
    "SequentialIds",
    "Turn",
    "answer",
    "call",
    "calls",
    "fail",
    "forever",
    "malformed_call",
    "say",
    "streamed",
]
