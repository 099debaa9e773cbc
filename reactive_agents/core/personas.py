"""Values of personas: events, plans, outcomes, learnings and settings."""

from __future__ import annotations

import re
from datetime import datetime
from math import log2
from typing import Literal, NewType, TypeAlias
from zoneinfo import ZoneInfo

from attrs import Attribute, evolve, field, frozen
from attrs.validators import and_, ge, gt, le, min_len, optional

from reactive_agents.core.codec import abbreviated
from reactive_agents.core.conversation import LONGEST_NAME
from reactive_agents.core.errors import InvalidEvent, StepErrors
from reactive_agents.core.ids import ContextId, EventId, LearningId, PersonaId, PlanId, RunId, TaskId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.values import OMITTED, Value

ThoughtId = NewType("ThoughtId", str)

Domain: TypeAlias = str
"""The source of events: ``chat``, ``code``, ``game``, ``academy``, or a custom name."""

ErrorKind: TypeAlias = Literal[
    "timeout", "rate_limit", "missing_resource", "access_denied", "network", "unknown"
]
AdjustmentAction: TypeAlias = Literal["CONTINUE", "CONTINGENCY", "REPLAN", "ABORT"]
ThoughtKind: TypeAlias = Literal["observation", "decision", "self-reflection"]
PlanSource: TypeAlias = Literal["model", "reused", "template", "reactive"]
"""The origin of a plan: the model, an earlier plan, a template; ``reactive`` is a single step."""

LearningChange: TypeAlias = Literal["created", "confirmed", "weakened", "doubted", "dropped", "shared"]
"""``shared``: from now on it is used in every room of its tenant. ``doubted``: others like it just failed."""

EvidenceSource: TypeAlias = Literal["model", "calls", "check", "users"]
"""By what an outcome was judged: the model's verdict, a tool call that failed last, the check of the program,
or the reactions of users; each counts more than those before it."""

LearningSharing: TypeAlias = Literal["general", "reviewed", "room"]
"""``general``: a lesson without anything of its room is used in every room of the tenant; ``reviewed``: one
that a person has approved; ``room``: none."""

