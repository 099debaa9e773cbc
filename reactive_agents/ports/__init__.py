"""One protocol a service: what the pure rooms know of the world."""

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
    "SpendingGuard",
    "TextComparison",
    "TokenCounter",
    "ToolService",
    "Verifier",
]
