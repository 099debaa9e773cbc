"""Errors of runs and of the services that they use; import them from ``errors``."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen

from reactive_agents.core import bases
from reactive_agents.core.bases import FieldProblem, ServiceFailed, sentence
from reactive_agents.core.json import Json
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import OMITTED, Value

# --- model calls, and the budgets that are checked before them ----------------------------------------


@frozen(eq=False, repr=False)
class BudgetExceeded(Value):
    """A reservation would exceed a budget, so nothing was reserved or spent.

    Of ``limit_usd``, ``spent_usd`` are spent or reserved already, and ``needed_usd`` were to be reserved. The
    ``period`` is the run, or a day or month in UTC, of all runs or of the user's.
    """

    period: bases.BudgetPeriod
    limit_usd: float
    spent_usd: float
    needed_usd: float = 0.0

    message = sentence(
        "The budget of the {0.named_period} is exhausted: {0.spent_usd:.6g} of {0.limit_usd:.6g} US dollars "
        "are spent or reserved, and the next call may cost {0.needed_usd:.6g}."
    )

    @property
    def named_period(self) -> str:
        """The period as a sentence names it."""
        return bases.named_period(self.period)


@frozen(eq=False, repr=False)
class BudgetUnavailable(Value):
    """No model or tool is called: a budget is used up, or cannot be held.

    ``model``: the model that was to be called; empty for a tool.
    """

    message: str
    model: str


# --- What goes wrong between us and a language model ---


RefusedAttempts: TypeAlias = tuple[RunUsage, ...]
"""The failed attempts of a call that are, or may be, charged for, also those of fallbacks."""


@frozen(eq=False, repr=False)
class _ModelError(Value):
    message: str
    model: str
    refused: RefusedAttempts = field(default=(), kw_only=True)


@frozen(eq=False, repr=False)
class RateLimited(_ModelError):
    """The provider limits requests; ``retry_after_s``: in seconds, if it states them."""

    retry_after_s: float | None = None


@frozen(eq=False, repr=False)
class ModelTimeout(_ModelError):
    """No answer within ``timeout_s`` seconds."""

    timeout_s: float


@frozen(eq=False, repr=False)
class AuthenticationFailed(_ModelError):
    """The key is missing or refused. ``missing``: its environment variable."""

    missing: str | None = None


@frozen(eq=False, repr=False)
class ContextOverflow(_ModelError):
    """The request exceeds the window; ``limit``: its tokens, if they are stated."""

    limit: int | None = None


@frozen(eq=False, repr=False)
class MalformedResponse(_ModelError):
    """The provider's answer, which begins with ``excerpt``, violates its protocol."""

    excerpt: str = ""


@frozen(eq=False, repr=False)
class ModelUnavailable(_ModelError):
    """The provider cannot be reached or fails. ``status``: its HTTP status, if any."""

    status: int | None = None


@frozen(eq=False, repr=False)
class RequestRejected(_ModelError):
    """The provider rejects this request: unknown model, parameter, content policy."""

    status: int | None = None


@frozen(eq=False, repr=False)
class ScriptExhausted(Value):
    """A scripted model has no turn left that fits the request."""

    message: str
    last_request: str
    refused: RefusedAttempts = ()


@frozen(eq=False, repr=False)
class ContentUnsupported(_ModelError):
    """The model takes no content of this kind; nothing was sent.

    ``kind``: ``image``, ``audio``, ``document``, or ``url`` for an URL that is passed on.
    """

    kind: str


ProviderErrors: TypeAlias = (
    RateLimited
    | ModelTimeout
    | AuthenticationFailed
    | ContextOverflow
    | MalformedResponse
    | ModelUnavailable
    | RequestRejected
    | ContentUnsupported
    | ScriptExhausted
)
LLMErrors: TypeAlias = ProviderErrors | BudgetExceeded | BudgetUnavailable


def may_be_charged(error: LLMErrors) -> bool:
    """Return whether a provider may charge for the failed attempt."""
    match error:
        case ModelTimeout() | MalformedResponse() | ModelUnavailable(status=None):
            return True
        case _:
            return False


