"""Tasks that outlive the call that starts them, on asyncio and on trio.

A session of the MCP library has to be entered and left in one task, while an agent opens and closes its
services in whatever task it happens to be in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


def current_loop() -> object:
    """What identifies the running event loop."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        import trio

        return trio.lowlevel.current_trio_token()


def start_task(body: Callable[[], Coroutine[Any, Any, None]], name: str) -> object:
    """Run ``body``, which lets no exception but cancellation out; the event loop cancels it when it ends.

    The caller keeps the value that is returned for as long as the task is to run.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        import trio

        return trio.lowlevel.spawn_system_task(body, name=name)
    return loop.create_task(body(), name=name)
