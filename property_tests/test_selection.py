"""The laws of choosing a strategy: always a registered one, whatever the task, the record or the chance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from property_tests.strategies import values_of
from reactive_agents.core.results import ReasoningStep, SelectionContext, StrategyEffectiveness
from reactive_agents.core.tasks import analyze_complexity
from reactive_agents.reasoning.controller import confidence_of
from reactive_agents.reasoning.selection.history import beta_draw, choose_by_history
from reactive_agents.reasoning.selection.rules import choose_by_rules, kind_of, learned_type
from reactive_agents.testing.core import START
from tests.support.profiles import examples

NAMES = ("reactive", "plan-execute-reflect", "reflexion", "tree-of-thought", "own", "other")
fractions = st.floats(0, 1)
amounts = st.none() | st.floats(0, 1e9)
texts = st.text(max_size=200) | st.lists(
    st.sampled_from(
        ["write", "a", "poem", "report", "then", "plan", ",", "and", "?", "\n1. x\n2. y", "what", "ideas"]
    ),
    max_size=30,
).map(" ".join)
types = st.sampled_from(["query", "research", "creative", "zoology", ""])
contexts = st.builds(
    SelectionContext,
    texts,
    types,
    fractions,
    fractions,
    amounts,
    amounts,
    st.none() | st.sampled_from((*NAMES, "magic")),
)
known = st.lists(st.sampled_from(NAMES), min_size=1, unique=True).map(tuple)
records = st.builds(
    StrategyEffectiveness,
    st.sampled_from((*NAMES, "gone")),
    st.just("question"),
    fractions,
    st.floats(0, 1e6),
    st.floats(0, 1e9),
    fractions,
    st.integers(0, 10**6),
    st.just(START),
)


@examples(20)
@given(contexts, known, st.lists(records, max_size=8), st.text(max_size=8))
def test_whatever_is_chosen_is_known_and_has_a_reason(
    context: SelectionContext,
    names: tuple[str, ...],
    history: list[StrategyEffectiveness],
    seed: str,
) -> None:
    favourite = choose_by_rules(context, names)
    selection = choose_by_history(favourite, history, names, context, seed=seed)
    for each in (favourite, selection):
        assert each.strategy in names
        assert each.reason
        assert 0 <= each.confidence <= 1
    assert selection == choose_by_history(favourite, history, names, context, seed=seed)


@given(contexts, known)
def test_a_known_preference_is_kept(context: SelectionContext, names: tuple[str, ...]) -> None:
    if context.preferred_strategy in names:
        assert choose_by_rules(context, names).strategy == context.preferred_strategy


@given(texts, types)
def test_every_task_has_a_kind_a_type_and_a_complexity(task: str, task_type: str) -> None:
    assert kind_of(task, task_type) in ("question", "writing", "multi-step", "open-ended")
    assert learned_type(task, task_type) == (kind_of(task) if task_type == "query" else task_type)
    assert 0 <= analyze_complexity(task, task_type) <= 1


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.text(max_size=8))
def test_a_draw_lies_between_nothing_and_certainty_and_is_repeatable(a: float, b: float, seed: str) -> None:
    draw = beta_draw(a, b, seed)
    assert 0 <= draw <= 1
    assert draw == beta_draw(a, b, seed)


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (2.0, 5.0), (30.0, 10.0)])
def test_draws_have_mean_and_spread_of_their_distribution(a: float, b: float) -> None:
    draws = [beta_draw(a, b, f"{n}") for n in range(4_000)]
    mean = sum(draws) / len(draws)
    variance = sum((each - mean) ** 2 for each in draws) / len(draws)
    assert mean == pytest.approx(a / (a + b), abs=0.02)
    assert variance == pytest.approx(a * b / ((a + b) ** 2 * (a + b + 1)), rel=0.1)


@given(values_of(ReasoningStep))
def test_the_confidence_of_any_step_is_told_or_unknown(step: ReasoningStep) -> None:
    found = confidence_of(step)
    assert found is None or found[1]
