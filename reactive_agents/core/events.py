"""Events of runs: one frozen class for each thing that can happen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import field, frozen

from reactive_agents.core import errors
from reactive_agents.core.config import CompactionMethod, VerificationAction
from reactive_agents.core.event_base import Event as Event
from reactive_agents.core.event_base import Stamp as Stamp
from reactive_agents.core.governance import GuardrailAction, GuardrailStage
from reactive_agents.core.ids import AgentId, ApprovalId, CallId, PlanId, RequestId, SessionId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.models import ModelRequest, ModelResponse, Usage
from reactive_agents.core.plans import PlanMode, PlanStatus, PlanStep, PlanStepStatus
from reactive_agents.core.requirements import ToolRequirement
from reactive_agents.core.results import ReasoningStatus, ReasoningStep, ThoughtNode
from reactive_agents.core.tasks import AgentResult, TaskResultMetadata
from reactive_agents.core.tools import CallOrigin, Risk
from reactive_agents.core.usage import RunUsage, answer_usage

PlanChange: TypeAlias = Literal["patched", "replanned", "augmented", "required"]


@frozen(eq=False, repr=False)
class PlanCreated(Event):
    """A plan begins. ``resumed``: whether it continues an interrupted plan."""

    plan_id: PlanId
    goal: str
    mode: PlanMode
    steps: tuple[PlanStep, ...]
    resumed: bool = False


@frozen(eq=False, repr=False)
class PlanStepChanged(Event):
    """A step of a plan began, or ended.

    Attributes:
        status: what it is from now on.
        error: why it failed or was skipped, or why the attempt before failed; empty otherwise.
        retries: attempts made after the first.
    """

    plan_id: PlanId
    step_id: str
    title: str
    status: PlanStepStatus
    error: str = ""
    retries: int = 0


@frozen(eq=False, repr=False)
class PlanRevised(Event):
    """The steps of a plan were changed.

    Attributes:
        version: of the plan from now on.
        change: one step ``patched``, the rest ``replanned``, steps added to fill gaps (``augmented``), or for
            calls that the task requires (``required``).
        steps: those that are pending now.
    """

    plan_id: PlanId
    version: int
    change: PlanChange
    steps: tuple[PlanStep, ...]


@frozen(eq=False, repr=False)
class PlanEnded(Event):
    """A run ended its plan. A plan that is still ``active`` can be resumed."""

    plan_id: PlanId
    status: PlanStatus


@frozen(eq=False, repr=False)
class PlanStoreFailed(Event):
    """A plan could not be stored; the run continues without storing it."""

    plan_id: PlanId
    error: errors.MemoryErrors


@frozen(eq=False, repr=False)
class ThoughtsJudged(Event):
    """A level of a tree of thoughts was judged and pruned.

    ``thoughts``: those of the level, in the order of their parents.
    """

    thoughts: tuple[ThoughtNode, ...]


# --- What happens with the budgets of a run, and with answers that are not verified ---


@frozen(eq=False, repr=False)
class ToolWithheld(Event):
    """A tool of an MCP server is not offered, or only with approval; once a run.

    Attributes:
        server: the name of the server.
        tool: the name of the tool, as the server gives it.
        reason: why, in a sentence: its texts look like orders, its schema is invalid, its definition changed.
        needs_approval: whether it is offered, with approval for each call until one is approved.
    """

    server: str
    tool: str
    reason: str
    needs_approval: bool = False


@frozen(eq=False, repr=False)
class BudgetWarning(Event):
    """A budget is used up to a configured share; once a run, period and share.

    Attributes:
        period: ``run``, ``day`` or ``month``, both of UTC.
        limit_usd: US dollars that may be spent in the period.
        spent_usd: US dollars that are spent or reserved in it.
        share: the used part of the limit; above 1 when it was exceeded.
    """

    period: errors.BudgetPeriod
    limit_usd: float
    spent_usd: float
    share: float


@frozen(eq=False, repr=False)
class BudgetNotSettled(Event):
    """Spending could not be entered into a budget; its reservation stays counted.

    Attributes:
        spent_usd: US dollars that were spent.
        reserved_usd: US dollars that stay counted in their place.
    """

    spent_usd: float
    reserved_usd: float
    error: errors.ServiceFailed


@frozen(eq=False, repr=False)
class VerificationActed(Event):
    """An action was taken on an unverified answer.

    Attributes:
        action: ``annotate``, ``retry`` or ``fail``.
        detail: the reason, in a sentence.
    """

    action: VerificationAction
    detail: str


# --- What happens with memory, guardrails, the choice of a model and verification ---


@frozen(eq=False, repr=False)
class MemoryBootstrapped(Event):
    """Memory returned its context for the run.

    Attributes:
        tier: the memory tier that answered.
        problem: why it answered with less than it is set to; empty when it did not.
    """

    agent_id: AgentId
    tier: str
    problem: str = ""


@frozen(eq=False, repr=False)
class MemoryFlushed(Event):
    """Memories of the run were stored.

    Attributes:
        kept: number of entries that were added or renewed.
        dropped: number of entries that expired or were replaced by more important ones.
        problem: why less was done than configured; empty when all was done.
    """

    agent_id: AgentId
    kept: int = 0
    dropped: int = 0
    problem: str = ""


@frozen(eq=False, repr=False)
class MemorySnapshotSaved(Event):
    """The run was stored as a session."""

    agent_id: AgentId
    session_id: SessionId


@frozen(eq=False, repr=False)
class GuardrailTriggered(Event):
    """A guardrail matched a text, which the event does not contain.

    Attributes:
        call_id: the call whose result it is."""

    stage: GuardrailStage
    category: str
    action: GuardrailAction
    score: float
    start: int
    end: int
    detail: str
    call_id: CallId | None = None


@frozen(eq=False, repr=False)
class ModelRouted(Event):
    """A cost router chose the model of the run."""

    model: str
    reason: str


@frozen(eq=False, repr=False)
class ResultVerified(Event):
    """The answer was checked. ``confidence``: 0 to 1."""

    confidence: float
    verified: bool


# --- What happens in a run, as values. Every event starts with the same four fields ---


CompactionReason: TypeAlias = Literal["growth", "window", "refused"]


# --- the run --------------------------------------------------------------------------------------------


@frozen(eq=False, repr=False)
class TaskStarted(Event):
    """A run begins.

    Attributes:
        metadata: the data that ``run(task, metadata=…)`` gave.
        session: the conversation that it continues, and ``user`` whose task it is, as the program names them.
    """

    agent_id: AgentId
    input: str
    tags: tuple[str, ...] = ()
    metadata: JsonObject = field(factory=dict)
    session: str | None = None
    user: str | None = None


@frozen(eq=False, repr=False)
class TaskCompleted(Event):
    """A run ended with a result, which may be partial."""

    result: AgentResult


@frozen(eq=False, repr=False)
class TaskFailed(Event):
    """A run ended with an error; ``steps`` and ``metadata`` hold its work until then."""

    error: errors.RuntimeErrors
    steps: tuple[ReasoningStep, ...]
    metadata: TaskResultMetadata

    @property
    def status(self) -> Literal["cancelled", "failed"]:
        """The status of the run."""
        return "cancelled" if isinstance(self.error, errors.RunCancelled) else "failed"


@frozen(eq=False, repr=False)
class RunContinued(Event):
    """A run goes on that was interrupted; what it has done already is not done again.

    Attributes:
        attempt: how often a process has begun or continued the run, 2 or more.
        entries: recorded answers that it has.
    """

    attempt: int
    entries: int


@frozen(eq=False, repr=False)
class ToolCallInDoubt(Event):
    """A call was under way when its process ended, so it may have taken effect.

    Attributes:
        key: the idempotency key of the call.
        handling: ``told`` the model; ``repeated``, since the tool is idempotent, or a person said so;
            ``settled`` by the tool's own probe or by a person; ``stopped`` the run until a person settles it.
    """

    tool_name: str
    call_id: CallId
    key: str
    handling: Literal["told", "repeated", "settled", "stopped"]


@frozen(eq=False, repr=False)
class ExecutionPhaseEntered(Event):
    """A lifecycle phase begins."""

    phase: str


@frozen(eq=False, repr=False)
class ExecutionPhaseSkipped(Event):
    """A lifecycle phase is skipped, with the reason."""

    phase: str
    reason: str


@frozen(eq=False, repr=False)
class ExecutionPhaseFailed(Event):
    """A lifecycle phase failed. ``fatal``: whether the run ends with it."""

    phase: str
    error: errors.RuntimeErrors
    fatal: bool


@frozen(eq=False, repr=False)
class ExecutionHookFired(Event):
    """A lifecycle hook ran."""

    phase: str
    timing: str


@frozen(eq=False, repr=False)
class ExecutionHookFailed(Event):
    """A lifecycle hook raised, or returned no context."""

    phase: str
    timing: str
    error: str


@frozen(eq=False, repr=False)
class ExecutionLoopIteration(Event):
    """The agent loop starts another iteration, from 0."""

    iteration: int


@frozen(eq=False, repr=False)
class ExecutionCancelled(Event):
    """The run was cancelled."""

    phase: str


@frozen(eq=False, repr=False)
class ExecutionPaused(Event):
    """The run is paused until it is resumed.

    ``next_step``: the step that it waits before.
    """

    next_step: str


@frozen(eq=False, repr=False)
class ExecutionResumed(Event):
    """The pause ended: the run was resumed, cancelled or stopped."""


@frozen(eq=False, repr=False)
class ExecutionStopped(Event):
    """The run was stopped in ``phase``, and ends as partial. ``reason``: may be empty."""

    phase: str
    reason: str


# --- reasoning ------------------------------------------------------------------------------------------


@frozen(eq=False, repr=False)
class StrategySelected(Event):
    """A strategy was chosen for the task, with the reason."""

    strategy: str
    reason: str


@frozen(eq=False, repr=False)
class ToolNeedsFound(Event):
    """The tools that the task requires were found. ``method``: ``model`` or ``rules``."""

    method: str
    required: tuple[ToolRequirement, ...]
    relevant: frozenset[str]


@frozen(eq=False, repr=False)
class ReasoningStepCompleted(Event):
    """A step was taken; one of ``thought``, ``action`` and ``observation`` is set.

    Attributes:
        copied: which arguments of an action of high risk were copied from a tool result or a recalled note.
        repairs: how the call of an action differs from what the model sent, one sentence each.
    """

    strategy: str
    iteration: int
    kernel_pass: str = ""
    thought: str | None = None
    action: str | None = None
    observation: str | None = None
    copied: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()


@frozen(eq=False, repr=False)
class ToolCallStarted(Event):
    """A tool call begins: its approval, the tool, and the checks of its result come."""

    tool_name: str
    call_id: CallId
    arguments: JsonObject


@frozen(eq=False, repr=False)
class ToolCallCompleted(Event):
    """A tool call ended.

    Attributes:
        duration_ms: wall-clock milliseconds.
        error: empty when it worked.
        origin: whether the tool was run for this call, or its result comes from elsewhere.
        result: the full result; the model may have been shown a part of it.
    """

    tool_name: str
    call_id: CallId
    success: bool
    duration_ms: float
    error: str = ""
    origin: CallOrigin = "executed"
    result: Json = None


@frozen(eq=False, repr=False)
class ToolProgressed(Event):
    """A tool reports how far its call is.

    Attributes:
        progress: the part that is done, 0 to 1; ``None`` where that is not known.
        message: of the tool; may be empty.
    """

    tool_name: str
    call_id: CallId
    progress: float | None = None
    message: str = ""


@frozen(eq=False, repr=False)
class ApprovalRequested(Event):
    """A call waits until someone approves or denies it; the agent is paused meanwhile.

    Attributes:
        approval_id: what is approved or denied; no other request of the run has it.
        copied: which arguments were copied from a tool result or a recalled note, one sentence each.
        notice: what is to be known of the tool, as how its definition changed; empty for nothing.
    """

    approval_id: ApprovalId
    call_id: CallId
    tool_name: str
    arguments: JsonObject
    risk: Risk
    copied: tuple[str, ...] = ()
    notice: str = ""


@frozen(eq=False, repr=False)
class ApprovalDecided(Event):
    """A call was approved or denied.

    Attributes:
        approval_id: that of its ``ApprovalRequested``.
        reason: why it was denied.
    """

    approval_id: ApprovalId
    call_id: CallId
    tool_name: str
    approved: bool
    reason: str = ""


@frozen(eq=False, repr=False)
class QuestionAsked(Event):
    """The model asks a person; the call waits for the answer.

    Attributes:
        question_id: what is answered; no other question of the run has it.
        text: the question, in the model's words.
        options: answers that the model suggests.
    """

    question_id: RequestId
    call_id: CallId
    text: str
    options: tuple[str, ...] = ()


@frozen(eq=False, repr=False)
class QuestionAnswered(Event):
    """A question was answered, or no one did.

    Attributes:
        answered: whether there is an answer.
        reason: why there is none.
    """

    question_id: RequestId
    call_id: CallId
    answered: bool
    answer: str = ""
    reason: str = ""


@frozen(eq=False, repr=False)
class ExternalCallRequested(Event):
    """A call waits until another program delivers its result.

    Attributes:
        tool_call_id: what the result is delivered for; no other call of the run has it.
    """

    tool_call_id: RequestId
    call_id: CallId
    tool_name: str
    arguments: JsonObject


@frozen(eq=False, repr=False)
class ExternalCallDelivered(Event):
    """The result of an external call was delivered, or none came.

    Attributes:
        delivered: whether there is a result, which the call's ``ToolCallCompleted`` judges.
        reason: why there is none.
    """

    tool_call_id: RequestId
    call_id: CallId
    tool_name: str
    delivered: bool
    reason: str = ""


@frozen(eq=False, repr=False)
class HandedOff(Event):
    """The conversation goes to another agent, whose answer will be the run's.

    Attributes:
        to_agent: its name.
        reason: in the words of the model; may be empty.
    """

    to_agent: str
    reason: str = ""


@frozen(eq=False, repr=False)
class GuidanceGiven(Event):
    """The model is steered with ``text`` before its next turn.

    ``policy`` is the policy, or the purpose of a structured question that is asked again.
    """

    policy: str
    text: str


@frozen(eq=False, repr=False)
class ContextCompacted(Event):
    """The transcript was made smaller before the model's next turn.

    ``recall`` reads what is gone.

    Attributes:
        reason: ``growth`` when earlier turns were summarized in good time, ``window`` when the request would
            not have fitted, ``refused`` when the provider said so.
        method: how it was done: ``template``, ``model``, ``custom`` or ``drop``.
        configured: the method that the configuration names.
        iteration: turns that the model had taken.
        turns: turns that are gone from the transcript, without those that were before.
        size_before: bytes of the transcript, without what every request begins with.
        tokens_before: of the next request at most: as the provider counted the last turn, and with a token
            for each byte that it has not counted.
        tokens_after: those, less what was taken out at the same bytes for a token.
        window_tokens: tokens that the model's window is taken to hold.
        problem: why the chosen method failed, so that templates were used; empty when it did not.
    """

    reason: CompactionReason
    method: CompactionMethod
    configured: CompactionMethod
    iteration: int
    turns: int
    size_before: int
    size_after: int
    tokens_before: int
    tokens_after: int
    window_tokens: int
    problem: str = ""

    @property
    def window_share(self) -> float:
        """The tokens before as a part of the model's window; may exceed 1."""
        return self.tokens_before / self.window_tokens


