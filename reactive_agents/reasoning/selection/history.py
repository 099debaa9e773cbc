"""Random draws that follow from a text: the same text gives the same draws, another one gives others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import count
from math import cos, log, pi, sqrt

from attrs import evolve
from returns.maybe import Maybe
from returns.result import Failure

from reactive_agents.core.config import ReasoningConfig
from reactive_agents.core.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    BudgetUnavailable,
    ControllerError,
    ExecutionError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    ReasoningErrors,
    root_cause,
)
from reactive_agents.core.events import ExecutionPhaseFailed
from reactive_agents.core.ids import TaskId
from reactive_agents.core.results import (
    ReasoningResult,
    ReasoningStrategy,
    SelectionContext,
    StrategyEffectiveness,
)
from reactive_agents.effects import attempt
from reactive_agents.kernel import RunEvents
from reactive_agents.ports import EffectivenessTracker
from reactive_agents.reasoning.selection.rules import Selection, candidates, learned_type


def beta_draw(successes: float, failures: float, seed: str) -> float:
    """A draw of the Beta distribution, between 0 and 1.

    Args:
        successes: its first parameter, 1 or more.
        failures: its second parameter, 1 or more.
        seed: what the draw follows from.
    """
    uniforms = _uniforms(seed)
    one, other = _gamma(successes, uniforms), _gamma(failures, uniforms)
    return one / (one + other)


def _uniforms(seed: str) -> Iterator[float]:
    """Numbers above 0 and below 1, without end."""
    for number in count():
        digest = sha256(f"{number}:{seed}".encode(errors="replace")).digest()
        yield (int.from_bytes(digest[:6]) + 0.5) / 2**48


def _gamma(shape: float, uniforms: Iterator[float]) -> float:
    """A draw of the Gamma distribution for shapes of 1 or more (Marsaglia and Tsang, 2000)."""
    d = shape - 1 / 3
    c = 1 / sqrt(9 * d)
    while True:
        normal = sqrt(-2 * log(next(uniforms))) * cos(2 * pi * next(uniforms))
        v = (1 + c * normal) ** 3
        if v > 0 and log(next(uniforms)) < normal * normal / 2 + d - d * v + d * log(v):
            return d * v


# --- The choice of a strategy by what came of earlier runs, with its uncertainty ---


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


# --- Keeping what came of a strategy, so that later choices can go by it ---


NOT_ITS_OWN = (
    AuthenticationFailed,
    BudgetExceeded,
    BudgetUnavailable,
    ControllerError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
)
"""Failures that say nothing of the strategy that met them; they are not learned from."""


def is_its_own(error: ReasoningErrors) -> bool:
    """Whether a failure tells something of the strategy."""
    return not isinstance(root_cause(error), NOT_ITS_OWN)


def tracker_of(
    strategy: ReasoningStrategy, config: ReasoningConfig, effectiveness: Maybe[EffectivenessTracker]
) -> EffectivenessTracker | None:
    """Where outcomes of a strategy are recorded; ``None`` when they are not learned from."""
    if not config.adaptive.learning or not candidates((strategy,)):
        return None
    return effectiveness.value_or(None)


async def learn(
    tracker: EffectivenessTracker,
    task_description: str,
    task_type: str,
    result: ReasoningResult,
    *,
    success: bool,
    task_id: TaskId,
    events: Maybe[RunEvents],
) -> None:
    """Record an outcome under the type of the task. That it cannot be recorded is an event."""
    learned = learned_type(task_description, task_type)
    recorded = await attempt(tracker.record(result.strategy, learned, result, success=success))
    told = events.value_or(None)
    if isinstance(recorded, Failure) and told is not None:
        cause = recorded.failure()
        error = ExecutionError(cause.message, task_id, "memory-flush", cause)
        told.publish(ExecutionPhaseFailed, phase="memory-flush", error=error, fatal=False)
