"""Keeping what came of a strategy, so that later choices can go by it."""

from __future__ import annotations

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
from reactive_agents.core.reasoning import ReasoningResult, ReasoningStrategy
from reactive_agents.effects import attempt
from reactive_agents.kernel import RunEvents
from reactive_agents.ports import EffectivenessTracker
from reactive_agents.reasoning.selection.kinds import learned_type
from reactive_agents.reasoning.selection.rules import candidates

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
        told.publish(ExecutionPhaseFailed(*told.stamp(), phase="memory-flush", error=error, fatal=False))
