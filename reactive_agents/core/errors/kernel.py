"""What ends a kernel before it has an answer."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from reactive_agents.core.errors.models import LLMErrors


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
    """A custom kernel gave up."""

    message: str
    kernel_type: str


KernelErrors: TypeAlias = IllegalTransition | ModelCallFailed | KernelFailed
