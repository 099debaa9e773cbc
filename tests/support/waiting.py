"""Waiting for what another task, thread or process does; the guard of the suite ends what never comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import anyio
from attrs import frozen


async def until(condition: Callable[[], object]) -> None:
    """Return as soon as the condition holds; the other tasks go on meanwhile."""
    while not condition():  # noqa: ASYNC110 - threads and processes set no events
        await anyio.sleep(0.001)


def until_blocking(condition: Callable[[], object]) -> None:
    """Return as soon as the condition holds, in a thread without an event loop."""
    while not condition():
        time.sleep(0.001)


async def closed_at(reached: anyio.Event, running: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine until an event is set, and close it where it waits for something."""
    await _Closed(reached, running)


@frozen
class _Closed:
    reached: anyio.Event
    running: Coroutine[Any, Any, Any]

    def __await__(self) -> Generator[Any, Any, None]:
        awaited = self.running.__await__()
        waits_for = next(awaited)
        while not self.reached.is_set():
            waits_for = awaited.send((yield waits_for))
        self.running.close()
