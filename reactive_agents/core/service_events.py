"""What happens with memory, guardrails, the choice of a model and verification."""

from __future__ import annotations

from attrs import frozen

from reactive_agents.core.event_base import Event
from reactive_agents.core.governance import GuardrailAction, GuardrailStage
from reactive_agents.core.ids import AgentId, CallId, SessionId


@frozen
class MemoryBootstrapped(Event):
    """Memory gave its context for the run.

    Attributes:
        tier: the memory tier that answered.
        problem: why it answered with less than it is set to; empty when it did not.
    """

    agent_id: AgentId
    tier: str
    problem: str = ""


@frozen
class MemoryFlushed(Event):
    """What is worth keeping of the run was kept.

    Attributes:
        kept: entries that were added or renewed.
        dropped: entries that had faded, or made room for stronger ones.
        problem: why less was done than memory is set to; empty when all of it was.
    """

    agent_id: AgentId
    kept: int = 0
    dropped: int = 0
    problem: str = ""


@frozen
class MemorySnapshotSaved(Event):
    """The run was stored as a session."""

    agent_id: AgentId
    session_id: SessionId


@frozen
class GuardrailTriggered(Event):
    """A guardrail found something in a text, which is not told. ``call_id``: the call whose result it is."""

    stage: GuardrailStage
    category: str
    action: GuardrailAction
    score: float
    start: int
    end: int
    detail: str
    call_id: CallId | None = None


@frozen
class ModelRouted(Event):
    """A cost router chose the model of the run."""

    model: str
    reason: str


@frozen
class ResultVerified(Event):
    """The answer was checked. ``confidence``: 0 to 1."""

    confidence: float
    verified: bool
