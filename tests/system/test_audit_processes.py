"""Processes that write to one audit log at the same time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from reactive_agents.adapters.governance.audit_log import verify

ROOT = Path(__file__).parents[2]

WRITER = """
import sys, anyio
from datetime import UTC, datetime
from reactive_agents.adapters.governance.audit_log import SqliteAuditLog
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.governance import AuditEntry
from reactive_agents.effects import attempt

async def main():
    log = SqliteAuditLog(sys.argv[1], clock=SystemClock())
    entry = AuditEntry("r", "t", "a", "run", "completed", "", datetime.now(UTC))
    for _ in range(25):
        (await attempt(log.append(entry))).unwrap()
    await log.aclose()

anyio.run(main)
"""


def test_processes_make_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    command = [sys.executable, "-c", WRITER, str(path)]
    children = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
    assert verify(path).unwrap().entries == 75
