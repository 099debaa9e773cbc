"""Handling of SIGTERM: cancel and record all runs before the process ends."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
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
    schedule, scope = schedule_on_this_loop(), anyio.CancelScope()
    with end_on_sigterm_after(lambda: schedule(scope.cancel)), scope:
        yield


@contextmanager
def end_on_sigterm_after(cancel: Callable[[], object]) -> Iterator[None]:
    """Call a function on SIGTERM, and let the signal end the process after the block.

    ``cancel``: makes the block end soon. Otherwise as :func:`cancel_on_sigterm`.
    """
    if not _ends_the_process():
        yield
        return
    received: list[int] = []

    def receive(signal_number: int, frame: object) -> None:
        received.append(signal_number)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        cancel()

    signal.signal(signal.SIGTERM, receive)
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
