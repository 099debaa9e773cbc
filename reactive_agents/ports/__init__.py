"""Ports: one protocol for each service.

Everything that touches the world is behind a port: models, tools, memory, clock, ids, events. The pure
packages know only these protocols, so that a run is a function of what its ports answered: record the answers
and it can be replayed, replace a port and it can be tested. A port speaks in values of ``core`` and returns
effects with typed errors; a new method here needs a fake in ``reactive_agents.testing`` as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Never, Protocol, TypeAlias

from returns.maybe import Maybe
from returns.result import Result

from reactive_agents.core.config import ContentConfig
from reactive_agents.core.content import Content, ContentOwner, Digest
from reactive_agents.core.conversation import History, SessionInfo, SessionKey, SessionTurn
from reactive_agents.core.errors import ConfigErrors, InvalidConfig, ServiceFailed
from reactive_agents.core.ids import (
    AgentId,
    ContextId,
    EventId,
    LearningId,
    PersonaId,
    PlanId,
    RunId,
    SessionId,
    TaskId,
)
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import Message, ToolCall
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, TokenPrice
from reactive_agents.core.results import ReasoningResult, ReasoningStrategy, StrategyEffectiveness
from reactive_agents.core.run_context import RunContext
from reactive_agents.core.tasks import Task
from reactive_agents.core.tools import ToolDefinition, ToolResult, ToolScope
from reactive_agents.effects import Effect

if TYPE_CHECKING:
    from reactive_agents.core import governance, memory
    from reactive_agents.core.channels import ChannelRefused, ChannelRequest, Received
    from reactive_agents.core.errors import (
        BudgetErrors,
        ContentErrors,
        ContentUnavailable,
        LLMErrors,
        MemoryErrors,
        RecordErrors,
        SessionErrors,
        ToolErrors,
    )
    from reactive_agents.core.events import AgentEvent
    from reactive_agents.core.persona_events import PersonaEvent
    from reactive_agents.core.persona_queue import (
        EventEnd,
        LearningsChange,
        NewMessage,
        Spending,
        Submission,
        Utterance,
        WorkFilter,
        WorkItem,
        WorkKind,
        WorkOrder,
        WorkStatus,
    )
    from reactive_agents.core.personas import (
        DailyLimits,
        Domain,
        DomainEvent,
        LearningEntry,
        PersonaPlan,
        Room,
        SelfState,
        Thought,
        ThoughtKind,
    )
    from reactive_agents.core.plans import Plan, PlanStatus, PlanStep
    from reactive_agents.core.run_record import (
        OpenQuestion,
        OwedStore,
        QueueLimits,
        RecordedRun,
        RunClaim,
        RunEntry,
        RunFilter,
        RunOrder,
        RunSchedule,
        RunStatus,
    )


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the time of day in UTC, with its time zone."""
        ...

    def monotonic(self) -> float:
        """Return seconds since a fixed time, for durations and deadlines; never decreases."""
        ...


class IdSource(Protocol):
    """Makes identifiers."""

    def new(self) -> str:
        """Return a new unique identifier; the live service returns sortable ULIDs."""
        ...


EventHandler: TypeAlias = "Callable[[AgentEvent], None]"
"""Called where the event happens: it must neither block nor take long."""


class EventBus(Protocol):
    """Delivers events to subscribers in the order of publishing.

    An event is a fact that has happened: publishing neither waits nor fails. A bus may have a method
    ``has_subscribers(run_id: RunId) -> bool`` besides: events without a subscriber are then only numbered.
    """

    def publish(self, event: AgentEvent) -> None:
        """Call every handler with the event; one that raises is logged."""

    def subscribe(self, handler: EventHandler, *, run_id: RunId | None = None) -> Callable[[], None]:
        """Call a handler with later events, or a run's; return how to unsubscribe it."""
        ...


class LLM(Protocol):
    """Answers requests; retries, timeouts and fallbacks are up to the implementation."""

    @property
    def model(self) -> str:
        """Default model, as ``provider/model``."""
        ...

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        """Return the complete response.

        Fails with ``RateLimited``, ``ModelTimeout`` or ``ModelUnavailable`` when retries and fallbacks did
        not help; with ``AuthenticationFailed``, ``ContextOverflow``, ``RequestRejected`` or
        ``MalformedResponse`` when they could not. Within a run also with ``BudgetExceeded`` or
        ``BudgetUnavailable``: nothing was sent then. Answer and error list in ``refused`` the attempts that
        failed and are, or may be, charged for.
        """
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """Yield the response in chunks.

        The last item is ``Success(StreamCompleted)`` with the whole answer, its usage and cost, or a
        ``Failure`` as of :meth:`complete`. After ``StreamRestarted`` the pieces start from the beginning.
        Closing the iterator early closes the connection.
        """
        ...


