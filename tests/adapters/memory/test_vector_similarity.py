"""Texts compared by their vectors."""

from __future__ import annotations

import pytest

from reactive_agents.adapters.memory.vectors import VECTORS_KEPT, VectorComparison
from reactive_agents.effects import attempt
from tests.support.embedders import ToyEmbedder

pytestmark = pytest.mark.anyio


async def compared(comparison: VectorComparison, text: str, *others: str) -> tuple[float, ...]:
    return (await attempt(comparison.compare(text, others))).unwrap()


async def test_related_words_are_alike_and_what_has_no_direction_is_like_nothing() -> None:
    related, unrelated, nothing = await compared(
        VectorComparison(ToyEmbedder()), "The car.", "the automobile", "Feed cats", "a b"
    )
    assert related == pytest.approx(1.0)
    assert 0.0 <= unrelated < 0.5
    assert nothing == 0.0


async def test_an_embedder_is_asked_once_about_a_text_and_about_no_texts_never() -> None:
    embedder = ToyEmbedder()
    comparison = VectorComparison(embedder)
    assert await compared(comparison, "The car.") == ()
    assert embedder.asked == []
    await compared(comparison, "The car.", "Feed cats", "Feed cats")
    await compared(comparison, "Feed cats", "The car.", "Ask the doctor")
    assert embedder.asked == [("The car.", "Feed cats"), ("Ask the doctor",)]


async def test_the_vectors_that_were_used_last_are_kept() -> None:
    embedder = ToyEmbedder(dimension=2)
    comparison = VectorComparison(embedder)
    await compared(comparison, "old text", "used text")
    await compared(comparison, "used text", *(f"text number {count}" for count in range(VECTORS_KEPT - 1)))
    embedder.asked.clear()
    await compared(comparison, "used text", "old text")
    assert embedder.asked == [("old text",)]


async def test_vectors_of_another_dimension_are_not_compared() -> None:
    embedder = ToyEmbedder()
    comparison = VectorComparison(embedder)
    await compared(comparison, "The car.", "Feed cats")
    embedder.dimension = 8
    assert await compared(comparison, "The car.", "the automobile") == (0.0,)


async def test_secrets_reach_neither_the_embedder_nor_the_error() -> None:
    embedder = ToyEmbedder(problem=OSError("AKIAIOSFODNN7EXAMPLE"))
    comparison = VectorComparison(embedder)
    failed = await attempt(comparison.compare("My key is AKIAIOSFODNN7EXAMPLE.", ["The car."]))
    assert "AKIAIOSFODNN7EXAMPLE" not in repr(embedder.asked)
    assert "AKIAIOSFODNN7EXAMPLE" not in failed.failure().message
