"""Appends to an audit log in children that are killed in the middle of it; prints what they had reported.

``python -m tests.support.audit_crashes LOG KILLS SEED``
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.to_thread
from returns.result import Success

from reactive_agents.adapters.governance.audit.log import SqliteAuditLog
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.codec import encode
from reactive_agents.core.governance import AuditEntry
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.effects import attempt

PATIENCE_S = 20.0


def entry_of(name: str) -> AuditEntry:
    """An entry of a page."""
    at = datetime.now(UTC)
    return AuditEntry(RunId(name), TaskId("t"), AgentId("a"), "run", "completed", "x" * 4_000, at)


async def append_until_killed(path: Path, report: int, child: int) -> None:
    """Append entry after entry, and report the number of each that is said to be on the disk."""
    log = SqliteAuditLog(path, clock=SystemClock())
    for number in range(1_000_000):
        name = f"{child}-{number}"
        if isinstance(await attempt(log.append(entry_of(name))), Success):
            os.write(report, f"{name}\n".encode())


def killed_child(path: Path, report: int, child: int, seconds: float) -> None:
    """One child, killed some time after it began; every other one after its first entry."""
    before = os.fstat(report).st_size
    process = os.fork()
    if process == 0:
        try:
            anyio.run(append_until_killed, path, report, child)
        finally:
            os._exit(1)
    deadline = time.monotonic() + PATIENCE_S
    while child % 2 and os.fstat(report).st_size == before and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(seconds)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def main() -> None:
    """Kill as many children as told, then print what they had reported."""
    path, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    report = path.with_suffix(".reported")
    out = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    anyio.run(anyio.sleep, 0)  # what is loaded once here need not be loaded by each child
    encode(entry_of("warm-up"))
    for child in range(kills):
        killed_child(path, out, child, chance.uniform(0.01, 0.12))
    os.close(out)
    print(report.read_text(), end="")


if __name__ == "__main__":
    main()