class TokenCounter(Protocol):
    """Knows context windows and counts tokens, without any request."""

    def count(self, request: ModelRequest) -> int | None:
        """Return the tokens of a request's messages and tools, by its model's tokenizer.

        ``None`` when that tokenizer is not available: the count of another one would be a guess. The caller
        then uses the upper bound of any tokenizer, one token a byte.
        """
        ...

    def window(self, model: str | None) -> int | None:
        """Return a model's window in tokens, by default the default model's, if known."""
        ...


class PriceList(Protocol):
    """Knows the prices of models, without any request."""

    def price(self, model: str | None) -> Effect[TokenPrice | None, Never]:
        """Return the highest price of a token; ``None`` when it is unknown.

        Where a fallback may answer instead, the most expensive model counts. ``None`` is the default model.
        """
        ...


class ToolService(Protocol):
    """Runs tools: the one place that validates, approves and limits a call."""

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return all tools in a stable order, each name once."""
        ...

    def execute(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None = None
    ) -> Effect[ToolResult, ToolErrors]:
        """Run one call and return its full result.

        It needs approval where its tool or the scope requires it. Arguments of the decision take the place of
        those of the call, if they fit, and are then in ``ToolResult.arguments``.
        A result with an error is a call that failed after it had used tokens or money. One whose origin is
        ``external`` is a call that was checked and approved, and that another program has to execute.

        Fails with ``ToolNotFound``; ``InvalidToolArguments`` (the tool did not run); ``ToolNotApproved`` (it
        needs approval that was not given; it did not run); ``ToolTimedOut`` after the tool's own timeout in
        seconds or at the scope's deadline, whichever is first; ``ToolFailed`` when it raised; or an error
        that the tool itself returned, such as ``WorkspaceViolation``.
        """
        ...


class RunToolsets(Protocol):
    """Makes the tools of one run, where they are not those of all runs."""

    @property
    def is_dynamic(self) -> bool:
        """Whether some tools of the agent are chosen for each run."""
        ...

    def tools_of(
        self, context: RunContext[Any], added: Sequence[Any], tools: ToolService | None
    ) -> Effect[Maybe[ToolService], ConfigErrors | ServiceFailed]:
        """Return the tools of all runs, those chosen for this one, and the added ones.

        Fails with ``InvalidConfig`` when two have one name, or one takes other dependencies than the run has;
        with ``ServiceFailed`` when a function that chooses them raises or returns something else.

        Args:
            added: tools that the run was given.
            tools: those of all runs.
        """
        ...


# --- memory ---------------------------------------------------------------------------------------------

Vectors: TypeAlias = Sequence[Sequence[float]]
"""One vector for each text, in their order, all of the same dimension."""


class Embedder(Protocol):
    """Turns texts into vectors whose directions are close for similar meanings.

    Any object with these two members is one, such as a local model. Memory calls a plain function in a worker
    thread. When an embedder raises, fails or returns something else, memory searches by keywords and reports
    it.
    """

    @property
    def model(self) -> str:
        """Name of the embedding model; vectors of different ones are never compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors | Awaitable[Vectors] | Effect[Vectors, LLMErrors]:
        """Return the vectors of texts: directly, as an awaitable or as an effect."""
        ...


class MemoryService(Protocol):
    """Memory across runs; every method fails with ``MemoryUnavailable``.

    A durable run whose process is killed after :meth:`flush`, before that is recorded, calls it again with
    an equal task, whose id is that of the first time. A memory that has the method ``holds(task)`` is asked
    before that whether it has stored the task, and is then not called twice.
    """

    def bootstrap(self, agent_id: AgentId, task: Task) -> Effect[memory.MemoryContext, MemoryErrors]:
        """Return the memories that are relevant to a task, within the token budget."""
        ...

    def flush(
        self, task: Task, result: ReasoningResult, *, llm: LLM | None = None, model: str | None = None
    ) -> Effect[memory.FlushReport, MemoryErrors]:
        """Decide which facts of the run are remembered, and store them.

        Args:
            llm: the model of the run, whose account counts what it is asked here; ``None`` when the run has
                no model call to spare. Only a memory that is set to ask a model asks it, at most once.
            model: the model of the run; ``None`` for the one that answers requests which name none.
        """
        ...

    def snapshot(self, session: memory.SessionSnapshot) -> Effect[None, MemoryErrors]:
        """Store the whole run as a session."""
        ...


