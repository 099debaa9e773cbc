"""Long-lived named agents: what reaches them, what they plan, how it went, and what they learned."""

from __future__ import annotations

from datetime import datetime
from math import log2
from typing import Literal, NewType, TypeAlias

from attrs import evolve, field, frozen
from attrs.validators import and_, ge, gt, le, min_len

from reactive_agents.core.errors import StepErrors
from reactive_agents.core.ids import ContextId, EventId, LearningId, PersonaId, PlanId, RunId, TaskId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.plans import Plan, PlanStep

ThoughtId = NewType("ThoughtId", str)

Domain: TypeAlias = str
"""Where events come from: ``chat``, ``code``, ``game``, ``academy``, or what the user registered."""

ErrorKind: TypeAlias = Literal[
    "timeout", "rate_limit", "missing_resource", "access_denied", "network", "unknown"
]
AdjustmentAction: TypeAlias = Literal["CONTINUE", "CONTINGENCY", "REPLAN", "ABORT"]
ThoughtKind: TypeAlias = Literal["observation", "decision", "self-reflection"]
PlanSource: TypeAlias = Literal["model", "reused", "template", "reactive"]
"""Who made a plan: the model, an earlier plan or a template; ``reactive`` is one step without any plan."""

LearningChange: TypeAlias = Literal["created", "confirmed", "weakened", "dropped"]

_fraction = and_(ge(0.0), le(1.0))


@frozen
class DomainEvent:
    """Something that happened in a domain. Its content is a stranger's text.

    Attributes:
        context_id: the room, file or session that it belongs to; events of one context keep their order.
        author: who caused it; a persona knows its own events by it.
        priority: 0 to 1.
    """

    id: EventId
    context_id: ContextId
    author: str
    content: str
    at: datetime
    priority: float = field(default=0.5, validator=_fraction)
    details: JsonObject = field(factory=dict)


@frozen
class PersonaTask:
    """What a persona makes of an event. ``priority``: 0 to 1; ``triggered_by``: the event."""

    id: TaskId
    domain: Domain
    context_id: ContextId
    description: str
    priority: float
    triggered_by: EventId
    created_at: datetime


@frozen
class EngagementDecision:
    """Whether a persona takes up an event, and why or why not, in a sentence."""

    engage: bool
    reason: str


@frozen
class Contingency:
    """What to do instead when a step fails in a certain way, step by step."""

    kind: ErrorKind
    actions: tuple[str, ...]


@frozen
class TemplateStep:
    """One step of a template; ``{name}`` in its texts stands for a parameter."""

    action: str = field(validator=min_len(1))
    expected: str = ""


@frozen
class PlanTemplate:
    """A plan for a known kind of event, made without a model.

    Attributes:
        name: names it in its domain.
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


@frozen
class Recovery:
    """A contingency that was used. ``steps``: the ids of the steps that stand in for the failed one."""

    failed_step: str
    kind: ErrorKind
    steps: tuple[str, ...]


@frozen
class Expansion:
    """A step that got a plan of its own. ``steps``: the ids of the steps that it consists of."""

    step_id: str
    steps: tuple[str, ...]


@frozen
class PersonaPlan:
    """A plan with what a persona adds to it.

    Attributes:
        plan: goal, steps, status, ids and times; steps that were replaced stay in it as ``skipped``.
        event: what the task was made of.
        learnings: what the model said that it knows already.
        follows: the learned patterns that the plan follows.
        attempts: how often it was planned anew after a failure.
        recoveries: the contingencies that were used, oldest first.
        large_steps: ids of steps that get a plan of their own when their turn comes.
        expansions: those that got one, oldest first; they count as completed then.
        succeeded: whether it met its criteria; ``None`` until it was evaluated.
        derived_from: the plan that it reuses, or the name of its template.
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

    @property
    def id(self) -> PlanId:
        """The id of the plan."""
        return self.plan.id

    @property
    def domain(self) -> Domain:
        """Where the task comes from."""
        return self.task.domain

    @property
    def context_id(self) -> ContextId:
        """The context that the task belongs to."""
        return self.task.context_id

    @property
    def next_step(self) -> PlanStep | None:
        """The first step that is neither completed nor failed nor skipped."""
        open_steps = (step for step in self.plan.steps if step.status in ("pending", "in_progress"))
        return next(open_steps, None)

    def with_plan(self, **changes: object) -> PersonaPlan:
        """The same with some fields of the plan changed."""
        return evolve(self, plan=evolve(self.plan, **changes))  # type: ignore[arg-type]


