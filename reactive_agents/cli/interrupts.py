"""Interrupts while the command starts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """Let an interrupt end the process at once instead of ``KeyboardInterrupt``.

    For imports: an exception in the middle of one may be swallowed by the module that is being imported.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(signal_number: int, frame: object) -> NoReturn:
    os.write(2, b"Interrupted.\n")
    os._exit(130)
