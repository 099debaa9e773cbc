"""Ports: one protocol for each service.

Everything that touches the world is behind a port: models, tools, memory, clock, ids, events. The pure
packages know only these protocols, so that a run is a function of what its ports answered: record the answers
and it can be replayed, replace a port and it can be tested. A port speaks in values of ``core`` and returns
effects with typed errors; a new method here needs a fake in ``reactive_agents.testing`` as well."""

from __future__ import annotations

from reactive_agents.ports.governance import (
    Approver,
    AuditLog,
    CostRouter,
    CostTracker,
    Guardrail,
    SpendingGuard,
    Verifier,
)
from reactive_agents.ports.llm import LLM, PriceList, TokenCounter
from reactive_agents.ports.memory import (
    EffectivenessTracker,
    Embedder,
    MemoryService,
    PlanStore,
    SearchableMemory,
)
from reactive_agents.ports.persona import PersonaStore, TextComparison
from reactive_agents.ports.sessions import SessionStore
from reactive_agents.ports.system import Clock, EventBus, EventHandler, IdSource
from reactive_agents.ports.tools import ToolService

__all__ = [
    "LLM",
    "Approver",
    "AuditLog",
    "Clock",
    "CostRouter",
    "CostTracker",
    "EffectivenessTracker",
    "Embedder",
    "EventBus",
    "EventHandler",
    "Guardrail",
    "IdSource",
    "MemoryService",
    "PersonaStore",
    "PlanStore",
    "PriceList",
    "SearchableMemory",
    "SessionStore",
    "SpendingGuard",
    "TextComparison",
    "TokenCounter",
    "ToolService",
    "Verifier",
]
