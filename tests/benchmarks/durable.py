"""What a durable step costs beside the same number of bare commits to the same database.

``python -m tests.benchmarks.durable``: medians of several runs, in microseconds.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from reactive_agents import ReactiveAgents, tool
from reactive_agents.testing import ScriptedLLM, answer, call

STEPS, ROUNDS = 200, 5


@tool
async def note(number: int) -> str:
    """Note a number."""
    return f"noted {number}"


def commits(path: Path, steps: int) -> float:
    """Return the seconds of the commits of so many steps: two that may be lost with the power, one not."""
    file = sqlite3.connect(path, isolation_level=None)
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT)")
    began = time.perf_counter()
    for _ in range(steps):
        for synchronous in ("NORMAL", "FULL", "NORMAL"):
            file.execute(f"PRAGMA synchronous = {synchronous}")
            file.execute("BEGIN IMMEDIATE")
            file.execute("INSERT INTO entries (body) VALUES (?)", ("x" * 300,))
            file.execute("COMMIT")
    took = time.perf_counter() - began
    file.close()
    return took


async def run(path: Path | None, steps: int) -> float:
    """Return the seconds of a run of so many steps, recorded in a file or not."""
    turns = [call("note", number=number) for number in range(steps)]
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(*turns, answer("All numbers are noted.")))
    agent = agent.with_reasoning().with_tools(note).with_max_iterations(steps + 2)
    if path is not None:
        agent = agent.with_durability(path, recover=False)
    built = agent.build()
    began = time.perf_counter()
    result = await built.run("Note the numbers.")
    took = time.perf_counter() - began
    assert result.status == "completed", result.reason
    await built.aclose()
    return took


def growth(steps: int) -> list[tuple[int, float]]:
    """Return bytes a step of the record, after each tenth of a run."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        anyio.run(run, path, steps)
        with sqlite3.connect(path) as file:
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
    plain, durable, bare = [], [], []
    with TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        anyio.run(run, Path(folder) / "warm.db", 3)
        for number in range(ROUNDS):
            plain.append(anyio.run(run, None, STEPS))
            durable.append(anyio.run(run, Path(folder) / f"runs-{number}.db", STEPS))
            bare.append(commits(Path(folder) / f"bare-{number}.db", STEPS))
    micro = {
        name: statistics.median(values) / STEPS * 1e6
        for name, values in (("plain", plain), ("durable", durable), ("bare", bare))
    }
    added = micro["durable"] - micro["plain"]
    print(f"a step without record: {micro['plain']:.0f} us, durable: {micro['durable']:.0f} us")
    print(f"its three commits alone: {micro['bare']:.0f} us; the record: {added / micro['bare']:.2f} times")
    for step, size in growth(2_000):
        print(f"step {step}: {size:.0f} bytes a step")


if __name__ == "__main__":
    main()
