"""``reactive-agents worker`` with Postgres: killed on another machine, and ended with SIGTERM under load."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from reactive_agents import ReactiveAgent, ReactiveAgents
from reactive_agents.core.run_record import RecordedRun
from reactive_agents.testing import ScriptedLLM
from tests.support.command_line import ENVIRONMENT
from tests.support.postgres import Server

ROOT = Path(__file__).parents[3]
LEASE_S = 2
PATIENCE_S = 300
CONFIG = """
tools = ["paying:calculator"]
[model]
model = "offline/quotes"
"""
PAYING = """
import os, time
from reactive_agents import RunContext, tool

@tool(idempotent=True)
def calculator(expression: str, context: RunContext) -> str:
    '''Calculate an expression.'''
    with open('begun', 'a') as file:
        file.write(context.run_id + '\\n')
    time.sleep(0.05)
    while os.path.exists('hang') and context.run_id in open('hang').read().split():
        time.sleep(0.05)
    with open('effects', 'a') as file:
        file.write(context.run_id + ' ' + context.idempotency_key + '\\n')
    return str(eval(expression))
"""
WORKER = """
import socket, sys
name, lease_s, *sys.argv[1:] = sys.argv[1:]
if name:
    socket.gethostname = lambda: name
from reactive_agents.adapters import run_record
run_record.LEASE_S = float(lease_s)
from reactive_agents.cli.main import main
main()
"""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the workers, with their agent."""
    made = tmp_path_factory.mktemp("workers")
    (made / "agent.toml").write_text(CONFIG)
    (made / "paying.py").write_text(PAYING)
    for name in ("begun", "effects"):
        (made / name).touch()
    return made


def elsewhere(name: str) -> tuple[list[str], str]:
    """Return what a command begins with on a machine of that name, or how it calls itself without."""
    away = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if shutil.which("unshare") and subprocess.run([*away, "true"], capture_output=True).returncode == 0:
        return [*away, "sh", "-c", f'hostname {name}; exec "$@"', "sh"], ""
    return [], name


@contextmanager
def worker(folder: Path, place: str, *options: str, machine: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A worker that runs within the block, on this machine or on one of another name."""
    before, name = elsewhere(machine) if machine else ([], "")
    command = [*before, sys.executable, "-c", WORKER, name, str(LEASE_S), "worker", "agent.toml"]
    command += ["--runs", place, "--allow-tools-from", "paying", *options]
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{ROOT}:{folder}"}
    with subprocess.Popen(command, cwd=folder, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


async def submit(place: str, names: list[str], engine: Any = "record") -> None:
    """Queue runs."""
    agent = described(place, engine)
    agent.runs.ensure_worker = lambda queue: None  # type: ignore[method-assign]
    for name in names:
        await agent.submit("What is 1 + 1?", run_id=name)
    await agent.aclose()


async def found(place: str) -> dict[str, RecordedRun]:
    """Return the runs by their ids."""
    agent = described(place)
    runs = await agent.runs.list(limit=1_000)
    await agent.aclose()
    return {run.run_id: run for run in runs}


def holders(place: str) -> list[str]:
    """Return who holds the runs that are under way."""
    with psycopg.connect(place) as connection:
        rows = connection.execute("SELECT holder FROM reactive_agents.runs WHERE holder <> ''")
        return [holder for (holder,) in rows]


def described(place: str, engine: Any = "record") -> ReactiveAgent:
    """Return an agent with the record of the workers."""
    agent = ReactiveAgents.create().with_llm(ScriptedLLM())
    return agent.with_durability(place, recover=False, engine=engine).build()


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def payments(folder: Path) -> list[str]:
    """Return the runs whose payments were made, by one idempotency key each."""
    keys = [line.split() for line in lines(folder / "effects")]
    assert len({key for _, key in keys}) == len(keys)
    return sorted(run for run, _ in keys)


def test_the_runs_of_a_machine_that_died_are_taken_over_after_their_lease(folder: Path, place: str) -> None:
    (folder / "hang").write_text("r0 r1")
    anyio.run(submit, place, ["r0", "r1"])
    with worker(folder, place, machine="east") as east:
        wait_until(lambda: {*lines(folder / "begun")} == {"r0", "r1"})
        assert all(" east|" in holder for holder in holders(place))
        with worker(folder, place) as west:
            anyio.run(submit, place, ["r2"])
            wait_until(lambda: payments(folder) == ["r2"])
            begun = anyio.run(found, place)
            assert {name: begun[name].state for name in ("r0", "r1")} == {"r0": "running", "r1": "running"}
            east.kill()  # its own child is killed by that a moment later
            wait_until(lambda: sorted(lines(folder / "begun")) == ["r0", "r0", "r1", "r1", "r2"])
            (folder / "hang").unlink()
            wait_until(lambda: all(run.status == "completed" for run in anyio.run(found, place).values()))
            west.send_signal(signal.SIGTERM)
            assert west.wait(PATIENCE_S) == -signal.SIGTERM
    ended = anyio.run(found, place)
    assert payments(folder) == ["r0", "r1", "r2"]
    assert (ended["r0"].attempt, ended["r1"].attempt) == (2, 2)


def test_a_worker_that_is_ended_under_load_hands_its_runs_over_at_once(folder: Path, place: str) -> None:
    names = sorted(f"r{number}" for number in range(24))
    anyio.run(submit, place, names)
    with worker(folder, place, "--concurrency", "8") as first:
        wait_until(lambda: len(lines(folder / "effects")) >= 5)
        first.send_signal(signal.SIGTERM)
        assert first.wait(PATIENCE_S) == -signal.SIGTERM
    left = anyio.run(found, place)
    assert not [run for run in left.values() if run.is_held]
    assert len(payments(folder)) < len(names)
    with worker(folder, place, "--concurrency", "8", "--until-idle") as second:
        assert second.wait(PATIENCE_S) == 0
    assert {run.status for run in anyio.run(found, place).values()} == {"completed"}
    assert payments(folder) == names
    assert sorted(lines(folder / "begun")) == names  # no call was cut off and made again


@pytest.mark.parametrize("engine", ["record", "dbos"])
def test_workers_go_on_after_a_crash_of_the_server_whatever_its_settings(
    folder: Path, place: str, server: Server, engine: str
) -> None:
    """Each run is done once, and no worker ends, also where statements and locks may take little time."""
    database = place.partition("?")[0].rpartition("/")[2]
    for setting in ("statement_timeout = '500ms'", "lock_timeout = '50ms'"):
        server.run("postgres", f"ALTER DATABASE {database} SET {setting}")
    names = sorted(f"r{number}" for number in range(12))
    anyio.run(submit, place, names, engine)
    with worker(folder, place, "--engine", engine) as one, worker(folder, place, "--engine", engine) as two:
        wait_until(lambda: len(lines(folder / "effects")) >= 3)
        server.restart("immediate")
        wait_until(lambda: {run.status for run in anyio.run(found, place).values()} == {"completed"})
        assert (one.poll(), two.poll()) == (None, None)
    assert sorted({line.split()[1] for line in lines(folder / "effects")}) == sorted(
        {f"{name}:t1" for name in names}
    )
