"""The ports to what a persona keeps across restarts, and to what tells which of it is alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from returns.maybe import Maybe

from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.ids import ContextId, EventId, LearningId, PersonaId, PlanId, TaskId
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.core.personas import (
    Domain,
    LearningEntry,
    PersonaPlan,
    SelfState,
    Thought,
    ThoughtKind,
)
from reactive_agents.core.plans import PlanStatus
from reactive_agents.effects import Effect


class TextComparison(Protocol):
    """Tells how alike texts are by what they mean."""

    def compare(self, text: str, others: Sequence[str]) -> Effect[tuple[float, ...], MemoryErrors]:
        """How alike the text is to each of the others, 0 to 1, in their order.

        Fails with ``MemoryUnavailable`` when that cannot be told.
        """
        ...


class PersonaStore(Protocol):
    """Plans, learnings, working memory and the journal. Every method fails with ``MemoryUnavailable``.

    What is written is durable when the effect ends.
    """

    def save_plan(self, plan: PersonaPlan) -> Effect[None, MemoryErrors]:
        """Store the plan under its id, replacing what was there."""
        ...

    def get_plan(self, plan_id: PlanId) -> Effect[Maybe[PersonaPlan], MemoryErrors]:
        """The plan, or ``Nothing`` when there is none of that id."""
        ...

    def plan_of_event(
        self, persona_id: PersonaId, event_id: EventId
    ) -> Effect[Maybe[PersonaPlan], MemoryErrors]:
        """The plan that a persona made for an event, or ``Nothing``."""
        ...

    def list_plans(
        self,
        persona_id: PersonaId,
        *,
        domain: Domain | None = None,
        context_id: ContextId | None = None,
        status: PlanStatus | None = None,
        limit: int = 50,
    ) -> Effect[tuple[PersonaPlan, ...], MemoryErrors]:
        """The persona's plans, of some domain, context or status if named; newest first."""
        ...

    def save_learning(self, learning: LearningEntry) -> Effect[None, MemoryErrors]:
        """Store the learning under its id, replacing what was there."""
        ...

    def get_learning(self, learning_id: LearningId) -> Effect[Maybe[LearningEntry], MemoryErrors]:
        """The learning, or ``Nothing`` when there is none of that id."""
        ...

    def list_learnings(
        self, persona_id: PersonaId, *, domain: Domain | None = None
    ) -> Effect[tuple[LearningEntry, ...], MemoryErrors]:
        """The persona's learnings, of one domain or all; the most confident first, then the most used."""
        ...

    def delete_learning(self, learning_id: LearningId) -> Effect[bool, MemoryErrors]:
        """Delete the learning; whether there was one."""
        ...

    def keep_thought(self, thought: Thought) -> Effect[None, MemoryErrors]:
        """Add to the working memory; of each context the most important are kept, as they fade with time."""
        ...

    def recall_thoughts(
        self,
        persona_id: PersonaId,
        *,
        domain: Domain,
        context_id: ContextId,
        kinds: Sequence[ThoughtKind] = (),
        limit: int = 5,
    ) -> Effect[tuple[Thought, ...], MemoryErrors]:
        """The thoughts of one context, of all kinds or some; by what is left of their importance."""
        ...

    def get_self_state(self, persona_id: PersonaId) -> Effect[SelfState, MemoryErrors]:
        """What the persona is busy with; an idle state when nothing was stored."""
        ...

    def save_self_state(self, state: SelfState) -> Effect[None, MemoryErrors]:
        """Store the state, replacing what was there."""
        ...

    def record(self, event: PersonaEvent) -> Effect[None, MemoryErrors]:
        """Add to the journal."""
        ...

    def journal(self, task_id: TaskId) -> Effect[tuple[PersonaEvent, ...], MemoryErrors]:
        """Everything that was recorded of a task, in order."""
        ...
