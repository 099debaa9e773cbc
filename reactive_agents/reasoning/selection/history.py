"""Selection by experience, and the recording of outcomes.

Thompson sampling (Thompson, 1933; Chapelle and Li, 2011): the success rate of each strategy on a type of task
is a Beta distribution, each run draws from it, and the best draw wins. Strategies with few outcomes are tried
now and then; proven ones win nearly always. The choice of the rules begins with a good prior. Draws follow
from a text, so that the same run always chooses the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import count
from math import cos, log, pi, sqrt

from attrs import evolve
from returns.maybe import Maybe
from returns.result import Failure, Result

from reactive_agents.core import errors
from reactive_agents.core.config import ReasoningConfig
from reactive_agents.core.events import ExecutionPhaseFailed
from reactive_agents.core.ids import TaskId
from reactive_agents.core.results import (
    ReasoningResult,
    ReasoningStrategy,
    SelectionContext,
    StrategyEffectiveness,
)
from reactive_agents.kernel import RunEvents
from reactive_agents.kernel.service_calls import call_service
from reactive_agents.ports import EffectivenessTracker
from reactive_agents.reasoning.selection.rules import NO_CANDIDATES, Selection, learned_type


def beta_draw(successes: float, failures: float, seed: str) -> float:
    """Return a draw of the Beta distribution, between 0 and 1.

    Args:
        successes: its first parameter, 1 or more.
        failures: its second parameter, 1 or more.
        seed: the text that determines the draw.
    """
    uniforms = _uniforms(seed)
    one, other = _gamma(successes, uniforms), _gamma(failures, uniforms)
    return one / (one + other)


def _uniforms(seed: str) -> Iterator[float]:
    """Yield numbers above 0 and below 1, without end."""
    for number in count():
        digest = sha256(f"{number}:{seed}".encode(errors="replace")).digest()
        yield (int.from_bytes(digest[:6]) + 0.5) / 2**48


def _gamma(shape: float, uniforms: Iterator[float]) -> float:
    """Return a Gamma draw for a shape of 1 or more (Marsaglia and Tsang, 2000)."""
    d = shape - 1 / 3
    c = 1 / sqrt(9 * d)
    while True:
        normal = sqrt(-2 * log(next(uniforms))) * cos(2 * pi * next(uniforms))
        v = (1 + c * normal) ** 3
        if v > 0 and log(next(uniforms)) < normal * normal / 2 + d - d * v + d * log(v):
            return d * v


FAVOURITE_PRIOR = (8.0, 2.0)
"""Successes and failures that the choice of the rules begins with."""
OTHER_PRIOR = (1.0, 1.5)
"""The same for every other strategy."""
COST_WEIGHT = 0.05
"""The loss of the most expensive strategy's draw; the others lose in proportion to their cost."""


def choose_by_history(
    favourite: Selection,
    history: Sequence[StrategyEffectiveness],
    known: Sequence[ReasoningStrategy],
    context: SelectionContext,
    *,
    seed: str,
) -> Selection:
    """Return the favourite, or a strategy that has done better or may do so. Pure.

    Without any record the favourite is returned. A strategy that on average costs more than the budget, or
    takes longer than the time, is left out while there are others.

    Args:
        favourite: the strategy that is chosen without a history; one of the known ones.
        history: the records of this type of task.
        seed: the text that determines the draws, unique for the run.
    """
    records = {each.strategy: each for each in history if each.strategy in known and each.executions > 0}
    if not records:
        return favourite
    affordable = [name for name in known if _is_affordable(records.get(name), context)] or list(known)
    most_expensive = max(record.avg_cost for record in records.values())

    def draw(name: ReasoningStrategy) -> float:
        record = records.get(name)
        penalty = COST_WEIGHT * record.avg_cost / most_expensive if record and most_expensive > 0 else 0.0
        return beta_draw(*_beta_parameters(name, favourite, records), f"{name}:{seed}") - penalty

    draws = {name: draw(name) for name in affordable}
    best = max(affordable, key=lambda name: (draws[name], name == favourite.strategy))
    if best == favourite.strategy:
        return evolve(favourite, reason=f"{favourite.reason}; {_record_in_words(records.get(best))}")
    rules = f"the rules would take {favourite.strategy}: {favourite.reason}"
    reason = f"{_record_in_words(records.get(best))}; {rules}"
    return Selection(best, reason, round(expected_success(best, favourite, records), 2), "history")


