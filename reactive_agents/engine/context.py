"""The context of phases and hooks, the states of an agent, the run above."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from attrs import field, frozen

from reactive_agents.core import errors
from reactive_agents.core.conversation import NO_HISTORY, History
from reactive_agents.core.events import TaskFailed
from reactive_agents.core.ids import AgentId, RunId, SessionId, TaskId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import Message
from reactive_agents.core.persistent import NO_ITEMS, PersistentList, as_list
from reactive_agents.core.results import ReasoningResult, ReasoningStatus, ReasoningStrategy
from reactive_agents.core.tasks import SubRun, Task, TaskResult
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.values import Value
from reactive_agents.kernel import EarlierAttempt

if TYPE_CHECKING:
    from returns.maybe import Maybe

    from reactive_agents import ports
    from reactive_agents.core.governance import PersonRequest
    from reactive_agents.core.memory import MemoryContext
    from reactive_agents.core.redaction import Redactor
    from reactive_agents.core.results import ReasoningStep, VerificationReport
    from reactive_agents.core.usage import RunUsage
    from reactive_agents.engine.run_content import RunContent
    from reactive_agents.kernel import RunBudget, RunEvents
    from reactive_agents.kernel.context import Provenance, UsageAccount

AgentState: TypeAlias = Literal[
    "idle", "bootstrapping", "running", "paused", "verifying", "flushing", "completed", "failed"
]

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
"""The state that an agent is in during each phase, unless it is paused, or the run has ended."""


@frozen(slots=False, eq=False, repr=False)
class ExecutionContext(Value):
    """The state of a run, as phases and lifecycle hooks see it.

    A hook may return a changed context. ``metadata`` and, within the loop, ``messages`` take effect at once;
    ``history``, ``memory_context``, ``selected_strategy``, ``selected_model`` and ``max_iterations`` when the
    loop begins.

    Attributes:
        phase: the present phase, where a hook or ``get_context`` shows the context.
        agent_state: the present state of the agent there.
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


class RunStopped(BaseException):
    """The run cannot go on in this process.

    It passes through everything up to the start of the run.

    Attributes:
        is_lost: whether the run may be that of another process by now, with its turn of a session.
    """

    def __init__(self, error: errors.RunInterrupted | errors.RunRefused, *, is_lost: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.is_lost = is_lost


# --- the run under way, for the runs that its tools begin -----------------------------------------------


Owner: TypeAlias = tuple[str | None, str | None]
"""A user and a session, whose memories a run makes and is shown."""
NOBODY: Owner = (None, None)

MOST_NESTED_RUNS = 8
"""How deep runs may be nested, each begun by a tool of the run around it; the first one counts."""


@frozen(slots=False, eq=False, repr=False)
class Caller(Value):
    """The run under way, for the runs that its tools begin.

    Attributes:
        approver: decides for agents without one.
        desk: finds where a question or external call goes, for agents that have no one to ask.
        account: counts their usage as well.
        budget: the budget that they reserve from, besides their own; ``None`` if there is none.
        agents: names of the agents of the runs from the first to this one.
        owner: the user and session whose memories it makes and is shown.
        sub_runs: collects the runs that its tools began.
        recorded: collects the usage of them that was recorded, by the place of the records.
        unfinished: collects the steps of those without a result, with those of the runs below them.
        events: the events of the run under way; its readers get the events of those runs too.
        redactor: the redactor of its agent, for what is streamed to these readers.
        content: finds its images, audio and documents, which it may pass on to those runs.
        shown: returns what the run and the runs above it were shown.
    """

    approver: Maybe[ports.Approver]
    desk: Callable[[PersonRequest], ports.RequestDesk | None]
    account: UsageAccount
    budget: RunBudget | None
    agents: tuple[str, ...]
    owner: Owner
    sub_runs: list[SubRun]
    recorded: dict[object, tuple[RunUsage, ...]]
    unfinished: list[ReasoningStep]
    events: RunEvents
    redactor: Redactor | None = None
    content: Callable[[], RunContent | None] = lambda: None
    shown: Callable[[], tuple[Provenance, ...]] = tuple

    @property
    def run_id(self) -> RunId:
        """The run under way."""
        return self.events.run_id

    def take_in(self, sub_runs: Iterable[SubRun], recorded: Mapping[object, tuple[RunUsage, ...]]) -> None:
        """Add runs that have ended, and what was recorded of them by place."""
        self.sub_runs.extend(sub_runs)
        for place, parts in recorded.items():
            self.recorded[place] = (*self.recorded.get(place, ()), *parts)


CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


def owner_within(task: Task, caller: Caller | None) -> Owner:
    """Return the user and session of a task.

    A task that has neither, such as that of an agent that is a tool of another, has those of the run above,
    so that what a user said does not reach others through it.
    """
    own = (task.user, task.session) if task.scope is None else (None, task.scope)
    return caller.owner if own == NOBODY and caller is not None else own


def agents_under_way() -> tuple[str, ...]:
    """Return the agents of the runs under way here, the first to begin first."""
    caller = CALLER.get()
    return () if caller is None else caller.agents


def too_deep(agents: Sequence[str]) -> str:
    """Return why one more run inside of others is refused.

    A circle of agents is named.

    >>> too_deep(("lead", "clerk", "lead"))
    "2 runs are under way, each begun by a tool of the one before: lead → clerk → lead. 'lead' calls itself."
    """
    under_way = f"{len(agents) - 1} runs are under way, each begun by a tool of the one before"
    circle = f" {agents[-1]!r} calls itself." if agents[-1] in agents[:-1] else ""
    return f"{under_way}: {' → '.join(agents)}.{circle}"


def sub_run_of(ended: TaskResult | TaskFailed, parent: RunId, agent: str, task: str) -> SubRun:
    """Return an ended run as a sub-run of another one."""
    if isinstance(ended, TaskFailed):
        told: tuple[ReasoningStatus, str | None, str] = "failed", None, ended.error.message
    else:
        told = ended.status, ended.text, ended.reason
    return SubRun(ended.run_id, parent, agent, task, *told, ended.steps, ended.metadata)
