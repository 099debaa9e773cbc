"""What a memory service gives to a run, and what it keeps of one."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NewType, TypeAlias

from attrs import Attribute, field, frozen

from reactive_agents.core.ids import AgentId, PlanId, SessionId, TaskId
from reactive_agents.core.messages import Message
from reactive_agents.core.plans import PlanStep

MemoryId = NewType("MemoryId", str)
MemoryTier: TypeAlias = Literal["1", "2"]
MemoryKind: TypeAlias = Literal["working", "episodic", "semantic", "procedural", "critique"]
"""Notes of the run under way; what happened; what is the case; what has worked; what was found wanting."""

MemoryExtraction: TypeAlias = Literal["rules", "model"]
"""Who decides what of a run is worth keeping: rules, or a call of the run's model."""

MemoryOrigin: TypeAlias = Literal["user", "run", "model", "tool"]
"""Who said it: a person, the framework's own record of a run, a model, or a tool."""


@frozen
class MemoryCandidate:
    """Something of a run that is worth keeping.

    Attributes:
        content: what to keep, in a sentence or a few; memory keeps it on one line.
        source: where it comes from, such as the name of the tool.
        importance: 0 to 1.
        success: of what happened or was done: whether it worked; ``None`` where that makes no sense.
    """

    kind: MemoryKind
    content: str
    origin: MemoryOrigin
    source: str = ""
    importance: float = 0.5
    success: bool | None = None


@frozen
class MemoryEntry:
    """One thing that is remembered.

    Attributes:
        content: one line of text.
        source: where it comes from, such as the name of the tool.
        task_id: the task that it was kept of; empty for none.
        importance: 0 to 1, as it was when it was last seen; it fades with time.
        created_at: when it was first kept.
        seen_at: when it was last kept; the same thing again is not a new entry.
        successes: how often it worked, of ``executions``.
        executions: how often it was tried; 0 for what cannot be tried.
    """

    id: MemoryId
    agent_id: AgentId
    kind: MemoryKind
    content: str
    origin: MemoryOrigin
    source: str
    task_id: TaskId
    importance: float
    created_at: datetime
    seen_at: datetime
    successes: int = 0
    executions: int = 0

    @property
    def trusted(self) -> bool:
        """Whether a person or the framework itself said it; what models and tools said is only evidence."""
        return self.origin in ("user", "run")


@frozen
class ForgetEntry:
    """Forget one entry."""

    id: MemoryId


@frozen
class ForgetAgent:
    """Forget every entry and session of an agent."""

    agent_id: AgentId


def _has_time_zone(_: object, attribute: Attribute[datetime], moment: datetime) -> None:
    if moment.tzinfo is None:
        raise ValueError(f"{attribute.name!r} must be a moment with a time zone: {moment.isoformat()}")


@frozen
class ForgetOlder:
    """Forget entries and sessions that were last seen before a moment, of one agent or of all.

    Raises:
        ValueError: the moment has no time zone, so that nobody knows what would be lost.
    """

    before: datetime = field(validator=_has_time_zone)
    agent_id: AgentId | None = None


Forgetting: TypeAlias = ForgetEntry | ForgetAgent | ForgetOlder


@frozen
class StepTransition:
    """A step of a plan as it was stored at a moment."""

    plan_id: PlanId
    step: PlanStep
    at: datetime


@frozen
class MemoryContext:
    """What an agent recalls at the start of a run. All of it is data: it is shown fenced, never as orders.

    Attributes:
        tier: the memory tier that answered.
        semantic: facts that bear on the task.
        episodes: what happened in recent runs.
        procedures: what has worked.
        prior_critiques: what was found wanting in answers to similar tasks. They are for a strategy that
            judges its own answers; the others are not shown them.
        problem: why memory answered with less than it is set to, in a sentence; empty when it did not.
    """

    tier: MemoryTier
    semantic: str = ""
    episodes: tuple[str, ...] = ()
    procedures: tuple[str, ...] = ()
    prior_critiques: tuple[str, ...] = ()
    problem: str = ""


@frozen
class FlushReport:
    """What a flush came to.

    Attributes:
        kept: entries that were added or renewed.
        dropped: entries that had faded, or made room for stronger ones.
        problem: why less was done than memory is set to, in a sentence; empty when all of it was.
    """

    kept: int = 0
    dropped: int = 0
    problem: str = ""


@frozen
class SessionSnapshot:
    """A finished run, as memory keeps it.

    Attributes:
        total_cost: US dollars.
        total_tokens: as the providers counted them.
    """

    id: SessionId
    agent_id: AgentId
    messages: tuple[Message, ...]
    summary: str
    key_decisions: tuple[str, ...]
    task_ids: tuple[TaskId, ...]
    started_at: datetime
    ended_at: datetime
    total_cost: float
    total_tokens: int
