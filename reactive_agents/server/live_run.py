"""A run in this process: its buffered events, its open requests, its status.

The latest events are buffered under their numbers, so that a reader that was cut off can resume.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias, TypeVar, cast

import anyio
from attrs import define, evolve, field, fields, frozen, has

from reactive_agents.adapters.tools.decorator import Tool
from reactive_agents.agent.errors import AgentError
from reactive_agents.core import errors, events
from reactive_agents.core.codec import encode
from reactive_agents.core.content import Content
from reactive_agents.core.events import AgentEvent
from reactive_agents.core.ids import RunId, TaskId
from reactive_agents.core.json import Json, JsonObject, json_bytes, texts_in
from reactive_agents.core.messages import Message
from reactive_agents.core.run_record import OpenQuestion, QuestionKind, RecordedRun, RunState
from reactive_agents.core.tasks import Task
from reactive_agents.core.texts import without_folders
from reactive_agents.core.tools import FINAL_ANSWER
from reactive_agents.engine.guardrail import WITHHELD
from reactive_agents.server.access import Principal

_Event = TypeVar("_Event", bound=AgentEvent)

MOST_EVENTS = 10_000
"""The maximum of buffered events of a run; a stream that is further behind misses the oldest."""
_MOST_CACHED = 100_000
"""Bytes of an event whose JSON text is kept with it."""
_KINDS: Final[Mapping[type[AgentEvent], QuestionKind]] = {
    events.ApprovalRequested: "approval",
    events.QuestionAsked: "question",
    events.ExternalCallRequested: "call",
}


@define(eq=False)
class KeptEvent:
    """A numbered event, and its JSON text once a stream needs it."""

    number: int
    event: AgentEvent
    data: bytes = b""

    @property
    def kind(self) -> str:
        """The name of the event's class."""
        return type(self.event).__name__

    def json(self) -> bytes:
        """Return the event as JSON text."""
        if self.data:
            return self.data
        data = json_bytes(encode(self.event, events.AgentEvent))
        if len(data) <= _MOST_CACHED:
            self.data = data
        return data


