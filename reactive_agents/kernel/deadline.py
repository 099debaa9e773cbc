"""The time limit of a run: how much of it is left, and what is cut off when nothing is."""

from __future__ import annotations

from collections.abc import Awaitable
from math import inf
from typing import TypeVar

from returns.result import Result

from reactive_agents.effects import Effect, attempt, within
from reactive_agents.kernel.context import KernelContext

_A = TypeVar("_A")
_E = TypeVar("_E")

WIND_UP_S = 0.5
"""Seconds past the deadline in which a step may put on record what the run's tools did.

The tools end their calls at the deadline by themselves, and have half of it to say what became of them.
"""


def seconds_left(context: KernelContext) -> float:
    """Until the run must end; negative when that is past, infinite when it may take for ever."""
    deadline = context.input.deadline
    return inf if deadline is None else deadline - context.clock.monotonic()


def in_time(pending: Effect[_A, _E], seconds: float) -> Awaitable[Result[_A, _E] | None]:
    """The effect's result, or ``None`` when it was cut off after that many seconds."""
    running = attempt(pending)
    return running if seconds == inf else within(seconds, running, None)
