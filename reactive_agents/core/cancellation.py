"""Whether a cancellation that was caught is the task's own, or only an exception that somebody raised."""

from __future__ import annotations

import asyncio
import math

import anyio


def is_cancelled() -> bool:
    """Whether the running task is being cancelled: what it catches of that must pass on.

    Code that awaits a task which somebody cancelled raises the same exception, without any cancellation of
    its own. On asyncio the scopes of anyio count as well, as soon as they have reached the task.
    """
    if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return anyio.current_effective_deadline() == -math.inf
