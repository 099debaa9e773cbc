"""Budgets of a run for its model."""

from __future__ import annotations

from typing import Any

import pytest

from reactive_agents.core.messages import AssistantMessage
from reactive_agents.core.settings import BudgetConfig
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.kernel import Stop
from reactive_agents.kernel.policies.limits import budget, budget_reached, turns_left
from tests.support.moments import around, moment

BOTH = around(tokens=100, cost_usd=0.5)


@pytest.mark.parametrize(
    ("spent", "reason"),
    [
        ({"tokens": 100}, "100 tokens were used, the budget was 100. Missing: a final answer."),
        ({"tokens": 120, "cost": 9.0}, "120 tokens were used, the budget was 100. Missing: a final answer."),
        ({"cost": 0.51}, "$0.5100 was spent, the budget was $0.5000. Missing: a final answer."),
        (
            {"tokens": 15, "run_usage": RunUsage("", Usage(0, 0, 101))},
            "101 tokens were used, the budget was 100. Missing: a final answer.",
        ),
        (
            {"cost": 0.1, "run_usage": RunUsage("", Usage(), 0.75)},
            "$0.7500 was spent, the budget was $0.5000. Missing: a final answer.",
        ),
    ],
)
def test_what_is_spent_ends_the_run(spent: dict[str, Any], reason: str) -> None:
    state = moment(messages=(AssistantMessage("So far."),), **spent)
    assert budget(state, BOTH) == Stop("budget", "partial", "So far.", reason)
    assert not turns_left(state, BOTH)
    assert isinstance(budget(moment(" ", **spent), BOTH), Stop)


@pytest.mark.parametrize(
    "state",
    [
        moment(tokens=99, cost=0.49),
        moment("So.", tokens=100),
        moment(tokens=100, status="acting"),
        moment(tokens=100, status="observing"),
    ],
)
def test_an_answer_and_calls_that_were_made_still_count(state: Any) -> None:
    assert budget(state, BOTH) is None


def test_without_a_budget_only_the_limit_counts() -> None:
    assert budget(moment(tokens=10**9, cost=10.0**9), around()) is None
    assert turns_left(moment(tokens=10**9, iteration=4), around())
    assert not turns_left(moment(iteration=5), around())


def test_the_reason_names_the_required_tools_that_are_missing() -> None:
    verdict = budget(moment(tokens=9), around({"look": 1}, tokens=5))
    assert isinstance(verdict, Stop)
    assert "required calls: look (0 of 1 calls done); a final answer." in verdict.reason


def test_a_tiny_budget_is_told_in_digits() -> None:
    told = budget_reached(BudgetConfig(cost_usd=0.00005), RunUsage("", Usage(), 0.00009))
    assert told == "$0.000090 was spent, the budget was $0.000050."