class SearchableMemory(MemoryService, Protocol):
    """A memory with direct access; every effect fails with ``MemoryUnavailable``."""

    def note(self, task_id: TaskId, note: memory.MemoryCandidate) -> None:
        """Add a note to the working memory of a task, which lasts until its flush."""

    def notes(self, task_id: TaskId) -> tuple[memory.MemoryCandidate, ...]:
        """Return the working memory of a task, oldest first; empty after its flush."""
        ...

    def remember(
        self, agent_id: AgentId, candidate: memory.MemoryCandidate, *, user: str | None = None
    ) -> Effect[memory.MemoryEntry, MemoryErrors]:
        """Store an entry, of the agent or its user, or renew the equal one."""
        ...

    def search(
        self,
        agent_id: AgentId,
        text: str,
        *,
        user: str | None = None,
        kinds: Sequence[memory.MemoryKind] = (),
        limit: int = 20,
    ) -> Effect[tuple[memory.MemoryEntry, ...], MemoryErrors]:
        """Return the agent's entries with every word of the text, or else with some.

        Those of a user are found for that user alone. A memory with an embedder also finds entries of
        similar meaning.
        """
        ...

    def forget(self, what: memory.Forgetting) -> Effect[int, MemoryErrors]:
        """Delete entries and sessions, and return their number."""
        ...


class PlanStore(Protocol):
    """Plans and the transitions of their steps.

    Methods fail with ``MemoryUnavailable``.
    """

    def save(self, plan: Plan) -> Effect[None, MemoryErrors]:
        """Store the plan under its id, replacing an earlier version."""
        ...

    def update_step(self, plan_id: PlanId, step: PlanStep) -> Effect[None, MemoryErrors]:
        """Replace the step with the same id; durable when the effect ends."""
        ...

    def get(self, plan_id: PlanId) -> Effect[Maybe[Plan], MemoryErrors]:
        """Return the plan, or ``Nothing`` when the id is unknown."""
        ...

    def list_plans(self, agent_id: AgentId) -> Effect[tuple[Plan, ...], MemoryErrors]:
        """Return the agent's plans, newest first."""
        ...

    def rewrite_steps(
        self, plan_id: PlanId, rewritten: Callable[[PlanStep], PlanStep]
    ) -> Effect[None, MemoryErrors]:
        """Change all stored forms of a plan's steps, to remove data from the store."""
        ...


class EffectivenessTracker(Protocol):
    """Records of strategies by task type; methods fail with ``MemoryUnavailable``."""

    def record(
        self, strategy: ReasoningStrategy, task_type: str, result: ReasoningResult, *, success: bool
    ) -> Effect[None, MemoryErrors]:
        """Add one run to the record."""
        ...

    def get_effectiveness(
        self, strategy: ReasoningStrategy, task_type: str
    ) -> Effect[Maybe[StrategyEffectiveness], MemoryErrors]:
        """Return the record, or ``Nothing`` when the strategy was not used on such tasks."""
        ...

    def get_best_strategy(self, task_type: str) -> Effect[Maybe[ReasoningStrategy], MemoryErrors]:
        """Return the strategy with the highest success rate, or ``Nothing``."""
        ...

    def history(self, task_type: str) -> Effect[tuple[StrategyEffectiveness, ...], MemoryErrors]:
        """Return the records of all strategies on such tasks, by their names."""
        ...


# --- content: images, audio and documents -----------------------------------------------------------------


class ContentStore(Protocol):
    """Keeps the bytes of content, once for each digest.

    Every method fails with ``ContentUnavailable``. A user refers to what the user's own runs and sessions
    hold, and to nothing else; runs without a user share what such runs hold. A store whose attribute
    ``lasting`` is true outlives its process: records of durable runs refer to it, and else have the bytes.
    One that has the method ``delete(run_id)`` is told of durable runs that are deleted: their hold ends.
    """

    def put(self, part: Content, data: bytes, owner: ContentOwner) -> Effect[None, ContentUnavailable]:
        """Store bytes under the digest of their part, held by the run of the owner."""
        ...

    def read(self, digest: Digest, user: str | None) -> Effect[bytes | None, ContentUnavailable]:
        """Return the bytes of a digest that the user may refer to; ``None`` for others."""
        ...

    def release(self, run_id: RunId, *, keep: int) -> Effect[None, ContentUnavailable]:
        """End a run's hold; of what no session holds, the newest ``keep`` bytes stay."""
        ...


class ContentLoader(Protocol):
    """Reads the content that a part names by a path or a URL."""

    def load(self, part: Content, limits: ContentConfig) -> Effect[bytes, ContentErrors]:
        """Return the bytes of a part.

        Fails with ``ContentRefused``: the path leads out of the workspace, the URL to an address that is not
        public, it takes too long, or there are more bytes than the limits allow.
        """
        ...


