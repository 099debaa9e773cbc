"""What happens to a plan while it is run, as events."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.event_base import Event
from reactive_agents.core.ids import PlanId
from reactive_agents.core.plans import PlanMode, PlanStatus, PlanStep, PlanStepStatus

PlanChange: TypeAlias = Literal["patched", "replanned", "augmented", "required"]


@frozen
class PlanCreated(Event):
    """A plan begins. ``resumed``: whether it goes on where an earlier run left it."""

    plan_id: PlanId
    goal: str
    mode: PlanMode
    steps: tuple[PlanStep, ...]
    resumed: bool = False


@frozen
class PlanStepChanged(Event):
    """A step of a plan began, or ended.

    Attributes:
        status: what it is from now on.
        error: why it failed or was skipped, or why the attempt before failed; empty otherwise.
        retries: attempts made after the first.
    """

    plan_id: PlanId
    step_id: str
    title: str
    status: PlanStepStatus
    error: str = ""
    retries: int = 0


@frozen
class PlanRevised(Event):
    """The steps of a plan were changed.

    Attributes:
        version: of the plan from now on.
        change: one step ``patched``, the rest ``replanned``, steps added to fill gaps (``augmented``), or for
            calls that the task requires (``required``).
        steps: those that are pending now.
    """

    plan_id: PlanId
    version: int
    change: PlanChange
    steps: tuple[PlanStep, ...]


@frozen
class PlanEnded(Event):
    """A run is done with its plan. A plan that is still ``active`` can be resumed."""

    plan_id: PlanId
    status: PlanStatus


@frozen
class PlanStoreFailed(Event):
    """A plan could not be stored; the run goes on, and what comes of the plan is not stored any more."""

    plan_id: PlanId
    error: MemoryErrors
