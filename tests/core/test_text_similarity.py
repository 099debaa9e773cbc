"""How alike two texts are by their words."""

from __future__ import annotations

import pytest

from reactive_agents.core.texts import word_similarity


@pytest.mark.parametrize(
    ("one", "other", "similarity"),
    [
        ("red green", "green blue", 1 / 3),
        ("red green", "Green, RED!", 1.0),
        ("red", "blue", 0.0),
        ("red", "", 0.0),
        ("", "", 0.0),
    ],
)
def test_it_is_the_share_of_common_words(one: str, other: str, similarity: float) -> None:
    assert word_similarity(one, other) == similarity
