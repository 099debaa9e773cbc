"""A memory of ten thousand entries answers at once."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from reactive_agents.effects import attempt
from tests.benchmarks.memory import filled
from tests.support.embedders import ToyEmbedder
from tests.support.memories import AGENT, a_result, a_task, observed

pytestmark = pytest.mark.anyio

LIMIT_MS = 100.0  # twenty times what it takes, since the machine may be busy


@pytest.mark.parametrize("embedder", [None, ToyEmbedder()], ids=["tier 1", "tier 2"])
async def test_bootstrap_and_flush_stay_fast(tmp_path: Path, embedder: ToyEmbedder | None) -> None:
    services = await filled(tmp_path / "memory.db", embedder)
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
