"""Durable runs that are killed at every boundary go on, and do nothing twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.durable_crashes import STRATEGIES
from tests.support.owed_crashes import CASES
from tests.support.queue_worker import queue_with_kills

ROOT = Path(__file__).parents[2]
STEPS = int(os.environ.get("KILLED_STEPS", "2"))
EVERY = os.environ.get("KILLED_EVERY", "5")  # boundary of a strategy: odd, as there are two at each write
EVERY_WRITE = EVERY if EVERY == "1" else "9"


def killed(program: str, *arguments: str) -> list[dict[str, Any]]:
    """Return what a program counted of each kind of run.

    It imports what it needs once for all of them, and forks their processes.
    """
    command = [sys.executable, "-m", f"tests.support.{program}", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_runs_killed_at_every_boundary(tmp_path: Path) -> None:
    kinds = ("plain", "idempotent", "parallel", "sub-agent", "workflow")
    counted = killed("durable_crashes", str(tmp_path), str(STEPS), ",".join(kinds), "1")
    assert tuple(counts["kind"] for counts in counted) == kinds
    for counts in counted:
        assert counts["resumed"] == counts["kills"] > 5 * STEPS, counts
        assert counts["repeated"] == counts["events_lost"] == 0, counts
        if counts["kind"] == "idempotent":
            assert counts["in_doubt"] == 0, counts


def test_each_strategy_killed_at_boundaries(tmp_path: Path) -> None:
    """Result, memory, session, cost and audit are those of a run that was not killed."""
    counted = killed("durable_crashes", str(tmp_path), "1", ",".join(STRATEGIES), EVERY)
    assert tuple(counts["kind"] for counts in counted) == STRATEGIES
    for counts in counted:
        assert counts["resumed"] == counts["kills"] > 20 // int(EVERY), counts
        assert counts["repeated"] == counts["events_lost"] == 0, counts


def test_a_run_killed_beside_the_writes_to_its_stores(tmp_path: Path) -> None:
    """Session, cost, memory and audit have it once, also if their disk was full as the run ended."""
    counted = killed("owed_crashes", str(tmp_path), EVERY_WRITE)
    assert tuple(counts["case"] for counts in counted) == CASES
    for counts in counted:
        every = int(EVERY_WRITE)
        assert counts["kills"] >= counts["boundaries"] // every > 20 // every - 1, counts


JUDGED = """
import os, sys
from reactive_agents import ModelRetry, ReactiveAgents, RunContext
from reactive_agents.testing import ScriptedLLM, say

class Killed(ScriptedLLM):
    def complete(self, request):
        if len(self.requests) == int(kill_at):
            os.kill(os.getpid(), 9)
        return super().complete(request)

place, seen, kill_at, *turns = sys.argv[1:]

def judge(context: RunContext, text: str) -> None:
    with open(seen, "a") as file:
        print(context.retry, text, file=file)
    if text != "Rome.":
        raise ModelRetry("No.")

described = ReactiveAgents.create().with_llm(Killed(*map(say, turns))).with_output_validator(judge)
agent = described.with_durability(place, recover=False).build()
result = agent.run_sync("Which city?", run_id="r")
print(result.status, result.metadata.terminated_by, result.metadata.model_calls)
"""


@pytest.mark.parametrize("last", ["Rome.", "Bonn."])
def test_a_validator_goes_on_counting_after_a_kill(tmp_path: Path, last: str) -> None:
    """What it said of an answer is in the record: it is not asked again, and counts as before."""
    seen = tmp_path / "seen"

    def run(kill_at: int, *turns: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-c", JUDGED, str(tmp_path / "r.db"), str(seen), str(kill_at), *turns]
        return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)

    assert run(1, "Oslo.").returncode == -signal.SIGKILL
    assert run(1, "Bern.").returncode == -signal.SIGKILL
    ended = run(9, last)
    expected = "completed final_answer 3" if last == "Rome." else "partial output_validator 3"
    assert ended.stdout.strip() == expected, ended.stderr
    assert seen.read_text().split("\n") == ["0 Oslo.", "1 Bern.", f"2 {last}", ""]


@pytest.mark.parametrize("engine", ["record", "dbos"])
def test_a_queue_in_a_file_with_workers_that_are_killed(tmp_path: Path, engine: str) -> None:
    counts = queue_with_kills(str(tmp_path / "runs.db"), tmp_path, engine, 25)
    print(counts)
    assert counts["kills"] > 0
    assert counts["states"] == {"completed"}
    assert counts["payments"] == 2 * counts["runs"]