class SessionStore(Protocol):
    """Keeps sessions; every method fails with ``SessionUnavailable``.

    A session belongs to its agent and to the user who began it: for another user there is none of its name,
    and every method that names one fails with ``SessionRefused``.

    A store of several servers may have ``reserve(key, run_id, turns)`` as well, like that of this package:
    whether the run has the session's next turn, if it has so many. Without it, responses that two of them
    continue from one at the same moment share its conversation.
    """

    def begin(
        self, key: SessionKey, run_id: RunId, *, size: int, earlier: int
    ) -> Effect[History, SessionErrors]:
        """Wait until earlier runs of the session have ended, and return its history.

        The run then holds the session until :meth:`end`, also against other processes.

        Args:
            size: bytes of messages that the run can show; the newest ones are returned.
            earlier: characters of text of the messages before those.
        """
        ...

    def end(self, key: SessionKey, run_id: RunId, turn: SessionTurn | None) -> Effect[None, SessionErrors]:
        """Add the run, if it has a ``turn``, once, and let the session's next begin.

        The state of the session is then ``turn.state_after`` the present one.
        """
        ...

    def state(self, agent: AgentId, session: SessionId) -> Effect[JsonObject, SessionErrors]:
        """Return the state of a session."""
        ...

    def update_state(
        self, key: SessionKey, values: JsonObject, deleted: Sequence[str] = ()
    ) -> Effect[JsonObject, SessionErrors]:
        """Set and delete keys of the state, also between runs, and return the state.

        Begins the session if there is none. Without a user in the key, the session may be anybody's.
        """
        ...

    def sessions(
        self,
        agent: AgentId,
        user: str | None = None,
        *,
        session: str | None = None,
        before: datetime | None = None,
        limit: int | None = None,
    ) -> Effect[tuple[SessionInfo, ...], SessionErrors]:
        """Return the agent's sessions, of one user or of all, the latest first.

        Args:
            session: only the one of this name.
            before: only those that were last used before this time.
            limit: the most to return, 1 or more.
        """
        ...

    def messages(self, agent: AgentId, session: SessionId) -> Effect[tuple[Message, ...], SessionErrors]:
        """Return all messages of a session."""
        ...

    def rename(self, agent: AgentId, session: SessionId, title: str) -> Effect[None, SessionErrors]:
        """Give a session another title."""
        ...

    def fork(
        self, agent: AgentId, session: SessionId, into: SessionId, turns: int | None = None
    ) -> Effect[None, SessionErrors]:
        """Copy a session, or its first turns, into a new one of the same user."""
        ...

    def delete(self, agent: AgentId, session: SessionId) -> Effect[None, SessionErrors]:
        """Delete a session with everything in it."""
        ...

    def forget(self, user: str) -> Effect[int, SessionErrors]:
        """Delete all sessions of a user, of every agent; return how many there were."""
        ...


OrderHandler: TypeAlias = "Callable[[RunOrder], object]"
"""Called from any thread, again and again, with the present order to a run that is held."""


