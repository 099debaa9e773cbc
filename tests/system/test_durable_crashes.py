"""Durable runs that are killed at every boundary go on, and do nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.durable_crashes import STRATEGIES
from tests.support.queue_worker import queue_with_kills

ROOT = Path(__file__).parents[2]
STEPS = int(os.environ.get("KILLED_STEPS", "3"))
EVERY = os.environ.get("KILLED_EVERY", "3")  # boundary of a strategy, of which there are two at each write


@pytest.mark.parametrize("kind", ["plain", "idempotent", "parallel", "sub-agent"])
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


@pytest.mark.parametrize("engine", ["record", "dbos"])
def test_a_queue_in_a_file_with_workers_that_are_killed(tmp_path: Path, engine: str) -> None:
    counts = queue_with_kills(str(tmp_path / "runs.db"), tmp_path, engine, 25)
    print(counts)
    assert counts["kills"] > 0
    assert counts["states"] == {"completed"}
    assert counts["payments"] == 2 * counts["runs"]
