"""Children that write to a memory file, an audit log and a cost account, each killed in the middle of it.

``python -m tests.support.crashes FOLDER KILLS SEED``: kills a child, says ``killed`` on standard output, and
goes on with the next on the same files when a line comes from standard input. What children had reported as
committed is in ``reported`` in the folder, one line each.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.to_thread
from attrs import evolve

from reactive_agents.adapters.governance.audit_log import SqliteAuditLog
from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
from reactive_agents.adapters.memory.service import open_memory
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.codec import encode
from reactive_agents.core.governance import AuditEntry, SpendingRecord
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.memory import MemoryCandidate
from reactive_agents.core.plans import PlanStep
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock, SequentialIds
from tests.support.memories import a_plan, a_result, a_task, observed

PATIENCE_S = 20.0
MEMORY, AUDIT, COST, REPORTED = "memory.db", "audit.db", "cost.db", "reported"


async def write_until_killed(folder: Path, report: int, child: int) -> None:
    """Write to all three files in turn, and report what is said to be on the disk."""
    agent = AgentId(f"child-{child}")
    services = open_memory(folder / MEMORY, clock=FakeClock(), ids=SequentialIds(f"{child}-"))
    log = SqliteAuditLog(folder / AUDIT, clock=SystemClock())
    tracker = SqliteCostTracker(folder / COST, clock=SystemClock())

    def tell(what: str, name: str) -> None:
        os.write(report, f"{what} {name}\n".encode())

    plan = a_plan(f"plan-{child}", agent=agent, steps=3)
    (await attempt(services.plans.save(plan))).unwrap()
    tell("plan", plan.id)
    for number in range(1_000_000):
        name = RunId(f"{child}-{number}")
        step: PlanStep = evolve(plan.steps[number % 3], status="completed", result=str(number))
        (await attempt(services.plans.update_step(plan.id, step))).unwrap()
        tell("step", f"{plan.id} {number}")
        fact = MemoryCandidate("semantic", f"The count is {number} in child {child}.", "run")
        entry = (await attempt(services.memory.remember(agent, fact))).unwrap()
        tell("entry", entry.id)
        at = datetime.now(UTC)
        audited = AuditEntry(name, TaskId("t"), agent, "run", "completed", "x" * 4_000, at)
        (await attempt(log.append(audited))).unwrap()
        tell("audit", name)
        spent = SpendingRecord(name, TaskId("t"), agent, (RunUsage("m", Usage(1, 1, 2), 0.5, 1),), at)
        (await attempt(tracker.record(spent))).unwrap()
        tell("cost", name)
        result = a_result(f"The sum is {number} for {child} here.", observed(f"tool-{number % 7}", "x"))
        (await attempt(services.memory.flush(a_task(f"Count {number}", agent=agent), result))).unwrap()


def killed_child(folder: Path, report: int, child: int, *, after: int, seconds: float) -> None:
    """One child, killed some time after a number of reports."""
    reported = folder / REPORTED
    wanted = reported.read_text().count("\n") + after
    process = os.fork()
    if process == 0:
        try:
            anyio.run(write_until_killed, folder, report, child)
        except BaseException:  # noqa: BLE001 - nobody else would hear of it
            traceback.print_exc()
        finally:
            os._exit(1)
    deadline = time.monotonic() + PATIENCE_S
    while reported.read_text().count("\n") < wanted and time.monotonic() < deadline:
        time.sleep(0.0005)
    time.sleep(seconds)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"child {child} ended by itself")


def main() -> None:
    """Kill as many children as told, each at a moment of its own."""
    folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    out = os.open(folder / REPORTED, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    anyio.run(anyio.sleep, 0)  # what is loaded once here need not be loaded by each child
    encode(a_plan())
    for child in range(kills):
        killed_child(folder, out, child, after=chance.randint(0, 12), seconds=chance.uniform(0.0, 0.01))
        print("killed", flush=True)
        sys.stdin.readline()
    os.close(out)


if __name__ == "__main__":
    main()
