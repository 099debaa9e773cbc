"""Critiques of answers: kept with a run, recalled for similar tasks, by words or by meaning."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from returns.result import Success

from reactive_agents.adapters.memory.recall import tokens_of
from reactive_agents.adapters.memory.service import MemoryServices, open_memory
from reactive_agents.core.memory import MemoryKind
from reactive_agents.core.messages import Message
from reactive_agents.effects import attempt
from reactive_agents.kernel.prompt import stable_prefix
from reactive_agents.testing import FakeClock, SequentialIds
from tests.support.embedders import ToyEmbedder
from tests.support.kernels import kernel_input
from tests.support.memories import AGENT, OTHER, a_result, a_task, criticised

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[None, "toy"])
async def services(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryServices]:
    embedder = ToyEmbedder() if request.param else None
    services = open_memory(tmp_path / "memory.db", clock=FakeClock(), ids=SequentialIds(), embedder=embedder)
    yield services
    await services.aclose()


async def flush(services: MemoryServices, task: str, *critiques: str) -> None:
    steps = map(criticised, critiques)
    (await attempt(services.memory.flush(a_task(task, name=task), a_result("Well.", *steps)))).unwrap()


async def recalled(services: MemoryServices, task: str) -> tuple[str, ...]:
    return (await attempt(services.memory.bootstrap(AGENT, a_task(task)))).unwrap().prior_critiques


async def test_critiques_of_similar_tasks_are_recalled_and_no_others(services: MemoryServices) -> None:
    await flush(services, "Write a poem about the stormy winter sea", "It names nothing.", "It rhymes badly.")
    await flush(services, "Count the sheep of the farm", "One is missing.")
    lines = await recalled(services, "Write a short poem about the winter sea")
    said = "[from a model's critique, unverified; 2026-01-01] Task: Write a poem about the stormy winter sea."
    assert sorted(lines) == [f"{said} Critique: It names nothing.", f"{said} Critique: It rhymes badly."]
    assert await recalled(services, "Repair the old bicycle") == ()
    others = (await attempt(services.memory.bootstrap(OTHER, a_task("Count the sheep")))).unwrap()
    assert others.prior_critiques == ()


async def test_of_many_critiques_the_last_three_are_kept_and_the_budget_holds(
    services: MemoryServices,
) -> None:
    for number in range(12):
        await flush(
            services, f"Describe the city of Rome, part {number}", *("vague " * 30 + str(n) for n in range(5))
        )
    kinds: tuple[MemoryKind, ...] = ("critique",)
    kept = (await attempt(services.archive.entries(agent_id=AGENT, kinds=kinds))).unwrap()
    assert len(kept) == 36
    assert {entry.content[-2] for entry in kept} == {"2", "3", "4"}
    lines = await recalled(services, "Describe the city of Rome")
    assert 0 < sum(map(tokens_of, lines)) <= 1000 / 4


async def test_other_strategies_are_not_shown_them(services: MemoryServices) -> None:
    await flush(services, "Count the sheep of the farm", "One is missing.")
    context = (await attempt(services.memory.bootstrap(AGENT, a_task("Count the sheep")))).unwrap()
    assert context.prior_critiques
    shown: tuple[Message, ...] = stable_prefix(kernel_input(memory=context))
    assert not any("One is missing" in message.content for message in shown)


async def test_a_critique_is_found_and_is_as_little_trusted_as_any_model(services: MemoryServices) -> None:
    await flush(services, "Count the sheep of the farm", "One is missing.")
    found = await attempt(services.memory.search(AGENT, "missing", kinds=("critique",)))
    assert isinstance(found, Success)
    (entry,) = found.unwrap()
    assert (entry.kind, entry.origin, entry.trusted, entry.source) == ("critique", "model", False, "reactive")


async def test_critiques_of_similar_tasks_are_recalled_in_japanese_too(services: MemoryServices) -> None:
    await flush(services, "東京の人口を調べて説明してください。", "出典がない。")
    (line,) = await recalled(services, "東京の人口を説明して")
    assert "出典がない" in line
    assert not await recalled(services, "大阪の天気を教えて")
