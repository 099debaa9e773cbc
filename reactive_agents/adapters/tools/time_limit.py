"""A time limit whose timer is set where something waits; what never waits could not be cut off anyway."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Generator
from typing import Any, Generic, Self, TypeVar

import anyio

_T = TypeVar("_T")


async def within(seconds: float, running: Coroutine[Any, Any, _T], late: _T) -> _T:
    """What the coroutine returns, or ``late`` when it was cut off after that many seconds.

    Tools that look something up or calculate end without having waited, and there is no timer for them.
    """
    started = time.monotonic()
    with anyio.CancelScope() as scope:
        begun = running.__await__()
        returned: _T
        try:
            waits_for = next(begun)
        except StopIteration as ended:
            returned = ended.value
        else:
            scope.deadline = anyio.current_time() + seconds - (time.monotonic() - started)
            returned = await _Rest(begun, waits_for)
        return returned
    return late


class _Rest(Generic[_T], Generator[Any, Any, _T]):
    """The rest of what has begun, and now waits for something."""

    def __init__(self, begun: Generator[Any, Any, _T], waits_for: Any) -> None:
        self._begun = begun
        self._waits_for = [waits_for]

    def __await__(self) -> Self:
        return self

    def send(self, value: Any) -> Any:
        return self._waits_for.pop() if self._waits_for else self._begun.send(value)

    def throw(self, *error: Any) -> Any:
        return self._begun.throw(*error)