@frozen(eq=False, repr=False)
class ContextLost(Event):
    """The model's server silently read only a part of a prompt.

    The answer was dropped and the model asked again with less, where anything could be left out.

    Attributes:
        iteration: turns that the model had taken.
        sent_bytes: size of the prompt.
        read_tokens: tokens that the server counted, or half of the bytes where it counts none; the window is
            taken to be as large from now on.
        reason: in a sentence, which the run's result has as well.
    """

    iteration: int
    sent_bytes: int
    read_tokens: int
    reason: str


@frozen(eq=False, repr=False)
class FinalAnswerProduced(Event):
    """A kernel produced an answer; ``status``: whether it is complete."""

    strategy: str
    answer: str
    status: ReasoningStatus
    terminated_by: str
    iteration: int
    total_tokens: int


# --- models ---------------------------------------------------------------------------------------------


@frozen(eq=False, repr=False)
class ModelCallStarted(Event):
    """A model is asked.

    Attributes:
        purpose: why.
        model: as in the request.
        request: what it is sent, apart from the bytes of images, audio and documents; ``None`` unless a
            handler wants it, as the run log does.
        model_call: the number of the call in the run, from 1; a run that is continued begins again.
    """

    purpose: str
    model: str
    request: ModelRequest | None = None
    model_call: int = 0


