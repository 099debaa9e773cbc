"""Task groups that live as long as an object, without wrapping what the body of its ``async with`` raises."""

from __future__ import annotations

from types import TracebackType

import anyio
import anyio.abc


async def open_group() -> anyio.abc.TaskGroup:
    """A task group that is entered."""
    return await anyio.create_task_group().__aenter__()


async def close_group(
    group: anyio.abc.TaskGroup,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    """Wait for the tasks of the group; cancel them when the body raised, whose exception passes as it is."""
    try:
        await group.__aexit__(kind, error, trace)
    except BaseExceptionGroup as raised:
        if error is None or raised.exceptions != (error,):
            raise