@frozen
class StepOutcome:
    """What became of a step.

    Attributes:
        run_id: the run that executed it.
        output: what it came to; of a failed step what there was of it.
        error: why it failed; ``None`` when it worked.
        detail: the run's last tool error, which may tell more than ``error``.
        duration_ms: wall-clock milliseconds.
        cost_usd: US dollars, of the model calls whose price is known.
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


@frozen
class PlanAdjustment:
    """How a plan goes on after a step. ``error_kind``: of the failure; ``None`` when there was none."""

    action: AdjustmentAction
    plan: PersonaPlan
    reasoning: str
    error_kind: ErrorKind | None = None


@frozen
class CriterionVerdict:
    """Whether one success criterion was met, and what shows it."""

    criterion: str
    met: bool
    evidence: str = ""


@frozen
class Evaluation:
    """A persona's own assessment of a task.

    Attributes:
        meets_criteria: the plan was completed, and every criterion was met.
        pattern: the lesson for similar tasks, in a sentence; empty for none.
        duration_ms: wall-clock milliseconds from the plan's making to its end.
        steps_executed: steps that were completed.
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


@frozen
class LearningEntry:
    """A pattern that a persona learned in one domain.

    Attributes:
        context: what the task was about that taught it first.
        confidence: 0 to 1, from the counts, or as a person set it.
        learned_from: the tasks that it rests on.
        use_count: how many tasks made or tried it.
        pinned: a person set its confidence: it does not fade, drop out, or change with the counts.
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


OutcomeStatus: TypeAlias = Literal["declined", "completed", "failed"]


@frozen
class PersonaOutcome:
    """What a persona made of one event.

    Attributes:
        reason: why it ended in that way, in a sentence.
        plan: as it stood at the end; ``None`` when the event was declined.
        answer: what was put out; of a failed plan what there was, which was not.
        evaluation: ``None`` when there was none, or when it goes on in the background.
        duration_ms: wall-clock milliseconds.
        tokens: of planning, steps and evaluation together.
        cost_usd: US dollars, of the model calls whose price is known.
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


@frozen
class Thought:
    """An entry of a persona's working memory. ``importance``: 0 to 1."""

    id: ThoughtId
    persona_id: PersonaId
    domain: Domain
    context_id: ContextId
    kind: ThoughtKind
    content: str
    importance: float = field(validator=_fraction)
    created_at: datetime


@frozen
class SelfState:
    """What a persona is busy with.

    Attributes:
        focus: the goal that it works on; empty for none.
        cognitive_load: 0 to 1, the share of its inbox that is taken.
        preoccupations: what went wrong lately, newest first.
    """

    persona_id: PersonaId
    focus: str = ""
    cognitive_load: float = field(default=0.0, validator=_fraction)
    preoccupations: tuple[str, ...] = ()


FADING_HOURS = 24.0
"""In this time a thought loses half of its weight in the working memory."""

THOUGHTS_KEPT = 100
"""Thoughts of one context that a working memory keeps; the faintest go first."""


def thought_weight(thought: Thought) -> float:
    """What orders thoughts at every later moment by what is left of their importance.

    Importance halves with :data:`FADING_HOURS`; its logarithm, moved by the thought's age, gives the same
    order whenever it is asked for, so that it can be stored.
    """
    hours = thought.created_at.timestamp() / 3600
    return log2(max(thought.importance, 1e-6)) + hours / FADING_HOURS


# --- What a persona goes by, as data. A value out of its range raises ``ValueError`` at once ---


