"""Memories of agents: candidates, entries, recalled context and sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NewType, TypeAlias

from attrs import Attribute, field, frozen

from reactive_agents.core.config import AnonymousMemory as AnonymousMemory
from reactive_agents.core.config import MemoryExtraction as MemoryExtraction
from reactive_agents.core.config import MemoryScope as MemoryScope
from reactive_agents.core.config import MemoryTier as MemoryTier
from reactive_agents.core.conversation import owner_of as owner_of
from reactive_agents.core.conversation import user_owner as user_owner
from reactive_agents.core.ids import AgentId, PlanId, SessionId, TaskId
from reactive_agents.core.messages import Message
from reactive_agents.core.plans import PlanStep
from reactive_agents.core.values import Value

MemoryId = NewType("MemoryId", str)
MemoryKind: TypeAlias = Literal["working", "episodic", "semantic", "procedural", "critique"]
"""Notes of the run under way; what happened; what is the case; what has worked; what was found wanting."""

MemoryOrigin: TypeAlias = Literal["user", "run", "model", "tool"]
"""The origin of a memory: a person, the framework's own record of a run, a model, or a tool."""


@frozen(eq=False, repr=False)
class MemoryCandidate(Value):
    """A fact or event of a run that may be remembered.

    Attributes:
        content: the text to remember, in a few sentences at most; memory keeps it on one line.
        source: the source of the text, such as the name of the tool.
        importance: 0 to 1.
        success: whether what was done worked; ``None`` where that makes no sense.
    """

    kind: MemoryKind
    content: str
    origin: MemoryOrigin
    source: str = ""
    importance: float = 0.5
    success: bool | None = None


@frozen(eq=False, repr=False)
class MemoryEntry(Value):
    """One memory.

    Attributes:
        content: one line of text.
        source: where it comes from, such as the name of the tool.
        task_id: the task in which it was stored or renewed last; empty for none.
        importance: 0 to 1, as when it was last seen; it decays with time.
        created_at: when it was first stored.
        seen_at: when it was last stored; the same text again is not a new entry.
        successes: how many of the ``executions`` succeeded.
        executions: how often it was tried; 0 for a text that cannot be tried.
        owner: the owner of the memory, as from :func:`owner_of`; empty for the agent's own.
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
    owner: str = ""

    @property
    def trusted(self) -> bool:
        """Return whether its source is a person or the framework, not a model or tool."""
        return self.origin in ("user", "run")


@frozen(eq=False, repr=False)
class ForgetEntry(Value):
    """Forget one entry."""

    id: MemoryId


@frozen(eq=False, repr=False)
class ForgetAgent(Value):
    """Forget every entry and session of an agent."""

    agent_id: AgentId


@frozen(eq=False, repr=False)
class ForgetUser(Value):
    """Forget every entry and session of a user, with one agent or with all."""

    user: str
    agent_id: AgentId | None = None


def _has_time_zone(_: object, attribute: Attribute[datetime], moment: datetime) -> None:
    if moment.tzinfo is None:
        raise ValueError(f"{attribute.name!r} must be a time with a time zone: {moment.isoformat()}")


@frozen(eq=False, repr=False)
class ForgetOlder(Value):
    """Forget entries and sessions last seen before a time, of one agent or of all.

    Raises:
        ValueError: the time has no time zone.
    """

    before: datetime = field(validator=_has_time_zone)
    agent_id: AgentId | None = None


Forgetting: TypeAlias = ForgetEntry | ForgetAgent | ForgetUser | ForgetOlder


@frozen(eq=False, repr=False)
class StepTransition(Value):
    """One stored version of a step of a plan."""

    plan_id: PlanId
    step: PlanStep
    at: datetime


@frozen(eq=False, repr=False)
class MemoryContext(Value):
    """The memories that an agent recalls at the start of a run.

    All of them are data: prompts show them fenced, never as instructions.

    Attributes:
        tier: the memory tier that answered.
        semantic: facts that are relevant to the task.
        episodes: outcomes of recent runs.
        procedures: methods that worked.
        prior_critiques: critiques of answers to similar tasks, for strategies that judge their own answers;
            others are not shown them.
        problem: why memory returned less than configured, in a sentence; empty otherwise.
    """

    tier: MemoryTier
    semantic: str = ""
    episodes: tuple[str, ...] = ()
    procedures: tuple[str, ...] = ()
    prior_critiques: tuple[str, ...] = ()
    problem: str = ""

    @property
    def text(self) -> str:
        """Return the text that every prompt of the run shows; empty for none."""
        parts = [self.semantic, *(f"Earlier run: {episode}" for episode in self.episodes)]
        parts += [f"What worked before: {procedure}" for procedure in self.procedures]
        return "\n".join([part for part in parts if part])


@frozen(eq=False, repr=False)
class FlushReport(Value):
    """The result of a flush.

    Attributes:
        kept: number of entries that were added or renewed.
        dropped: number of entries that expired or were replaced by more important ones.
        problem: why less was done than configured, in a sentence; empty when all was done.
        skipped: whether memory stores nothing of such a run; it then has no snapshot either.
    """

    kept: int = 0
    dropped: int = 0
    problem: str = ""
    skipped: bool = False


@frozen(eq=False, repr=False)
class SessionSnapshot(Value):
    """A finished run, as memory stores it.

    Attributes:
        total_cost: US dollars.
        total_tokens: tokens as the providers counted them.
        owner: the owner of the run, as from :func:`owner_of`.
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
    owner: str = ""
