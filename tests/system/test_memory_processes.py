"""Processes that write to one memory file at the same time."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

WRITER = """
import sys, anyio
from attrs import evolve
from reactive_agents.adapters.memory.service import open_memory
from reactive_agents.core.memory import MemoryCandidate
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock, SequentialIds
from tests.support.memories import AGENT, a_plan, a_result, a_task, observed

async def main(path, name, most):
    services = open_memory(path, clock=FakeClock(), ids=SequentialIds(name + "-"))
    plan = a_plan("plan-" + name, steps=3)
    (await attempt(services.plans.save(plan))).unwrap()
    print("saved", flush=True)
    for number in range(most):
        step = evolve(plan.steps[number % 3], status="completed", result=str(number))
        (await attempt(services.plans.update_step(plan.id, step))).unwrap()
        print(number, flush=True)
        result = a_result(f"The count is {number} for {name} here.", observed(f"tool-{number % 7}", "x"))
        (await attempt(services.memory.flush(a_task(f"Count {number}"), result))).unwrap()
        (await attempt(services.effectiveness.record("plan", "query", result, success=True))).unwrap()
    await services.aclose()

anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


def begin(path: Path, name: str, most: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(most)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def integrity(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        connection.execute("INSERT INTO memory_words (memory_words) VALUES ('integrity-check')")
        return [row[0] for row in connection.execute("PRAGMA integrity_check")]
    finally:
        connection.close()


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    names = ("a", "b")
    writers = [begin(path, name, 60) for name in names]  # they also race to make the file
    outcomes = [writer.communicate(timeout=60) for writer in writers]
    assert [error for _, error in outcomes] == ["", ""]
    assert [len(out.splitlines()) for out, _ in outcomes] == [61, 61]
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM step_transitions").fetchone() == (120,)
    assert connection.execute("SELECT executions FROM effectiveness").fetchone() == (120,)
    facts = connection.execute("SELECT count(*) FROM memories WHERE kind = 'semantic'").fetchone()
    ways = connection.execute("SELECT sum(executions) FROM memories WHERE kind = 'procedural'").fetchone()
    connection.close()
    assert (facts, ways) == ((120,), (120,))
    assert integrity(path) == ["ok"]
