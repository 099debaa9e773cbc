"""A fake of the persona store."""

from __future__ import annotations

from collections.abc import Sequence

from returns.maybe import Maybe
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.ids import ContextId, EventId, LearningId, PersonaId, PlanId, TaskId
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.core.personas import (
    THOUGHTS_KEPT,
    Domain,
    LearningEntry,
    PersonaPlan,
    SelfState,
    Thought,
    ThoughtKind,
    thought_weight,
)
from reactive_agents.core.plans import PlanStatus
from reactive_agents.effects import effect


class InMemoryPersonaStore:
    """Implements ``PersonaStore`` with dictionaries and lists.

    Args:
        fails_with: every method fails with it, and nothing is stored.

    Attributes:
        plans: the stored plans, in the order of their first saving; likewise ``learnings``.
        thoughts: the working memory of all contexts, in order.
        states: the self state of each persona.
        events: the journal of all tasks, in order.
    """

    def __init__(self, *, fails_with: MemoryErrors | None = None) -> None:
        self.fails_with = fails_with
        self.plans: dict[PlanId, PersonaPlan] = {}
        self.learnings: dict[LearningId, LearningEntry] = {}
        self.thoughts: list[Thought] = []
        self.states: dict[PersonaId, SelfState] = {}
        self.events: list[PersonaEvent] = []

    @effect
    async def save_plan(self, plan: PersonaPlan) -> Result[None, MemoryErrors]:
        """Store the plan under its id."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self.plans[plan.id] = plan
        return Success(None)

    @effect
    async def get_plan(self, plan_id: PlanId) -> Result[Maybe[PersonaPlan], MemoryErrors]:
        """Return the plan, or ``Nothing``."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        return Success(Maybe.from_optional(self.plans.get(plan_id)))

    @effect
    async def plan_of_event(
        self, persona_id: PersonaId, event_id: EventId
    ) -> Result[Maybe[PersonaPlan], MemoryErrors]:
        """Return the newest plan for the event, or ``Nothing``."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        made = (
            plan
            for plan in reversed(self.plans.values())
            if (plan.persona_id, plan.event.id) == (persona_id, event_id)
        )
        return Success(Maybe.from_optional(next(made, None)))

    @effect
    async def list_plans(
        self,
        persona_id: PersonaId,
        *,
        domain: Domain | None = None,
        context_id: ContextId | None = None,
        status: PlanStatus | None = None,
        limit: int = 50,
    ) -> Result[tuple[PersonaPlan, ...], MemoryErrors]:
        """Return the plans, newest first; of the same age, the one made later first."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        found = [
            plan
            for plan in reversed(self.plans.values())
            if plan.persona_id == persona_id
            and domain in (None, plan.domain)
            and context_id in (None, plan.context_id)
            and status in (None, plan.plan.status)
        ]
        found.sort(key=lambda plan: plan.plan.created_at, reverse=True)
        return Success(tuple(found[:limit]))

    @effect
    async def save_learning(self, learning: LearningEntry) -> Result[None, MemoryErrors]:
        """Store the learning under its id."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self.learnings[learning.id] = learning
        return Success(None)

    @effect
    async def get_learning(self, learning_id: LearningId) -> Result[Maybe[LearningEntry], MemoryErrors]:
        """Return the learning, or ``Nothing``."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        return Success(Maybe.from_optional(self.learnings.get(learning_id)))

    @effect
    async def list_learnings(
        self, persona_id: PersonaId, *, domain: Domain | None = None
    ) -> Result[tuple[LearningEntry, ...], MemoryErrors]:
        """Return the learnings: the most confident first, then the most used."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        found = [
            each
            for each in self.learnings.values()
            if each.persona_id == persona_id and domain in (None, each.domain)
        ]
        return Success(tuple(sorted(found, key=lambda each: (-each.confidence, -each.use_count))))

    @effect
    async def delete_learning(self, learning_id: LearningId) -> Result[bool, MemoryErrors]:
        """Delete the learning; return whether it existed."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        return Success(self.learnings.pop(learning_id, None) is not None)

    @effect
    async def add_thought(self, thought: Thought) -> Result[None, MemoryErrors]:
        """Add to the working memory; the lightest thought beyond the limit is removed."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self.thoughts.append(thought)
        place = (thought.persona_id, thought.domain, thought.context_id)
        of_context = [
            each for each in self.thoughts if (each.persona_id, each.domain, each.context_id) == place
        ]
        if len(of_context) > THOUGHTS_KEPT:
            self.thoughts.remove(min(of_context, key=thought_weight))
        return Success(None)

    @effect
    async def recall_thoughts(
        self,
        persona_id: PersonaId,
        *,
        domain: Domain,
        context_id: ContextId,
        kinds: Sequence[ThoughtKind] = (),
        limit: int = 5,
    ) -> Result[tuple[Thought, ...], MemoryErrors]:
        """Return the thoughts of one context with the highest weight, then the newest."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        found = [
            each
            for each in reversed(self.thoughts)
            if (each.persona_id, each.domain, each.context_id) == (persona_id, domain, context_id)
            and (not kinds or each.kind in kinds)
        ]
        return Success(tuple(sorted(found, key=thought_weight, reverse=True)[:limit]))

    @effect
    async def get_self_state(self, persona_id: PersonaId) -> Result[SelfState, MemoryErrors]:
        """Return the self state; an idle one when none is stored."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        return Success(self.states.get(persona_id, SelfState(persona_id)))

    @effect
    async def save_self_state(self, state: SelfState) -> Result[None, MemoryErrors]:
        """Store the state."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self.states[state.persona_id] = state
        return Success(None)

    @effect
    async def record(self, event: PersonaEvent) -> Result[None, MemoryErrors]:
        """Append to the journal."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self.events.append(event)
        return Success(None)

    @effect
    async def journal(self, task_id: TaskId) -> Result[tuple[PersonaEvent, ...], MemoryErrors]:
        """Return the journal of a task, in order."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        return Success(tuple(event for event in self.events if event.task_id == task_id))