@define(eq=False)
class LiveRun:
    """A run that is, or was, in progress in this process.

    Attributes:
        agent: the name of the agent in the API.
        task: the run's task, as its events show it; without text before they do.
        principal: the sender who began the run.
        asked: the request that began it; ``None`` if it was continued.
        is_guarded: whether a guardrail checks the answer; its texts are not buffered before that.
        token: identifies this attempt, whose event numbers differ from those of an earlier one.
        outcome: the last event; ``None`` while it is in progress, and if it was interrupted.
        refusal: why it could not begin.
        requests: the open requests to people, by run and id.
        ended_at: seconds of the monotonic clock; ``None`` while it is in progress.
        text: characters of its request, buffered tool results and answer, once it has ended.
    """

    agent: str
    task: Task
    principal: Principal
    is_durable: bool
    asked: RunRequest | None = None
    is_guarded: bool = False
    run_id: RunId = field(default=RunId(""))
    task_id: TaskId = field(default=TaskId(""))
    created_at: datetime | None = None
    token: str = field(factory=lambda: secrets.token_hex(4))
    kept: deque[KeptEvent] = field(factory=deque)
    last: int = 0
    outcome: events.TaskCompleted | events.TaskFailed | None = None
    refusal: AgentError | None = None
    is_paused: bool = False
    is_interrupted: bool = False
    requests: dict[tuple[RunId, str], AgentEvent] = field(factory=dict)
    run_ids: set[RunId] = field(factory=set)
    ended_at: float | None = None
    text: int = 0
    on_end: list[Callable[[], object]] = field(factory=list)
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    _changed: anyio.Event | None = None
    _turned: anyio.Event = field(factory=anyio.Event)

    def take(self, event: AgentEvent) -> None:
        """Buffer an event of the run or of a sub-run."""
        waited = self.waits_for_person
        if not self.last:
            self.run_id, self.task_id = event.run_id, event.task_id
            self.created_at = event.at
        if isinstance(event, events.ModelCallStarted) and event.request is not None:
            event = evolve(event, request=None)  # the instructions are not for the users of the program
        event = without_folders_of(event)
        self.run_ids.add(event.run_id)
        kept = event if not self.is_guarded else _without_unchecked(event, self.run_id)
        if kept is not None:
            self.last += 1
            self.kept.append(KeptEvent(self.last, kept))
        if len(self.kept) > MOST_EVENTS:
            self.kept.popleft()
        match event:
            case events.ApprovalRequested(approval_id=request) | events.QuestionAsked(question_id=request):
                self.requests[event.run_id, request] = event
            case events.ExternalCallRequested(tool_call_id=request):
                self.requests[event.run_id, request] = event
            case events.ApprovalDecided(approval_id=request) | events.QuestionAnswered(question_id=request):
                self.requests.pop((event.run_id, request), None)
            case events.ExternalCallDelivered(tool_call_id=request):
                self.requests.pop((event.run_id, request), None)
            case events.TaskStarted() if event.run_id == self.run_id:
                self.task = evolve(self.task, input=event.input, metadata=event.metadata)
                self.outcome = None  # that of an attempt elsewhere in this process
            case events.ExecutionPaused() if event.run_id == self.run_id:
                self.is_paused = True
            case events.ExecutionResumed() if event.run_id == self.run_id:
                self.is_paused = False
            case events.TaskCompleted() | events.TaskFailed() if event.run_id == self.run_id:
                self.outcome = event
        if self.waits_for_person != waited:
            self._turn()
        self._wake()

    def end(self, now: float) -> None:
        """Accept no more events."""
        self.ended_at = now
        of_events = (each.event for each in self.kept)
        results = [each.result for each in of_events if isinstance(each, events.ToolCallCompleted)]
        answer = self.outcome.result.output if isinstance(self.outcome, events.TaskCompleted) else None
        asked = self.task.input if self.asked is None else self.asked.content
        self.text = sum(map(len, texts_in([asked, *results, answer])))
        self.requests.clear()
        self.is_interrupted = self.outcome is None
        for each in self.on_end:
            each()
        self._turn()
        self._wake()

    @property
    def has_ended(self) -> bool:
        """Whether no more events can follow."""
        return self.ended_at is not None

    @property
    def is_left(self) -> bool:
        """Whether this process left a durable run before its end."""
        error = self.outcome.error if isinstance(self.outcome, events.TaskFailed) else None
        is_refused = isinstance(error, errors.RunInterrupted | errors.RunRefused)
        return self.is_durable and (self.is_interrupted or is_refused)

    @property
    def state(self) -> RunState:
        """The state of the run in lists."""
        match self.outcome:
            case events.TaskCompleted(result=result):
                return result.status
            case events.TaskFailed() if self.is_left:
                return "interrupted"
            case events.TaskFailed() as failed:
                return failed.status
        if self.is_interrupted:
            return "failed" if self.refusal is not None else "interrupted"
        return "waiting" if self.requests else "paused" if self.is_paused else "running"

    @property
    def questions(self) -> tuple[OpenQuestion, ...]:
        """The open requests, in the form of a record."""
        return tuple(
            OpenQuestion(run_id, request, _KINDS[type(event)], event.at, cast("JsonObject", encode(event)))
            for (run_id, request), event in self.requests.items()
        )

    @property
    def waits_for_person(self) -> bool:
        """Whether it goes on only when a person answers or resumes it."""
        return self.state in ("waiting", "paused")

    async def changed(self, seconds: float) -> bool:
        """Wait up to these seconds for the next event or the end; return whether it came."""
        if self.has_ended:
            return True
        if self._changed is None:
            self._changed = anyio.Event()
        with anyio.move_on_after(seconds) as waiting:
            await self._changed.wait()
        return not waiting.cancelled_caught

    async def follow(
        self, after: int = 0, *, silence_s: float = 15.0
    ) -> AsyncGenerator[KeptEvent | None, None]:
        """Yield the events after a number, until the run has ended.

        Yields ``None`` after a pause. Skips events that are no longer buffered: the numbers have a gap.
        """
        while True:
            while after < self.last and self.kept:
                first = self.kept[0].number
                found = self.kept[max(after + 1, first) - first]
                after = found.number
                yield found
            if self.has_ended:
                return
            if not await self.changed(silence_s):
                yield None

    async def refused_after_start(self, seconds: float) -> errors.RunRefused | None:
        """Return why the run is refused, which the event after its start says.

        Waits up to these seconds for that event.
        """
        while self.last and not self.has_ended and self.kept[-1].kind in ("TaskStarted", "RunContinued"):
            if not await self.changed(seconds):
                break
        error = self.outcome.error if isinstance(self.outcome, events.TaskFailed) else None
        return error if isinstance(error, errors.RunRefused) else None

    async def until_ended(self) -> None:
        """Wait for the end of the run."""
        while not self.has_ended:
            await self.turned()

    async def turned(self) -> None:
        """Wait until the run begins or ceases to wait for a person, or ends."""
        await self._turned.wait()

    def _turn(self) -> None:
        turned, self._turned = self._turned, anyio.Event()
        turned.set()

    def _wake(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()


Run: TypeAlias = LiveRun | RecordedRun
"""A run of this process, or one that is found in its record alone."""


@frozen
class RunRequest:
    """A run that a client asks for.

    Attributes:
        text: the task, with the labels of its parts.
        user: the user of the run; ``None`` for that of the key.
        key: the idempotency key: repeated requests begin the run once; ``None`` for a new run.
        run_id: the id of the new run; by default a new id.
        tools: further tools of this run, which is then never queued.
    """

    text: str
    parts: tuple[Content, ...] = ()
    user: str | None = None
    session: str | None = None
    history: tuple[Message, ...] = ()
    metadata: Mapping[str, Any] = field(factory=dict)
    tags: Sequence[str] = ()
    settings: Any = None
    key: str | None = None
    run_id: RunId | None = None
    tools: Sequence[Tool] = ()

    @property
    def content(self) -> Json:
        """Its fields that may be large, as JSON data."""
        return [self.text, encode(self.parts), encode(self.history), dict(self.metadata)]

    @property
    def work(self) -> tuple[object, ...]:
        """Its fields that a repeated request shares; labels of parts are in the text."""
        return self.text, self.session, self.history, dict(self.metadata), tuple(self.tags), self.settings


def without_folders_of(event: _Event) -> _Event:
    """Return an event for clients, whose error names no folder of this machine.

    The run log and the log of the process have the whole path.
    """
    error: Any = getattr(event, "error", None)
    return evolve(event, error=_without_folders(error)) if error else event


def _without_folders(value: Any) -> Any:
    if isinstance(value, str):
        return without_folders(value) if " " in value else value  # a sentence, not an id
    if not has(type(value)):
        return value
    named = {each.alias: getattr(value, each.name) for each in fields(type(value)) if each.init}
    return evolve(value, **{name: _without_folders(each) for name, each in named.items()})


def _without_unchecked(event: AgentEvent, run_id: RunId) -> AgentEvent | None:
    """Return an event without texts that the guardrail has not checked.

    These are the model's texts before its answer is checked, and the tasks of sub-runs. ``None`` for an event
    that contains nothing else.
    """
    match event:
        case (
            events.ModelTextStreamed()
            | events.ModelThinkingStreamed()
            | events.ToolArgumentsStreamed()
            | events.FinalAnswerProduced()
            | events.GuidanceGiven()  # which may quote the answer that it rejects
            | events.ThoughtsJudged()
        ):
            return None
        case events.ReasoningStepCompleted():
            return evolve(event, thought=None, action=None, observation=None)
        case events.PlanCreated(steps=steps) | events.PlanRevised(steps=steps):
            return evolve(event, steps=tuple(evolve(each, result=None, error=None) for each in steps))
        case events.TaskStarted() if event.run_id != run_id:
            return evolve(event, input="")
        case events.PlanStepChanged():
            return evolve(event, error="")
        case events.HandedOff():
            return evolve(event, reason="")
        case events.ToolCallCompleted(tool_name=name) if event.run_id != run_id or name == FINAL_ANSWER:
            return evolve(event, result=None, error="")
        case events.TaskCompleted(result=result):
            kept: Any = evolve(result, steps=(), new_messages=(), tree=None, sub_runs=())
            if event.run_id != run_id:
                kept = evolve(kept, output=WITHHELD, deliverables=(), tool_results={})
            return evolve(event, result=kept)
        case events.TaskFailed():
            return evolve(event, steps=())
        case _:
            return event