Overflow: TypeAlias = Literal["reject", "drop_oldest"]
EvaluationMode: TypeAlias = Literal["after", "background", "off"]

_count = ge(1)
_seconds = gt(0.0)


@frozen
class EngagementPolicy:
    """Which events a persona takes up.

    Attributes:
        min_priority: 0 to 1; events below it are declined.
        max_events: events of one context that are taken up within the window, 1 or more.
        window_s: seconds of that window.
        ignored_authors: authors whose events are declined, besides the persona itself.
    """

    min_priority: float = field(default=0.0, validator=_fraction)
    max_events: int = field(default=20, validator=_count)
    window_s: float = field(default=60.0, validator=_seconds)
    ignored_authors: tuple[str, ...] = ()


@frozen
class LearningPolicy:
    """What is learned, and what is held off.

    Attributes:
        enabled: whether plans are shown what was learned, and outcomes change it.
        shown: learnings that one plan is shown at most, 1 or more.
        min_confidence: 0 to 1; learnings below it are not shown.
        merge_above: 0 to 1; patterns more alike than this by their words are one learning.
        merge_above_cosine: 0 to 1; the same by their vectors, where there are any. Embedding models differ:
            restated sentences are near 0.9 with most, and near 0.8 with some.
        half_life_days: in this time, unused, a learning loses half of its confidence.
        drop_below: 0 to 1; a learning whose confidence has fallen under it is deleted with the next outcome.
    """

    enabled: bool = True
    shown: int = field(default=5, validator=_count)
    min_confidence: float = field(default=0.5, validator=_fraction)
    merge_above: float = field(default=0.5, validator=_fraction)
    merge_above_cosine: float = field(default=0.85, validator=_fraction)
    half_life_days: float = field(default=90.0, validator=gt(0.0))
    drop_below: float = field(default=0.2, validator=_fraction)


@frozen
class PersonaTimeouts:
    """Seconds, each above 0: for a step or a delivery, for planning or planning anew, for evaluation."""

    step_s: float = field(default=120.0, validator=_seconds)
    planning_s: float = field(default=60.0, validator=_seconds)
    evaluation_s: float = field(default=60.0, validator=_seconds)


@frozen
class InboxConfig:
    """How many events wait, and how many are worked on.

    Attributes:
        capacity: events that may wait, 1 or more.
        overflow: what a full inbox does with one more: refuse it, or drop the one that waits longest.
        max_contexts: contexts that are worked on at once, 1 or more.
    """

    capacity: int = field(default=100, validator=_count)
    overflow: Overflow = "reject"
    max_contexts: int = field(default=4, validator=_count)


@frozen
class PersonaSettings:
    """How a persona works.

    Attributes:
        id: names it in its records; one that starts again with the same id goes on where it was.
        name: what it is called; events by an author of this name are its own.
        role: who it is, in its own prompts.
        reasoning: without it every event is answered at once, without plan and evaluation.
        planning_model: plans and plans anew; ``None`` for the model of the domain.
        evaluation_model: assesses outcomes; ``None`` for the model of the domain.
        evaluation: when outcomes are assessed.
        reuse_above: 0 to 1; an earlier plan serves again for a task more alike than this; 1 for never.
        max_replans: how often a plan is made anew after failures, 0 or more.
        max_depth: levels of plans, 1 or more; with 1 no step gets a plan of its own.
    """

    id: PersonaId
    name: str = field(validator=min_len(1))
    role: str = ""
    reasoning: bool = True
    planning_model: str | None = None
    evaluation_model: str | None = None
    evaluation: EvaluationMode = "after"
    reuse_above: float = field(default=0.8, validator=_fraction)
    max_replans: int = field(default=3, validator=ge(0))
    max_depth: int = field(default=2, validator=_count)
    engagement: EngagementPolicy = field(factory=EngagementPolicy)
    learning: LearningPolicy = field(factory=LearningPolicy)
    timeouts: PersonaTimeouts = field(factory=PersonaTimeouts)
    inbox: InboxConfig = field(factory=InboxConfig)
