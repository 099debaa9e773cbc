"""Events of runs: one frozen class for each thing that can happen.

The events that every run may have are here. The others are in separate modules, but can be imported from
here; their modules are loaded at first use, since most programs use few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import field, frozen

from reactive_agents.core import errors, values
from reactive_agents.core.bases import CompactionReason as CompactionReason
from reactive_agents.core.bases import Event as Event
from reactive_agents.core.bases import PlanChange as PlanChange
from reactive_agents.core.bases import Stamp as Stamp
from reactive_agents.core.ids import AgentId, CallId
from reactive_agents.core.json import Json, JsonFields, JsonObject
from reactive_agents.core.models import FinishReason, ModelRequest, ModelResponse, Usage
from reactive_agents.core.results import ReasoningStatus, ReasoningStep
from reactive_agents.core.stored_forms import TAGS
from reactive_agents.core.tasks import AgentResult, TaskResultMetadata
from reactive_agents.core.tools import CallOrigin
from reactive_agents.core.usage import RunUsage, answer_usage


@frozen(eq=False, repr=False)
class TaskStarted(Event):
    """A run begins; the program gave its tags, metadata, session and user."""

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
    """A run ended with an error; ``steps`` and ``metadata`` hold its work until then.

    An interrupted durable run can be continued.
    """

    error: errors.RuntimeErrors
    steps: tuple[ReasoningStep, ...]
    metadata: TaskResultMetadata

    @property
    def status(self) -> Literal["cancelled", "failed", "interrupted"]:
        """The status of the run."""
        if isinstance(self.error, errors.RunInterrupted):
            return "interrupted"
        return "cancelled" if isinstance(self.error, errors.RunCancelled) else "failed"


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
class ExecutionLoopIteration(Event):
    """The agent loop starts another iteration, from 0."""

    iteration: int


@frozen(eq=False, repr=False)
class ExecutionCancelled(Event):
    """The run was cancelled."""

    phase: str


@frozen(eq=False, repr=False)
class StrategySelected(Event):
    """A strategy was chosen for the task, with the reason."""

    strategy: str
    reason: str


@frozen(eq=False, repr=False)
class ReasoningStepCompleted(Event):
    """A step was taken; one of ``thought``, ``action`` and ``observation`` is set.

    Attributes:
        copied: arguments of an action of high risk that were copied from a tool result or a recalled note.
        repairs: how the call of an action differs from what the model sent, one sentence each.
        call_id: the call of an action or observation; unique in its run of a kernel.
    """

    strategy: str
    iteration: int
    kernel_pass: str = ""
    thought: str | None = None
    action: str | None = None
    observation: str | None = None
    copied: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    call_id: CallId | None = field(default=None, metadata=values.OMITTED)


@frozen(eq=False, repr=False)
class ToolCallStarted(Event):
    """A tool call begins, before its approval, the tool and the checks of its result."""

    tool_name: str
    call_id: CallId
    arguments: JsonFields


@frozen(eq=False, repr=False)
class ToolCallCompleted(Event):
    """A tool call ended.

    Attributes:
        duration_ms: wall-clock milliseconds.
        error: empty when it worked.
        origin: whether the tool was run for this call, or its result comes from elsewhere.
        result: the full result; the model may have been shown a part of it.
        replayed: whether the result comes from the record of a durable run: the call was made before.
        arguments: those that the call was made with, if an approver changed them.
        ran: the arguments of each run of the tool, if a wrapper did not run it once with those of the call.
    """

    tool_name: str
    call_id: CallId
    success: bool
    duration_ms: float
    error: str = ""
    origin: CallOrigin = "executed"
    result: Json = None
    replayed: bool = field(default=False, metadata=values.OMITTED)
    arguments: JsonObject | None = field(default=None, metadata=values.OMITTED)
    ran: tuple[JsonObject, ...] | None = field(default=None, metadata=values.OMITTED)


@frozen(eq=False, repr=False)
class FinalAnswerProduced(Event):
    """A kernel produced an answer; ``status``: whether it is complete."""

    strategy: str
    answer: str
    status: ReasoningStatus
    terminated_by: str
    iteration: int
    total_tokens: int


@frozen(eq=False, repr=False)
class ModelCallStarted(Event):
    """A model is asked.

    Attributes:
        purpose: why it is asked.
        model: the model of the request.
        request: the request, without the bytes of images, audio and documents; ``None`` unless a handler
            wants it, as the run log does.
        model_call: the number of the call in the run, from 1; it restarts when the run is continued.
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
        refused: earlier attempts that failed and are, or may be, charged for.
        cached: whether the answer was recorded before, and took neither tokens nor money.
        response: the whole response; ``None`` unless a handler wants requests.
        model_call: the number in its ``ModelCallStarted``; 0 if there was none.
        finish_reason: why the model stopped; ``None`` for a call that another service made.
        replayed: whether the answer comes from the record of a durable run: the call was made before.
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
    finish_reason: FinishReason | None = None
    replayed: bool = field(default=False, metadata=values.OMITTED)

    @property
    def spent(self) -> tuple[RunUsage, ...]:
        """Return the usage of the call, attempt by attempt."""
        own = answer_usage(self.model, self.usage, self.cost_usd, cached=self.cached)
        return (*self.refused, own)


_UsualEvent: TypeAlias = (
    TaskStarted
    | TaskCompleted
    | TaskFailed
    | ExecutionPhaseEntered
    | ExecutionPhaseSkipped
    | ExecutionPhaseFailed
    | ExecutionHookFired
    | ExecutionLoopIteration
    | ExecutionCancelled
    | StrategySelected
    | ReasoningStepCompleted
    | ToolCallStarted
    | ToolCallCompleted
    | FinalAnswerProduced
    | ModelCallStarted
    | ModelCallCompleted
)

if TYPE_CHECKING:
    from reactive_agents.core import control_events, service_events
    from reactive_agents.core.control_events import *  # noqa: F403
    from reactive_agents.core.persona_events import PersonaEvent
    from reactive_agents.core.service_events import *  # noqa: F403

    RunEvent: TypeAlias = _UsualEvent | control_events.ControlEvent | service_events.ServiceEvent
    """What happens in a run."""

    AgentEvent: TypeAlias = RunEvent | PersonaEvent
    """Whatever is published: also by personas."""


if not TYPE_CHECKING:  # else type checkers accept any name

    def __getattr__(name: str) -> Any:
        """Import an event on first use."""
        home = TAGS.get(name, "").removesuffix(f".{name}")
        if home in ("core.control_events", "core.service_events"):
            found = getattr(import_module(f"reactive_agents.{home}"), name)
        elif name == "RunEvent":
            from reactive_agents.core import control_events, service_events

            found = _UsualEvent | control_events.ControlEvent | service_events.ServiceEvent
        elif name == "AgentEvent":
            from reactive_agents.core.persona_events import PersonaEvent

            found = __getattr__("RunEvent") | PersonaEvent
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found
