"""How long a computation takes."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time


def seconds_of(work: Callable[[], object]) -> float:
    """What it takes of this thread's time, so that what else the machine does counts as little as can be."""
    started = thread_time()
    work()
    return thread_time() - started
