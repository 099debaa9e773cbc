"""Events of plans, services and people, which only some agents have."""

from __future__ import annotations

from typing import TypeAlias

from attrs import field, frozen

from reactive_agents.core import errors, values
from reactive_agents.core.bases import Event, PlanChange
from reactive_agents.core.config import VerificationAction
from reactive_agents.core.governance import GuardrailAction, GuardrailStage
from reactive_agents.core.ids import AgentId, ApprovalId, CallId, PlanId, RequestId, SessionId
from reactive_agents.core.json import JsonFields, JsonObject
from reactive_agents.core.plans import PlanMode, PlanStatus, PlanStep, PlanStepStatus
from reactive_agents.core.results import ThoughtNode
from reactive_agents.core.settings import ToolRequirement
from reactive_agents.core.tools import Risk


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
        status: the status from now on.
        error: why the step failed or was skipped, or why the attempt before failed; otherwise empty.
        retries: number of attempts after the first.
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
        version: the version of the plan from now on.
        change: ``patched`` for one step rewritten, ``replanned`` for all remaining steps, ``augmented`` for
            steps added to fill gaps, ``required`` for steps added for calls that the task requires.
        steps: the steps that are pending now.
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
    """A level of a tree of thoughts was judged and pruned."""

    thoughts: tuple[ThoughtNode, ...]


@frozen(eq=False, repr=False)
class ToolWithheld(Event):
    """A tool of an MCP server is not offered, or only with approval; once a run.

    ``reason``: its texts look like orders, its schema is invalid, or its definition changed.
    ``needs_approval``: whether it is offered, and each call needs approval until one is approved.
    """

    server: str
    tool: str
    reason: str
    needs_approval: bool = False


@frozen(eq=False, repr=False)
class BudgetWarning(Event):
    """A budget is used up to a configured share; once a run, period and share.

    Its US dollars are spent or reserved. ``share``: of the limit; above 1 when it was exceeded.
    """

    period: errors.BudgetPeriod
    limit_usd: float
    spent_usd: float
    share: float


@frozen(eq=False, repr=False)
class BudgetNotSettled(Event):
    """Spending could not be entered into a budget; its reservation stays counted."""

    spent_usd: float
    reserved_usd: float
    error: errors.ServiceFailed


@frozen(eq=False, repr=False)
class VerificationActed(Event):
    """An action was taken on an unverified answer, for the reason in ``detail``."""

    action: VerificationAction
    detail: str


@frozen(eq=False, repr=False)
class MemoryBootstrapped(Event):
    """Memory returned its context; ``problem``: why it is less than configured."""

    agent_id: AgentId
    tier: str
    problem: str = ""


@frozen(eq=False, repr=False)
class MemoryFlushed(Event):
    """Memories of the run were stored; the fields are those of ``FlushReport``."""

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
    """A guardrail matched a text, which the event does not contain."""

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


@frozen(eq=False, repr=False)
class ToolNeedsFound(Event):
    """The tools that the task requires were found. ``method``: ``model`` or ``rules``."""

    method: str
    required: tuple[ToolRequirement, ...]
    relevant: frozenset[str]


@frozen(eq=False, repr=False)
class ApprovalRequested(Event):
    """A call waits until someone approves or denies it; the agent is paused meanwhile.

    ``approval_id`` is unique within the run. The other fields are as in ``ApprovalRequest``.
    """

    approval_id: ApprovalId
    call_id: CallId
    tool_name: str
    arguments: JsonFields
    risk: Risk
    copied: tuple[str, ...] = ()
    notice: str = ""


@frozen(eq=False, repr=False)
class ApprovalDecided(Event):
    """A call was approved or denied; the other fields are as in ``ApprovalDecision``."""

    approval_id: ApprovalId
    call_id: CallId
    tool_name: str
    approved: bool
    reason: str = ""
    arguments: JsonObject | None = field(default=None, metadata=values.OMITTED)
    by: str = field(default="", metadata=values.OMITTED)


@frozen(eq=False, repr=False)
class QuestionAsked(Event):
    """The model asks a person; the call waits for the answer.

    ``question_id`` is unique within the run; ``options`` are answers that the model suggests.
    """

    question_id: RequestId
    call_id: CallId
    text: str
    options: tuple[str, ...] = ()


@frozen(eq=False, repr=False)
class QuestionAnswered(Event):
    """A question was answered, or no one did, for ``reason``."""

    question_id: RequestId
    call_id: CallId
    answered: bool
    answer: str = ""
    reason: str = ""


@frozen(eq=False, repr=False)
class ExternalCallRequested(Event):
    """A call waits until another program delivers its result by ``tool_call_id``."""

    tool_call_id: RequestId
    call_id: CallId
    tool_name: str
    arguments: JsonFields


@frozen(eq=False, repr=False)
class ExternalCallDelivered(Event):
    """The result of an external call was delivered, or none came, for ``reason``.

    Whether a result is valid says the call's ``ToolCallCompleted``.
    """

    tool_call_id: RequestId
    call_id: CallId
    tool_name: str
    delivered: bool
    reason: str = ""


@frozen(eq=False, repr=False)
class HandedOff(Event):
    """The conversation goes to another agent, whose answer will be the run's."""

    to_agent: str
    reason: str = ""


ServiceEvent: TypeAlias = (
    PlanCreated
    | PlanStepChanged
    | PlanRevised
    | PlanEnded
    | PlanStoreFailed
    | ThoughtsJudged
    | ToolWithheld
    | BudgetWarning
    | BudgetNotSettled
    | VerificationActed
    | MemoryBootstrapped
    | MemoryFlushed
    | MemorySnapshotSaved
    | GuardrailTriggered
    | ModelRouted
    | ResultVerified
    | ToolNeedsFound
    | ApprovalRequested
    | ApprovalDecided
    | QuestionAsked
    | QuestionAnswered
    | ExternalCallRequested
    | ExternalCallDelivered
    | HandedOff
)
"""The events of plans, services and people."""
