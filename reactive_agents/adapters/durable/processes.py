"""Names of the processes that hold runs, and whether one has surely ended."""

from __future__ import annotations

import os
import socket
import sys
from functools import cache
from secrets import token_hex


def new_holder() -> str:
    """Return the name of a new holder in this process."""
    return f"{token_hex(8)} {_machine()} {os.getpid()} {_started(os.getpid())}"


def is_gone(holder: str) -> bool:
    """Return whether the holder's process has surely ended.

    ``False`` for one on another machine, or in another container: its lease says when it is void.
    """
    try:
        _, machine, pid, started = holder.split(" ")
        if machine != _machine():
            return False
        if int(pid) == os.getpid():
            return started != _started(os.getpid())
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (ValueError, OSError):  # not of this form, or a process of another user
        return False
    return started != _started(int(pid))


@cache
def _machine() -> str:
    """Return a name of this machine since it was booted, and of this container."""
    parts = [socket.gethostname().replace(" ", "-")]
    if sys.platform == "linux":
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                parts.append(file.read().strip())
            parts.append(os.readlink("/proc/self/ns/pid"))
        except OSError:
            pass
    return "|".join(parts)


def _started(pid: int) -> str:
    """Return when a process was started, in ticks since boot; ``0`` where unknown.

    A process id is used again after its process has ended.
    """
    if sys.platform != "linux":
        return "0"
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "0"
    return "0" if fields[0] in ("Z", "X") else fields[19]
