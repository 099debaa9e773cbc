"""Choices go by experience, with its uncertainty."""

from __future__ import annotations

from collections import Counter

import pytest

from reactive_agents.core.results import StrategyEffectiveness
from reactive_agents.reasoning.selection.history import choose_by_history, expected_success
from reactive_agents.reasoning.selection.rules import Selection
from reactive_agents.testing.core import START
from tests.benchmarks.learning import COST_USD, simulate
from tests.reasoning.selection.test_rules import context_of
from tests.support.fakes import FOUR

FAVOURITE = Selection("reactive", "a question", 0.8, "rules")


def record(strategy: str, rate: float, executions: int, cost: float = 0.0) -> StrategyEffectiveness:
    return StrategyEffectiveness(strategy, "query", rate, cost, 100.0, 0.5, executions, START)


def chosen(*history: StrategyEffectiveness, runs: int = 300, **fields: float) -> Counter[str]:
    context = context_of("What is a bee?", **fields)
    return Counter(
        choose_by_history(FAVOURITE, history, FOUR, context, seed=f"run-{n}").strategy for n in range(runs)
    )


def test_without_a_record_the_choice_of_the_rules_stands() -> None:
    assert chosen() == {"reactive": 300}
    assert chosen(record("gone", 1.0, 50)) == {"reactive": 300}


def test_a_single_lucky_run_does_not_win() -> None:
    counts = chosen(record("reflexion", 1.0, 1))
    assert counts["reactive"] > 200
    favourite = {"reflexion": record("reflexion", 1.0, 1)}
    assert expected_success("reflexion", FAVOURITE, favourite) < expected_success(
        "reactive", FAVOURITE, favourite
    )


def test_what_has_proved_itself_wins_nearly_always_and_says_why() -> None:
    history = (record("reactive", 0.2, 50), record("reflexion", 0.9, 50))
    counts = chosen(*history)
    assert counts["reflexion"] > 240
    selection = next(
        each
        for n in range(50)
        if (each := choose_by_history(FAVOURITE, history, FOUR, context_of("?"), seed=f"{n}")).strategy
        == "reflexion"
    )
    assert selection.method == "history"
    assert "worked in 45 of 50 such tasks" in selection.reason
    assert "the rules would take reactive" in selection.reason


def test_what_is_little_tried_is_tried_now_and_then() -> None:
    counts = chosen(record("reactive", 0.5, 20))
    assert set(counts) == set(FOUR)


def test_of_equals_the_cheaper_one_wins_more_often() -> None:
    dear, cheap = record("reflexion", 0.9, 400, cost=1.0), record("plan-execute-reflect", 0.9, 400, cost=0.1)
    counts = chosen(dear, cheap, record("reactive", 0.1, 400), record("tree-of-thought", 0.1, 400))
    assert counts["plan-execute-reflect"] > 250


def test_what_is_too_dear_or_too_slow_is_left_out() -> None:
    history = (record("reactive", 0.1, 90), record("reflexion", 0.99, 90, cost=2.0))
    assert chosen(*history, cost_budget=1.0)["reflexion"] == 0
    assert chosen(*history, time_constraint=50.0)["reflexion"] == 0
    assert chosen(*history, cost_budget=3.0, time_constraint=500.0)["reflexion"] > 200


def test_the_same_run_makes_the_same_choice() -> None:
    history = (record("reactive", 0.5, 3),)
    context = context_of("What is a bee?")
    one, other = (choose_by_history(FAVOURITE, history, FOUR, context, seed="r") for _ in range(2))
    assert one == other


@pytest.mark.system
@pytest.mark.parametrize("seed", ["a", "b"])
def test_regret_is_under_a_third_of_that_of_uniform_choice(seed: str) -> None:
    learned, uniform = simulate(1_000, seed), simulate(1_000, seed, uniform=True)
    assert learned.regret[-1] < uniform.regret[-1] / 3
    assert set(COST_USD) == set(FOUR)