class RunRecord(Protocol):
    """Keeps the answers that runs took from outside, and who may continue a run.

    Every method fails with ``RecordFailed``. Those that name a holder fail with ``LeaseLost`` when the run
    belongs to another one by now: nothing was written then.
    """

    def claim(
        self, run: RecordedRun, on_order: OrderHandler, reserved: str = ""
    ) -> Effect[RunClaim, RecordErrors]:
        """Begin a run, or continue it where no other process does; return whose it is now.

        The lease of a run that is claimed is renewed until it is ended, released or abandoned. One that was
        ordered to cancel is claimed like others: the caller carries out its ``order``. An ended run that owes
        is claimed too, in the state ``ended`` with a holder, until :meth:`owe`.

        Args:
            reserved: the holder for which :meth:`dequeue` reserved the run.
        """
        ...

    def check(self) -> Effect[None, RecordErrors]:
        """Fail where runs cannot be recorded now."""
        ...

    def entries(self, run_id: RunId) -> Effect[tuple[RunEntry, ...], RecordErrors]:
        """Return the entries of a run in order, with those that it shares."""
        ...

    def entry(self, run_id: RunId, key: str) -> Effect[RunEntry | None, RecordErrors]:
        """Return the answer to a question of a run, by its key, or ``None``."""
        ...

    def append(
        self, run_id: RunId, holder: str, *entries: RunEntry, durable: bool = False, later: bool = False
    ) -> Effect[RunOrder | None, RecordErrors]:
        """Add entries; return another process's order to the run, ``None`` if not known.

        They outlive the process when the effect ends; with ``durable`` also a loss of power.

        Args:
            later: they are written with the next entries or by :meth:`settle`, and at the latest when the run
                waits for something.
        """
        ...

    def settle(self, run_id: RunId, holder: str) -> Effect[RunOrder | None, RecordErrors]:
        """Write what was added; return the order to the run, if it is known."""
        ...

    def end(
        self, run_id: RunId, holder: str, status: RunStatus, result: str, *, owes: Sequence[OwedStore] = ()
    ) -> Effect[None, RecordErrors]:
        """Store the outcome of a run, and give up its lease.

        Args:
            owes: the stores that it is still to be written to.
        """
        ...

    def owe(self, run_id: RunId, holder: str, owes: Sequence[OwedStore]) -> Effect[None, RecordErrors]:
        """Note what an ended run still owes, if anything, and give up its lease."""
        ...

    def release(self, run_id: RunId, holder: str) -> Effect[None, RecordErrors]:
        """Give up the lease of a run that has not ended."""
        ...

    def abandon(self, holder: str) -> None:
        """Renew the lease no more, where nothing can be awaited."""

    def answer(self, run_id: RunId, entry: RunEntry) -> Effect[bool, RecordErrors]:
        """Add the answer to a question, from any process; ``False`` for a second one."""
        ...

    def order(self, run_id: RunId, order: RunOrder) -> Effect[bool, RecordErrors]:
        """Order a run to pause or go on, or to stop or be cancelled, for good.

        ``False`` when it ended, or is being ended.
        """
        ...

    def find(self, run_id: RunId) -> Effect[RecordedRun | None, RecordErrors]:
        """Return a run, or ``None``."""
        ...

    def runs(self, chosen: RunFilter) -> Effect[tuple[RecordedRun, ...], RecordErrors]:
        """Return the runs that fit, the latest first."""
        ...

    def add(self, run: RecordedRun, *entries: RunEntry) -> Effect[bool, RecordErrors]:
        """Add a run with its first entries; ``False`` when there is one of its id."""
        ...

    def interrupted(self, agent_id: AgentId) -> Effect[tuple[RunId, ...], RecordErrors]:
        """Return the runs of an agent that have begun and that no process has under way.

        Those that have ended are among them if they owe, also where a tool began them.
        """
        ...

    def dequeue(
        self,
        agent_id: AgentId,
        queue: str,
        limits: QueueLimits,
        *,
        at_most: int,
        without: Collection[RunId] = (),
    ) -> Effect[tuple[tuple[RunId, str], ...], RecordErrors]:
        """Reserve runs of a queue that are due; return each with its holder.

        Those that were interrupted come first, also of no queue, then those with the highest priority, then
        the oldest. A reservation ends like a lease when its run is not claimed.

        Args:
            at_most: runs, 1 or more.
            without: leaves these out.
        """
        ...

    def schedule(self, schedule: RunSchedule) -> Effect[None, RecordErrors]:
        """Add a schedule, in place of that of the same name."""
        ...

    def unschedule(self, agent_id: AgentId, name: str) -> Effect[bool, RecordErrors]:
        """Delete a schedule; ``False`` when there is none of that name."""
        ...

    def schedules(
        self, agent_id: AgentId | None = None, *, due: datetime | None = None
    ) -> Effect[tuple[RunSchedule, ...], RecordErrors]:
        """Return an agent's schedules, or all, by name; with ``due`` those due then."""
        ...

    def add_scheduled(
        self, schedule: RunSchedule, run: RecordedRun, following: datetime
    ) -> Effect[bool, RecordErrors]:
        """Add the run of a schedule and move it on; ``False`` when it was done or changed."""
        ...

    def questions(
        self, run_id: RunId | None = None, *, below: bool = False
    ) -> Effect[tuple[OpenQuestion, ...], RecordErrors]:
        """Return the open questions of one run or of all, oldest first.

        Args:
            below: also those of the runs that its tools began.
        """
        ...

    def delete(
        self, *, run_id: RunId | None = None, user: str | None = None, before: datetime | None = None
    ) -> Effect[int, RecordErrors]:
        """Delete runs with their entries; return how many there were.

        Args:
            run_id: this run, in whatever state.
            user: all runs of this user, in whatever state.
            before: runs that ended before this time.
        """
        ...


class QueueEngine(Protocol):
    """Hands the runs of queues to workers, in place of the record.

    It may begin a run more than once; the record sees to it that its work is done once. Every method fails
    with ``RecordFailed``.
    """

    def submit(self, run: RecordedRun) -> Effect[None, RecordErrors]:
        """Add a run of the record to its queue; a second time does nothing."""
        ...

    def submit_again(self, run: RecordedRun) -> Effect[None, RecordErrors]:
        """Add a run whose worker is gone, or could not continue it, to its queue."""
        ...

    def begun(self, agent_id: AgentId, queue: str) -> Effect[tuple[RunId, ...], RecordErrors]:
        """Return the runs that workers took out of a queue, and could begin since."""
        ...

    def listen(
        self, agent_id: AgentId, queue: str, limits: QueueLimits, begin: Callable[[RunId], Awaitable[bool]]
    ) -> Effect[None, RecordErrors | InvalidConfig]:
        """Begin the runs of a queue on this event loop, within the limits.

        Fails with ``InvalidConfig`` where this process cannot have the queue at all.

        Args:
            begin: returns when it is done with a run; ``False`` gives the run to another worker.
        """
        ...

    def stop(self) -> Effect[None, RecordErrors]:
        """Take no more runs out of the queue."""
        ...

    def leave(self) -> Effect[None, RecordErrors]:
        """Give what was not ended to other workers, after ``begin`` has returned."""
        ...