def expected_success(
    name: ReasoningStrategy, favourite: Selection, records: Mapping[str, StrategyEffectiveness]
) -> float:
    """Return the mean of the estimated success rate of a strategy, 0 to 1."""
    successes, failures = _beta_parameters(name, favourite, records)
    return successes / (successes + failures)


def _beta_parameters(
    name: ReasoningStrategy, favourite: Selection, records: Mapping[str, StrategyEffectiveness]
) -> tuple[float, float]:
    successes, failures = FAVOURITE_PRIOR if name == favourite.strategy else OTHER_PRIOR
    record = records.get(name)
    if record is None:
        return successes, failures
    worked = record.success_rate * record.executions
    return successes + worked, failures + record.executions - worked


def _is_affordable(record: StrategyEffectiveness | None, context: SelectionContext) -> bool:
    if record is None:
        return True
    budget, time = context.cost_budget, context.time_constraint
    return (budget is None or record.avg_cost <= budget) and (time is None or record.avg_duration <= time)


def _record_in_words(record: StrategyEffectiveness | None) -> str:
    if record is None:
        return "not tried yet on such tasks"
    worked = round(record.success_rate * record.executions)
    return f"worked in {worked} of {record.executions} such tasks"


def is_own_failure(error: errors.ReasoningErrors) -> bool:
    """Return whether a failure is evidence about the strategy, and so recorded."""
    return not isinstance(
        errors.root_cause(error),
        errors.AuthenticationFailed
        | errors.BudgetExceeded
        | errors.BudgetUnavailable
        | errors.ControllerError
        | errors.ModelTimeout
        | errors.ModelUnavailable
        | errors.OutputValidatorFailed
        | errors.RateLimited,
    )


def tracker_of(
    strategy: ReasoningStrategy, config: ReasoningConfig, effectiveness: Maybe[EffectivenessTracker]
) -> EffectivenessTracker | None:
    """Return the tracker that records a strategy's outcomes; ``None`` for none."""
    if not config.adaptive.learning or strategy in NO_CANDIDATES:
        return None
    return effectiveness.value_or(None)


async def read_history(
    tracker: EffectivenessTracker, task_type: str
) -> Result[tuple[StrategyEffectiveness, ...], errors.MemoryErrors | errors.ServiceFailed]:
    """Return the records of a type of task."""
    return await call_service(
        "effectiveness", tracker, EffectivenessTracker.history, tuple[StrategyEffectiveness, ...], task_type
    )


async def record_of(
    tracker: EffectivenessTracker, strategy: ReasoningStrategy, task_description: str, task_type: str
) -> StrategyEffectiveness | None:
    """Return the record of a strategy on such tasks, if it can be read."""
    read = await read_history(tracker, learned_type(task_description, task_type))
    return next((each for each in read.value_or(()) if each.strategy == strategy), None)


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
    """Record an outcome under the type of the task; a failure to do so is an event."""
    learned = learned_type(task_description, task_type)
    recorded = await call_service(
        "effectiveness",
        tracker,
        EffectivenessTracker.record,
        None,
        result.strategy,
        learned,
        result,
        success=success,
    )
    run_events = events.value_or(None)
    if isinstance(recorded, Failure) and run_events is not None:
        cause = recorded.failure()
        error = errors.ExecutionError(cause.message, task_id, "memory-flush", cause)
        run_events.publish(ExecutionPhaseFailed, phase="memory-flush", error=error, fatal=False)
