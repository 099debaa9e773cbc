"""The process of a server: started in a group of its own, and ended with all of that group."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from signal import SIGTERM

import anyio
from anyio.abc import AsyncResource, Process

from reactive_agents.adapters.tools.mcp.server import McpServer

_SIGKILL = 9
_LEAVES_BY_ITSELF_S = 2.0
_HEEDS_SIGNAL_S = 2.0
_DIES_S = 2.0
_POLL_S = 0.01


async def start_process(server: McpServer) -> Process:
    """The running command of the server, with pipes to its three streams.

    Raises:
        OSError: it cannot be started.
    """
    from mcp.client.stdio import get_default_environment

    return await anyio.open_process(
        [server.command or "", *server.args],
        env={**get_default_environment(), **server.env},
        cwd=server.cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


async def end_process(process: Process) -> None:
    """Close its input and wait until it has left, by signals if need be; then end what it started.

    Takes at most 8 seconds. Does not return before the operating system has forgotten the process.
    """
    try:
        if process.stdin is not None:
            await _close(process.stdin)
        if not await _exits_within(process, _LEAVES_BY_ITSELF_S):
            _signal_group(process, SIGTERM)
            await _exits_within(process, _HEEDS_SIGNAL_S)
        if process.returncode is not None and _signal_group(process, SIGTERM):  # children were left behind
            await _group_ends_within(process, _HEEDS_SIGNAL_S)
    finally:  # also when the event loop itself goes down meanwhile
        _signal_group(process, _SIGKILL)
    await _exits_within(process, _DIES_S)


async def release_pipes(process: Process) -> None:
    """Close the pipes, which a descendant outside of the group may still hold open on its side.

    On asyncio that would keep them open until the garbage collector warns of them; nothing public reaches
    them.
    """
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            await _close(pipe)
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):  # a program that took on another user cannot be killed once more
            transport.close()


async def _close(pipe: AsyncResource) -> None:
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await pipe.aclose()


async def _exits_within(process: Process, seconds: float) -> bool:
    """Asks for the exit code again and again: ``wait`` also waits for children that hold the pipes."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(_POLL_S)
    return process.returncode is not None


async def _group_ends_within(process: Process, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        while _signal_group(process, 0):
            await anyio.sleep(_POLL_S)


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
