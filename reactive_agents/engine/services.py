"""The services of the engine, and the state of one run."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import anyio
import anyio.to_thread
from attrs import define, field, fields, frozen
from returns.maybe import Maybe, Nothing
from returns.result import Failure, Result, Success

from reactive_agents import ports
from reactive_agents.core import errors
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.content import ContentOwner
from reactive_agents.core.conversation import History, SessionKey
from reactive_agents.core.events import TaskStarted
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.messages import Message
from reactive_agents.core.persistent import NO_ITEMS, PersistentList
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.run_context import AskPerson, ContextFunction, RunContext, SessionState, can_take
from reactive_agents.core.settings import RunSettings
from reactive_agents.core.tasks import SubRun, Task, TaskResult
from reactive_agents.core.tools import ASK_USER, KnownText, ToolResult
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import Value, replaced
from reactive_agents.engine.context import (
    AGENT_STATES,
    CALLER,
    AgentState,
    Caller,
    ExecutionContext,
    LifecyclePhase,
    Owner,
)
from reactive_agents.engine.execution_control import ExecutionControl
from reactive_agents.engine.hooks import LifecycleHookRegistry
from reactive_agents.engine.run_content import RunContent
from reactive_agents.kernel import KernelState, MeteredLLM, Policy, RunEvents
from reactive_agents.kernel.context import Provenance
from reactive_agents.kernel.events import EventReader
from reactive_agents.kernel.service_calls import ServiceFaults, definitions_of
from reactive_agents.kernel.tool_execution import provenance
from reactive_agents.reasoning import ReasoningService

if TYPE_CHECKING:
    from reactive_agents.core.events import TaskFailed
    from reactive_agents.core.governance import HandoffInfo, PersonRequest
    from reactive_agents.core.json import Json
    from reactive_agents.core.messages import ToolCall
    from reactive_agents.core.results import ReasoningStep
    from reactive_agents.core.run_record import RecordedRun
    from reactive_agents.engine.run_journal import RunJournal  # imported by durable runs
    from reactive_agents.kernel.streamed_answer import AnswerStream
    from reactive_agents.ports import EventBus, RequestDesk
    from reactive_agents.reasoning.structured_output.schema import Shape

OpenService: TypeAlias = Callable[[], Awaitable[Result[None, errors.ServiceFailed]]]

PhaseStage: TypeAlias = Literal["entered", "begun", "done"]
"""The stage of a phase: its before hooks run, its body runs, or its body has ended."""


def _nothing() -> Maybe[Any]:
    return Nothing


@frozen(eq=False)
class OutputValidator:
    """A function that validates answers.

    Attributes:
        name: the name of the function, for errors.
        function: takes the value, or a ``RunContext`` and the value; sync or async. It returns the value,
            another value, or ``None`` to keep the value as it is; it raises or returns ``ModelRetry`` to
            reject it.
        takes_context: whether its first parameter is the ``RunContext``.
    """

    name: str
    function: Callable[..., Any]
    takes_context: bool


def output_validator(function: Callable[..., Any]) -> Result[OutputValidator, errors.InvalidConfig]:
    """Return the validator of a function.

    Fails with ``InvalidConfig`` for a function that takes neither an answer, nor a ``RunContext`` and an
    answer.
    """
    name = getattr(function, "__name__", type(function).__name__)
    expected = "a function of the answer, or of a RunContext and the answer"
    if not callable(function):
        return Failure(errors.InvalidConfig("output_validator", abbreviated(function), expected))
    for count in (1, 2):
        if can_take(function, count, follow_wrapped=True):
            return Success(OutputValidator(name, function, takes_context=count == 2))
    return Failure(errors.InvalidConfig("output_validator", name, expected))


@frozen(eq=False, repr=False)
class EnginePorts(Value):
    """The services of an engine, shared by its runs. An absent service is ``Nothing``.

    Attributes:
        opens: returns what opens the services, each of which is called before each run.
        policies: custom policies, which are asked before the built-in ones.
        redactor: removes secrets from streamed text and from the errors of failed runs; the bus redacts
            events.
        sessions: makes the store of sessions, for the first run that has one.
        desk: makes the desk of questions and external calls, for the first run that has one.
        record: the record of durable runs; ``Nothing`` for runs that end with their process.
        content_store: makes the store of images, audio and documents, for the first run that has any.
        content_loader: makes the service that reads them, for the first run that has any.
        handoffs: agents that a conversation may be handed to, by the names of the tools.
        output_shape: the schema of the answers; ``Nothing`` for text.
        output_validators: functions of the program that judge the answers, in their order; not those of
            runs with another output type.
        instructions: called before each run; their texts follow the agent's instructions.
        toolsets: makes the tools of runs whose tools are chosen for each run.

    Raises:
        TypeError: an optional service is neither ``Some`` nor ``Nothing``.
    """

    llm: ports.LLM
    events: ports.EventBus
    clock: ports.Clock
    ids: ports.IdSource
    hooks: LifecycleHookRegistry
    tools: Maybe[ports.ToolService] = Nothing
    reasoning: Maybe[ReasoningService] = Nothing
    memory: Maybe[ports.MemoryService] = Nothing
    approver: Maybe[ports.Approver] = Nothing
    guardrail: Maybe[ports.Guardrail] = Nothing
    cost_router: Maybe[ports.CostRouter] = Nothing
    cost_tracker: Maybe[ports.CostTracker] = Nothing
    verifier: Maybe[ports.Verifier] = Nothing
    audit: Maybe[ports.AuditLog] = Nothing
    opens: Callable[[], tuple[OpenService, ...]] = tuple
    policies: tuple[Policy, ...] = ()
    counter: Maybe[ports.TokenCounter] = Nothing
    prices: Maybe[ports.PriceList] = Nothing
    budget: Maybe[ports.SpendingGuard] = Nothing
    redactor: Redactor | None = None
    plans: Maybe[ports.PlanStore] = Nothing
    sessions: Callable[[], Maybe[ports.SessionStore]] = _nothing
    record: Maybe[ports.RunRecord] = Nothing
    content_store: Callable[[], Maybe[ports.ContentStore]] = _nothing
    content_loader: Callable[[], Maybe[ports.ContentLoader]] = _nothing
    output_shape: Maybe[Shape[Any]] = Nothing
    output_validators: tuple[OutputValidator, ...] = ()
    instructions: tuple[ContextFunction, ...] = ()
    toolsets: ports.RunToolsets | None = None
    desk: Callable[[], Maybe[ports.RequestDesk]] = _nothing
    handoffs: Mapping[str, HandoffTarget] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for name in _OPTIONAL:
            given = getattr(self, name)
            if given is not Nothing and not isinstance(given, Maybe):
                raise TypeError(f"{name}: got {type(given).__name__}, expected Some(service) or Nothing")


def output_type_of(services: EnginePorts) -> Any:
    """Return the type of the answers: ``str`` for text."""
    return str if services.output_shape is Nothing else services.output_shape.unwrap().kind


_OPTIONAL = tuple(each.name for each in fields(EnginePorts) if each.default is Nothing)


# --- handoffs -------------------------------------------------------------------------------------------


HistoryFilter: TypeAlias = Callable[[tuple[Message, ...]], Sequence[Message]]
"""Choose the messages before the task that the other agent is shown."""
HandoffHandler: TypeAlias = "Callable[[HandoffInfo], Awaitable[None] | None]"


@frozen(eq=False)
class HandoffTarget:
    """An agent that a conversation may be handed to.

    Attributes:
        problem: returns why the agent cannot take a conversation over, in a sentence; empty if it can.
        filter: chooses the messages that the agent is shown; ``None`` for all.
        on_handoff: called before the conversation is handed over; the handoff is prevented when it raises.
        read_input: returns the input of a handler from the model's argument; ``None`` for no input.
    """

    agent: str
    engine: Callable[[], AgentEngine]
    problem: Callable[[], str]
    agent_id: Callable[[], AgentId]
    filter: HistoryFilter | None = None
    on_handoff: HandoffHandler | None = None
    read_input: Callable[[Json], Any] | None = None


@frozen(eq=False)
class AcceptedHandoff:
    """An accepted handoff.

    Attributes:
        reason: the reason in the words of the model.
        call: the model's call for it; ``None`` if the conversation was with the other agent already.
        path: agents that the conversation goes on to from there, without another request.
    """

    target: HandoffTarget
    reason: str = ""
    call: ToolCall | None = None
    path: tuple[str, ...] = ()


@frozen(eq=False)
class HandedConversation:
    """A conversation that a run takes over.

    Attributes:
        history: the conversation before the task.
        agents: the agents that had it before in this task, by handoffs of models.
        path: agents that the conversation goes on to at once.
        key_prefix: the prefix of the keys of the run's tool results, which differ from earlier ones by it.
        seconds: the most seconds that the run has; infinite for no limit.
        control: the control of the run that handed it over, which pauses and stops this run as well.
        answer: the stream of that run's answer, which is the answer of this run.
    """

    history: History
    agents: tuple[str, ...]
    path: tuple[str, ...]
    key_prefix: str
    seconds: float
    control: ExecutionControl
    answer: AnswerStream | None


# --- one run --------------------------------------------------------------------------------------------


@define(eq=False)
class OpenDeps:
    """Dependencies of a run that are closed after it, in a separate task.

    The same task enters and leaves the context manager, whose scopes are then none of the run's.
    """

    function: str
    is_async: bool
    value: Any = None
    problem: BaseException | None = None
    ready: anyio.Event = field(factory=anyio.Event)
    over: anyio.Event = field(factory=anyio.Event)
    closed: anyio.Event = field(factory=anyio.Event)
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)

    async def hold(self, manager: Any) -> None:
        """Enter a context manager, and leave it when the run is over."""
        try:
            with self.scope:
                if self.is_async:
                    self.value = await manager.__aenter__()
                else:
                    self.value = await anyio.to_thread.run_sync(manager.__enter__)
                self.ready.set()
                try:
                    await self.over.wait()
                finally:
                    if self.is_async:
                        await manager.__aexit__(None, None, None)
                    else:
                        await anyio.to_thread.run_sync(manager.__exit__, None, None, None)
        except anyio.get_cancelled_exc_class():  # as at the end of the event loop
            pass
        except BaseException as error:  # noqa: BLE001 - nothing waits for the task
            self.problem = error
        finally:
            self.ready.set()
            self.closed.set()


@define(eq=False)
class RunHandle:
    """The mutable state of one run.

    Attributes:
        context: the context after the last phase that has ended.
        meter: counts the usage of the run's model calls.
        started: when the run began, in seconds of the monotonic clock.
        reached: the stage of each phase until now, without those of the loop.
        waiting: number of tool calls that wait for people; the agent is then paused.
        requests: number of approvals, answers and external calls that were asked for until now.
        kernel_states: the latest state of each kernel of the run, in order, by its id.
        kernel_state: the state of the current or last kernel.
        interrupted_calls: the tool calls that were cancelled with the run, as they were made, and whether
            they may have taken effect, by their keys.
        left_in_doubt: the steps of recorded calls that a cancelled run leaves in doubt.
        call_errors: errors of failed tool calls by key, until their step is recorded.
        tool_results: the results of all tool calls until now.
        failed_calls: how often in a row each tool has failed, for tools whose latest call failed.
        known_texts: what the tools of the run have read and written of files.
        failure: an error of a strict hook or of required auditing within the loop, which kernels cannot
            express.
        faults: the faults of services that cannot report a failure, such as the clock.
        owner: the user and session whose memories the run makes and is shown.
        claimed_handoff: name of the agent that the conversation goes to; empty for none.
        handoff: the accepted handoff, with which the agent loop ends.
        loop: the scope that a handoff cancels; ``None`` if there is no other agent.
        handoffs: names of the agents that the conversation was handed to.
        answered_by: name of the last of them.
        sub_runs: the ended runs that the tools of this run began, with their own sub-runs.
        unfinished: the steps of those without a result, also of runs that may go on later.
        recorded: the usage of sub-runs that cost trackers have recorded, by the place of the records.
        caller: the run whose tool began this one; ``None`` for none.
        session: the session in which the run has its turn, which it must end; ``None`` for none.
        content: the images, audio and documents of the run; ``None`` for a run of texts.
        state: the state of the session, or of the run.
        start_entered: set when the start of the run is in the audit log, or cannot be; ``None`` before that.
        start_scope: of the entry of the start, which is given up when the run has ended; ``None`` unless it
            is written beside the run.
        deps: the dependencies that are closed after the run; ``None`` for none.
    """

    context: ExecutionContext
    meter: MeteredLLM
    started: float
    control: ExecutionControl
    faults: ServiceFaults
    owner: Owner
    phase: LifecyclePhase = "bootstrap"
    reached: dict[LifecyclePhase, PhaseStage] = field(factory=dict)
    waiting: int = 0
    requests: int = 0
    kernel_states: dict[str, KernelState] = field(factory=dict)
    kernel_state: KernelState | None = None
    interrupted_calls: dict[str, tuple[ToolCall, bool]] = field(factory=dict)
    left_in_doubt: Sequence[ReasoningStep] = ()
    call_errors: dict[str, errors.ToolErrors] = field(factory=dict)
    tool_results: PersistentList[ToolResult] = NO_ITEMS
    failed_calls: dict[str, int] = field(factory=dict)
    known_texts: list[KnownText] = field(factory=list)
    failure: errors.RuntimeErrors | None = None
    session: SessionKey | None = None
    claimed_handoff: str = ""
    handoff: AcceptedHandoff | None = None
    loop: anyio.CancelScope | None = None
    handoffs: tuple[str, ...] = ()
    answered_by: str = ""
    sub_runs: list[SubRun] = field(factory=list)
    unfinished: list[ReasoningStep] = field(factory=list)
    recorded: dict[object, tuple[RunUsage, ...]] = field(factory=dict)
    caller: Caller | None = None
    content: RunContent | None = None
    state: SessionState = field(factory=SessionState)
    start_entered: anyio.Event | None = None
    start_scope: anyio.CancelScope | None = None
    deps: OpenDeps | None = None

    @property
    def user(self) -> str | None:
        """Return the user of the task, or of the run above it."""
        return self.context.task.user or self.owner[0]

    def ending_error(self) -> errors.RuntimeErrors | None:
        """Return an error that no kernel expresses and that ends the run, if there is one."""
        broken = self.faults.first
        if self.failure is None and broken is not None:
            self.failure = errors.ExecutionError(broken.message, self.context.task_id, self.phase, broken)
        return self.failure

    def record_state(self, state: KernelState) -> None:
        """Record the latest state of a kernel."""
        self.kernel_states[state.id] = self.kernel_state = state

    def rewrite_states(self, change: Callable[[KernelState], KernelState]) -> None:
        """Change the recorded states of all kernels."""
        self.kernel_states = {key: change(state) for key, state in self.kernel_states.items()}
        if self.kernel_state is not None:
            self.kernel_state = self.kernel_states[self.kernel_state.id]

    @property
    def agent_state(self) -> AgentState:
        """Return the state of the agent, which is that of the phase."""
        if self.context.error is not None:
            return "failed"
        return "paused" if self.waiting or self.control.is_held else AGENT_STATES[self.phase]

    def current_context(self, **changes: Any) -> ExecutionContext:
        """Return the context with all until now: messages, results, cost; and changes."""
        state, context = self.kernel_state, self.context
        if state is None:
            return replaced(context, phase=self.phase, agent_state=self.agent_state, **changes)
        return replaced(
            context,
            phase=self.phase,
            agent_state=self.agent_state,
            iteration=state.iteration,
            messages=state.messages,
            tool_results=self.tool_results,
            cost=self.meter.account.total.cost_usd,
            **changes,
        )

    def fail(self, error: errors.RuntimeErrors) -> ExecutionContext:
        """Return the context of a run that failed with the error."""
        self.context = replaced(self.current_context(), error=error)
        return self.context


@define(eq=False)
class RunningTasks:
    """The handles of the runs under way by their tasks, and the given run ids.

    Runs of several threads may begin at once.
    """

    handles: dict[TaskId, RunHandle] = field(factory=dict)
    named: set[RunId] = field(factory=set)
    beginning: Lock = field(factory=Lock)


@define(eq=False)
class ClosingProgress:
    """Number of cost records and audit entries that an engine has written."""

    recorded: int = 0


@frozen(eq=False, repr=False)
class RunOverrides(Value):
    """Options of one run that are not data of its task.

    Attributes:
        deps: the dependencies, or the ``DepsFunction`` that makes them when the run begins.
        model: the model that answers requests which name none; ``None`` for that of the service.
        settings: fields of the run's ``RunSettings``, in place of the engine's.
        services: fields of the run's ``EnginePorts``, in place of the engine's.
        tools: tools of this run, besides the agent's.
        accept_changes: whether a run that another version of the agent began is continued.
        cancels: whether the run, which no process holds, is cancelled and counted instead of continued.
        reserved: the holder for which the run was reserved in its queue; empty for none.
        reserved_run: that run, as it was read then.
        named: whether the program chose the run's id, so that it names one run.
        readers: readers of the run's stream and of the events of its sub-runs; the run waits for those that
            are behind. The run's own events reach them by their subscription.
        handed: the conversation that the run takes over from another agent.
    """

    deps: Any = field(default=None, repr=False)
    model: str | None = None
    settings: Mapping[str, Any] = field(factory=dict)
    services: Mapping[str, Any] = field(factory=dict)
    tools: tuple[Any, ...] = ()
    accept_changes: bool = False
    cancels: bool = False
    reserved: str = ""
    reserved_run: RecordedRun | None = None
    named: bool = False
    readers: tuple[EventReader, ...] = ()
    handed: HandedConversation | None = None


NO_OVERRIDES = RunOverrides()


class AgentEngine(Protocol):
    """The engine of an agent, for handoffs and durable runs: an ``ExecutionEngine``."""

    settings: RunSettings
    ports: EnginePorts

    def replaying(self, bus: EventBus) -> AgentEngine:
        """Return an engine whose runs are replays, without subscribers and budget."""
        ...

    async def conduct(self, task: Task, *, overrides: RunOverrides = ...) -> Result[TaskResult, TaskFailed]:
        """Run a task as its durability says, from its claim to its last event."""
        ...

    async def conduct_phases(
        self,
        task: Task,
        run_id: RunId | None,
        overrides: RunOverrides,
        *,
        streaming: bool,
        journal: RunJournal | None = None,
    ) -> Result[TaskResult, TaskFailed]:
        """Run the phases and close the run, unless it is durable and cut off."""
        ...


@frozen(eq=False, repr=False)
class EngineServices(Value):
    """The services of one run: those of the engine, and those bound to the run.

    Attributes:
        redactor: removes secrets from streamed text, including those of the agents that read the stream.
    """

    settings: RunSettings
    ports: EnginePorts
    llm: MeteredLLM
    events: RunEvents
    handle: RunHandle
    progress: ClosingProgress
    overrides: RunOverrides = NO_OVERRIDES
    journal: RunJournal | None = None
    redactor: Redactor | None = None

    def run_context(
        self,
        *,
        tool_call_id: str | None = None,
        tool_name: str = "",
        retry: int = 0,
        ask_person: AskPerson | None = None,
    ) -> RunContext[Any]:
        """Return the present context for a function of the program."""
        context, state = self.handle.context, self.handle.state
        task = context.task
        return RunContext(
            deps=self.overrides.deps,
            run_id=context.run_id,
            task_id=task.id,
            user=self.handle.user,
            session=task.session,
            usage=self.llm.account.total,
            retry=retry,
            model=self.llm.answered_by or context.selected_model or self.llm.model,
            tool_call_id=tool_call_id,
            tool_name=tool_name,
            metadata=task.metadata,
            tags=task.tags,
            state=SessionState(state, read_only=True) if tool_call_id is None else state,
            ask_person=ask_person,
        )

    @property
    def is_relayed(self) -> bool:
        """Whether a model or a persona wrote the task; one handed over is the user's."""
        task, is_handed = self.handle.context.task, self.overrides.handed is not None
        is_begun = self.events.parent_run_id is not None and not is_handed
        return task.is_relayed or task.scope is not None or is_begun

    def seconds_left(self) -> float:
        """Return the seconds until the deadline, negative after it, infinite without it."""
        deadline = self.handle.context.deadline
        return math.inf if deadline is None else deadline - self.ports.clock.monotonic()

    def seconds_to_finish(self) -> float:
        """Return the seconds until the deadline, but at least ``grace_s``."""
        return max(self.seconds_left(), self.settings.timeouts.grace_s)

    def content(self) -> RunContent | errors.ServiceMissing:
        """Return the content of the run, created at the first call."""
        handle = self.handle
        if handle.content is None:
            store = self.ports.content_store().value_or(None)
            loader = self.ports.content_loader().value_or(None)
            if store is None or loader is None:
                missing = "memory.content" if store is None else "tooling.content_loader"
                return errors.ServiceMissing("content", missing)
            task, durable = handle.context.task, self.journal is not None
            owner = ContentOwner(handle.context.run_id, task.user, durable=durable)
            callers = None if handle.caller is None else handle.caller.content()
            handle.content = RunContent(store, loader, self.settings.content, owner, callers)
            self.llm.attach = handle.content.attach
        return handle.content

    def documents(self) -> tuple[str, ...]:
        """Return the texts of the documents that models were shown."""
        content = self.handle.content
        return () if content is None else content.shown_documents()

    def desk(self, request: PersonRequest) -> RequestDesk | None:
        """Return the desk for a request: the engine's, or the one of the run above.

        It is the engine's own desk if that has anyone to ask.
        """
        own, caller = self.ports.desk().value_or(None), self.handle.caller
        if caller is None or (own is not None and own.handles(request)):
            return own
        return caller.desk(request)

    def shown(self) -> tuple[Provenance, ...]:
        """Return the texts that the run, and the runs above it, were shown so far."""
        handle, tools = self.handle, self.ports.tools.value_or(None)
        task, memory = handle.context.task, handle.context.memory_context
        results: dict[str, str] = {}
        for state in handle.kernel_states.values():
            results |= state.scratchpad
        own = provenance(
            task.input,
            self.settings.system_prompt,
            handle.context.history,
            results,
            "" if memory is None else memory.text,
            self.documents(),
            asks_user=tools is not None
            and any(each.name == ASK_USER and each.external for each in definitions_of(tools)),
        )
        return (own, *(() if handle.caller is None else handle.caller.shown()))


