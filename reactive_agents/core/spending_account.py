"""Where parts of a run say what they spent on models without the run's own model service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from attrs import frozen

from reactive_agents.core.models import Purpose
from reactive_agents.core.tools import ToolSpending
from reactive_agents.core.usage import Usage, spent_on_answer


@frozen
class ModelCall:
    """One answered call, as of an embedding model; its event is ``ModelCallCompleted``.

    Attributes:
        purpose: why it was made.
        cost_usd: US dollars; ``None`` when the price of the model is unknown.
        duration_ms: wall-clock milliseconds.
    """

    purpose: Purpose
    model: str
    usage: Usage
    cost_usd: float | None
    duration_ms: float

    @property
    def spending(self) -> ToolSpending:
        """What it came to."""
        return ToolSpending.of((spent_on_answer(self.model, self.usage, self.cost_usd),))


ACCOUNT_OF_RUN: ContextVar[Callable[[ToolSpending | ModelCall], Awaitable[None]] | None] = ContextVar(
    "account_of_run", default=None
)
"""Enters what was spent into the account of the run that goes on, also while that is being cancelled.

For calls of models that are not the run's, and for tools and calls that are cut off, and so return nothing.
"""
