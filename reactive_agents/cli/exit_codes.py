"""What the exit code of the command says."""

from __future__ import annotations

from enum import IntEnum

from reactive_agents.core.reasoning import ReasoningStatus


class ExitCode(IntEnum):
    """What became of a run. ``BAD_USAGE`` is also what the option parser exits with."""

    COMPLETED = 0
    FAILED = 1
    BAD_USAGE = 2
    PARTIAL = 3
    INTERRUPTED = 130


OF_STATUS: dict[ReasoningStatus, ExitCode] = {
    "completed": ExitCode.COMPLETED,
    "failed": ExitCode.FAILED,
    "partial": ExitCode.PARTIAL,
}
