"""Test doubles for agents: a scripted model, fakes of services, an event recorder.

Each port has a fake here that works in memory, answers as the test says, and records its calls, so that a
test needs no network, no files and no time. ``fails_with=`` makes any of them fail with a typed error. The
fakes know only values and ports, except that memories, budgets and the records of personas, plans and
strategies are in the live stores, kept in memory. They behave as the ports promise, and the tests of the live
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
        RecordingAuditLog,
        RecordingCostTracker,
    )
    from reactive_agents.testing.memory import (
        InMemoryBudget,
        InMemoryEffectivenessTracker,
        InMemoryMemory,
        InMemoryPersonaStore,
        InMemoryPlanStore,
    )
    from reactive_agents.testing.scripted_llm import (
        ScriptedLLM,
        TestModel,
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

_NAMES = {
    "core": "EventRecorder FakeClock FakeTools InMemoryEventBus RecordedRunPlayer SequentialIds",
    "governance": "AllowAll BlockWords FixedApprover FixedRouter FixedVerifier RecordingAuditLog"
    " RecordingCostTracker",
    "memory": "InMemoryBudget InMemoryEffectivenessTracker InMemoryMemory InMemoryPersonaStore"
    " InMemoryPlanStore",
    "scripted_llm": "ScriptedLLM TestModel Turn answer call calls fail forever malformed_call say streamed",
}
_HOMES = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # else type checkers accept any name
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
    "TestModel",
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
