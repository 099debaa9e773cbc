"""The work of a memory of many entries, counted in instructions of SQLite's virtual machine."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from reactive_agents.effects import attempt
from tests.benchmarks.memory import filled
from tests.support.embedders import ToyEmbedder
from tests.support.memories import AGENT, a_result, a_task, observed

pytestmark = pytest.mark.anyio


async def instructions(path: Path, embedder: ToyEmbedder | None, size: int) -> tuple[int, int]:
    """Of a bootstrap and of a flush, in a memory of so many entries."""
    services = await filled(path, embedder, size)
    task = a_task("What does the city report say about word7 and word107?")
    result = a_result("Mount Elbrus is 5642 metres high.", observed("web-search", "x"))
    (await attempt(services.memory.flush(task, result))).unwrap()  # forgets what is more than there may be
    counts = [0]

    def count() -> None:
        counts[-1] += 1

    def counted(connection: sqlite3.Connection) -> None:
        connection.set_progress_handler(count, 1)

    (await services.database.write("count", counted)).unwrap()
    counts.append(0)
    context = (await attempt(services.memory.bootstrap(AGENT, task))).unwrap()
    assert "word7" in context.semantic
    counts.append(0)
    (await attempt(services.memory.flush(task, result))).unwrap()
    await services.aclose()
    return counts[1], counts[2]


@pytest.mark.system
@pytest.mark.parametrize("embedder", [None, ToyEmbedder()], ids=["tier 1", "tier 2"])
async def test_the_work_grows_with_the_entries_at_most(tmp_path: Path, embedder: ToyEmbedder | None) -> None:
    few = await instructions(tmp_path / "few.db", embedder, 1_000)
    many = await instructions(tmp_path / "many.db", embedder, 4_000)
    assert many[0] <= 4 * few[0]
    assert many[1] <= 4 * few[1]
