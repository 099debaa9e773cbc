"""A memory of ten thousand entries answers at once."""

from __future__ import annotations

import sqlite3
import statistics
import time
from pathlib import Path

import pytest
from attrs import evolve

from reactive_agents.adapters.memory.opening import open_memory
from reactive_agents.adapters.memory.store import ALL_KINDS, add
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock, SequentialIds
from tests.support.memories import AGENT, a_result, a_task, an_entry, observed

pytestmark = pytest.mark.anyio

ENTRIES = 10_000
LIMIT_MS = 100.0  # ten times what it takes, since the machine may be busy


def fill(connection: sqlite3.Connection) -> None:
    for number in range(ENTRIES):
        content = f"The city report number{number} says word{number % 997} and word{number % 89}."
        entry = an_entry(f"m{number}", content, kind=ALL_KINDS[number % 3])
        add(connection, evolve(entry, successes=1, executions=1))


async def test_bootstrap_and_flush_stay_fast(tmp_path: Path) -> None:
    services = open_memory(tmp_path / "memory.db", clock=FakeClock(), ids=SequentialIds())
    (await services.database.write("fill", fill)).unwrap()
    bootstraps, flushes = [], []
    for number in range(12):
        task = a_task(f"What does the city report say about word{number} and word{number + 100}?")
        result = a_result(f"Mount Elbrus is {number} metres high.", observed("web-search", "x"))
        begun = time.perf_counter()
        context = (await attempt(services.memory.bootstrap(AGENT, task))).unwrap()
        recalled_at = time.perf_counter()
        (await attempt(services.memory.flush(task, result))).unwrap()
        bootstraps.append(recalled_at - begun)
        flushes.append(time.perf_counter() - recalled_at)
        assert f"word{number + 100}" in context.semantic
    await services.aclose()
    assert statistics.median(bootstraps) * 1_000 < LIMIT_MS
    assert statistics.median(flushes) * 1_000 < LIMIT_MS
