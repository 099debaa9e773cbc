"""What ends a strategy before it has a result."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from reactive_agents.core.errors.kernel import KernelErrors
from reactive_agents.core.errors.models import LLMErrors
from reactive_agents.core.json import Json


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
class StrategyExecutionError:
    """A strategy failed while it ran. ``step``: the iteration, from 0."""

    strategy: str
    message: str
    step: int | None = None
    cause: KernelErrors | LLMErrors | None = None


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


ReasoningErrors: TypeAlias = (
    ReasoningError | StrategyNotFoundError | SelectionError | StrategyExecutionError | IterationLimitError
)
