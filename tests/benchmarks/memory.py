"""S7: what memory costs a run when it holds ten thousand entries, in a file on the disk."""

from __future__ import annotations

import sqlite3
import tempfile
from itertools import count
from pathlib import Path

from attrs import evolve

from reactive_agents.adapters.memory import store, vectors
from reactive_agents.adapters.memory.service import MemoryServices, open_memory
from reactive_agents.adapters.memory.vectors import embedded
from reactive_agents.adapters.system import SystemClock, UlidSource
from reactive_agents.core.memory import MemoryEntry
from reactive_agents.effects import attempt
from tests.benchmarks.scenarios import Measurement, median_ms
from tests.support.embedders import ToyEmbedder
from tests.support.memories import AGENT, a_result, a_task, an_entry, observed

ENTRIES = 10_000
REACH_MS = 10.0


def entries(size: int) -> list[MemoryEntry]:
    """Entries of three kinds, whose words occur in few, in some, and in all of them."""
    now = SystemClock().now()
    made = []
    for number in range(size):
        content = f"The city report number{number} says word{number % 997} and word{number % 89}."
        entry = an_entry(f"m{number}", content, kind=store.ALL_KINDS[number % 3], at=now)
        made.append(evolve(entry, successes=1, executions=1))
    return made


async def filled(path: Path, embedder: ToyEmbedder | None, size: int = ENTRIES) -> MemoryServices:
    """A memory that holds so many entries, with their vectors if there is an embedder."""
    services = open_memory(path, clock=SystemClock(), ids=UlidSource(), embedder=embedder)
    made = entries(size)
    embeddings = (await embedded(embedder, [each.content for each in made])).unwrap() if embedder else ()

    def fill(connection: sqlite3.Connection) -> None:
        for entry in made:
            store.add(connection, entry)
        for entry, embedding in zip(made, embeddings, strict=False):
            if embedding is not None:
                vectors.put(connection, entry.id, embedding)

    (await services.database.write("fill", fill)).unwrap()
    return services


async def memory() -> list[Measurement]:
    """Bootstrap and flush of both tiers."""
    found = []
    for tier, embedder in (("1", None), ("2", ToyEmbedder())):
        with tempfile.TemporaryDirectory() as folder:
            services = await filled(Path(folder) / "memory.db", embedder)
            numbers = count()

            async def bootstrap(services: MemoryServices = services, numbers: count[int] = numbers) -> None:
                asked = a_task(f"What does the city report say about word{next(numbers) % 900}, please?")
                (await attempt(services.memory.bootstrap(AGENT, asked))).unwrap()

            async def flush(services: MemoryServices = services, numbers: count[int] = numbers) -> None:
                result = a_result(
                    f"Mount Elbrus is {next(numbers)} metres high.", observed("web-search", "x")
                )
                (await attempt(services.memory.flush(a_task(), result))).unwrap()

            for what, work in (("bootstrap", bootstrap), ("flush", flush)):
                said = f"memory of {ENTRIES} entries, tier {tier}: {what}"
                found.append(Measurement("S7", said, "ms", await median_ms(work, runs=20), None, REACH_MS))
            await services.aclose()
    return found
