"""State that adapters share between runs is changed by many threads at once without loss or error."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import anyio
import pytest

from reactive_agents.adapters.llm.clients import Connections
from reactive_agents.adapters.memory import vectors
from reactive_agents.adapters.memory.service import MOST_TASKS_AT_WORK, open_memory
from reactive_agents.adapters.memory.vectors import VectorComparison
from reactive_agents.core.ids import TaskId
from reactive_agents.core.memory import MemoryCandidate
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock, SequentialIds
from tests.support.embedders import ToyEmbedder

THREADS = 6
EACH = 80


def let_others_run(frame: FrameType, event: str, argument: object) -> Any:
    """Hand over to another thread after each line of the adapters."""
    if "adapters" not in frame.f_code.co_filename:
        return None
    if event == "line":
        time.sleep(0)
    return let_others_run


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Threads take turns at each line of the adapters."""
    before = threading.gettrace()
    threading.settrace(let_others_run)
    yield
    threading.settrace(before)  # type: ignore[arg-type]


def at_once(work: Callable[[int], object]) -> None:
    """Run the work in several threads that begin together, and raise what one of them raises."""
    together = threading.Barrier(THREADS, timeout=60)

    def begin(number: int) -> object:
        together.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(begin, range(THREADS)))


def test_notes_of_many_runs() -> None:
    memory = open_memory(":memory:", clock=FakeClock(), ids=SequentialIds()).memory

    def work(thread: int) -> None:
        for number in range(EACH):
            memory.note(TaskId(f"{thread}-{number}"), MemoryCandidate("working", "Note", "run"))

    at_once(work)
    kept = [memory.notes(TaskId(f"{thread}-{number}")) for thread in range(THREADS) for number in range(EACH)]
    assert sum(map(len, kept)) == MOST_TASKS_AT_WORK


def test_comparisons_of_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "VECTORS_KEPT", 10)
    comparison = VectorComparison(ToyEmbedder())

    async def compare(thread: int) -> None:
        for number in range(20):
            others = [f"car {(number + each) % 20}" for each in range(5)]
            assert len((await attempt(comparison.compare(f"vehicle {thread}", others))).unwrap()) == 5

    at_once(lambda thread: anyio.run(compare, thread))


def test_clients_of_many_event_loops() -> None:
    connections = Connections()

    async def connect() -> None:
        clients = await connections.clients()
        assert await connections.clients() is clients
        await connections.aclose()

    def work(_: int) -> None:
        for _ in range(30):
            asyncio.run(connect())

    at_once(work)
