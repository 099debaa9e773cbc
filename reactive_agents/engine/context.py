"""The context of phases and lifecycle hooks, and the legal states of an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from attrs import field, frozen

from reactive_agents.core import errors
from reactive_agents.core.conversation import NO_HISTORY, History
from reactive_agents.core.ids import AgentId, RunId, SessionId, TaskId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import Message
from reactive_agents.core.persistent import NO_ITEMS, PersistentList, as_list
from reactive_agents.core.results import ReasoningResult, ReasoningStrategy
from reactive_agents.core.tasks import Task, TaskResult
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.values import Value
from reactive_agents.kernel import EarlierAttempt

if TYPE_CHECKING:
    from reactive_agents.core.memory import MemoryContext
    from reactive_agents.core.results import VerificationReport

OWNER: ContextVar[tuple[str | None, str | None]] = ContextVar("owner", default=(None, None))
"""The user and session whose memories the runs of this context make and are shown."""


def owner_within(task: Task) -> tuple[str | None, str | None]:
    """Return the user and session of a task.

    A task that has neither, such as that of an agent that is a tool of another, has those of the run above,
    so that what a user said does not reach others through it.
    """
    own = (task.user, task.session) if task.scope is None else (None, task.scope)
    return OWNER.get() if own == (None, None) else own


def user_within(task: Task) -> str | None:
    """Return the user of a task, or of the run above it."""
    return task.user or owner_within(task)[0]


AgentState: TypeAlias = Literal[
    "idle", "bootstrapping", "running", "paused", "verifying", "flushing", "completed", "failed"
]

LEGAL_AGENT_STATES: Mapping[AgentState, frozenset[AgentState]] = MappingProxyType(
    {
        "idle": frozenset({"bootstrapping", "failed"}),
        "bootstrapping": frozenset({"running", "failed"}),
        "running": frozenset({"paused", "verifying", "failed"}),
        "paused": frozenset({"running", "failed"}),
        "verifying": frozenset({"running", "flushing", "failed"}),
        "flushing": frozenset({"completed", "failed"}),
        "completed": frozenset(),
        "failed": frozenset(),
    }
)


def may_follow(current: AgentState, wanted: AgentState) -> bool:
    """Return whether an agent may change from one state to the other, or stay."""
    return wanted == current or wanted in LEGAL_AGENT_STATES[current]


LifecyclePhase: TypeAlias = Literal[
    "bootstrap",
    "guardrail",
    "cost-route",
    "strategy-select",
    "think",
    "act",
    "observe",
    "verify",
    "memory-flush",
    "cost-track",
    "audit",
    "complete",
]
"""The ten phases; the fifth, the agent loop, shows itself as think, act and observe."""

LIFECYCLE_PHASES: tuple[LifecyclePhase, ...] = get_args(LifecyclePhase)

AGENT_STATES: dict[LifecyclePhase, AgentState] = {
    "bootstrap": "bootstrapping",
    "guardrail": "running",
    "cost-route": "running",
    "strategy-select": "running",
    "think": "running",
    "act": "running",
    "observe": "running",
    "verify": "verifying",
    "memory-flush": "flushing",
    "cost-track": "flushing",
    "audit": "flushing",
    "complete": "flushing",
}
"""The state that an agent is in during each phase, also when the phase is skipped."""


@frozen(slots=False, eq=False, repr=False)
class ExecutionContext(Value):
    """The state of a run, as phases and lifecycle hooks see it.

    A hook may return a changed context. ``metadata`` and, within the loop, ``messages`` take effect at once;
    ``history``, ``memory_context``, ``selected_strategy``, ``selected_model`` and ``max_iterations`` when the
    loop begins.

    Attributes:
        iteration: turns that the model has taken.
        messages: the transcript of the loop: the model's turns and the tool results.
        history: the conversation that the run continues, as far as it is shown.
        tool_results: the results of all tool calls, in order.
        cost: US dollars so far, of the model calls whose price is known.
        deadline: when the run must end, in seconds of the monotonic clock; ``None`` for never.
        earlier: the outcome of the first attempt, during a second one.
        reasoning: the outcome of the loop.
        error: the error, for ``on-error`` hooks and for the phases that close a failed run.
        metadata: room for hooks; nothing in this package reads it.
    """

    run_id: RunId
    task: Task
    session_id: SessionId
    started_at: datetime
    max_iterations: int
    phase: LifecyclePhase = "bootstrap"
    agent_state: AgentState = "idle"
    iteration: int = 0
    messages: tuple[Message, ...] = ()
    history: History = NO_HISTORY
    memory_context: MemoryContext | None = None
    selected_strategy: ReasoningStrategy | None = None
    selected_model: str | None = None
    tool_results: PersistentList[ToolResult] = field(default=NO_ITEMS, converter=as_list)
    cost: float = 0.0
    deadline: float | None = None
    earlier: EarlierAttempt | None = None
    reasoning: ReasoningResult | None = None
    verification: VerificationReport | None = None
    result: TaskResult | None = None
    error: errors.RuntimeErrors | None = None
    metadata: JsonObject = field(factory=dict)

    def failure_of(self, phase: LifecyclePhase) -> Callable[[errors.PhaseCause], errors.RuntimeErrors]:
        """Return a function from the error of a service to that of its phase."""
        return lambda cause: errors.ExecutionError(cause.message, self.task.id, phase, cause)

    @property
    def task_id(self) -> TaskId:
        """Return the id of the task."""
        return self.task.id

    @property
    def agent_id(self) -> AgentId:
        """Return the id of the agent that runs the task."""
        return self.task.agent_id