def refused_attempts(error: LLMErrors) -> RefusedAttempts:
    """Return the usage of the attempts of a failed call, known or possible."""
    match error:
        case BudgetExceeded() | BudgetUnavailable():
            return ()
        case _:
            return error.refused


# --- memory, tools and the other optional services ----------------------------------------------------


@frozen(eq=False, repr=False)
class _OperationFailed(Value):
    """The failure of a store. ``operation``: the failed operation."""

    message: str
    operation: str


@frozen(eq=False, repr=False)
class MemoryUnavailable(_OperationFailed):
    """The memory cannot be read or written."""


MemoryErrors: TypeAlias = MemoryUnavailable


@frozen(eq=False, repr=False)
class SessionUnavailable(_OperationFailed):
    """The sessions cannot be read or written."""


@frozen(eq=False, repr=False)
class SessionRefused(Value):
    """There is no such session for this user."""

    session: str
    problem: str

    message = sentence("session {0.session!r}: {0.problem}.")


SessionErrors: TypeAlias = SessionUnavailable | SessionRefused


@frozen(eq=False, repr=False)
class ContentRefused(Value):
    """An image, sound or document is not taken into the run.

    ``part``: its label; ``field``: ``size``, ``kind``, ``path``, ``url``, ``digest`` or ``parts``.
    """

    part: str
    field: str
    value: str
    expected: str

    message = sentence("{0.part}: {0.field}: got {0.value}, expected {0.expected}.")


@frozen(eq=False, repr=False)
class ContentUnavailable(_OperationFailed):
    """Stored content cannot be read or written."""


ContentErrors: TypeAlias = ContentRefused | ContentUnavailable


@frozen(eq=False, repr=False)
class ApprovalNotPending(Value):
    """No request waits for this decision: it is unknown or was decided already."""

    run_id: str
    approval_id: str

    message = sentence("No approval {0.approval_id!r} is pending in run {0.run_id!r}.")


@frozen(eq=False, repr=False)
class RequestNotPending(Value):
    """No question or external call waits for this reply, or it has one already."""

    run_id: str
    request_id: str

    message = sentence("No question or external call {0.request_id!r} is pending in run {0.run_id!r}.")


BudgetErrors: TypeAlias = BudgetExceeded | ServiceFailed


@frozen(eq=False, repr=False)
class AuditBroken(Value):
    """An audit log is wrong or incomplete from entry ``sequence`` on; the first is 1."""

    sequence: int
    problem: str

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"Entry {self.sequence} of the audit log is invalid: {self.problem.rstrip('.')}."


AuditErrors: TypeAlias = AuditBroken | ServiceFailed


# --- tool calls ---------------------------------------------------------------------------------------------


@frozen(eq=False, repr=False)
class ToolNotFound(Value):
    """There is no tool of that name. ``known``: the names there are."""

    tool_name: str
    known: tuple[str, ...] = ()

    message = sentence("Unknown tool {0.tool_name!r}. Known tools: {1}.")


@frozen(eq=False, repr=False)
class ArgumentProblem(Value):
    """One invalid argument. ``got``: the value as JSON text, shortened."""

    argument: str
    got: str
    expected: str


@frozen(eq=False, repr=False)
class InvalidToolArguments(Value):
    """The arguments do not fit the tool's schema; the tool did not run."""

    tool_name: str
    problems: tuple[ArgumentProblem, ...]

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        problems = "; ".join(f"{p.argument}: got {p.got}, expected {p.expected}" for p in self.problems)
        return f"The arguments of {self.tool_name!r} are not valid: {problems}."


@frozen(eq=False, repr=False)
class ToolFailed(Value):
    """The tool ran and raised. ``exception``: the name of the exception's class."""

    tool_name: str
    detail: str
    exception: str = ""

    @property
    def message(self) -> str:
        """One sentence for the model or a person."""
        kind = f" ({self.exception})" if self.exception else ""
        return f"The tool {self.tool_name!r} failed{kind}: {self.detail}"


