"""The exception of agents: the one place where typed errors are raised."""

from __future__ import annotations

from typing import TypeVar

from returns.result import Failure, Result

from reactive_agents.core.errors import (
    ConfigErrors,
    ContentErrors,
    MemoryErrors,
    RecordErrors,
    RuntimeErrors,
    ServiceFailed,
    SessionErrors,
)
from reactive_agents.core.ids import RunId
from reactive_agents.core.results import Deliverable, ReasoningStep, deliverables_of
from reactive_agents.core.tasks import TaskResultMetadata
from reactive_agents.core.texts import printable

_A = TypeVar("_A")


class AgentError(Exception):
    """An agent could not be built, a run ended with an error, or a store failed.

    Attributes:
        error: the typed error.
        steps: of the run until it failed.
        metadata: its usage and cost until then; ``None`` when there was no run.
        run_id: of the run, which its events carry; likewise.
    """

    def __init__(
        self,
        error: (
            RuntimeErrors
            | ConfigErrors
            | MemoryErrors
            | SessionErrors
            | ContentErrors
            | RecordErrors
            | ServiceFailed
        ),
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
        """The products of the run until then, with the calls that show them."""
        return deliverables_of(self.steps)


def value_or_raise(
    outcome: Result[_A, MemoryErrors | SessionErrors | ContentErrors | RecordErrors | ServiceFailed],
) -> _A:
    """Return the value of a store's outcome.

    Raises:
        AgentError: the store failed.
    """
    if isinstance(outcome, Failure):
        raise AgentError(outcome.failure())
    return outcome.unwrap()
