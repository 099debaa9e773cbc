"""Leases: items in a database that a process holds while it is alive.

A lease expires if it is not renewed. A lease of an ended process of this machine is void at once: the
holder's name contains the machine, the process and its start time.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from secrets import token_hex
from typing import Generic, TypeVar

import anyio

from reactive_agents.event_loop import end_of_this_loop
from reactive_agents.ports import Clock

LEASE_S = 20.0
"""Seconds after which a lease expires if it is not renewed."""
BEAT_S = 1.0
"""Seconds between two renewals."""
DOUBTED_S = 15.0
"""Seconds after which a clock that has jumped ahead is believed: longer than between any two renewals."""

_Held = TypeVar("_Held")
_log = logging.getLogger("reactive_agents")


class LeaseRenewal(Generic[_Held]):
    """The leases of this process, renewed by a thread while there are any.

    Any thread may use it. After a fork, the child holds none of its parent's leases.

    Args:
        name: the kind of lease, for the thread and the log.
        renew: renews all leases, by key; run on a separate event loop.
        beat_s: seconds between two renewals.
    """

    def __init__(
        self, name: str, renew: Callable[[Mapping[str, _Held]], Awaitable[object]], *, beat_s: float = BEAT_S
    ) -> None:
        self._name = name
        self._renew = renew
        self._beat_s = beat_s
        self._held: dict[str, tuple[_Held, Callable[[], bool]]] = {}
        self._changing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def get(self, key: str) -> _Held | None:
        """Return the item that is held under a key."""
        held = self._held.get(key)
        return None if held is None else held[0]

    def hold(self, key: str, held: _Held) -> None:
        """Renew a lease until it is released, or the event loop of this call is closed.

        Raises:
            RuntimeError: the system cannot start a thread; nothing is held then.
        """
        if self._process != os.getpid():  # the leases and the thread are those of the parent
            self._held, self._thread, self._changing = {}, None, threading.Lock()
            self._process = os.getpid()
        with self._changing:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                thread.start()  # if that fails, the next lease tries again
                self._thread = thread
            self._held[key] = held, end_of_this_loop()

    def let_go(self, key: str) -> None:
        """Stop renewing a lease."""
        if self._process == os.getpid():  # the lock of a parent may be held forever
            with self._changing:
                self._held.pop(key, None)

    def let_go_of_all(self) -> None:
        """Stop renewing the leases."""
        if self._process == os.getpid():
            with self._changing:
                self._held.clear()

    def _run(self) -> None:
        ended = threading.Event()
        while not ended.wait(self._beat_s):
            with self._changing:
                for key in [key for key, (_, has_ended) in self._held.items() if has_ended()]:
                    del self._held[key]  # as by ``loop.close()`` amid its tasks
                held = {key: each for key, (each, _) in self._held.items()}
                if not held:
                    self._thread = None
                    return
            try:
                anyio.run(self._renew, held)
            except Exception:  # noqa: BLE001 - the next round tries again
                _log.warning("The %s could not be renewed.", self._name, exc_info=True)


class LeaseClock:
    """The time by which a process judges the leases of others.

    When the clock jumps ahead, as after a pause of the machine, the leases of all live processes have expired
    until they are renewed. So for ``DOUBTED_S`` seconds after a jump, this one continues from the time
    before. Any thread may use it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: tuple[int, int, int] | None = None
        """How far the clock is ahead of the monotonic one, which does not jump: as believed, and as it said
        last; and when it jumped."""

    def at(self, now_us: int) -> int:
        """Return the time by which leases are judged, when the clock says ``now_us``.

        Both are in microseconds since the epoch.
        """
        monotonic_us, most_us = int(self._clock.monotonic() * 1e6), int(BEAT_S * 1e6)
        ahead_us = now_us - monotonic_us
        believed_us, latest_us, jumped_us = self._known or (ahead_us, ahead_us, 0)
        if ahead_us > latest_us + most_us:
            jumped_us = monotonic_us
        if ahead_us > believed_us + most_us and monotonic_us < jumped_us + int(DOUBTED_S * 1e6):
            self._known = believed_us, ahead_us, jumped_us
            return monotonic_us + believed_us
        self._known = ahead_us, ahead_us, jumped_us
        return now_us


_GIVEN_UP: dict[str, float] = {}
"""Holders of this process whose release could not be written to the database, with the times."""
_REMEMBERED_S = 3600.0
"""Seconds after which a lease has surely run out, also when the clock was set back a little."""


def give_up(holder: str) -> None:
    """Treat a holder as gone in this process, if its release could not be written."""
    now = time.monotonic()
    for each in [each for each, since in _GIVEN_UP.copy().items() if since < now - _REMEMBERED_S]:
        _GIVEN_UP.pop(each, None)
    _GIVEN_UP[holder] = now


def new_holder() -> str:
    """Return the name of a new holder in this process."""
    return f"{token_hex(8)} {this_machine()} {os.getpid()} {_started(os.getpid())}"


def is_gone(holder: str) -> bool:
    """Return whether a holder has certainly ended, or was given up in this process.

    ``False`` for a holder on another machine, in another container or on Windows, whose lease has to expire.
    """
    try:
        _, machine, pid, started = holder.split(" ")
        if machine != this_machine():
            return False
        if int(pid) == os.getpid():
            return holder in _GIVEN_UP or started != _started(os.getpid())
        if sys.platform == "win32":  # where the signal 0 is a Ctrl-C
            return False
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (ValueError, OSError):  # another format, or a process of another user
        return False
    return started != _started(int(pid))


@cache
def this_machine() -> str:
    """Return a name of this machine, its current boot and this container."""
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
    """Return when a process started, in ticks since boot; ``0`` if unknown.

    Ids of processes recur: only together with its start is one unique.
    """
    if sys.platform != "linux":
        return "0"
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "0"
    return "0" if fields[0] in ("Z", "X") else fields[19]
