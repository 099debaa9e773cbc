"""The record of a run: its answers from outside, by the names of its calls.

Decisions are pure and the world is behind ports, so a run is a function of what its ports answered. With the
answers a run can be continued, replayed, or begun once more with another course from some call on.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo

from attrs import field, frozen

from reactive_agents.core.ids import AgentId, RunId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.tasks import Task
from reactive_agents.core.values import Value

RunStatus: TypeAlias = Literal["queued", "open", "completed", "partial", "abstained", "failed", "cancelled"]
"""An open run is running, paused or interrupted; one that is queued has not begun."""
RunState: TypeAlias = Literal[
    "queued",
    "running",
    "paused",
    "waiting",
    "interrupted",
    "completed",
    "partial",
    "abstained",
    "failed",
    "cancelled",
    "unreadable",
]
"""The status of a run as it is listed: what an open run does, and whether it waits for a person.

One that is encrypted with another key, or of a form that is not known here, is unreadable.
"""
RunOrder: TypeAlias = Literal["", "pause", "stop", "cancel", "lost"]
"""The order of another process to a run; ``lost`` is that it belongs to another one now."""
OwedStore: TypeAlias = Literal["sessions", "cost", "memory", "audit"]
"""A store of an agent, apart from its record, to which an ended run is written."""
AUDITED, END_AUDITED = "audit.append1", "audit.end1"
"""The keys of the entries that the beginning and the end of a run are in the audit log of its agent."""
EntryKind: TypeAlias = Literal["request", "model", "intent", "result", "service", "question", "answer"]


@frozen(eq=False, repr=False)
class RunEntry(Value):
    """One entry of a record.

    Attributes:
        key: the name of the call, unique in its run.
        at: the time of day in UTC when it was recorded; what the run sees as the present after it.
        body: the data of the entry, as JSON text.
        number: its place in the record, from 1; 0 for one that is not stored.
    """

    key: str
    kind: EntryKind
    at: datetime
    body: str = field(repr=False)
    number: int = 0


@frozen(eq=False, repr=False)
class RecordedRun(Value):
    """A run in a record.

    Attributes:
        definition: digests of the parts of the agent's definition, by their names.
        parent: the run whose tool began this one.
        origin: the run that this one was forked from, whose first entries it shares.
        origin_entries: number of the last entry that it shares.
        changes: what a forked run does otherwise, as JSON text; empty for nothing.
        attempt: how often a process has begun or continued it.
        result: the outcome as JSON text; empty until the run has ended.
        state: what it does now; as of the time when it was read.
        is_held: whether a process has it under way now.
        order: the order of another process that it has not carried out.
        entries: number of entries that it does not share.
        queue: the queue that it waits or waited in; empty for none.
        priority: the queued runs with the highest number come first.
        due: when a queued run may begin; ``None`` for at once.
        owes: the stores that could not be written to when the run ended, and that it is written to later.
    """

    run_id: RunId
    agent_id: AgentId
    task: Task
    definition: Mapping[str, str] = field(factory=dict)
    status: RunStatus = "open"
    parent: RunId | None = None
    origin: RunId | None = None
    origin_entries: int = 0
    changes: str = field(default="", repr=False)
    attempt: int = 0
    result: str = field(default="", repr=False)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    state: RunState = "interrupted"
    is_held: bool = False
    order: RunOrder = ""
    entries: int = 0
    queue: str = ""
    priority: int = 0
    due: datetime | None = None
    owes: tuple[OwedStore, ...] = ()

    @property
    def has_ended(self) -> bool:
        """Whether the run has its outcome, so that no process goes on with it."""
        return self.status not in ("open", "queued")


_ENDED_PROCESSES, _LONGEST_PAUSE_S = 3, 600
"""Attempts after which a run whose process is gone waits, so that others of its queue are done."""


def pause_after(attempts: int) -> timedelta:
    """Return how long a run whose process is gone waits for the next one."""
    if attempts < _ENDED_PROCESSES:
        return timedelta()
    return timedelta(seconds=min(1 << min(attempts - _ENDED_PROCESSES, 10), _LONGEST_PAUSE_S))


def may_end_process(attempts: int, order: RunOrder) -> bool:
    """Return whether a run goes on alone, since the processes that had it are gone."""
    return attempts >= _ENDED_PROCESSES and order != "cancel"


@frozen(eq=False, repr=False)
class QueueLimits(Value):
    """How many runs of a queue are begun.

    Attributes:
        concurrency: the most at the same time in one worker, 1 or more.
        total: the most at the same time in all workers, 1 or more; ``None`` for no limit.
        rate: the most that all workers begin within ``period_s``, 1 or more; ``None`` for no limit.
        period_s: seconds, above 0.
    """

    concurrency: int = 4
    total: int | None = None
    rate: int | None = None
    period_s: float = 60.0


@frozen(eq=False, repr=False)
class RunSchedule(Value):
    """Runs that begin again and again, at times in the notation of cron.

    Attributes:
        name: unique among those of its agent; the ids of its runs begin with it.
        cron: five fields, or six with seconds as the first one.
        timezone: the time zone of the times, such as ``Europe/Berlin``.
        next_at: when the next run is due, in UTC.
    """

    name: str
    agent_id: AgentId
    cron: str
    task: Task
    next_at: datetime
    timezone: str = "UTC"
    queue: str = "default"
    priority: int = 0


def next_time(cron: str, timezone: str, after: datetime) -> datetime:
    """Return the first time after another one that fits, in UTC.

    Raises:
        ValueError: the notation or the time zone is wrong, or croniter of the extra ``durable`` is missing.
    """
    return _time_of(cron, timezone, after, "get_next")


def latest_time(cron: str, timezone: str, due: datetime, now: datetime) -> datetime:
    """Return the latest time of a schedule that is due.

    Of several that were missed, it is the one that is made up for.

    Args:
        due: the earliest of them.
    """
    before = now.replace(microsecond=0) + timedelta(seconds=1)  # the second of now is due
    return max(due, _time_of(cron, timezone, before, "get_prev"))


def _time_of(cron: str, timezone: str, start: datetime, step: Literal["get_next", "get_prev"]) -> datetime:
    try:
        from croniter import croniter
    except ImportError as error:
        raise ValueError(f"the extra 'durable', which reads it ({error})") from None
    if len(cron.split()) > 6:
        raise ValueError("five fields, or six with seconds")
    try:
        times = croniter(cron, start.astimezone(ZoneInfo(timezone)), second_at_beginning=True)
        found: datetime = getattr(times, step)(datetime)
    except (ValueError, KeyError, OSError) as error:  # croniter's errors are ValueErrors
        raise ValueError(f"times in the notation of cron, in a known time zone ({error})") from None
    return found.astimezone(UTC)


ClaimState: TypeAlias = Literal["new", "taken", "held", "ended"]


@frozen(eq=False, repr=False)
class RunClaim(Value):
    """The outcome of claiming a run.

    Attributes:
        state: ``new`` and ``taken`` runs belong to the caller now; a run that is ``held`` belongs to another
            process, or another task of this one. One that has ``ended`` belongs to the caller if it owes.
        holder: names the caller in what it writes.
        owing: ended runs of the agent that owe, those of the same session first; not all, if there are many.
    """

    run: RecordedRun
    state: ClaimState
    holder: str = ""
    owing: tuple[RunId, ...] = ()


QuestionKind: TypeAlias = Literal["approval", "question", "call", "doubt", "unreadable"]


@frozen(eq=False, repr=False)
class OpenQuestion(Value):
    """A question of a run that waits for a person or another program.

    Attributes:
        key: names the question in its run.
        kind: a call to approve, a question of the model, a call that another program executes, or a call in
            doubt, which is approved to be made again or answered with its result; ``unreadable`` for one that
            is encrypted with another key.
        asked_at: the time of day in UTC.
        request: what is asked, as JSON data.
        user: of the run, or of the next run above it that has one.
        parent: the run that began the run, by a tool or a handoff.
    """

    run_id: RunId
    key: str
    kind: QuestionKind
    asked_at: datetime
    request: JsonObject
    user: str | None = None
    parent: RunId | None = None


@frozen(eq=False, repr=False)
class RunFilter(Value):
    """Which runs are listed, the latest first; each field that is given must fit.

    Attributes:
        children: whether runs that a tool of another run began are listed too.
        parent: the run whose tools began them; they are listed whatever ``children`` says.
        brief: whether results come without what led to them: steps, messages, tool results, sub-runs.
    """

    agent_id: AgentId | None = None
    state: RunState | None = None
    user: str | None = None
    queue: str | None = None
    limit: int = 100
    children: bool = False
    parent: RunId | None = None
    brief: bool = False


# --- Logged runs and their events, as they are read afterwards -------------------------------------------


@frozen(eq=False, repr=False)
class LoggedRun(Value):
    """One run in a run log.

    Attributes:
        agent: the agent's name.
        parent: the run whose tool began it.
        task: what the agent was asked, redacted.
        status: ``running`` or ``interrupted`` while no end is logged, then that of the result, ``failed`` or
            ``cancelled``.
        terminated_by: what ended it; empty while no end is logged.
        detail: the reason of the result, or the message of the error.
        version: the version of the package that ran it.
        events: how many events it has.
    """

    run_id: RunId
    agent: str
    started_at: datetime
    task: str
    status: str = "running"
    parent: RunId | None = None
    session: str | None = None
    user: str | None = None
    tags: tuple[str, ...] = ()
    ended_at: datetime | None = None
    terminated_by: str = ""
    detail: str = ""
    model_calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    version: str = ""
    events: int = 0

    @property
    def duration_s(self) -> float | None:
        """Wall-clock seconds; ``None`` while no end is logged."""
        return None if self.ended_at is None else (self.ended_at - self.started_at).total_seconds()

    def contains(self, text: str) -> bool:
        """Return whether its task, reason or names contain a text, in capitals or not."""
        words = (self.task, self.detail, self.run_id, self.agent, self.user or "", self.session or "")
        return text.lower() in "\n".join((*words, *self.tags)).lower()


@frozen(eq=False, repr=False)
class LoggedRunFilter(Value):
    """Which runs are wanted; ``None`` for all.

    Attributes:
        tagged: only runs with this tag.
        tool: a tool that the run has called.
        since: when the run began, at the earliest.
        before: when the run began, exclusive.
        least_cost_usd: only runs that cost at least this many US dollars.
        children: whether runs that tools began are listed as well.
        limit: the most runs, 1 or more.
        parent: the run whose tools began them.
        text: a part of the task, the answer's reason, the id or a name of the run, in upper or lower case.
        brief: whether only the first thousand characters of a task are read, which is enough for a list.
    """

    agent: str | None = None
    user: str | None = None
    session: str | None = None
    status: str | None = None
    tagged: str | None = None
    tool: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    least_cost_usd: float | None = None
    children: bool = False
    limit: int = 20
    parent: RunId | None = None
    text: str | None = None
    brief: bool = False


@frozen(eq=False, repr=False)
class LoggedEvent(Value):
    """One event of a logged run.

    Attributes:
        sequence: position in the run, from 1; the events of a run that was continued follow those before.
        kind: the name of its class.
        subject: the tool, the purpose of a model call, the phase or the policy that it is about, if any.
        body: its fields as JSON, redacted; the messages of a request are those that the model was sent.
    """

    run_id: RunId
    sequence: int
    at: datetime
    kind: str
    subject: str
    body: JsonObject
