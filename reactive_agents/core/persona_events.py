"""Events of a persona while it processes one event of a domain.

Its journal holds the same values.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen

from reactive_agents.core import personas
from reactive_agents.core.bases import Event
from reactive_agents.core.errors import PersonaErrors
from reactive_agents.core.ids import EventId, PersonaId, PlanId
from reactive_agents.core.plans import PlanStatus, PlanStep
from reactive_agents.core.values import OMITTED

PersonaStage: TypeAlias = Literal[
    "recall", "plan", "replan", "deliver", "evaluate", "learn", "compare", "record"
]


@frozen(eq=False, repr=False)
class PersonaEventReceived(Event):
    """A persona begins to process an event of a domain."""

    persona_id: PersonaId
    domain: personas.Domain
    event: personas.DomainEvent


@frozen(eq=False, repr=False)
class PersonaEventDropped(Event):
    """An event was dropped from a full inbox, unprocessed, for a newer one."""

    persona_id: PersonaId
    domain: personas.Domain
    event_id: EventId


@frozen(eq=False, repr=False)
class PersonaEngagementDecided(Event):
    """A persona engages with an event or declines it. ``reason``: why, in a sentence."""

    persona_id: PersonaId
    event_id: EventId
    engage: bool
    reason: str


@frozen(eq=False, repr=False)
class PersonaPlanFormulated(Event):
    """A plan was made.

    Attributes:
        reason: how.
        shown: the learnings that the planner was shown.
        warnings: the patterns that it was warned of.
        transcript: the events of the earlier messages that it was shown, oldest first.
        notes: number of the notes on the room that it was shown.
    """

    plan: personas.PersonaPlan
    reason: str
    shown: tuple[personas.LearningEntry, ...]
    warnings: tuple[personas.LearningEntry, ...] = field(default=(), metadata=OMITTED)
    transcript: tuple[EventId, ...] = field(default=(), metadata=OMITTED)
    notes: int = field(default=0, metadata=OMITTED)


@frozen(eq=False, repr=False)
class PersonaPlanResumed(Event):
    """An interrupted plan is resumed after its ``completed_steps``."""

    plan_id: PlanId
    completed_steps: int


@frozen(eq=False, repr=False)
class PersonaStepStarted(Event):
    """A step of a plan is about to be executed, as a separate run."""

    plan_id: PlanId
    step: PlanStep


@frozen(eq=False, repr=False)
class PersonaStepExpanded(Event):
    """A large step was planned: ``steps`` replace it."""

    plan_id: PlanId
    step_id: str
    steps: tuple[PlanStep, ...]


@frozen(eq=False, repr=False)
class PersonaStepEnded(Event):
    """A step of a plan was executed, with or without success."""

    plan_id: PlanId
    outcome: personas.StepOutcome


@frozen(eq=False, repr=False)
class PersonaPlanAdjusted(Event):
    """A plan was continued, recovered, replanned or aborted after a step."""

    plan_id: PlanId
    step_id: str
    action: personas.AdjustmentAction
    reasoning: str
    error_kind: personas.ErrorKind | None


@frozen(eq=False, repr=False)
class PersonaPlanEnded(Event):
    """A plan ended. ``answer``: the delivered answer; empty for none."""

    plan_id: PlanId
    status: PlanStatus
    reason: str
    answer: str


@frozen(eq=False, repr=False)
class PersonaOutcomeEvaluated(Event):
    """A persona evaluated the outcome of a plan."""

    evaluation: personas.Evaluation


@frozen(eq=False, repr=False)
class PersonaLearningChanged(Event):
    """A learned pattern was created, confirmed, weakened or dropped."""

    learning: personas.LearningEntry
    change: personas.LearningChange


@frozen(eq=False, repr=False)
class PersonaStageFailed(Event):
    """A stage failed, and processing continues without its result."""

    persona_id: PersonaId
    stage: PersonaStage
    error: PersonaErrors


PersonaEvent: TypeAlias = (
    PersonaEventReceived
    | PersonaEventDropped
    | PersonaEngagementDecided
    | PersonaPlanFormulated
    | PersonaPlanResumed
    | PersonaStepStarted
    | PersonaStepExpanded
    | PersonaStepEnded
    | PersonaPlanAdjusted
    | PersonaPlanEnded
    | PersonaOutcomeEvaluated
    | PersonaLearningChanged
    | PersonaStageFailed
)