@frozen(eq=False, repr=False)
class ModelCallCompleted(Event):
    """A model answered.

    Attributes:
        purpose: why it was asked.
        cost_usd: US dollars; ``None`` when the price of the model is unknown.
        duration_ms: wall-clock milliseconds, retries included.
        refused: the attempts before the answer that failed and are, or may be, charged for.
        cached: the answer was recorded before, and took neither tokens nor money.
        response: all that the model said; ``None`` unless a handler wants requests.
        model_call: that of its ``ModelCallStarted``; 0 where there was none.
    """

    purpose: str
    model: str
    usage: Usage
    cost_usd: float | None
    duration_ms: float
    refused: tuple[RunUsage, ...] = ()
    cached: bool = False
    response: ModelResponse | None = None
    model_call: int = 0

    @property
    def spent(self) -> tuple[RunUsage, ...]:
        """Return the usage of the call, attempt by attempt."""
        own = answer_usage(self.model, self.usage, self.cost_usd, cached=self.cached)
        return (*self.refused, own)


@frozen(eq=False, repr=False)
class ModelCallAbandoned(Event):
    """A model did not answer, or the end of the run cancelled the call.

    ``model_call``: that of its ``ModelCallStarted``; 0 where there was none, as for want of budget.
    """

    purpose: str
    error: errors.LLMErrors
    duration_ms: float
    model_call: int = 0

    @property
    def spent(self) -> tuple[RunUsage, ...]:
        """Return the usage of the failed call, attempt by attempt."""
        return errors.refused_attempts(self.error)


