"""What a memory service gives to a run, and what it keeps of one."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.ids import AgentId, SessionId, TaskId
from reactive_agents.core.messages import Message

MemoryTier: TypeAlias = Literal["1", "2"]


@frozen
class MemoryContext:
    """What an agent recalls at the start of a run. All of it is data: it is shown fenced, never as orders.

    Attributes:
        tier: the memory tier that answered.
        semantic: facts that bear on the task.
        episodes: what happened in recent runs.
        procedures: what has worked.
    """

    tier: MemoryTier
    semantic: str = ""
    episodes: tuple[str, ...] = ()
    procedures: tuple[str, ...] = ()


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
