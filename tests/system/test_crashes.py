"""A process that is killed leaves files that open and hold all that it had reported as committed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import anyio
import anyio.to_thread

from reactive_agents.adapters.governance.audit_log import SqliteAuditLog, verify
from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
from reactive_agents.adapters.memory.service import open_memory
from reactive_agents.core.ids import AgentId, PlanId
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock, SequentialIds
from tests.support.crashes import AUDIT, COST, MEMORY, REPORTED

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("COMMIT_KILLS", "15"))


def test_what_was_committed_outlives_kills(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.crashes", str(tmp_path), str(KILLS), "7"]
    totals: dict[str, int] = defaultdict(int)
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as killer:
        assert killer.stdin is not None
        assert killer.stdout is not None
        seen = 0
        for child in range(KILLS):
            assert killer.stdout.readline() == "killed\n"
            lines = (tmp_path / REPORTED).read_text().splitlines()
            reported: dict[str, list[str]] = defaultdict(list)
            for line in lines[seen:]:
                what, _, name = line.partition(" ")
                reported[what].append(name)
                totals[what] += 1
            seen = len(lines)
            anyio.run(check, tmp_path, child, reported, totals["audit"])
            killer.stdin.write("\n")
            killer.stdin.flush()
    assert killer.returncode == 0
    assert min(totals[what] for what in ("step", "entry", "audit", "cost")) > KILLS // 2


async def check(folder: Path, child: int, reported: dict[str, list[str]], audited_so_far: int) -> None:
    """Check that all the child reported is there, and at most one more of each."""
    await _check_memory(folder / MEMORY, child, reported)
    await _check_audit(folder / AUDIT, child, reported["audit"], audited_so_far)
    await _check_cost(folder / COST, child, len(reported["cost"]))


async def _check_memory(path: Path, child: int, reported: dict[str, list[str]]) -> None:
    assert integrity(path) == ["ok"]
    services = open_memory(path, clock=FakeClock(), ids=SequentialIds())
    plan_id = PlanId(f"plan-{child}")
    stored = (await attempt(services.plans.transitions(plan_id))).unwrap()
    numbers = [int(each.step.result or "") for each in stored]
    assert numbers == list(range(len(numbers)))  # in order, none torn, none missing
    assert len(reported["step"]) <= len(numbers) <= len(reported["step"]) + 1
    plan = (await attempt(services.plans.get(plan_id))).unwrap().value_or(None)
    assert plan is not None or reported["plan"] == []
    if plan is not None:
        last = {number % 3: str(number) for number in numbers}
        assert {place: step.result for place, step in enumerate(plan.steps) if step.result} == last
    entries = (await attempt(services.archive.entries(agent_id=AgentId(f"child-{child}")))).unwrap()
    await services.aclose()
    counts = {entry.id for entry in entries if entry.origin == "run" and entry.kind == "semantic"}
    assert set(reported["entry"]) <= counts
    assert len(counts) <= len(reported["entry"]) + 1
    # a flush is whole or not there: an episode, a procedure and a fact of each
    kinds = [entry.kind for entry in entries if entry.origin == "tool"]
    assert kinds.count("episodic") == kinds.count("semantic")


def integrity(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'memory_words'").fetchone():
            connection.execute("INSERT INTO memory_words (memory_words) VALUES ('integrity-check')")
        return [row[0] for row in connection.execute("PRAGMA integrity_check")]
    finally:
        connection.close()


async def _check_audit(path: Path, child: int, reported: list[str], audited_so_far: int) -> None:
    log = SqliteAuditLog(path, clock=FakeClock())
    first = max(0, audited_so_far - len(reported))
    recorded = (await attempt(log.read(after=first, limit=1_000))).unwrap()
    await log.aclose()
    runs = {each.entry.run_id for each in recorded if each.entry.agent_id == f"child-{child}"}
    assert set(reported) <= runs
    assert len(runs) <= len(reported) + 1
    summary = (await anyio.to_thread.run_sync(verify, path)).unwrap()
    assert audited_so_far <= summary.entries <= audited_so_far + child + 1


async def _check_cost(path: Path, child: int, reported: int) -> None:
    tracker = SqliteCostTracker(path, clock=FakeClock())
    totals = {each.name: each.runs for each in (await attempt(tracker.totals("agent"))).unwrap()}
    await tracker.aclose()
    assert reported <= totals.get(f"child-{child}", 0) <= reported + 1
