"""Waiting for what another task, thread or process does; the guard of the suite ends what never comes."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio


async def until(condition: Callable[[], object]) -> None:
    """Return as soon as the condition holds; the other tasks go on meanwhile."""
    while not condition():  # noqa: ASYNC110 - threads and processes set no events
        await anyio.sleep(0.001)


def until_blocking(condition: Callable[[], object]) -> None:
    """Return as soon as the condition holds, in a thread without an event loop."""
    while not condition():
        time.sleep(0.001)
