"""What the facade raises: the one place where typed errors become an exception."""

from __future__ import annotations

from reactive_agents.core.errors import ConfigErrors, RuntimeErrors
from reactive_agents.core.steps import ReasoningStep
from reactive_agents.core.tasks import TaskResultMetadata


class AgentError(Exception):
    """An agent could not be built, or a run ended with an error.

    Attributes:
        error: the typed error.
        steps: what the run did before it failed.
        metadata: what it spent until then; ``None`` when there was no run.
    """

    def __init__(
        self,
        error: RuntimeErrors | ConfigErrors,
        steps: tuple[ReasoningStep, ...] = (),
        metadata: TaskResultMetadata | None = None,
    ) -> None:
        super().__init__(error, steps, metadata)
        self.error = error
        self.steps = steps
        self.metadata = metadata

    def __str__(self) -> str:
        """The error's own sentence."""
        return self.error.message