@frozen(eq=False, repr=False)
class ModelCallDelayed(Event):
    """A request waits because of a limit of requests or tokens a minute.

    Attributes:
        limit: ``requests`` or ``tokens``, or ``queue`` where others wait before it.
        wait_s: seconds that it waits at least.
    """

    purpose: str
    model: str
    limit: Literal["requests", "tokens", "queue"]
    wait_s: float


@frozen(eq=False, repr=False)
class ModelParameterRefused(Event):
    """A provider refused a parameter; the model is asked again without it.

    Attributes:
        parameter: by its name in ``ModelSettings``.
        instead: the provider's own name under which it is sent in its place; empty for none.
    """

    model: str
    parameter: str
    instead: str = ""


@frozen(eq=False, repr=False)
class ModelTextStreamed(Event):
    """The next delta of a text that may be the answer, while a run is streamed.

    That is the model's text, or the argument of ``final-answer`` that holds the answer. What has come since
    the last ``ModelTextRetracted`` or ``ModelStreamRestarted`` is one text; at the end it is the answer.

    Attributes:
        model_call: the number of the model call in the run, from 1.
    """

    purpose: str
    text: str
    model_call: int = 0


@frozen(eq=False, repr=False)
class ModelThinkingStreamed(Event):
    """The next delta of what is not for the answer, while a run is streamed.

    That is reasoning that the model exposes, and what it replies to other questions of the run than the task,
    as of plans and critiques: those have their purpose.

    Attributes:
        model_call: as of ``ModelTextStreamed``.
    """

    purpose: str
    text: str
    model_call: int = 0


