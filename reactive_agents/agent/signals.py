"""Handling of SIGTERM: cancel and record all runs before the process ends."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from reactive_agents.effects import schedule_on_this_loop


@contextmanager
def cancel_on_sigterm() -> Iterator[None]:
    """Cancel the block on SIGTERM; when it has ended, let the signal end the process.

    The runs within it end with ``RunCancelled``, and are recorded by cost tracking and audit. A second signal
    ends the process at once. Nothing is changed where the program handles SIGTERM itself, outside of the main
    thread, and on Windows, which has no such signal.
    """
    if not _ends_the_process():
        yield
        return
    schedule = schedule_on_this_loop()
    received: list[int] = []

    def cancel(signal_number: int, frame: object) -> None:
        received.append(signal_number)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        schedule(scope.cancel)

    with anyio.CancelScope() as scope:
        signal.signal(signal.SIGTERM, cancel)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if received:
        signal.raise_signal(signal.SIGTERM)
        sys.exit(128 + signal.SIGTERM)  # the thread has blocked the signal


def _ends_the_process() -> bool:
    return (
        sys.platform != "win32"
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
