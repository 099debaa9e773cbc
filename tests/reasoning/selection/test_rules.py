"""The rules choose as a person would."""

from __future__ import annotations

import pytest

from reactive_agents.core.results import SelectionContext
from reactive_agents.reasoning.selection.rules import candidates, choose_by_rules, kind_of, learned_type
from tests.reasoning.selection.labelled_tasks import LABELLED, REPORT, TUNING
from tests.support.fakes import FOUR
from tests.support.operations import assert_linear


def context_of(task: str, task_type: str = "query", **fields: float | str | None) -> SelectionContext:
    figures = {"complexity": 0.2, "urgency": 0.5, **fields}
    return SelectionContext(task, task_type, **figures)  # type: ignore[arg-type]


def accuracy(tasks: tuple[tuple[str, str], ...]) -> float:
    right = sum(choose_by_rules(context_of(task), FOUR).strategy == label for task, label in tasks)
    return right / len(tasks)


def test_the_labelled_tasks_are_many_and_in_two_halves() -> None:
    assert len(LABELLED) == len({task for task, _ in LABELLED}) >= 200
    assert len(REPORT) >= 100
    assert set(REPORT) | set(TUNING) == set(LABELLED)
    assert not set(REPORT) & set(TUNING)
    for half in (REPORT, TUNING):
        assert all(sum(label == name for _, label in half) >= 20 for name in FOUR)


def test_nine_of_ten_tasks_that_the_rules_were_not_tuned_on_are_chosen_right() -> None:
    assert accuracy(REPORT) >= 0.9


@pytest.mark.parametrize(
    ("task", "strategy"),
    [
        ("What's 2+2?", "reactive"),
        ("Write a technical report", "reflexion"),
        ("Plan a microservices arch", "plan-execute-reflect"),
        ("Brainstorm names for a cat", "tree-of-thought"),
        ("", "reactive"),
    ],
)
def test_each_kind_of_task_has_its_strategy(task: str, strategy: str) -> None:
    selection = choose_by_rules(context_of(task), FOUR)
    assert selection.strategy == strategy
    assert selection.reason
    assert 0 <= selection.confidence <= 1


def test_where_the_best_is_not_registered_the_next_best_is_chosen() -> None:
    selection = choose_by_rules(context_of("Plan a party and then book it"), ("reactive", "reflexion"))
    assert selection.strategy == "reactive"
    assert "there is no plan-execute-reflect" in selection.reason


def test_preference_goes_before_hurry_and_hurry_before_the_kind() -> None:
    story = "Write a short story"
    assert choose_by_rules(context_of(story, urgency=0.9), FOUR).strategy == "reactive"
    preferred = context_of(story, urgency=0.9, preferred_strategy="reflexion")
    assert choose_by_rules(preferred, FOUR).strategy == "reflexion"
    unknown = context_of(story, preferred_strategy="magic")
    assert choose_by_rules(unknown, FOUR).strategy == "tree-of-thought"


def test_a_hard_question_is_planned() -> None:
    assert choose_by_rules(context_of("Is it so?", complexity=0.7), FOUR).strategy == "plan-execute-reflect"


def test_a_type_that_the_user_names_decides() -> None:
    assert choose_by_rules(context_of("Bees", "creative"), FOUR).strategy == "tree-of-thought"
    assert kind_of("What is a bee?", "research") == "multi-step"
    assert kind_of("What is a bee?", "zoology") == "question"


def test_outcomes_are_learned_under_the_users_type_or_else_the_kind() -> None:
    assert learned_type("Write an essay on bees", "query") == "writing"
    assert learned_type("Write an essay on bees", "zoology") == "zoology"


def test_what_chooses_and_what_does_not_reason_is_never_chosen() -> None:
    assert candidates(("adaptive", "direct", "reactive", "own")) == ("reactive", "own")


@pytest.mark.parametrize("unit", ["first find a, and read b, ", " \n", "how ", "- x\n"])
def test_the_work_of_choosing_grows_with_the_length_of_the_task_at_most(unit: str) -> None:
    assert_linear(lambda size: choose_by_rules(context_of(unit * (size // len(unit))), FOUR), 10_000)