# --- personas -------------------------------------------------------------------------------------------


class TextComparison(Protocol):
    """Compares texts by their meaning."""

    def compare(self, text: str, others: Sequence[str]) -> Effect[tuple[float, ...], MemoryErrors]:
        """Return the similarity to each of the others, 0 to 1, in their order."""
        ...


class Channel(Protocol):
    """A platform whose messages are events, and that takes the answers."""

    def most_bytes(self, headers: Mapping[str, str]) -> int:
        """Return the maximum length of a body, by the headers of its request."""
        ...

    def receive(self, request: ChannelRequest) -> Effect[Received, ChannelRefused]:
        """Return the events of a request, of which nothing is used before it is verified."""
        ...

    async def send(self, event: DomainEvent, text: str, key: str, *, again: bool) -> str:
        """Send a message about an event; return the platform's id of it, if it has one.

        Args:
            key: the same whenever the message is sent again, so that the platform shows it once.
            again: whether an earlier try may have sent it.

        Raises:
            DeliveryDelayed: the platform wants it later.
            Exception: it was not sent.
        """
        ...

    async def typing(self, event: DomainEvent) -> None:
        """Show for half a minute that an answer is being made; nothing depends on it."""

    async def aclose(self) -> None:
        """Close its connections; the next use opens them again."""


class PersonaQueue(Protocol):
    """Work of personas: events, deliveries and evaluations, each done once.

    Every method fails with ``MemoryUnavailable``. A write is durable when its effect ends. A claimed item
    belongs to its holder until its lease ends; what another one writes about it is refused with ``False``.
    """

    def add_event(
        self, room: Room, event: DomainEvent, *, capacity: int | None = None, drop_oldest: bool = False
    ) -> Effect[Submission, MemoryErrors]:
        """Add an event, once by its room and id.

        Args:
            capacity: maximum number of events of the tenant that wait; a full queue takes none, or drops the
                tenant's oldest.
        """
        ...

    def now(self) -> Effect[datetime, MemoryErrors]:
        """Return the time by the clock that all processes share, as that of due times."""
        ...

    def add_schedule(
        self, room: Room, key: str, event: DomainEvent, due: datetime
    ) -> Effect[None, MemoryErrors]:
        """Store an event that comes later; it replaces a different one of its key.

        The same one keeps its time, unless that is later than the new one.
        """
        ...

    def claim(
        self,
        persona_id: PersonaId,
        kind: WorkKind,
        *,
        domains: Sequence[Domain],
        room: Room | None = None,
        schedules: Sequence[str] = (),
    ) -> Effect[WorkItem | None, MemoryErrors]:
        """Claim the next due item of some domains, or of one room.

        An item comes after the others of its kind and room that arrived before it. Among rooms, the one with
        the highest priority is first; of equal ones, each tenant has a turn.

        Args:
            schedules: the keys of those in the notation of cron that are claimed; others are left alone.
        """
        ...

    def begin_task(self, claim: WorkItem, task_id: TaskId) -> Effect[bool, MemoryErrors]:
        """Store the task of an event, under which its journal is."""
        ...

    def replace_event(self, claim: WorkItem, event: DomainEvent) -> Effect[bool, MemoryErrors]:
        """Replace an event, as a guardrail left it."""
        ...

    def engage(self, claim: WorkItem, limits: DailyLimits, since: datetime) -> Effect[str, MemoryErrors]:
        """Count an event among those of a day, unless there are too many.

        Returns whose limit is reached: ``tenant``, ``user``, ``room``, or an empty text when it is counted.
        Of two processes at the border, one is refused.
        """
        ...

    def end_event(self, claim: WorkItem, end: EventEnd) -> Effect[bool, MemoryErrors]:
        """Store the end of an event, all or none; it is ``answered``, and still held."""
        ...

    def end_work(
        self,
        claim: WorkItem,
        status: WorkStatus = "done",
        *,
        reason: str = "",
        message_id: str = "",
        cost_usd: float = 0.0,
        message: NewMessage | None = None,
    ) -> Effect[bool, MemoryErrors]:
        """End an item and give it up.

        Args:
            message: to be delivered in its room, once by its key; it is stored with the end, or not at all.
        """
        ...

    def release(
        self, claim: WorkItem, *, due: datetime | None = None, reason: str = "", cost_usd: float = 0.0
    ) -> Effect[bool, MemoryErrors]:
        """Give an item back; without a reason it was not tried."""
        ...

    def find_work(self, chosen: WorkFilter) -> Effect[tuple[WorkItem, ...], MemoryErrors]:
        """Return the items that fit, the newest first."""
        ...

    def order_work(self, number: int, order: WorkOrder) -> Effect[bool, MemoryErrors]:
        """Do an item again from its first try, or drop it."""
        ...

    def waiting(
        self, persona_id: PersonaId, kind: WorkKind, *, domains: Sequence[Domain]
    ) -> Effect[int, MemoryErrors]:
        """Return the number of items of some domains that no process has under way."""
        ...

    def transcript(
        self, room: Room, *, before: int | None = None, limit: int = 50
    ) -> Effect[tuple[Utterance, ...], MemoryErrors]:
        """Return each event of a room before an item with its answers, oldest first."""
        ...

    def spending(
        self,
        persona_id: PersonaId,
        since: datetime,
        *,
        tenant: str,
        user: str | None = None,
        room: Room | None = None,
    ) -> Effect[Spending, MemoryErrors]:
        """Return what a tenant has used since a time, or one of its users or rooms."""
        ...


