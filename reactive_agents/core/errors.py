"""Every way that things go wrong, as values: one class a cause, one union a layer.

Each error has a ``message``: one sentence for a person, without secrets and without a stack trace.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from reactive_agents.core.json import Json

# --- models ---------------------------------------------------------------------------------------------


@frozen
class RateLimited:
    """The provider refuses more requests for now. ``retry_after_s``: seconds to wait, when it said so."""

    message: str
    model: str
    retry_after_s: float | None = None


@frozen
class ModelTimeout:
    """No answer within ``timeout_s`` seconds."""

    message: str
    model: str
    timeout_s: float


@frozen
class AuthenticationFailed:
    """The key is missing or refused. ``missing``: the environment variable that would hold it."""

    message: str
    model: str
    missing: str | None = None


@frozen
class ContextOverflow:
    """The request is longer than the model's window. ``limit``: tokens, when the provider said so."""

    message: str
    model: str
    limit: int | None = None


@frozen
class MalformedResponse:
    """The provider's answer is not of its protocol's form. ``excerpt``: the start of what came."""

    message: str
    model: str
    excerpt: str = ""


@frozen
class ModelUnavailable:
    """The provider cannot be reached or fails. ``status``: its HTTP status, when it answered."""

    message: str
    model: str
    status: int | None = None


@frozen
class RequestRejected:
    """The provider will not answer this request: unknown model, invalid parameter, content policy."""

    message: str
    model: str
    status: int | None = None


@frozen
class ScriptExhausted:
    """A scripted model was asked more often than its script has turns, or the turn did not fit."""

    message: str
    last_request: str


LLMErrors: TypeAlias = (
    RateLimited
    | ModelTimeout
    | AuthenticationFailed
    | ContextOverflow
    | MalformedResponse
    | ModelUnavailable
    | RequestRejected
    | ScriptExhausted
)

# --- tools ----------------------------------------------------------------------------------------------


@frozen
class ToolNotFound:
    """There is no tool of that name. ``known``: the names there are."""

    tool_name: str
    known: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        return f"There is no tool named {self.tool_name!r}. Known tools: {', '.join(self.known) or 'none'}."


@frozen
class ArgumentProblem:
    """What is wrong with one argument. ``got``: the value as JSON text, shortened."""

    argument: str
    got: str
    expected: str


@frozen
class InvalidToolArguments:
    """The arguments do not fit the tool's schema; the tool did not run."""

    tool_name: str
    problems: tuple[ArgumentProblem, ...]

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        problems = "; ".join(f"{p.argument}: got {p.got}, expected {p.expected}" for p in self.problems)
        return f"The arguments of {self.tool_name!r} are not valid: {problems}."


@frozen
class ToolFailed:
    """The tool ran and raised. ``exception``: the name of the exception's class."""

    tool_name: str
    detail: str
    exception: str = ""

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        kind = f" ({self.exception})" if self.exception else ""
        return f"The tool {self.tool_name!r} failed{kind}: {self.detail}"


@frozen
class ToolTimedOut:
    """The tool did not end within ``timeout_s`` seconds."""

    tool_name: str
    timeout_s: float

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        return f"The tool {self.tool_name!r} did not end within {self.timeout_s:g} seconds."


@frozen
class ToolNotApproved:
    """The tool needs approval, and nobody gave it; the tool did not run."""

    tool_name: str
    reason: str

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        return f"The call of {self.tool_name!r} was not approved: {self.reason}"


@frozen
class WorkspaceViolation:
    """A path leaves the workspace, or is not of the kind that the tool handles."""

    path: str
    reason: str

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        return f"The path {self.path!r} is refused: {self.reason}"


ToolErrors: TypeAlias = (
    ToolNotFound | InvalidToolArguments | ToolFailed | ToolTimedOut | ToolNotApproved | WorkspaceViolation
)

# --- the optional services ------------------------------------------------------------------------------


@frozen
class MemoryUnavailable:
    """The memory cannot be read or written. ``operation``: what was tried."""

    message: str
    operation: str


MemoryErrors: TypeAlias = MemoryUnavailable


@frozen
class ServiceFailed:
    """A guardrail, cost, verification or audit service could not do its work."""

    message: str
    service: str
    operation: str


# --- configuration --------------------------------------------------------------------------------------


@frozen
class FieldProblem:
    """What is wrong at one place of a document. ``path``: from the root ``$``, as in ``$.steps[0].id``."""

    path: str
    problem: str


@frozen
class DecodeError:
    """A document is not of the type that it should be."""

    type_name: str
    problems: tuple[FieldProblem, ...]

    @property
    def message(self) -> str:
        """One sentence that names each field, its value and what was expected."""
        problems = "; ".join(f"{p.path}: {p.problem}" for p in self.problems)
        return f"Not a valid {self.type_name}: {problems}"


@frozen
class InvalidConfig:
    """An option has a value that it cannot have."""

    option: str
    value: str
    expected: str

    @property
    def message(self) -> str:
        """One sentence that names the option, its value and what was expected."""
        return f"{self.option}: got {self.value}, expected {self.expected}."


@frozen
class ServiceMissing:
    """A service is switched on, but none is provided. ``provider``: where the container expects it."""

    service: str
    provider: str

    @property
    def message(self) -> str:
        """One sentence that says how to mend it."""
        return f"{self.service} is enabled, but {self.provider} provides none: give it one or switch it off."


ConfigErrors: TypeAlias = DecodeError | InvalidConfig | ServiceMissing

# --- the kernel -----------------------------------------------------------------------------------------


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

# --- reasoning ------------------------------------------------------------------------------------------


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

# --- the engine -----------------------------------------------------------------------------------------

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
    """A lifecycle hook raised, and hooks are strict. ``cause``: the exception, as text."""

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
    """A guardrail blocked the run. ``violation``: the category of what it found."""

    message: str
    task_id: str
    violation: str


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
    """The task itself is not fit to run, or not running."""

    message: str
    task_id: str


@frozen
class IllegalAgentState:
    """An agent may not go from one state to the other."""

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
    | RunCancelled
    | TaskError
    | IllegalAgentState
)


def root_cause(error: RuntimeErrors | PhaseCause) -> RuntimeErrors | PhaseCause:
    """The innermost error: what really went wrong, below the layers that passed it on."""
    while True:
        cause: RuntimeErrors | PhaseCause | str | None = getattr(error, "cause", None)
        if cause is None or isinstance(cause, str):
            return error
        error = cause
