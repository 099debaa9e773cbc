"""The base class of events."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from attrs import field, frozen

from reactive_agents.core.ids import AgentId, RunId, TaskId

Stamp: TypeAlias = tuple[RunId, TaskId, int, datetime]


@frozen
class Event:
    """The fields of every event.

    Attributes:
        sequence: position in the run, from 1, without gaps.
        at: when it happened, UTC.
        agent: the agent whose run it is.
        parent_run_id: the run whose tool began this one; ``None`` for none.
    """

    run_id: RunId
    task_id: TaskId
    sequence: int
    at: datetime
    agent: AgentId = field(default=AgentId(""), kw_only=True)
    parent_run_id: RunId | None = field(default=None, kw_only=True)
