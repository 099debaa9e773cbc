"""How hard a task looks: one measure for the choice of a model and of a strategy."""

from __future__ import annotations

import pytest

from reactive_agents.core.tasks import COMPLEX_TYPES, READ_CHARACTERS, analyze_complexity
from tests.support.operations import operations_of


def test_words_of_reasoning_and_steps_make_a_task_harder() -> None:
    plain = analyze_complexity("Tell me the capital of France.")
    assert plain < analyze_complexity("Compare the capitals of France and Spain.")
    assert plain < analyze_complexity("Tell me step by step how the capital of France came to be.")


@pytest.mark.parametrize("task_type", sorted(COMPLEX_TYPES))
def test_the_type_of_a_task_counts(task_type: str) -> None:
    assert analyze_complexity("Bees", task_type) == pytest.approx(analyze_complexity("Bees") + 0.3, abs=0.001)


@pytest.mark.parametrize("unit", ["then why? ", "a", " \n", "def "])
def test_a_task_of_a_megabyte_takes_no_more_work_than_a_short_one(unit: str) -> None:
    short, long = unit * (READ_CHARACTERS // len(unit)), unit * (1_000_000 // len(unit))
    assert 0 <= analyze_complexity(long) <= 1
    assert operations_of(lambda: analyze_complexity(long)) == operations_of(lambda: analyze_complexity(short))