class PersonaStore(PersonaQueue, Protocol):
    """Plans, learnings, working memory, the journal and the queue.

    Every method fails with ``MemoryUnavailable``.

    A write of plans and learnings is durable when its effect ends; notes, state and journal may reach the
    disk with a later one. Nothing of one tenant is returned for another.
    """

    def save_plan(
        self,
        plan: PersonaPlan,
        claim: WorkItem | None = None,
        *,
        progress: bool = True,
        cost_usd: float = 0.0,
        journal: Sequence[PersonaEvent] = (),
    ) -> Effect[bool, MemoryErrors]:
        """Store the plan under its id, or return ``False`` when its event is held no more.

        Args:
            progress: whether the tries of the event are counted from zero.
            cost_usd: US dollars of the event since the last time.
            journal: appended to the journal with the plan, or not at all.
        """
        ...

    def get_plan(self, plan_id: PlanId) -> Effect[Maybe[PersonaPlan], MemoryErrors]:
        """Return the plan, or ``Nothing`` when the id is unknown."""
        ...

    def plan_of_event(self, room: Room, event_id: EventId) -> Effect[Maybe[PersonaPlan], MemoryErrors]:
        """Return the newest plan for an event of a room, or ``Nothing``."""
        ...

    def list_plans(
        self,
        persona_id: PersonaId,
        *,
        domain: Domain | None = None,
        context_id: ContextId | None = None,
        tenant: str | None = None,
        status: PlanStatus | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
    ) -> Effect[tuple[PersonaPlan, ...], MemoryErrors]:
        """Return the plans that fit, newest first."""
        ...

    def change_learnings(
        self,
        changes: Sequence[tuple[LearningEntry | None, LearningEntry | None]],
        claim: WorkItem | None = None,
        *,
        plan: tuple[PersonaPlan, PersonaPlan] | None = None,
    ) -> Effect[LearningsChange, MemoryErrors]:
        """Store learnings, and a plan, in place of those that were read, all or none.

        Returns ``stale`` if one of these was changed or deleted since, and ``lost`` if the claim was; nothing
        is stored then.

        Args:
            changes: each learning as it was read, ``None`` for a new one, and what takes its place, ``None``
                to delete it.
            plan: as it was read, and what takes its place.
        """
        ...

    def get_learning(self, learning_id: LearningId) -> Effect[Maybe[LearningEntry], MemoryErrors]:
        """Return the learning, or ``Nothing`` when the id is unknown."""
        ...

    def list_learnings(
        self, persona_id: PersonaId, *, domain: Domain | None = None, tenant: str | None = None
    ) -> Effect[tuple[LearningEntry, ...], MemoryErrors]:
        """Return learnings, the most confident first, then the most used."""
        ...

    def texts_of_other_rooms(self, room: Room, limit: int = 500) -> Effect[tuple[str, ...], MemoryErrors]:
        """Return the newest events of the tenant's other rooms."""
        ...

    def add_thought(self, thought: Thought) -> Effect[None, MemoryErrors]:
        """Add to the working memory; a room keeps the most important, which decay."""
        ...

    def recall_thoughts(
        self, room: Room, *, kinds: Sequence[ThoughtKind] = (), limit: int = 5
    ) -> Effect[tuple[Thought, ...], MemoryErrors]:
        """Return the most important thoughts of one room, of all kinds or some."""
        ...

    def get_self_state(self, room: Room) -> Effect[SelfState, MemoryErrors]:
        """Return the self state in a room; an idle one when none is stored."""
        ...

    def save_self_state(self, state: SelfState) -> Effect[None, MemoryErrors]:
        """Store the self state, replacing the earlier one."""
        ...

    def record(self, event: PersonaEvent) -> Effect[None, MemoryErrors]:
        """Append to the journal."""
        ...

    def journal(self, task_id: TaskId) -> Effect[tuple[PersonaEvent, ...], MemoryErrors]:
        """Return the journal of a task, in order."""
        ...

    def forget(
        self,
        persona_id: PersonaId,
        *,
        user: str | None = None,
        tenant: str | None = None,
        before: datetime | None = None,
    ) -> Effect[int, MemoryErrors]:
        """Delete the work, plans, journals and notes of a user, a tenant or a time.

        Lessons from these events alone go too. Returns the number of events.

        Args:
            before: work that ended before this time; notes and lessons stay.
        """
        ...


