"""Errors of runs, and the search for their root cause."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from reactive_agents.core.errors.config import ConfigErrors
from reactive_agents.core.errors.models import LLMErrors
from reactive_agents.core.errors.services import MemoryErrors, ServiceFailed, ToolErrors
from reactive_agents.core.errors.strategies import KernelErrors, ReasoningErrors

PhaseCause: TypeAlias = (
    LLMErrors | ToolErrors | MemoryErrors | ServiceFailed | ConfigErrors | KernelErrors | ReasoningErrors
)


@frozen
class ExecutionError:
    """A phase failed. ``cause``: the error of the layer below."""

    message: str
    task_id: str
    phase: str
    cause: PhaseCause | None = None


@frozen
class HookError:
    """A strict lifecycle hook raised. ``cause``: the exception, as text."""

    message: str
    phase: str
    timing: str
    cause: str = ""


@frozen
class MaxIterationsError:
    """The loop without reasoning reached its limit before the model answered."""

    task_id: str
    iterations: int
    max_iterations: int

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"Task {self.task_id} did not finish within {self.max_iterations} iterations."


@frozen
class GuardrailViolationError:
    """A guardrail blocked the run. ``violation``: the category of the finding."""

    message: str
    task_id: str
    violation: str


@frozen
class VerificationFailed:
    """The answer is not supported by the run, and ``action`` is ``fail``.

    Attributes:
        confidence: 0 to 1, that of the answer.
        findings: unsupported statements, one sentence each.
    """

    task_id: str
    confidence: float
    findings: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """One sentence for a person."""
        found = " ".join(self.findings) or "Too little of it is supported."
        return f"The answer was not verified (confidence {self.confidence:.2f}): {found}"


@frozen
class RunCancelled:
    """The run was cancelled while it was in ``phase``."""

    task_id: str
    phase: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"Task {self.task_id} was cancelled in phase {self.phase}."


@frozen
class TaskError:
    """The task is invalid, or is not running."""

    message: str
    task_id: str


@frozen
class IllegalAgentState:
    """An agent may not change from one state to the other."""

    from_state: str
    to_state: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"An agent cannot go from {self.from_state!r} to {self.to_state!r}."


RuntimeErrors: TypeAlias = (
    ExecutionError
    | HookError
    | MaxIterationsError
    | GuardrailViolationError
    | VerificationFailed
    | RunCancelled
    | TaskError
    | IllegalAgentState
)


def root_cause(error: RuntimeErrors | PhaseCause) -> RuntimeErrors | PhaseCause:
    """Return the innermost error, below the layers that passed it on."""
    while True:
        cause: RuntimeErrors | PhaseCause | str | None = getattr(error, "cause", None)
        if cause is None or isinstance(cause, str):
            return error
        error = cause
