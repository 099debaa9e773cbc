"""The choice of a strategy by what came of earlier runs, with its uncertainty.

Thompson sampling (Thompson, 1933; Chapelle and Li, 2011): the success rate of each strategy on a type of task
is a Beta distribution, each run draws from it, and the best draw wins. What is little tried is tried now and
then; what has proved itself wins nearly always. The choice of the rules begins as if it had mostly worked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from reactive_agents.core.reasoning import ReasoningStrategy, SelectionContext, StrategyEffectiveness
from reactive_agents.reasoning.selection.chance import beta_draw
from reactive_agents.reasoning.selection.rules import Selection

FAVOURITE_PRIOR = (8.0, 2.0)
"""Runs that worked and failed, which the choice of the rules begins with."""
OTHER_PRIOR = (1.0, 1.5)
"""The same for every other strategy."""
COST_WEIGHT = 0.05
"""What the dearest strategy loses of its draw; the others lose in proportion to their cost."""


def choose_by_history(
    favourite: Selection,
    history: Sequence[StrategyEffectiveness],
    known: Sequence[ReasoningStrategy],
    context: SelectionContext,
    *,
    seed: str,
) -> Selection:
    """The favourite, or another strategy that has done better, or may turn out to. Pure.

    Without any record the favourite stands. A strategy that on average costs more than the budget, or takes
    longer than the time, is left out while there are others.

    Args:
        favourite: what is chosen without a history; one of the known.
        history: the records of this type of task.
        known: the strategies that may be chosen.
        seed: what the draws follow from: unique for the run.
    """
    records = {each.strategy: each for each in history if each.strategy in known and each.executions > 0}
    if not records:
        return favourite
    affordable = [name for name in known if _is_affordable(records.get(name), context)] or list(known)
    dearest = max(record.avg_cost for record in records.values())
    draws = {
        name: _draw(name, favourite, records, seed) - _penalty(records.get(name), dearest)
        for name in affordable
    }
    best = max(affordable, key=lambda name: (draws[name], name == favourite.strategy))
    if best == favourite.strategy:
        return evolve(favourite, reason=f"{favourite.reason}; {_told(records.get(best))}")
    reason = f"{_told(records.get(best))}; the rules would take {favourite.strategy}: {favourite.reason}"
    return Selection(best, reason, round(expected_success(best, favourite, records), 2), "history")


def expected_success(
    name: ReasoningStrategy, favourite: Selection, records: Mapping[str, StrategyEffectiveness]
) -> float:
    """The mean of what is believed of a strategy's success rate, 0 to 1."""
    successes, failures = _belief(name, favourite, records)
    return successes / (successes + failures)


def _belief(
    name: ReasoningStrategy, favourite: Selection, records: Mapping[str, StrategyEffectiveness]
) -> tuple[float, float]:
    successes, failures = FAVOURITE_PRIOR if name == favourite.strategy else OTHER_PRIOR
    record = records.get(name)
    if record is None:
        return successes, failures
    worked = record.success_rate * record.executions
    return successes + worked, failures + record.executions - worked


def _draw(
    name: ReasoningStrategy, favourite: Selection, records: Mapping[str, StrategyEffectiveness], seed: str
) -> float:
    successes, failures = _belief(name, favourite, records)
    return beta_draw(successes, failures, f"{name}:{seed}")


def _penalty(record: StrategyEffectiveness | None, dearest: float) -> float:
    if record is None or dearest <= 0:
        return 0.0
    return COST_WEIGHT * record.avg_cost / dearest


def _is_affordable(record: StrategyEffectiveness | None, context: SelectionContext) -> bool:
    if record is None:
        return True
    budget, time = context.cost_budget, context.time_constraint
    return (budget is None or record.avg_cost <= budget) and (time is None or record.avg_duration <= time)


def _told(record: StrategyEffectiveness | None) -> str:
    if record is None:
        return "not tried yet on such tasks"
    worked = round(record.success_rate * record.executions)
    return f"worked in {worked} of {record.executions} such tasks"
