"""Processes of tests that are interrupted."""

from __future__ import annotations

import signal


def heed_interrupts() -> None:
    """Before a process starts: a shell lets its background jobs, and what they start, ignore interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
