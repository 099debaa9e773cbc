"""The state of a process of the command: its interrupts, garbage and ``--json``.

Only the standard library is imported here, so that the first signal handlers are set early.
"""

from __future__ import annotations

import gc
import os
import signal
from contextvars import ContextVar
from typing import NoReturn

as_json: ContextVar[bool] = ContextVar("as_json", default=False)
"""Whether the command prints one JSON document only: ``--json`` is among its options."""


def exit_on_interrupt() -> None:
    """Let an interrupt end the process at once, until :func:`raise_on_interrupt`.

    For imports: a module may swallow an exception that is raised during its import.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def raise_on_interrupt() -> None:
    """Let an interrupt be ``KeyboardInterrupt`` again."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(signal_number: int, frame: object) -> NoReturn:
    os.write(2, b"Interrupted.\n")
    os._exit(130)


def collect_garbage() -> None:
    """Switch delayed garbage collection on, without the imported objects."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
