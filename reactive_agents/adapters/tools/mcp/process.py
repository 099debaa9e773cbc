"""The process of a server: started in a group of its own, and ended with all of that group."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from signal import SIGTERM

import anyio
from anyio.abc import AsyncResource, Process

from reactive_agents.adapters.tools.mcp.server import McpServer

_SIGKILL = 9
_PATIENCE_S = 2.0
_POLL_S = 0.01
_LAST_WAIT_S = 0.5


async def start_process(server: McpServer) -> Process:
    """The running command of the server, with pipes to its three streams.

    Raises:
        OSError: it cannot be started.
    """
    from mcp.client.stdio import get_default_environment

    process: Process | None = None
    with anyio.CancelScope(shield=True):  # half a start could not be waited for
        process = await anyio.open_process(
            [server.command or "", *server.args],
            env={**get_default_environment(), **server.env},
            cwd=server.cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    assert process is not None
    return process


async def end_process(process: Process, *, patience_s: float = _PATIENCE_S) -> None:
    """Close its input and wait until it has left, by signals if need be; then end what it started.

    Does not return before the operating system has forgotten the process.

    Args:
        patience_s: seconds that it has for each step: to leave by itself, to heed ``SIGTERM``, to be killed.
            Its children have half of it to heed ``SIGTERM``.
    """
    try:
        if process.stdin is not None:
            await _close(process.stdin)
        if not await _exits_within(process, patience_s):
            _signal_group(process, SIGTERM)
            await _exits_within(process, patience_s)
        if process.returncode is not None and _signal_group(process, SIGTERM):  # children were left behind
            await _comes_true(lambda: not _signal_group(process, 0), patience_s / 2)
    finally:  # also when the event loop itself goes down meanwhile
        _signal_group(process, _SIGKILL)
    await _exits_within(process, patience_s)


async def close_pipes(process: Process) -> None:
    """Close what the process wrote to."""
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            await _close(pipe)


def release_pipes(process: Process) -> None:
    """Let go of pipes that a descendant outside of the group may still hold open on its side.

    On asyncio that would keep them open until the garbage collector warns of them; nothing public reaches
    them.
    """
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        popen = transport.get_extra_info("subprocess")
        if process.returncode is None and popen is not None:  # a loop that goes down cannot tell of the end
            with suppress(subprocess.TimeoutExpired):
                popen.wait(_LAST_WAIT_S)
        with suppress(PermissionError):  # a program that took on another user cannot be killed once more
            transport.close()


async def _close(pipe: AsyncResource) -> None:
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await pipe.aclose()


async def _exits_within(process: Process, seconds: float) -> bool:
    return await _comes_true(lambda: process.returncode is not None, seconds)


async def _comes_true(condition: Callable[[], bool], seconds: float) -> bool:
    """Asks again and again: the event of an exit also waits for children that hold the pipes."""
    with anyio.move_on_after(seconds):
        while not condition():  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(_POLL_S)
    return condition()


def _signal_group(process: Process, signal: int) -> bool:
    """Whether there was anyone to send the signal to."""
    if sys.platform == "win32":
        alive = process.returncode is None
        if alive and signal:  # there are no groups to signal
            with suppress(ProcessLookupError, PermissionError):
                process.kill()
        return alive
    try:
        os.killpg(process.pid, signal)  # the leader's id is the group's, also when the leader is gone
    except ProcessLookupError:
        return False
    except PermissionError:  # members that are not ours to signal, or are not reaped yet
        return True
    return True
