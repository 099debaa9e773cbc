"""The base class of events."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from datetime import datetime
from typing import Literal, TypeAlias

from attrs import field, frozen

from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.values import Value

Stamp: TypeAlias = tuple[RunId, TaskId, int, datetime]
PlanChange: TypeAlias = Literal["patched", "replanned", "augmented", "required"]
CompactionReason: TypeAlias = Literal["growth", "window", "refused"]


@frozen(eq=False, repr=False)
class Event(Value):
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


PUBLISH: ContextVar[Callable[..., None] | None] = ContextVar("publish", default=None)
"""Publishes an event of the run that is under way: its class, then its fields without the first four.

For services, which know nothing of runs, and whose news are not part of what they return.
"""