# --- safety, cost, verification and audit ---------------------------------------------------------------
# Methods fail with ``ServiceFailed``; only a reservation can also fail with ``BudgetExceeded``.


class Approver(Protocol):
    """Decides on tool calls that need approval.

    One with a true attribute ``has_no_handler`` leaves them to the approver of the agent that its agent works
    for, if there is one.
    """

    def decide(
        self, request: governance.ApprovalRequest
    ) -> Effect[governance.ApprovalDecision, ServiceFailed]:
        """Return the decision of a person or policy; without one in time, a denial."""
        ...


class RequestDesk(Protocol):
    """Passes questions and external calls to people and other programs."""

    def reply(self, request: governance.PersonRequest) -> Effect[governance.Reply, ServiceFailed]:
        """Return the reply, or why none came in the time of the request.

        The request is pending from this call on, before the effect is awaited.
        """
        ...

    def handles(self, request: governance.PersonRequest) -> bool:
        """Return whether the desk itself has anyone to ask.

        A request of a run that a tool of another run began otherwise goes to the desk of that one.
        """
        ...


class Guardrail(Protocol):
    """Checks texts that enter or leave a run."""

    def check(
        self, text: str, stage: governance.GuardrailStage, llm: LLM | None = None
    ) -> Effect[governance.GuardrailReport, ServiceFailed]:
        """Check a text; a failure blocks the run. ``llm`` is on the run's account."""
        ...


class CostRouter(Protocol):
    """Chooses the model for a task."""

    def select_model(
        self, task: Task, needs: governance.RouteNeeds
    ) -> Effect[governance.ModelRoute, ServiceFailed]:
        """Return the cheapest capable model for a task and its needs, and why."""
        ...


class SpendingGuard(Protocol):
    """Enforces budgets: an amount is reserved before a model call, and settled after.

    All processes that share a budget together stay within it. Days and months are in UTC.
    """

    def reserve(self, run_id: RunId, amount_usd: float) -> Effect[governance.Reservation, BudgetErrors]:
        """Reserve the most that will be spent, in US dollars, or fail: ``BudgetExceeded``."""
        ...

    def settle(
        self, reservation: governance.Reservation, actual_usd: float
    ) -> Effect[tuple[governance.BudgetUse, ...], ServiceFailed]:
        """Replace a reservation by the actual amount; return the used part of each limit.

        A second time changes nothing. ``actual_usd``: 0 or more; it may exceed the reservation.
        """
        ...

    def spend(
        self, run_id: RunId, amount_usd: float
    ) -> Effect[tuple[governance.BudgetUse, ...], ServiceFailed]:
        """Enter what is spent already, regardless of limits; return their used parts."""
        ...


class CostTracker(Protocol):
    """Records the usage and cost of runs."""

    def record(self, spending: governance.SpendingRecord) -> Effect[None, ServiceFailed]:
        """Record the usage of a run by model; called once a run, also when it failed.

        It is called again when a cancellation interrupted the call: a recorded run must stay unchanged.
        """
        ...


class Verifier(Protocol):
    """Checks whether an answer is supported by the evidence of the run."""

    def verify(
        self, task: Task, result: ReasoningResult, *, llm: LLM, model: str | None = None
    ) -> Effect[governance.VerificationReport, ServiceFailed]:
        """Return the report, with a confidence from 0 to 1.

        Args:
            llm: what the run asks its models by; calls of the verifier are accounted for as the run's own.
            model: the model of the run; ``None`` for the one that answers requests which name none.
        """
        ...


class AuditLog(Protocol):
    """An append-only log of actions.

    A durable run whose process is killed after :meth:`append`, before that is recorded, appends the entry
    again when it continues: one that is equal in all fields but ``at``. A log that has the method
    ``holds(entry)`` is asked before that whether it has the entry of the run, and is then not given it twice.
    """

    def append(self, entry: governance.AuditEntry) -> Effect[None, ServiceFailed]:
        """Add an entry; durable when the effect ends."""
        ...
