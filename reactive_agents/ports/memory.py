"""The ports to what outlives a run: memory, stored plans, and how strategies have done."""

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
from reactive_agents.core.reasoning import ReasoningResult, ReasoningStrategy, StrategyEffectiveness
from reactive_agents.core.tasks import Task
from reactive_agents.effects import Effect
from reactive_agents.ports.llm import LLM

Vectors: TypeAlias = Sequence[Sequence[float]]
"""One vector for each text, in their order, all of the same dimension."""


class Embedder(Protocol):
    """Turns texts into vectors, such that texts which mean similar things have vectors of similar direction.

    It may be anything that has these two members, such as a local model. Memory calls a plain function in a
    worker thread. An embedder that raises, fails or returns something else is not asked again for the same
    question; memory then goes on by words alone, and says so.
    """

    @property
    def model(self) -> str:
        """Names what makes the vectors. Vectors of different names or dimensions are never compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors | Awaitable[Vectors] | Effect[Vectors, LLMErrors]:
        """The vectors of one or more texts: at once, awaited, or as an effect."""
        ...


class MemoryService(Protocol):
    """What an agent remembers from run to run. Every method fails with ``MemoryUnavailable``."""

    def bootstrap(self, agent_id: AgentId, task: Task) -> Effect[MemoryContext, MemoryErrors]:
        """What bears on the task, within the service's own token budget."""
        ...

    def flush(
        self, task: Task, result: ReasoningResult, *, llm: LLM | None = None, model: str | None = None
    ) -> Effect[FlushReport, MemoryErrors]:
        """Decide what of the run is worth keeping, and keep it.

        Args:
            llm: the model of the run, whose account counts what it is asked here; ``None`` when the run has
                no model call to spare. Only a memory that is set to ask a model asks it, at most once.
            model: the model of the run; ``None`` for the one that answers requests which name none.
        """
        ...

    def snapshot(self, session: SessionSnapshot) -> Effect[None, MemoryErrors]:
        """Keep the whole run as a session."""
        ...


class SearchableMemory(MemoryService, Protocol):
    """A memory that can be asked and tended directly. Every effect fails with ``MemoryUnavailable``."""

    def note(self, task_id: TaskId, note: MemoryCandidate) -> None:
        """Keep a note in the working memory of a task: a few, until the task is flushed."""
        ...

    def notes(self, task_id: TaskId) -> tuple[MemoryCandidate, ...]:
        """The working memory of a task, oldest first; empty after its flush."""
        ...

    def remember(self, agent_id: AgentId, candidate: MemoryCandidate) -> Effect[MemoryEntry, MemoryErrors]:
        """Keep something; what is known already is renewed. The entry as it is stored then."""
        ...

    def search(
        self, agent_id: AgentId, text: str, *, kinds: Sequence[MemoryKind] = (), limit: int = 20
    ) -> Effect[tuple[MemoryEntry, ...], MemoryErrors]:
        """The agent's entries, of all kinds or some, that contain every word of the text; best first.

        A memory with an embedder also finds those that mean something similar.
        """
        ...

    def forget(self, what: Forgetting) -> Effect[int, MemoryErrors]:
        """Delete entries and sessions; how many there were."""
        ...


class PlanStore(Protocol):
    """Plans and every transition of their steps. Every method fails with ``MemoryUnavailable``."""

    def save(self, plan: Plan) -> Effect[None, MemoryErrors]:
        """Store the plan under its id, replacing what was there."""
        ...

    def update_step(self, plan_id: PlanId, step: PlanStep) -> Effect[None, MemoryErrors]:
        """Replace the step with the same id; durable when the effect ends."""
        ...

    def get(self, plan_id: PlanId) -> Effect[Maybe[Plan], MemoryErrors]:
        """The plan, or ``Nothing`` when there is none of that id."""
        ...

    def list_plans(self, agent_id: AgentId) -> Effect[tuple[Plan, ...], MemoryErrors]:
        """The agent's plans, newest first."""
        ...

    def rewrite_steps(
        self, plan_id: PlanId, rewritten: Callable[[PlanStep], PlanStep]
    ) -> Effect[None, MemoryErrors]:
        """Change the steps of the plan and of all their transitions, for what must not stay stored."""
        ...


class EffectivenessTracker(Protocol):
    """How each strategy has done on each type of task. Every method fails with ``MemoryUnavailable``."""

    def record(
        self, strategy: ReasoningStrategy, task_type: str, result: ReasoningResult, *, success: bool
    ) -> Effect[None, MemoryErrors]:
        """Add one run to the record."""
        ...

    def get_effectiveness(
        self, strategy: ReasoningStrategy, task_type: str
    ) -> Effect[Maybe[StrategyEffectiveness], MemoryErrors]:
        """The record, or ``Nothing`` when the strategy has not been used on such a task."""
        ...

    def get_best_strategy(self, task_type: str) -> Effect[Maybe[ReasoningStrategy], MemoryErrors]:
        """The strategy with the highest success rate on such tasks, or ``Nothing`` without any record."""
        ...

    def history(self, task_type: str) -> Effect[tuple[StrategyEffectiveness, ...], MemoryErrors]:
        """The records of all strategies on such tasks, by the names of the strategies."""
        ...