@frozen(eq=False, repr=False)
class ToolTimedOut(Value):
    """The tool did not end within ``timeout_s`` seconds; with 0 it never began."""

    tool_name: str
    timeout_s: float

    message = sentence("The tool {0.tool_name!r} did not end within {0.timeout_s:g} seconds.")


@frozen(eq=False, repr=False)
class ToolNotApproved(Value):
    """The tool needs approval that was not given; it did not run.

    ``by``: who denied it, for the audit log; the message, which the model is shown, does not name them.
    """

    tool_name: str
    reason: str
    by: str = field(default="", metadata=OMITTED)

    message = sentence("The call of {0.tool_name!r} was not approved: {0.reason}")


@frozen(eq=False, repr=False)
class ToolNotAnswered(Value):
    """No one answered the question, or executed the external call."""

    tool_name: str
    reason: str

    message = sentence("The call of {0.tool_name!r} was not answered: {0.reason}")


@frozen(eq=False, repr=False)
class WorkspaceViolation(Value):
    """A path leaves the workspace, or is not of the kind that the tool handles."""

    path: str
    reason: str

    message = sentence("The path {0.path!r} is refused: {0.reason}")


@frozen(eq=False, repr=False)
class AddressRefused(Value):
    """A URL leads or redirects to a forbidden address. ``url``: without credentials."""

    url: str
    reason: str

    message = sentence("The address {0.url!r} is refused: {0.reason}")


ToolErrors: TypeAlias = (
    ToolNotFound
    | InvalidToolArguments
    | ToolFailed
    | ToolTimedOut
    | ToolNotApproved
    | ToolNotAnswered
    | WorkspaceViolation
    | AddressRefused
    | BudgetUnavailable
)

# --- kernels, policies, strategies and structured output ----------------------------------------------


@frozen(eq=False, repr=False)
class IllegalTransition(Value):
    """A kernel state may not change ``field`` in that way."""

    message: str
    field: str
    from_status: str
    to_status: str


@frozen(eq=False, repr=False)
class ModelCallFailed(Value):
    """The model did not answer a kernel's turn."""

    purpose: str
    iteration: int
    cause: LLMErrors

    message = sentence("The model call ({0.purpose}, iteration {0.iteration}) failed: {0.cause.message}")


@frozen(eq=False, repr=False)
class KernelFailed(Value):
    """A kernel failed, raised, or returned something other than an effect of a state."""

    message: str
    kernel_type: str


@frozen(eq=False, repr=False)
class PolicyFailed(Value):
    """A policy raised, or returned no verdict. ``problem``: which, and how."""

    policy: str
    problem: str

    message = sentence("The policy {0.policy} {0.problem}")


@frozen(eq=False, repr=False)
class OutputValidatorFailed(Value):
    """A function that validates answers raised something else than ``ModelRetry``."""

    validator: str
    problem: str

    message = sentence("The output validator {0.validator} {0.problem}")


KernelErrors: TypeAlias = (
    IllegalTransition | ModelCallFailed | KernelFailed | PolicyFailed | OutputValidatorFailed
)


# --- What ends a strategy before it has a result ---


@frozen(eq=False, repr=False)
class ReasoningError(Value):
    """Reasoning could not be started or finished."""

    message: str
    cause: KernelErrors | LLMErrors | None = None


@frozen(eq=False, repr=False)
class StrategyNotFoundError(Value):
    """No strategy or kernel has that name; ``known``: those that are registered."""

    strategy: str
    known: tuple[str, ...] = ()
    kind: Literal["strategy", "kernel"] = "strategy"

    message = sentence("There is no {0.kind} {0.strategy!r}. Known: {1}.")


@frozen(eq=False, repr=False)
class SelectionError(Value):
    """No strategy could be chosen."""

    message: str
    context: Json = None


