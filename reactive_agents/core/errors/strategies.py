"""Errors of kernels, policies, strategies and structured output."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.errors.config import FieldProblem
from reactive_agents.core.errors.models import LLMErrors
from reactive_agents.core.json import Json


@frozen
class IllegalTransition:
    """A kernel state may not change in that way.

    ``field``: the field that would change.
    """

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
    """A kernel failed, raised, or returned something other than an effect of a state."""

    message: str
    kernel_type: str


@frozen
class PolicyFailed:
    """A policy raised, or returned no verdict. ``problem``: which, and how."""

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
    """No strategy or kernel has that name.

    ``known``: the registered names of that kind.
    """

    strategy: str
    known: tuple[str, ...] = ()
    kind: Literal["strategy", "kernel"] = "strategy"

    @property
    def message(self) -> str:
        """One sentence that lists the known names."""
        return f"There is no {self.kind} {self.strategy!r}. Known: {', '.join(self.known) or 'none'}."


@frozen
class SelectionError:
    """No strategy could be chosen."""

    message: str
    context: Json = None


@frozen
class ControllerError:
    """A controller raised, or returned an invalid value. ``hook``: the function."""

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
    """A strategy reached its iteration limit without a result."""

    strategy: str
    limit: int
    steps_completed: int

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"{self.strategy} reached its limit of {self.limit} after {self.steps_completed} steps."


@frozen
class StructuredOutputError:
    """A model gave no valid structured output.

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
