"""What ends a kernel before it has an answer."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from reactive_agents.core.errors.config import FieldProblem
from reactive_agents.core.errors.models import LLMErrors
from reactive_agents.core.json import Json


@frozen
class IllegalTransition:
    """A kernel state may not change in that way. ``field``: what would have changed against the rules."""

    message: str
    field: str
    from_status: str
    to_status: str


@frozen
class ModelCallFailed:
    """The model did not answer a kernel's turn."""

    purpose: str
    iteration: int
    cause: LLMErrors

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"The model call ({self.purpose}, iteration {self.iteration}) failed: {self.cause.message}"


@frozen
class KernelFailed:
    """A kernel gave up, raised, or returned something else than an effect of a state."""

    message: str
    kernel_type: str


@frozen
class PolicyFailed:
    """A policy raised, or returned something else than a verdict. ``problem``: which of the two, and how."""

    policy: str
    problem: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"The policy {self.policy} {self.problem}"


KernelErrors: TypeAlias = IllegalTransition | ModelCallFailed | KernelFailed | PolicyFailed


# --- What ends a strategy before it has a result ---


@frozen
class ReasoningError:
    """Reasoning could not be started or finished."""

    message: str
    cause: KernelErrors | LLMErrors | None = None


@frozen
class StrategyNotFoundError:
    """No strategy or kernel is registered under that name. ``known``: the names that are."""

    strategy: str
    known: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """One sentence that lists the known names."""
        return f"There is no strategy {self.strategy!r}. Known: {', '.join(self.known) or 'none'}."


@frozen
class SelectionError:
    """No strategy could be chosen."""

    message: str
    context: Json = None


@frozen
class ControllerError:
    """A reasoning controller raised, or returned what it may not. ``hook``: which of its functions."""

    hook: str
    problem: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"The controller's {self.hook} failed: {self.problem}"


@frozen
class StrategyExecutionError:
    """A strategy failed while it ran. ``step``: the iteration, from 0."""

    strategy: str
    message: str
    step: int | None = None
    cause: KernelErrors | LLMErrors | StructuredOutputError | None = None


@frozen
class IterationLimitError:
    """A strategy reached its limit and has nothing to show for it."""

    strategy: str
    limit: int
    steps_completed: int

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"{self.strategy} reached its limit of {self.limit} after {self.steps_completed} steps."


@frozen
class StructuredOutputError:
    """A model gave no value of the wanted shape.

    Attributes:
        purpose: what it was asked for.
        attempts: replies that were asked for, 1 or more.
        problems: of the last reply.
        cause: why the model did not reply.
    """

    purpose: str
    message: str
    attempts: int
    problems: tuple[FieldProblem, ...] = ()
    cause: LLMErrors | None = None


ReasoningErrors: TypeAlias = (
    ReasoningError
    | StrategyNotFoundError
    | SelectionError
    | ControllerError
    | StrategyExecutionError
    | IterationLimitError
    | StructuredOutputError
)
