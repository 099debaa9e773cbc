"""Durable runs in Postgres: killed at every boundary, and queued for workers that are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from reactive_agents.adapters.run_record import SqliteRunRecord
from tests.adapters.test_run_record import *  # noqa: F403 - the tests of the record, here on Postgres
from tests.adapters.test_run_record import Open
from tests.support.postgres import running_server
from tests.support.queue_worker import queue_with_kills

ROOT = Path(__file__).parents[2]
QUEUED = int(os.environ.get("QUEUED_RUNS", "200"))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server() as server:
        yield server.url


@pytest.fixture
def database(url: str) -> str:
    """The address of a database of this test."""
    name = f"test_{os.urandom(4).hex()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    of_test = url.replace("/postgres?", f"/{name}?")
    assert of_test != url
    return of_test


@pytest.fixture
def opened(database: str) -> Open:
    """Open the record once more."""
    return lambda clock: SqliteRunRecord(database, clock=clock)


@pytest.mark.parametrize("kind", ["plain", "parallel", "sub-agent"])
def test_a_run_killed_at_every_boundary(tmp_path: Path, url: str, kind: str) -> None:
    command = [sys.executable, "-m", "tests.support.durable_crashes", str(tmp_path), "6", kind, "1"]
    environment = {**os.environ, "DURABLE_URL": url}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    counts = json.loads(ended.stdout)
    print(counts)
    assert counts["resumed"] == counts["kills"] > 30
    assert counts["repeated"] == counts["events_lost"] == 0


@pytest.mark.parametrize("engine", ["record", "dbos"])
def test_queued_runs_are_done_once_by_workers_that_are_killed(
    tmp_path: Path, database: str, engine: str
) -> None:
    counts = queue_with_kills(database, tmp_path, engine, QUEUED if engine == "record" else QUEUED // 4)
    print(counts)
    assert counts["kills"] > 0
    assert counts["states"] == {"completed"}
    assert counts["payments"] == 2 * counts["runs"]
