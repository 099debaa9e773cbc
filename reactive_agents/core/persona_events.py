"""What happens in the work of a persona on one event, as values; its journal keeps the same values."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.errors import PersonaErrors
from reactive_agents.core.event_base import Event
from reactive_agents.core.ids import EventId, PersonaId, PlanId
from reactive_agents.core.personas import (
    AdjustmentAction,
    Domain,
    DomainEvent,
    ErrorKind,
    Evaluation,
    LearningChange,
    LearningEntry,
    PersonaPlan,
    StepOutcome,
)
from reactive_agents.core.plans import PlanStatus, PlanStep

PersonaStage: TypeAlias = Literal[
    "recall", "plan", "replan", "deliver", "evaluate", "learn", "compare", "record"
]


@frozen
class PersonaEventReceived(Event):
    """A persona begins to work on an event of a domain."""

    persona_id: PersonaId
    domain: Domain
    event: DomainEvent


@frozen
class PersonaEventDropped(Event):
    """An event was dropped from a full inbox, unworked, for a newer one."""

    persona_id: PersonaId
    domain: Domain
    event_id: EventId


@frozen
class PersonaEngagementDecided(Event):
    """A persona takes up an event, or declines it, and why."""

    persona_id: PersonaId
    event_id: EventId
    engage: bool
    reason: str


@frozen
class PersonaPlanFormulated(Event):
    """There is a plan. ``reason``: how it came about; ``shown``: the learnings that the planner was shown."""

    plan: PersonaPlan
    reason: str
    shown: tuple[LearningEntry, ...]


@frozen
class PersonaPlanResumed(Event):
    """A plan goes on that was interrupted. ``completed_steps``: those that are not executed again."""

    plan_id: PlanId
    completed_steps: int


@frozen
class PersonaStepStarted(Event):
    """A step of a plan is about to be executed, as a run with an id of its own."""

    plan_id: PlanId
    step: PlanStep


@frozen
class PersonaStepExpanded(Event):
    """A step got a plan of its own: ``steps`` take its place."""

    plan_id: PlanId
    step_id: str
    steps: tuple[PlanStep, ...]


@frozen
class PersonaStepEnded(Event):
    """A step of a plan was executed, whatever came of it."""

    plan_id: PlanId
    outcome: StepOutcome


@frozen
class PersonaPlanAdjusted(Event):
    """It was decided how a plan goes on after a step."""

    plan_id: PlanId
    step_id: str
    action: AdjustmentAction
    reasoning: str
    error_kind: ErrorKind | None


@frozen
class PersonaPlanEnded(Event):
    """A plan came to its end. ``answer``: what was put out; empty for nothing."""

    plan_id: PlanId
    status: PlanStatus
    reason: str
    answer: str


@frozen
class PersonaOutcomeEvaluated(Event):
    """A persona assessed what it did."""

    evaluation: Evaluation


@frozen
class PersonaLearningChanged(Event):
    """A learned pattern was made, confirmed, weakened or dropped."""

    learning: LearningEntry
    change: LearningChange


@frozen
class PersonaStageFailed(Event):
    """A stage failed, and the work goes on without what it would have given."""

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