@frozen(eq=False, repr=False)
class ControllerError(Value):
    """A controller raised, or returned an invalid value. ``hook``: the function."""

    hook: str
    problem: str

    message = sentence("The controller's {0.hook} failed: {0.problem}")


@frozen(eq=False, repr=False)
class StrategyExecutionError(Value):
    """A strategy failed while it ran. ``step``: the iteration, from 0."""

    strategy: str
    message: str
    step: int | None = None
    cause: KernelErrors | LLMErrors | StructuredOutputError | None = None


@frozen(eq=False, repr=False)
class IterationLimitError(Value):
    """A strategy reached its iteration limit without a result."""

    strategy: str
    limit: int
    steps_completed: int

    message = sentence(
        "The strategy {0.strategy} reached its limit of {0.limit} turns after {0.steps_completed} steps."
    )


@frozen(eq=False, repr=False)
class StructuredOutputError(Value):
    """A model gave no valid structured output.

    ``attempts``: replies that were asked for, 1 or more; ``problems``: of the last; ``cause``: why there was
    none.
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


@frozen(eq=False, repr=False)
class RecordFailed(_OperationFailed):
    """The record of runs cannot be read or written."""


@frozen(eq=False, repr=False)
class RunLogFailed(_OperationFailed):
    """The run log cannot be read or written."""


@frozen(eq=False, repr=False)
class LeaseLost(Value):
    """A run belongs to another process now, or was removed from its record."""

    run_id: str

    message = sentence("Run {0.run_id!r} was taken over by another process, or removed from its record.")


RecordErrors: TypeAlias = RecordFailed | LeaseLost

# --- runs --------------------------------------------------------------------------------------------

PhaseCause: TypeAlias = (
    LLMErrors
    | ToolErrors
    | MemoryErrors
    | SessionErrors
    | ContentErrors
    | ServiceFailed
    | bases.ConfigErrors
    | KernelErrors
    | ReasoningErrors
    | RecordErrors
)


@frozen(eq=False, repr=False)
class ExecutionError(Value):
    """A phase failed. ``cause``: the error of the layer below."""

    message: str
    task_id: str
    phase: str
    cause: PhaseCause | None = None


@frozen(eq=False, repr=False)
class HookError(Value):
    """A strict lifecycle hook raised. ``cause``: the exception, as text."""

    message: str
    phase: str
    timing: str
    cause: str = ""


@frozen(eq=False, repr=False)
class MaxIterationsError(Value):
    """The loop without reasoning reached its limit before the model answered."""

    task_id: str
    iterations: int
    max_iterations: int

    message = sentence("Task {0.task_id} did not finish within {0.max_iterations} iterations.")


@frozen(eq=False, repr=False)
class GuardrailViolationError(Value):
    """A guardrail blocked the run. ``violation``: the category of the finding."""

    message: str
    task_id: str
    violation: str


@frozen(eq=False, repr=False)
class VerificationFailed(Value):
    """The answer is not supported by the run, and ``action`` is ``fail``.

    ``confidence``: 0 to 1; ``findings``: unsupported statements, one sentence each.
    """

    task_id: str
    confidence: float
    findings: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """One sentence for a person."""
        found = " ".join(self.findings) or "Too little of it is supported."
        return f"The answer was not verified (confidence {self.confidence:.2f}): {found}"


@frozen(eq=False, repr=False)
class RunCancelled(Value):
    """The run was cancelled while it was in ``phase``.

    ``doubt``: a sentence that names the calls which may have taken effect; empty for none.
    """

    task_id: str
    phase: str
    doubt: str = ""

    @property
    def message(self) -> str:
        """One sentence that names the phase, and one with the calls in doubt."""
        return f"Task {self.task_id} was cancelled in phase {self.phase}. {self.doubt}".rstrip()


@frozen(eq=False, repr=False)
class TaskError(Value):
    """The task is invalid, or is not running."""

    message: str
    task_id: str


@frozen(eq=False, repr=False)
class RunRefused(Value):
    """A run cannot be begun or continued under its id.

    ``problem``: the rest of a sentence about the run; ``differences``: what has changed of the agent since it
    began, one sentence each.
    """

    run_id: str
    problem: str
    differences: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return " ".join((f"Run {self.run_id!r} {self.problem}.", *self.differences))


@frozen(eq=False, repr=False)
class RunInterrupted(Value):
    """A run stopped before its end and can be continued under its id.

    ``cause``: the error of its record, its sessions or a service.
    """

    run_id: str
    reason: str
    cause: RecordErrors | SessionErrors | ServiceFailed | None = None

    message = sentence("Run {0.run_id!r} was interrupted and can be resumed: {0.reason}")


@frozen(eq=False, repr=False)
class IllegalAgentState(Value):
    """An agent could not change its state; only in records of earlier versions."""

    from_state: str
    to_state: str

    message = sentence("The agent's state cannot change from {0.from_state!r} to {0.to_state!r}.")


RuntimeErrors: TypeAlias = (
    ExecutionError
    | HookError
    | MaxIterationsError
    | GuardrailViolationError
    | VerificationFailed
    | RunCancelled
    | TaskError
    | IllegalAgentState
    | RunRefused
    | RunInterrupted
)


def root_cause(error: RuntimeErrors | PhaseCause) -> RuntimeErrors | PhaseCause:
    """Return the innermost error, below the layers that passed it on."""
    while True:
        cause: RuntimeErrors | PhaseCause | str | None = getattr(error, "cause", None)
        if cause is None or isinstance(cause, str):
            return error
        error = cause


# --- personas ----------------------------------------------------------------------------------------


@frozen(eq=False, repr=False)
class StepIncomplete(Value):
    """The run of a plan step ended without finishing it, by ``terminated_by``."""

    step_id: str
    reason: str
    terminated_by: str

    message = sentence("Step {0.step_id} was not finished: {0.reason}")


@frozen(eq=False, repr=False)
class StepTimedOut(Value):
    """The run of a plan step did not end within ``timeout_s`` seconds."""

    step_id: str
    timeout_s: float

    message = sentence("Step {0.step_id} did not end within {0.timeout_s:g} seconds.")


@frozen(eq=False, repr=False)
class DeliveryFailed(Value):
    """The answer could not be delivered, as ``detail`` says.

    ``retry_after_s``: seconds after which the channel takes it, ``None`` where it does not say.
    """

    channel: str
    detail: str
    retry_after_s: float | None = None

    message = sentence("The answer could not be delivered to {0.channel}: {0.detail}")


@frozen(eq=False, repr=False)
class UnknownDomain(Value):
    """An event was sent to a domain that is none of the persona's, ``known``."""

    domain: str
    known: tuple[str, ...] = ()

    message = sentence("There is no domain {0.domain!r}. Known: {1}.")


@frozen(eq=False, repr=False)
class InboxFull(Value):
    """The inbox rejected an event because it holds ``capacity`` events already."""

    capacity: int
    event_id: str

    message = sentence("The inbox is full ({0.capacity} events wait); event {0.event_id!r} was rejected.")


@frozen(eq=False, repr=False)
class InvalidEvent(Value):
    """An event that no persona can be given: its ``field`` is not as ``expected``."""

    field: str
    event_id: str
    got: str
    expected: str = "a text that is not blank"

    message = sentence("event.{0.field}: got {0.got}, expected {0.expected}, in event {0.event_id!r}.")


@frozen(eq=False, repr=False)
class RecordNotFound(Value):
    """There is no plan, learning, template or memory entry of this id."""

    kind: str
    id: str

    message = sentence("There is no {0.kind} {0.id!r}.")


StepErrors: TypeAlias = RuntimeErrors | StepIncomplete | StepTimedOut
"""Why a step of a plan failed."""

PersonaErrors: TypeAlias = (
    StepErrors
    | DeliveryFailed
    | UnknownDomain
    | InvalidEvent
    | InboxFull
    | RecordNotFound
    | StructuredOutputError
    | MemoryErrors
)
