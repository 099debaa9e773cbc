"""Hybrid search: memories that are found by their meaning, and an embedder that fails."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from returns.future import FutureResult
from returns.result import Success

from reactive_agents.adapters.memory.service import MemoryServices, open_memory
from reactive_agents.core.errors import LLMErrors, ModelUnavailable
from reactive_agents.core.memory import ForgetEntry, MemoryCandidate, MemoryContext
from reactive_agents.effects import Effect, attempt
from reactive_agents.ports import Embedder, Vectors
from reactive_agents.testing import FakeClock, SequentialIds
from tests.support.embedders import ToyEmbedder, toy_vector
from tests.support.memories import AGENT, OTHER, a_result, a_task

pytestmark = pytest.mark.anyio

BY_WORDS_ALONE = "Memory uses keyword search alone, because the embedder failed"


ON_BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


Opened = Callable[..., MemoryServices]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    clock, ids = FakeClock(), SequentialIds()

    def open_it(embedder: Embedder | None) -> MemoryServices:
        return open_memory(tmp_path / "memory.db", clock=clock, ids=ids, embedder=embedder)

    return open_it


def fact(content: str, importance: float = 0.5) -> MemoryCandidate:
    return MemoryCandidate("semantic", content, "model", "test", importance)


async def remember(services: MemoryServices, *contents: str) -> None:
    for content in contents:
        (await attempt(services.memory.remember(AGENT, fact(content)))).unwrap()


async def found(services: MemoryServices, text: str, limit: int = 20) -> list[str]:
    entries = (await attempt(services.memory.search(AGENT, text, limit=limit))).unwrap()
    return [entry.content for entry in entries]


# --- two searches in one --------------------------------------------------------------------------------


@ON_BOTH
async def test_what_shares_no_word_is_found_by_its_meaning(opened: Opened) -> None:
    services = opened(ToyEmbedder())
    await remember(services, "Ann's automobile", "The soup is salty today", "Doctor Miller")
    assert await found(services, "car") == ["Ann's automobile"]
    context = (await attempt(services.memory.bootstrap(AGENT, a_task("Which physician?")))).unwrap()
    assert (context.tier, context.problem) == ("2", "")
    assert context.semantic == "- [from a model's answer, unverified; 2026-01-01] Doctor Miller"
    assert await attempt(services.memory.search(OTHER, "car")) == Success(())
    await services.aclose()
    by_words = opened(None)
    assert await found(by_words, "car") == []
    assert (await attempt(by_words.memory.bootstrap(AGENT, a_task("Which physician?")))).unwrap() == (
        MemoryContext("1")
    )
    await by_words.aclose()


async def test_what_both_searches_find_comes_before_what_one_finds(opened: Opened) -> None:
    services = opened(ToyEmbedder())
    words_alone = "The car is one of many things in a very long list of things that nobody ever reads"
    await remember(services, words_alone, "A red automobile", "The red car")
    assert (await found(services, "car"))[0] == "The red car"
    assert set(await found(services, "car")) >= {"The red car", "A red automobile", words_alone}
    assert len(await found(services, "car", limit=2)) == 2
    await services.aclose()


async def test_vectors_of_different_models_or_dimensions_are_not_compared(opened: Opened) -> None:
    first = opened(ToyEmbedder("toy/first"))
    await remember(first, "Ann's automobile")
    await first.aclose()
    for other in (ToyEmbedder("toy/second"), ToyEmbedder("toy/first", dimension=32)):
        services = opened(other)
        assert await found(services, "car") == []
        assert await found(services, "automobile") == ["Ann's automobile"]
        await services.aclose()


@pytest.mark.parametrize("before", [None, ToyEmbedder("toy/first")])
async def test_a_flush_catches_up_with_what_the_model_has_not_embedded(
    opened: Opened, before: Embedder | None
) -> None:
    services = opened(before)
    await remember(services, *(f"Ann's automobile number{number}" for number in range(20)))
    await services.aclose()
    services = opened(ToyEmbedder("toy/second"))
    for caught_up in (16, 20):
        (await attempt(services.memory.flush(a_task("Nothing else"), a_result(None)))).unwrap()
        assert len(await found(services, "car", limit=50)) == caught_up
    await services.aclose()


async def test_what_is_said_again_keeps_one_vector_and_what_is_forgotten_none(
    opened: Opened, tmp_path: Path
) -> None:
    services = opened(ToyEmbedder())
    await remember(services, "Ann's automobile", "ann's automobile.")
    (entry,) = (await attempt(services.memory.search(AGENT, "car"))).unwrap()

    def vectors() -> int:
        connection = sqlite3.connect(tmp_path / "memory.db")
        (count,) = connection.execute("SELECT count(*) FROM memory_vectors").fetchone()
        connection.close()
        return int(count)

    assert vectors() == 1
    await attempt(services.memory.forget(ForgetEntry(entry.id)))
    assert vectors() == 0
    assert await found(services, "car") == []
    await services.aclose()


async def test_a_secret_does_not_reach_the_embedder(opened: Opened) -> None:
    embedder = ToyEmbedder()
    services = opened(embedder)
    secret = "sk-ant-abcdefghijklmnop1234567"
    await remember(services, f"Use {secret} for Ann")
    await attempt(
        services.memory.flush(a_task(f"Use {secret} for Bob"), a_result(f"Bob used {secret} 2 times."))
    )
    await attempt(services.memory.bootstrap(AGENT, a_task(f"Use {secret} for Eve")))
    await found(services, f"Use {secret} for Eve")
    await services.aclose()
    assert len(embedder.asked) >= 4
    assert not any(secret in text for texts in embedder.asked for text in texts)


# --- every form of an embedder --------------------------------------------------------------------------


class AsyncEmbedder:
    model = "toy/async"

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return [toy_vector(text) for text in texts]


class EffectEmbedder:
    model = "toy/effect"

    def embed(self, texts: Sequence[str]) -> Effect[Vectors, LLMErrors]:
        return FutureResult.from_value([tuple(toy_vector(text)) for text in texts])


@pytest.mark.parametrize("embedder", [ToyEmbedder(), AsyncEmbedder(), EffectEmbedder()])
async def test_an_embedder_may_answer_at_once_later_or_as_an_effect(
    opened: Opened, embedder: Embedder
) -> None:
    services = opened(embedder)
    await remember(services, "Ann's automobile")
    assert await found(services, "car") == ["Ann's automobile"]
    assert services.memory.problem == ""
    await services.aclose()


class Wrong:
    def __init__(self, vectors: object) -> None:
        self.model = "toy/wrong"
        self.vectors = vectors

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self.vectors  # type: ignore[return-value]


class Refusing:
    model = "toy/refusing"

    def embed(self, texts: Sequence[str]) -> Effect[Vectors, LLMErrors]:
        return FutureResult.from_failure(ModelUnavailable("It is down: sk-ant-abcdefghijklmnop1234567.", "m"))


@ON_BOTH
@pytest.mark.parametrize(
    ("embedder", "why"),
    [
        (ToyEmbedder(problem=RuntimeError("out of memory")), "RuntimeError: out of memory"),
        (Refusing(), "It is down: [redacted:anthropic-key]"),
        (Wrong([]), "it returned 0 vectors"),
        (Wrong([[1.0], [1.0, 2.0]]), "2 vectors of 1 and 2 numbers for 1 texts"),
        (Wrong([[]]), "1 vectors of 0 numbers"),
        (Wrong([[float("nan")]]), "not finite"),
        (Wrong([["a"]]), "ValueError"),
        (Wrong(None), "TypeError"),
    ],
)
async def test_memory_goes_on_by_words_when_the_embedder_fails_and_says_so(
    opened: Opened, embedder: Embedder, why: str
) -> None:
    services = opened(embedder)
    memory = services.memory
    report = (await attempt(memory.flush(a_task(), a_result()))).unwrap()
    assert report.kept == 2
    assert report.problem.startswith(BY_WORDS_ALONE)
    context = (await attempt(memory.bootstrap(AGENT, a_task()))).unwrap()
    assert (context.tier, "5642" in context.semantic) == ("1", True)
    assert why in context.problem
    assert await found(services, "Elbrus metres") != []
    assert memory.problem.startswith(BY_WORDS_ALONE)
    await remember(services, "Elbrus has 2 peaks")
    assert memory.problem.startswith(BY_WORDS_ALONE)
    await services.aclose()


async def test_a_text_without_a_direction_is_found_by_its_words(opened: Opened) -> None:
    services = opened(ToyEmbedder())
    await remember(services, "K2")  # too short for the toy: its vector is zero
    assert await found(services, "K2") == ["K2"]
    assert services.memory.problem == ""
    await services.aclose()
