"""What memory stores, without secrets."""

from __future__ import annotations

from reactive_agents.core.event_redaction import ValueRedactor
from reactive_agents.core.ids import AgentId, CallId, ContextId, EventId, LearningId, PersonaId
from reactive_agents.core.memory import MemoryId
from reactive_agents.core.redaction import Redactor

_FOUND_BY = (AgentId, CallId, MemoryId, PersonaId, ContextId, EventId, LearningId)


def record_redactor(redactor: Redactor) -> ValueRedactor:
    """Takes the secrets out of records, which are found again, and refer to each other, by their ids."""
    return ValueRedactor(redactor, names=_FOUND_BY)