def events_of(
    task: Task, run_id: RunId, settings: RunSettings, ports: EnginePorts, overrides: RunOverrides
) -> RunEvents:
    """Return the events of a run, which the readers of the run above get as well."""
    caller, handed = CALLER.get(), overrides.handed
    events = RunEvents(
        ports.events,
        ports.clock,
        run_id,
        task.id,
        agent=settings.agent_id,
        parent_run_id=None if caller is None else caller.run_id,
        redactor=ports.redactor,
    )
    events.readers = (*(() if caller is None else caller.events.readers), *overrides.readers)
    events.above = None if handed is None else handed.answer
    return events


def publish_start(events: RunEvents, task: Task, user: str | None) -> None:
    """Publish the first event of a run."""
    events.publish(TaskStarted, task.agent_id, task.input, task.tags, task.metadata, task.session, user)


def approver_of(engine: EnginePorts) -> Maybe[ports.Approver]:
    """Return the engine's approver, or that of the run whose tool this run is.

    An approver of the engine that has no handler leaves the decision to the one above, if there is one.
    """
    caller, own = CALLER.get(), engine.approver.value_or(None)
    if caller is None or not caller.approver:
        return engine.approver
    decides = own is not None and getattr(own, "has_no_handler", False) is not True
    return engine.approver if decides else caller.approver
