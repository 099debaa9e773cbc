"""The exception of agents: the one place where typed errors are raised."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from returns.result import Result, Success

from reactive_agents.core.ids import RunId
from reactive_agents.core.results import Deliverable, ReasoningStep, deliverables_of
from reactive_agents.core.tasks import TaskResult, TaskResultMetadata
from reactive_agents.core.texts import printable
from reactive_agents.effects import Effect, attempt

if TYPE_CHECKING:
    from reactive_agents.core import errors
    from reactive_agents.core.events import TaskFailed

    AgentErrors: TypeAlias = (
        errors.RuntimeErrors
        | errors.ConfigErrors
        | errors.MemoryErrors
        | errors.SessionErrors
        | errors.ContentErrors
        | errors.RecordErrors
        | errors.InvalidToolArguments
        | errors.ServiceFailed
    )

_A = TypeVar("_A")


class AgentError(Exception):
    """An agent could not be built, a run ended with an error, or a store failed.

    Attributes:
        error: the typed error.
        steps: the steps of the run until it failed.
        metadata: the usage and cost of the run until then; ``None`` when there was no run.
        run_id: the id of the run, which its events carry; ``None`` when there was no run.
    """

    def __init__(
        self,
        error: AgentErrors,
        steps: tuple[ReasoningStep, ...] = (),
        metadata: TaskResultMetadata | None = None,
        run_id: RunId | None = None,
    ) -> None:
        super().__init__(error, steps, metadata, run_id)
        self.error = error
        self.steps = steps
        self.metadata = metadata
        self.run_id = run_id

    def __str__(self) -> str:
        """Return the message of the typed error, safe to print on a terminal."""
        return printable(self.error.message)

    @property
    def deliverables(self) -> tuple[Deliverable, ...]:
        """The products of the run until it failed, with the calls that show them."""
        return deliverables_of(self.steps)


def value_or_raise(outcome: Result[_A, AgentErrors]) -> _A:
    """Return the value of an outcome.

    Raises:
        AgentError: it is a failure.
    """
    if not isinstance(outcome, Success):
        raise AgentError(outcome.failure())
    value: _A = outcome.unwrap()
    return value


def time_before(now: datetime, older_than: object) -> datetime:
    """Return the time before which records are older than a span.

    Raises:
        AgentError: the span is not one of 0 seconds or more, or leads to before the year 1.
    """
    from reactive_agents.core.errors import InvalidConfig  # of calls that delete records

    if isinstance(older_than, timedelta) and older_than >= timedelta():
        with suppress(OverflowError):
            return now - older_than
    expected = "0 seconds or more, and a time after the year 1"
    raise AgentError(InvalidConfig("older_than", str(older_than), expected))


async def value_of(pending: Effect[_A, Any]) -> _A:
    """Run an effect, and return its value.

    Raises:
        AgentError: it failed.
    """
    return value_or_raise(await attempt(pending))


def result_or_raise(outcome: Result[TaskResult, TaskFailed]) -> TaskResult:
    """Return the result of a run.

    Raises:
        AgentError: the run failed or was cancelled.
    """
    if not isinstance(outcome, Success):
        failed = outcome.failure()
        raise AgentError(failed.error, failed.steps, failed.metadata, failed.run_id)
    result: TaskResult = outcome.unwrap()
    return result
