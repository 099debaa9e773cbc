"""Durable runs that are killed at every boundary go on, and do nothing twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.durable_crashes import STRATEGIES
from tests.support.owed_crashes import CASES
from tests.support.queue_worker import queue_with_kills

ROOT = Path(__file__).parents[2]
STEPS = int(os.environ.get("KILLED_STEPS", "2"))
EVERY = os.environ.get("KILLED_EVERY", "5")  # boundary of a strategy: odd, as there are two at each write
EVERY_WRITE = EVERY if EVERY == "1" else "9"


@pytest.mark.parametrize("kind", ["plain", "idempotent", "parallel", "sub-agent", "workflow"])
def test_a_run_killed_at_every_boundary(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, "-m", "tests.support.durable_crashes", str(tmp_path), str(STEPS), kind, "1"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    counts = json.loads(ended.stdout)
    print(counts)
    assert counts["resumed"] == counts["kills"] > 5 * STEPS
    assert counts["repeated"] == counts["events_lost"] == 0
    if kind == "idempotent":
        assert counts["in_doubt"] == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_killed_at_boundaries(tmp_path: Path, strategy: str) -> None:
    """Result, memory, session, cost and audit are those of a run that was not killed."""
    command = [sys.executable, "-m", "tests.support.durable_crashes", str(tmp_path), "1", strategy, EVERY]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    counts = json.loads(ended.stdout)
    print(counts)
    assert counts["resumed"] == counts["kills"] > 20 // int(EVERY)
    assert counts["repeated"] == counts["events_lost"] == 0


@pytest.mark.parametrize("case", CASES)
def test_a_run_killed_beside_the_writes_to_its_stores(tmp_path: Path, case: str) -> None:
    """Session, cost, memory and audit have it once, also if their disk was full as the run ended."""
    command = [sys.executable, "-m", "tests.support.owed_crashes", str(tmp_path / case), EVERY_WRITE, case]
    (tmp_path / case).mkdir()
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    counts = json.loads(ended.stdout)
    print(counts)
    assert counts["kills"] >= counts["boundaries"] // int(EVERY_WRITE) > 20 // int(EVERY_WRITE) - 1


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
