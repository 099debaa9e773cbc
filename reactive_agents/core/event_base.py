"""What every event begins with."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

import attrs

from reactive_agents.core.frozen import frozen, maker_of_packed
from reactive_agents.core.ids import RunId, TaskId

Stamp: TypeAlias = tuple[RunId, TaskId, int, datetime]

_P = ParamSpec("_P")
_E = TypeVar("_E")


@frozen
class Event:
    """The fields that every event has.

    Attributes:
        sequence: position in the run, from 1, without gaps.
        at: when it happened, UTC.
    """

    run_id: RunId
    task_id: TaskId
    sequence: int
    at: datetime


def event_maker(
    kind: Callable[Concatenate[RunId, TaskId, int, datetime, _P], _E],
) -> Callable[Concatenate[Stamp, _P], _E]:
    """A function that makes events of a kind, of a stamp and what else they tell, at half the usual cost.

    For the kinds of which every step of a run makes events.
    """
    made: Callable[Concatenate[Stamp, _P], _E] = maker_of_packed(kind, len(attrs.fields(Event)))
    return made