_fraction = and_(ge(0.0), le(1.0))
LONGEST_CONTENT = 1_000_000
"""Maximum characters of an event; channels take less."""
_NO_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What no name has: characters that break a line or command a terminal, and halves of characters."""


@frozen(eq=False, repr=False)
class Feedback(Value):
    """The reaction of a user to the answer of a plan.

    ``good``: whether it was liked; the latest reaction of each user counts. ``at``: ``None`` where an earlier
    version stored it.
    """

    plan_id: PlanId
    user: str
    good: bool
    at: datetime | None = field(default=None, metadata=OMITTED)


@frozen(eq=False, repr=False)
class DomainEvent(Value):
    """An event of a domain. Its content is untrusted text.

    Attributes:
        context_id: the room, file or session that it belongs to; events of one context keep their order.
        author: who caused it; a persona recognises its own events by it, and its messages by having none.
        priority: 0 to 1; of events that wait, those of a higher priority come first.
        user: the author's id at the platform; empty where the name is the id.
        tenant: the customer of the program whose room it is; nothing of one reaches another.
        feedback: what the author thinks of an earlier answer; such an event is not answered.
    """

    id: EventId
    context_id: ContextId
    author: str
    content: str
    at: datetime
    priority: float = field(default=0.5, validator=_fraction)
    details: JsonObject = field(factory=dict)
    user: str = ""
    tenant: str = ""
    feedback: Feedback | None = field(default=None, metadata=OMITTED)

    @property
    def user_id(self) -> str:
        """The id of the author, for limits, retention and deletion."""
        return self.user or self.author

    @property
    def problem(self) -> InvalidEvent | None:
        """The first field that is blank, too long, or a name with wrong characters."""
        names = {"id": self.id, "context_id": self.context_id, "author": self.author}
        for name, text in {"content": self.content, **names}.items():
            if not text.strip():
                return InvalidEvent(name, self.id, abbreviated(text))
        if len(self.content) > LONGEST_CONTENT:
            expected = f"at most {LONGEST_CONTENT:,} characters"
            return InvalidEvent("content", self.id, abbreviated(self.content), expected)
        for name, text in {**names, "user": self.user, "tenant": self.tenant}.items():
            if len(text) > LONGEST_NAME or _NO_NAME.search(text) is not None:
                expected = f"a name of at most {LONGEST_NAME} characters, none of them a control character"
                return InvalidEvent(name, self.id, abbreviated(text), expected)
        return None


@frozen(eq=False, repr=False)
class Room(Value):
    """The place that an event belongs to, and that notes and transcripts stay in.

    Attributes:
        context_id: the room, file or session, unique within the domain and the tenant.
        tenant: the customer of the program; empty where there is one.
    """

    persona_id: PersonaId
    domain: Domain
    context_id: ContextId
    tenant: str = ""

    @property
    def key(self) -> str:
        """Its name among those of all rooms.

        >>> Room("ada", "chat", "chat/r", "x").key, Room("ada", "chat", "r", "x/chat").key
        ('ada/x/chat/chat%2Fr', 'ada/x%2Fchat/chat/r')
        """
        return joined_names(self.persona_id, self.tenant, self.domain, self.context_id)


def joined_names(*names: str) -> str:
    """Return one name for several, which no others have."""
    return "/".join(each.replace("%", "%25").replace("/", "%2F") for each in names)


@frozen(eq=False, repr=False)
class PersonaTask(Value):
    """The task that a persona derives from an event; its ``priority`` is 0 to 1."""

    id: TaskId
    domain: Domain
    context_id: ContextId
    description: str
    priority: float
    triggered_by: EventId
    created_at: datetime


@frozen(eq=False, repr=False)
class EngagementDecision(Value):
    """Whether a persona engages with an event, and the reason in a sentence.

    ``refused``: it declines because of a limit, and the author may try again later.
    """

    engage: bool
    reason: str
    refused: bool = False


@frozen(eq=False, repr=False)
class Contingency(Value):
    """The steps to execute instead of one that failed with a kind of error."""

    kind: ErrorKind
    actions: tuple[str, ...]


@frozen(eq=False, repr=False)
class TemplateStep(Value):
    """One step of a template; ``{name}`` in its texts is replaced by a parameter."""

    action: str = field(validator=min_len(1))
    expected: str = ""


@frozen(eq=False, repr=False)
class PlanTemplate(Value):
    """A plan for a known kind of event, made without a model.

    Attributes:
        name: unique within its domain.
        pattern: a regular expression that the content of such an event matches as a whole; its named groups
            are the parameters.
        goal: with ``{name}`` for a parameter, as in the steps, contingencies and criteria.
        steps: one or more.
    """

    name: str
    pattern: str
    goal: str
    steps: tuple[TemplateStep, ...]
    contingencies: tuple[Contingency, ...] = ()
    success_criteria: tuple[str, ...] = ()


@frozen(eq=False, repr=False)
class EventSchedule(Value):
    """An event that comes again and again, at times in the notation of cron.

    Attributes:
        name: unique within its domain; the ids of its events begin with it.
        cron: five fields, or six with seconds as the first one.
        content: of each event.
        context: the room, file or session.
        timezone: in which the times are meant, such as ``Europe/Berlin``.
        author: of each event.
        priority: 0 to 1.
        tenant: the customer of the program whose room it is.
        misfire_grace_s: seconds after its time at which an event that was missed still comes, 1 or more;
            ``None`` for any time after.
    """

    name: str = field(validator=min_len(1))
    cron: str
    content: str = field(validator=min_len(1))
    context: str = "default"
    timezone: str = "UTC"
    author: str = field(default="schedule", validator=min_len(1))
    priority: float = field(default=0.5, validator=_fraction)
    tenant: str = ""
    misfire_grace_s: float | None = field(default=None, validator=optional(ge(1.0)))


@frozen(eq=False, repr=False)
class Recovery(Value):
    """A contingency that was used: ``steps`` replace ``failed_step``."""

    failed_step: str
    kind: ErrorKind
    steps: tuple[str, ...]


@frozen(eq=False, repr=False)
class Expansion(Value):
    """A large step that was planned. ``steps``: the ids of the steps that replace it."""

    step_id: str
    steps: tuple[str, ...]


@frozen(eq=False, repr=False)
class PersonaPlan(Value):
    """A plan of a persona: the plan itself, its origin, and the persona's additions.

    Attributes:
        plan: goal, steps, status, ids and times; steps that were replaced stay in it as ``skipped``.
        event: the event that the task was derived from.
        learnings: known facts that the model listed as relevant.
        follows: the learned patterns that the plan follows.
        attempts: how often it was replanned after a failure.
        recoveries: the contingencies that were used, oldest first.
        large_steps: ids of steps that are planned when they are reached.
        expansions: the large steps that were planned, oldest first; they count as completed.
        succeeded: whether it met its criteria; ``None`` until it was evaluated.
        derived_from: the plan that it reuses, or the name of its template.
        feedback: the reactions of users to its answer, one each.
    """

    plan: Plan
    persona_id: PersonaId
    task: PersonaTask
    event: DomainEvent
    source: PlanSource
    learnings: tuple[str, ...] = ()
    follows: tuple[LearningId, ...] = ()
    risks: tuple[str, ...] = ()
    contingencies: tuple[Contingency, ...] = ()
    success_criteria: tuple[str, ...] = ()
    attempts: int = field(default=0, validator=ge(0))
    recoveries: tuple[Recovery, ...] = ()
    large_steps: frozenset[str] = frozenset()
    expansions: tuple[Expansion, ...] = ()
    succeeded: bool | None = None
    derived_from: str = ""
    feedback: tuple[Feedback, ...] = field(default=(), metadata=OMITTED)

    @property
    def liked(self) -> bool | None:
        """Whether more users liked its answer than not; ``None`` for a tie or none."""
        balance = sum(1 if each.good else -1 for each in self.feedback)
        return None if balance == 0 else balance > 0

    @property
    def id(self) -> PlanId:
        """The id of the plan."""
        return self.plan.id

    @property
    def domain(self) -> Domain:
        """The domain of the task."""
        return self.task.domain

    @property
    def context_id(self) -> ContextId:
        """The context of the task."""
        return self.task.context_id

    @property
    def room(self) -> Room:
        """The room of the event."""
        return Room(self.persona_id, self.task.domain, self.task.context_id, self.event.tenant)

    @property
    def next_step(self) -> PlanStep | None:
        """The first step that is neither completed nor failed nor skipped."""
        open_steps = (step for step in self.plan.steps if step.status in ("pending", "in_progress"))
        return next(open_steps, None)

    def with_plan(self, **changes: object) -> PersonaPlan:
        """Return a copy with some fields of the plan changed."""
        return evolve(self, plan=evolve(self.plan, **changes))  # type: ignore[arg-type]


@frozen(eq=False, repr=False)
class StepCall(Value):
    """One tool call of a step, its texts shortened, its arguments as JSON.

    ``approved``: ``None`` for a call without approval; ``success``: ``None`` for one without a result;
    ``in_doubt``: it has none, but may have taken effect.
    """

    tool: str
    arguments: str
    success: bool | None
    result: str = ""
    approved: bool | None = None
    in_doubt: bool = field(default=False, metadata=OMITTED)

    @property
    def state(self) -> str:
        """Its outcome in words."""
        if self.in_doubt:
            return "may have taken effect"
        return {None: "no result", True: "worked", False: "failed"}[self.success]


@frozen(eq=False, repr=False)
class StepOutcome(Value):
    """The outcome of a step.

    Attributes:
        run_id: the run that executed it.
        output: the answer of the run; of a failed step the last text, if any.
        error: the reason of a failure; ``None`` after a success.
        detail: the run's last tool error, which may be more specific than ``error``.
        duration_ms: wall-clock milliseconds.
        cost_usd: US dollars, for model calls with a known price.
        calls: the tool calls of the run, in order.
    """

    step_id: str
    run_id: RunId
    success: bool
    output: str
    at: datetime
    error: StepErrors | None = None
    detail: str = ""
    duration_ms: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0
    calls: tuple[StepCall, ...] = ()


@frozen(eq=False, repr=False)
class PlanAdjustment(Value):
    """The decision on a plan after a step; ``error_kind``: of one that failed."""

    action: AdjustmentAction
    plan: PersonaPlan
    reasoning: str
    error_kind: ErrorKind | None = None


@frozen(eq=False, repr=False)
class CriterionVerdict(Value):
    """Whether one success criterion was met, with the evidence."""

    criterion: str
    met: bool
    evidence: str = ""


@frozen(eq=False, repr=False)
class Evaluation(Value):
    """A persona's own evaluation of a task.

    Attributes:
        meets_criteria: whether the plan was completed and every criterion was met.
        pattern: the lesson for similar tasks, in a sentence; empty for none.
        duration_ms: wall-clock milliseconds from the creation of the plan to its end.
        steps_executed: number of completed steps.
        evidence: by what it was decided whether the criteria were met.
    """

    task_id: TaskId
    plan_id: PlanId
    meets_criteria: bool
    criteria: tuple[CriterionVerdict, ...]
    what_worked: tuple[str, ...]
    mistakes: tuple[str, ...]
    improvements: tuple[str, ...]
    pattern: str
    evaluated_at: datetime
    duration_ms: float
    steps_executed: int
    replans: int
    evidence: EvidenceSource = field(default="model", metadata=OMITTED)


@frozen(eq=False, repr=False)
class LearningEntry(Value):
    """A pattern that a persona learned in one domain.

    Attributes:
        context: the goal of the task from which it was first learned.
        confidence: 0 to 1, from the counts, or as a person set it.
        learned_from: the tasks that are evidence for it.
        use_count: number of tasks that created or followed it.
        pinned: a person set it: its confidence does not decay or change with the counts.
        tenant: of the rooms that it is used in.
        room: the only room that it is used in; ``None`` for every room of the tenant.
        reviewed: whether a person decided on where it is used.
        rejected: a person deleted it; it stays in the records, so that it is not learned again.
        outcomes: whether the latest tasks that created or followed it succeeded, the latest last.
        doubted: others that were trusted like it failed of late, and it was not tried since.
        held: whether its first task since that time succeeded; ``None`` without such a task.
    """

    id: LearningId
    persona_id: PersonaId
    domain: Domain
    pattern: str
    context: str
    success_count: int
    failure_count: int
    confidence: float = field(validator=_fraction)
    learned_from: tuple[TaskId, ...]
    first_seen_at: datetime
    last_used_at: datetime
    use_count: int
    pinned: bool = False
    tenant: str = ""
    room: ContextId | None = None
    reviewed: bool = False
    rejected: bool = False
    outcomes: tuple[bool, ...] = ()
    doubted: bool = False
    held: bool | None = None


OutcomeStatus: TypeAlias = Literal["declined", "completed", "failed", "abstained"]
"""``abstained``: a step was found to be impossible, and so was every other way."""


@frozen(eq=False, repr=False)
class PersonaOutcome(Value):
    """The outcome of one event.

    Attributes:
        reason: the reason for the status, in a sentence.
        plan: the plan in its final state; ``None`` when the event was declined.
        answer: the delivered answer; of a failed plan the last result, which is not delivered.
        evaluation: ``None`` when there was none, or when it runs in the background.
        duration_ms: wall-clock milliseconds.
        tokens: tokens of planning, steps and evaluation together.
        cost_usd: US dollars, for model calls with a known price.
        refused: whether it was declined because of a limit.
        room: the room of the event; event ids are unique within it.
        given_up: whether its process ended too often; the event is a dead letter.
    """

    event_id: EventId
    status: OutcomeStatus
    reason: str
    plan: PersonaPlan | None = None
    answer: str = ""
    evaluation: Evaluation | None = None
    duration_ms: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0
    refused: bool = False
    room: Room | None = None
    given_up: bool = field(default=False, metadata=OMITTED)


@frozen(eq=False, repr=False)
class Thought(Value):
    """An entry of working memory about an event of ``user``; ``importance``: 0 to 1."""

    id: ThoughtId
    persona_id: PersonaId
    domain: Domain
    context_id: ContextId
    kind: ThoughtKind
    content: str
    importance: float = field(validator=_fraction)
    created_at: datetime
    tenant: str = ""
    user: str = ""

    @property
    def room(self) -> Room:
        """The room that it is a note on."""
        return Room(self.persona_id, self.domain, self.context_id, self.tenant)


@frozen(eq=False, repr=False)
class SelfState(Value):
    """The current state of a persona in one room, which its planner is shown.

    Attributes:
        focus: the goal of the current plan; empty for none.
        cognitive_load: 0 to 1, the share of its inbox that is in use.
        preoccupations: recent mistakes, newest first.
    """

    room: Room
    focus: str = ""
    cognitive_load: float = field(default=0.0, validator=_fraction)
    preoccupations: tuple[str, ...] = ()


THOUGHT_HALF_LIFE_HOURS = 24.0
"""Hours in which a thought loses half of its weight in the working memory."""

THOUGHTS_KEPT = 100
"""Maximum number of thoughts of one context in the working memory; the lightest are removed first."""


def thought_weight(thought: Thought) -> float:
    """Return a weight that orders thoughts by their decayed importance at any time.

    Importance halves every :data:`THOUGHT_HALF_LIFE_HOURS`. The logarithm of the importance plus the time of
    creation gives the same order whenever it is computed, so that the weight can be stored.
    """
    hours = thought.created_at.timestamp() / 3600
    return log2(max(thought.importance, 1e-6)) + hours / THOUGHT_HALF_LIFE_HOURS


# --- settings; a value out of its range raises ``ValueError`` -----------------------------------------------


Overflow: TypeAlias = Literal["reject", "drop_oldest"]
EvaluationMode: TypeAlias = Literal["after", "background", "off"]

_count = ge(1)
_seconds = gt(0.0)
_span = and_(_seconds, le(1e9))  # of dates, which end in the year 9999


_HOURS = r"(?:[01]\d|2[0-3]):[0-5]\d-(?:[01]\d|2[0-3]):[0-5]\d"


def _are_hours(instance: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    for hours in value:
        if not (isinstance(hours, str) and re.fullmatch(_HOURS, hours)):
            raise ValueError(f"{attribute.name}: got {hours!r}, expected hours such as 22:00-07:00")


def _is_timezone(instance: object, attribute: Attribute[str], value: str) -> None:
    try:
        ZoneInfo(value)
    except (KeyError, OSError, ValueError):
        raise ValueError(f"{attribute.name}: got {value!r}, expected a time zone such as UTC") from None


@frozen(eq=False, repr=False)
class EngagementPolicy(Value):
    """Rules for which events a persona engages with.

    Attributes:
        min_priority: 0 to 1; events below it are declined.
        max_events: maximum events of one context within the window, 1 or more.
        window_s: length of the window in seconds, above 0 and up to 1,000,000,000.
        ignored_authors: authors whose events are declined, besides the persona itself.
        peers: names of other personas in its rooms.
        max_peer_turns: maximum messages of personas in a row to which it answers another one, 0 or more; a
            message of a person resets the count.
        mentions_only: whether it answers only messages that mention it, those of direct conversations, and
            those of threads in which it has answered.
        names: names by which it is mentioned, besides its own.
        quiet_hours: times of each day in which it declines, such as ``22:00-07:00``.
        timezone: of the quiet hours, and of the times that a domain with reminders is shown.
        urgent: 0 to 1; events of this priority or more are answered in quiet hours.
        staff: authors who take over: it declines their messages, and all of the room for a while after.
        handover_s: seconds of that while, above 0 and up to 1,000,000,000.
    """

    min_priority: float = field(default=0.0, validator=_fraction)
    max_events: int = field(default=20, validator=_count)
    window_s: float = field(default=60.0, validator=_span)
    ignored_authors: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    max_peer_turns: int = field(default=2, validator=ge(0))
    mentions_only: bool = False
    names: tuple[str, ...] = ()
    quiet_hours: tuple[str, ...] = field(default=(), validator=_are_hours)
    timezone: str = field(default="UTC", validator=_is_timezone)
    urgent: float = field(default=1.0, validator=_fraction)
    staff: tuple[str, ...] = ()
    handover_s: float = field(default=3_600.0, validator=_span)


@frozen(eq=False, repr=False)
class LearningPolicy(Value):
    """Rules for learning from outcomes.

    Attributes:
        enabled: whether plans are shown learnings and outcomes change them.
        shown: maximum number of learnings that a plan is shown, 1 or more.
        warnings: maximum number of patterns that failed of late and that a plan is shown, 0 or more.
        min_confidence: 0 to 1; learnings below it are not shown.
        merge_above: 0 to 1; patterns with a higher word similarity than this are one learning.
        merge_above_cosine: 0 to 1; the same for the cosine of embeddings, where there are any. Models
            differ: restated sentences are near 0.9 with most, and near 0.8 with some.
        half_life_days: days without use after which a learning has lost half of its confidence; ``inf`` for
            never.
        drop_below: 0 to 1; a learning with a lower confidence is deleted with the next outcome.
        sharing: which lessons are used in other rooms of the tenant.
    """

    enabled: bool = True
    shown: int = field(default=5, validator=_count)
    warnings: int = field(default=5, validator=ge(0))
    min_confidence: float = field(default=0.4, validator=_fraction)
    merge_above: float = field(default=0.75, validator=_fraction)
    merge_above_cosine: float = field(default=0.85, validator=_fraction)
    half_life_days: float = field(default=90.0, validator=gt(0.0))
    drop_below: float = field(default=0.2, validator=_fraction)
    sharing: LearningSharing = "general"


@frozen(eq=False, repr=False)
class PersonaTimeouts(Value):
    """Time limits in seconds: of a step or delivery, of planning, of evaluation."""

    step_s: float = field(default=120.0, validator=_seconds)
    planning_s: float = field(default=60.0, validator=_seconds)
    evaluation_s: float = field(default=60.0, validator=_seconds)


@frozen(eq=False, repr=False)
class InboxConfig(Value):
    """Limits of the inbox.

    Attributes:
        capacity: maximum number of waiting events of a tenant, 1 or more.
        overflow: whether a full inbox rejects a new event or drops the oldest one.
        max_contexts: maximum number of contexts that are processed at once, 1 or more.
    """

    capacity: int = field(default=100, validator=_count)
    overflow: Overflow = "reject"
    max_contexts: int = field(default=4, validator=_count)


@frozen(eq=False, repr=False)
class DeliveryPolicy(Value):
    """Rules for sending messages and for work that fails.

    Attributes:
        tries: after so many an event, message or evaluation is a dead letter, 1 or more.
        backoff_s: seconds before the second try, above 0 and up to 1,000,000,000; each later one waits four
            times as long.
        fallback: the message in place of an answer when a plan fails; empty for none.
    """

    tries: int = field(default=3, validator=_count)
    backoff_s: float = field(default=2.0, validator=_span)
    fallback: str = ""

    def pause_s(self, attempts: int) -> float:
        """Return the seconds to wait after so many tries.

        >>> DeliveryPolicy().pause_s(1), DeliveryPolicy().pause_s(2)
        (2.0, 8.0)
        """
        return float(self.backoff_s * 4.0 ** (attempts - 1))


@frozen(eq=False, repr=False)
class DailyLimits(Value):
    """Limits of a day, in UTC; ``None`` for no limit.

    Attributes:
        tenant_events: maximum events that the persona engages with, likewise of a user and a room.
        tenant_usd: US dollars of planning, steps and evaluation, likewise of a user and a room.
    """

    tenant_events: int | None = field(default=None, validator=optional(_count))
    user_events: int | None = field(default=None, validator=optional(_count))
    room_events: int | None = field(default=None, validator=optional(_count))
    tenant_usd: float | None = field(default=None, validator=optional(gt(0.0)))
    user_usd: float | None = field(default=None, validator=optional(gt(0.0)))
    room_usd: float | None = field(default=None, validator=optional(gt(0.0)))

    @property
    def of_events(self) -> dict[str, int]:
        """The limits of events, by whose they are."""
        given = {"tenant": self.tenant_events, "user": self.user_events, "room": self.room_events}
        return {whose: most for whose, most in given.items() if most is not None}

    @property
    def of_usd(self) -> dict[str, float]:
        """The limits of US dollars, by whose they are."""
        given = {"tenant": self.tenant_usd, "user": self.user_usd, "room": self.room_usd}
        return {whose: most for whose, most in given.items() if most is not None}


@frozen(eq=False, repr=False, kw_only=True)
class PersonaRules(Value):
    """How a persona works.

    Attributes:
        role: its instructions, in every prompt.
        voice: how its answers sound, in the steps whose result is sent.
        reasoning: without it every event is answered in one step, without plan and evaluation.
        planning_model: the model for planning and replanning; ``None`` for the model of the domain.
        evaluation_model: the model for evaluation; ``None`` for the model of the domain.
        evaluation: ``after`` the answer, in the ``background``, or ``off``.
        reuse_above: 0 to 1; an earlier plan is reused for a task more similar than this; 1 for never.
        max_replans: maximum number of new plans after failures, 0 or more.
        max_depth: maximum nesting of plans, 1 or more; with 1 no large step is planned.
        transcript: maximum number of earlier messages of the room that a plan and a step are shown.
        streaming: whether the step whose result is sent is streamed to subscribers.
        engagement: rules for which events it engages with.
        learning: rules for learning.
        timeouts: time limits of steps, planning and evaluation.
        delivery: rules for messages and work that fail.
        limits: limits of a day.
    """

    role: str = ""
    voice: str = ""
    reasoning: bool = True
    planning_model: str | None = None
    evaluation_model: str | None = None
    evaluation: EvaluationMode = "after"
    reuse_above: float = field(default=0.8, validator=_fraction)
    max_replans: int = field(default=3, validator=ge(0))
    max_depth: int = field(default=2, validator=_count)
    transcript: int = field(default=50, validator=ge(0))
    streaming: bool = False
    engagement: EngagementPolicy = field(factory=EngagementPolicy)
    learning: LearningPolicy = field(factory=LearningPolicy)
    timeouts: PersonaTimeouts = field(factory=PersonaTimeouts)
    inbox: InboxConfig = field(factory=InboxConfig)
    delivery: DeliveryPolicy = field(factory=DeliveryPolicy)
    limits: DailyLimits = field(factory=DailyLimits)


@frozen(eq=False, repr=False)
class PersonaSettings(PersonaRules):
    """Settings of a persona.

    Attributes:
        id: the key of its records; a persona that starts again with the same id resumes its plans.
        name: its name; events by an author of this name are its own.
    """

    id: PersonaId
    name: str = field(validator=min_len(1))
