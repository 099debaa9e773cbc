"""The base class of events."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from attrs import frozen

from reactive_agents.core.ids import RunId, TaskId

Stamp: TypeAlias = tuple[RunId, TaskId, int, datetime]


@frozen
class Event:
    """The fields of every event.

    Attributes:
        sequence: position in the run, from 1, without gaps.
        at: when it happened, UTC.
    """

    run_id: RunId
    task_id: TaskId
    sequence: int
    at: datetime
