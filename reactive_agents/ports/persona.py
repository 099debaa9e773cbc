"""Ports of personas: the store of their records, and the similarity of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from returns.maybe import Maybe

from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.ids import ContextId, EventId, LearningId, PersonaId, PlanId, TaskId
from reactive_agents.core.plans import PlanStatus
from reactive_agents.effects import Effect

if TYPE_CHECKING:
    from reactive_agents.core.persona_events import PersonaEvent
    from reactive_agents.core.personas import (
        Domain,
        LearningEntry,
        PersonaPlan,
        SelfState,
        Thought,
        ThoughtKind,
    )


class TextComparison(Protocol):
    """Compares texts by their meaning."""

    def compare(self, text: str, others: Sequence[str]) -> Effect[tuple[float, ...], MemoryErrors]:
        """Return the similarity of the text to each of the others, 0 to 1, in their order.

        Fails with ``MemoryUnavailable`` when the comparison is not possible.
        """
        ...


class PersonaStore(Protocol):
    """Plans, learnings, working memory and the journal.

    Every method fails with ``MemoryUnavailable``.

    A write is durable when its effect ends.
    """

    def save_plan(self, plan: PersonaPlan) -> Effect[None, MemoryErrors]:
        """Store the plan under its id, replacing an earlier version."""
        ...

    def get_plan(self, plan_id: PlanId) -> Effect[Maybe[PersonaPlan], MemoryErrors]:
        """Return the plan, or ``Nothing`` when the id is unknown."""
        ...

    def plan_of_event(
        self, persona_id: PersonaId, event_id: EventId
    ) -> Effect[Maybe[PersonaPlan], MemoryErrors]:
        """Return the plan that a persona made for an event, or ``Nothing``."""
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
        """Return the plans of a domain, context and status, newest first."""
        ...

    def save_learning(self, learning: LearningEntry) -> Effect[None, MemoryErrors]:
        """Store the learning under its id, replacing an earlier version."""
        ...

    def get_learning(self, learning_id: LearningId) -> Effect[Maybe[LearningEntry], MemoryErrors]:
        """Return the learning, or ``Nothing`` when the id is unknown."""
        ...

    def list_learnings(
        self, persona_id: PersonaId, *, domain: Domain | None = None
    ) -> Effect[tuple[LearningEntry, ...], MemoryErrors]:
        """Return the learnings of one domain or all.

        The most confident first, then the most used.
        """
        ...

    def delete_learning(self, learning_id: LearningId) -> Effect[bool, MemoryErrors]:
        """Delete the learning; return whether it existed."""
        ...

    def add_thought(self, thought: Thought) -> Effect[None, MemoryErrors]:
        """Add to the working memory.

        Each context keeps its most important thoughts, which decay.
        """
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
        """Return the most important thoughts of one context, of all kinds or some."""
        ...

    def get_self_state(self, persona_id: PersonaId) -> Effect[SelfState, MemoryErrors]:
        """Return the self state; an idle one when none is stored."""
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
