"""A process that gets SIGTERM records every run that it began, and then ends by the signal."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from reactive_agents.adapters.governance.audit_log import read_entries, unfinished_runs, verify
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.served_model import AGENT, described

ROOT = Path(__file__).parents[2]


def rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


BY_A_HANDLER = -2
"""The count of a run that a handler of the main thread cancels, which the audit log says."""


@pytest.mark.parametrize("count", [-2, -1, 0, 1, 500])
def test_every_run_is_recorded_before_the_process_ends(count: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.sigterm", str(tmp_path), str(count)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=300)[0].split("\n")
    assert process.returncode == -signal.SIGTERM
    costs, entries = max(count, 1), 2 * max(count, 1)  # start and end
    late = told.count("cost-track not recorded"), told.count("audit not recorded")  # on a slow machine
    assert costs - late[0] <= rows(tmp_path / "cost.db", "spending_runs") <= costs
    most = entries + (count == BY_A_HANDLER)
    assert entries - late[1] <= rows(tmp_path / "audit.db", "entries") <= most


AWAITED = [("wait_for", 1), ("create_task", 1), ("gather", 20), ("wait", 20)]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(("awaited", "count"), AWAITED)
def test_every_run_in_a_task_of_its_own_is_closed_before_the_process_ends(
    awaited: str, count: int, durable: bool, tmp_path: Path
) -> None:
    """A scope cancels its task again and again, and that task each time what it awaits."""
    command = [sys.executable, "-m", "tests.support.sigterm", str(tmp_path), str(count), awaited]
    with subprocess.Popen(
        command + ["durable"] * durable, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=300)[0]
    assert process.returncode == -signal.SIGTERM
    assert told == ""  # nothing is missing
    assert rows(tmp_path / "sessions.db", "conversation_tickets") == 0
    if durable:
        assert rows(tmp_path / "runs.db", "runs WHERE status = 'open' AND holder = ''") == count
    else:
        assert rows(tmp_path / "cost.db", "spending_runs") == count
        assert rows(tmp_path / "audit.db", "entries") == 2 * count


@pytest.mark.parametrize("count", [-2, -1])
def test_a_signal_that_the_main_thread_did_not_wake_for_is_heeded(count: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.sigterm", str(tmp_path), str(count), "to its own thread"]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=300)
    assert ended.returncode == -signal.SIGTERM
    assert rows(tmp_path / "cost.db", "spending_runs") == 1
    assert rows(tmp_path / "audit.db", "entries") == 2 + (count == BY_A_HANDLER)


def test_the_command_records_its_run(tmp_path: Path) -> None:
    with OpenAIServer(Answer("late", delay_s=3_600)) as server:
        config = tmp_path / "agent.toml"
        config.write_text(
            f'[model]\nmodel = "openai/gpt-4o-mini"\nbase_url = "{server.base_url}"\napi_key = "none"\n'
            f'[cost]\npath = "{tmp_path / "cost.db"}"\n[audit]\npath = "{tmp_path / "audit.db"}"\n'
        )
        command = [
            sys.executable,
            "-m",
            "reactive_agents",
            "run",
            "Say hello.",
            "--config",
            str(config),
            "--json",
        ]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert server.asked.wait(60)
            process.send_signal(signal.SIGTERM)
            printed = process.communicate(timeout=60)[0]
        assert process.returncode == -signal.SIGTERM
        assert server.hung_up.wait(60)
    document = json.loads(printed)
    assert (document["status"], document["error"]["tag"]) == ("failed", "RunCancelled")
    assert document["metadata"]["usage"]["reported"] is False  # the call may be charged
    assert rows(tmp_path / "cost.db", "spending_runs") == 1
    assert rows(tmp_path / "audit.db", "entries") == 3  # that it was cancelled, too


@pytest.mark.parametrize("name", ["run", "worker", "evaluate"])
def test_the_run_log_has_the_end_of_a_run_that_a_command_interrupts(name: str, tmp_path: Path) -> None:
    record, cases = tmp_path / "runs.db", tmp_path / "cases.toml"
    with OpenAIServer(Answer("late", delay_s=3_600)) as server:
        cases.write_text('[[cases]]\ntask = "Say hello."\n')
        line = {
            "run": ("run", "Say hello.", "--config", AGENT, "--json"),
            "worker": ("worker", AGENT, "--finish", "0", "--json"),
            "evaluate": ("evaluate", cases, "--config", AGENT, "--json"),
        }[name]
        if name == "worker":
            anyio.run(submit, server.base_url, record)
        command = [sys.executable, "-m", "reactive_agents", *map(str, line)]
        place = "RUN_LOG" if name == "evaluate" else "RUNS"
        environment = {**os.environ, "MODEL_URL": server.base_url, place: str(record)}
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=environment) as process:
            assert server.asked.wait(60)
            process.send_signal(signal.SIGTERM)
            printed = process.communicate(timeout=60)[0]
        assert process.returncode == -signal.SIGTERM
    with closing(sqlite3.connect(record)) as file:
        (kind,) = file.execute("SELECT kind FROM run_events ORDER BY sequence DESC LIMIT 1").fetchone()
        (status,) = file.execute("SELECT status FROM logged_runs").fetchone()
    expected = "interrupted" if name in ("run", "worker") else "cancelled"
    assert (kind, status) == ("TaskFailed", expected)
    if name == "worker":
        assert json.loads(printed) == {"queue": "default", "ended": {}, "left": ["handed-over"]}


async def submit(base_url: str, record: Path) -> None:
    """Put a run into the queue."""
    agent = described(base_url, str(record)).build()
    agent.runs.ensure_worker = lambda *_: None  # type: ignore[method-assign]
    await agent.submit("Say hello.", run_id="handed-over")
    await agent.aclose()


def test_a_run_whose_process_was_killed_shows_as_one_without_an_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.sigterm", str(tmp_path), "3"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            while process.poll() is None and len(read_entries(tmp_path / "audit.db").value_or(())) < 3:
                pass  # the starts are written beside the runs
        finally:
            process.kill()
    entries = read_entries(tmp_path / "audit.db").unwrap()
    assert [each.entry.action for each in unfinished_runs(entries)] == ["start"] * 3
    assert verify(tmp_path / "audit.db").unwrap().entries == 3