@frozen(eq=False, repr=False)
class ToolArgumentsStreamed(Event):
    """The next delta of the arguments of a tool call, while a run is streamed.

    Attributes:
        index: the position of the call among those of the model's turn, from 0.
        tool_name: as the model writes it.
        text: a part of the arguments' JSON text; empty where the call begins without one.
        model_call: as of ``ModelTextStreamed``.
    """

    purpose: str
    index: int
    tool_name: str
    text: str
    model_call: int = 0


@frozen(eq=False, repr=False)
class ModelStreamRestarted(Event):
    """The stream broke and restarts: discard what was streamed of this model call.

    Attributes:
        model_call: as of ``ModelTextStreamed``.
    """

    purpose: str
    reason: str
    model_call: int = 0


@frozen(eq=False, repr=False)
class ModelTextRetracted(Event):
    """A text of the model is not the answer: discard what was streamed of it.

    Attributes:
        policy: the policy that turned it down, so that the model is asked again. Of a streamed run also
            ``calls`` for a text beside tool calls, ``superseded`` by a later text, ``result`` where the
            result of the run is another text, and ``failed`` where there is none.
    """

    policy: str


RunEvent: TypeAlias = (
    TaskStarted
    | TaskCompleted
    | TaskFailed
    | RunContinued
    | ToolCallInDoubt
    | ExecutionPhaseEntered
    | ExecutionPhaseSkipped
    | ExecutionPhaseFailed
    | ExecutionHookFired
    | ExecutionHookFailed
    | ExecutionLoopIteration
    | ExecutionCancelled
    | ExecutionPaused
    | ExecutionResumed
    | ExecutionStopped
    | StrategySelected
    | ToolNeedsFound
    | ReasoningStepCompleted
    | ToolCallStarted
    | ToolCallCompleted
    | ToolProgressed
    | ApprovalRequested
    | ApprovalDecided
    | QuestionAsked
    | QuestionAnswered
    | ExternalCallRequested
    | ExternalCallDelivered
    | HandedOff
    | GuidanceGiven
    | ContextCompacted
    | ContextLost
    | FinalAnswerProduced
    | PlanCreated
    | PlanStepChanged
    | PlanRevised
    | PlanEnded
    | PlanStoreFailed
    | ThoughtsJudged
    | ModelCallStarted
    | ModelCallCompleted
    | ModelCallAbandoned
    | ModelCallDelayed
    | ModelParameterRefused
    | ModelTextStreamed
    | ModelThinkingStreamed
    | ToolArgumentsStreamed
    | ModelStreamRestarted
    | ModelTextRetracted
    | MemoryBootstrapped
    | MemoryFlushed
    | MemorySnapshotSaved
    | GuardrailTriggered
    | ModelRouted
    | ResultVerified
    | VerificationActed
    | BudgetWarning
    | BudgetNotSettled
    | ToolWithheld
)
"""What happens in a run."""

if TYPE_CHECKING:
    from reactive_agents.core.persona_events import PersonaEvent

    AgentEvent: TypeAlias = RunEvent | PersonaEvent
    """Whatever is published: also by personas."""


def __getattr__(name: str) -> Any:
    """Import the events of personas on first use: most programs have no persona."""
    if name != "AgentEvent":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from reactive_agents.core.persona_events import PersonaEvent

    globals()[name] = found = RunEvent | PersonaEvent
    return found
