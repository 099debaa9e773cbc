"""Ports of memory, stored plans and the effectiveness of strategies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from returns.maybe import Maybe

from reactive_agents.core.errors import LLMErrors, MemoryErrors
from reactive_agents.core.ids import AgentId, PlanId, TaskId
from reactive_agents.core.memory import (
    FlushReport,
    Forgetting,
    MemoryCandidate,
    MemoryContext,
    MemoryEntry,
    MemoryKind,
    SessionSnapshot,
)
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.results import ReasoningResult, ReasoningStrategy, StrategyEffectiveness
from reactive_agents.core.tasks import Task
from reactive_agents.effects import Effect
from reactive_agents.ports.llm import LLM

Vectors: TypeAlias = Sequence[Sequence[float]]
"""One vector for each text, in their order, all of the same dimension."""


class Embedder(Protocol):
    """Turns texts into vectors whose directions are close for similar meanings.

    Any object with these two members is one, such as a local model. Memory calls a plain function in a worker
    thread. When an embedder raises, fails or returns something else, memory searches by keywords and reports
    it.
    """

    @property
    def model(self) -> str:
        """Name of the embedding model.

        Vectors of different names or dimensions are never compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors | Awaitable[Vectors] | Effect[Vectors, LLMErrors]:
        """Return the vectors of texts: directly, as an awaitable or as an effect."""
        ...


class MemoryService(Protocol):
    """Memory across runs; every method fails with ``MemoryUnavailable``."""

    def bootstrap(self, agent_id: AgentId, task: Task) -> Effect[MemoryContext, MemoryErrors]:
        """Return the memories that are relevant to a task, within the token budget."""
        ...

    def flush(
        self, task: Task, result: ReasoningResult, *, llm: LLM | None = None, model: str | None = None
    ) -> Effect[FlushReport, MemoryErrors]:
        """Decide which facts of the run are remembered, and store them.

        Args:
            llm: the model of the run, whose account counts what it is asked here; ``None`` when the run has
                no model call to spare. Only a memory that is set to ask a model asks it, at most once.
            model: the model of the run; ``None`` for the one that answers requests which name none.
        """
        ...

    def snapshot(self, session: SessionSnapshot) -> Effect[None, MemoryErrors]:
        """Store the whole run as a session."""
        ...


class SearchableMemory(MemoryService, Protocol):
    """A memory with direct access; every effect fails with ``MemoryUnavailable``."""

    def note(self, task_id: TaskId, note: MemoryCandidate) -> None:
        """Add a note to the working memory of a task, which lasts until its flush."""
        ...

    def notes(self, task_id: TaskId) -> tuple[MemoryCandidate, ...]:
        """Return the working memory of a task, oldest first; empty after its flush."""
        ...

    def remember(self, agent_id: AgentId, candidate: MemoryCandidate) -> Effect[MemoryEntry, MemoryErrors]:
        """Store an entry or renew the equal one, and return it as stored."""
        ...

    def search(
        self, agent_id: AgentId, text: str, *, kinds: Sequence[MemoryKind] = (), limit: int = 20
    ) -> Effect[tuple[MemoryEntry, ...], MemoryErrors]:
        """Return the agent's entries that contain every word of the text, best first.

        A memory with an embedder also finds entries of similar meaning.
        """
        ...

    def forget(self, what: Forgetting) -> Effect[int, MemoryErrors]:
        """Delete entries and sessions, and return their number."""
        ...


class PlanStore(Protocol):
    """Plans and the transitions of their steps.

    Methods fail with ``MemoryUnavailable``.
    """

    def save(self, plan: Plan) -> Effect[None, MemoryErrors]:
        """Store the plan under its id, replacing an earlier version."""
        ...

    def update_step(self, plan_id: PlanId, step: PlanStep) -> Effect[None, MemoryErrors]:
        """Replace the step with the same id; durable when the effect ends."""
        ...

    def get(self, plan_id: PlanId) -> Effect[Maybe[Plan], MemoryErrors]:
        """Return the plan, or ``Nothing`` when the id is unknown."""
        ...

    def list_plans(self, agent_id: AgentId) -> Effect[tuple[Plan, ...], MemoryErrors]:
        """Return the agent's plans, newest first."""
        ...

    def rewrite_steps(
        self, plan_id: PlanId, rewritten: Callable[[PlanStep], PlanStep]
    ) -> Effect[None, MemoryErrors]:
        """Change all stored forms of a plan's steps, to remove data from the store."""
        ...


class EffectivenessTracker(Protocol):
    """Records of strategies by task type; methods fail with ``MemoryUnavailable``."""

    def record(
        self, strategy: ReasoningStrategy, task_type: str, result: ReasoningResult, *, success: bool
    ) -> Effect[None, MemoryErrors]:
        """Add one run to the record."""
        ...

    def get_effectiveness(
        self, strategy: ReasoningStrategy, task_type: str
    ) -> Effect[Maybe[StrategyEffectiveness], MemoryErrors]:
        """Return the record, or ``Nothing`` when the strategy was not used on such tasks."""
        ...

    def get_best_strategy(self, task_type: str) -> Effect[Maybe[ReasoningStrategy], MemoryErrors]:
        """Return the strategy with the highest success rate, or ``Nothing``."""
        ...

    def history(self, task_type: str) -> Effect[tuple[StrategyEffectiveness, ...], MemoryErrors]:
        """Return the records of all strategies on such tasks, by their names."""
        ...
