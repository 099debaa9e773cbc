"""Fakes of memory, plan store and effectiveness tracker."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime

from attrs import evolve
from returns.maybe import Maybe, Nothing, Some
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.core.ids import AgentId, PlanId, TaskId
from reactive_agents.core.memory import (
    FlushReport,
    ForgetAgent,
    ForgetEntry,
    ForgetOlder,
    Forgetting,
    MemoryCandidate,
    MemoryContext,
    MemoryEntry,
    MemoryId,
    MemoryKind,
    SessionSnapshot,
)
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.results import ReasoningResult, ReasoningStrategy, StrategyEffectiveness
from reactive_agents.core.tasks import Task
from reactive_agents.effects import effect
from reactive_agents.ports.llm import LLM
from reactive_agents.ports.system import Clock
from reactive_agents.testing.clock import FakeClock, SequentialIds

NOTHING_RECALLED = MemoryContext(tier="1")


class InMemoryMemory:
    """Implements ``SearchableMemory``: recalls a fixed context and records every call.

    Args:
        context: the context that every bootstrap recalls.
        clock: the time at which entries are remembered.
        fails_with: every effect fails with it, and nothing is remembered or forgotten.

    Attributes:
        bootstrapped: the agent and task of each bootstrap.
        flushed: the task and result of each flush.
        snapshots: the stored sessions.
        entries: the remembered entries that were not forgotten, in order.
    """

    def __init__(
        self,
        context: MemoryContext = NOTHING_RECALLED,
        *,
        clock: Clock | None = None,
        fails_with: MemoryErrors | None = None,
    ) -> None:
        self.context = context
        self.fails_with = fails_with
        self.bootstrapped: list[tuple[AgentId, Task]] = []
        self.flushed: list[tuple[Task, ReasoningResult]] = []
        self.snapshots: list[SessionSnapshot] = []
        self.entries: dict[MemoryId, MemoryEntry] = {}
        self._notes: dict[TaskId, tuple[MemoryCandidate, ...]] = {}
        self._clock = clock or FakeClock()
        self._ids = SequentialIds("memory-")

    @effect
    async def bootstrap(self, agent_id: AgentId, task: Task) -> Result[MemoryContext, MemoryErrors]:
        """Return the configured context."""
        self.bootstrapped.append((agent_id, task))
        return Success(self.context) if self.fails_with is None else Failure(self.fails_with)

    @effect
    async def flush(
        self, task: Task, result: ReasoningResult, *, llm: LLM | None = None, model: str | None = None
    ) -> Result[FlushReport, MemoryErrors]:
        """Record the task and its result.

        The notes of the task are dropped, and no model is asked.
        """
        self.flushed.append((task, result))
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self._notes.pop(task.id, None)
        return Success(FlushReport())

    @effect
    async def snapshot(self, session: SessionSnapshot) -> Result[None, MemoryErrors]:
        """Record the session."""
        self.snapshots.append(session)
        return Success(None) if self.fails_with is None else Failure(self.fails_with)

    def note(self, task_id: TaskId, note: MemoryCandidate) -> None:
        """Keep a note until the task is flushed."""
        self._notes[task_id] = (*self.notes(task_id), note)

    def notes(self, task_id: TaskId) -> tuple[MemoryCandidate, ...]:
        """Return the notes of a task, oldest first."""
        return self._notes.get(task_id, ())

    @effect
    async def remember(
        self, agent_id: AgentId, candidate: MemoryCandidate
    ) -> Result[MemoryEntry, MemoryErrors]:
        """Store an entry, or renew the one with the same text."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        now = self._clock.now()
        said = (agent_id, candidate.kind, candidate.content)
        same = [each for each in self.entries.values() if (each.agent_id, each.kind, each.content) == said]
        entry = same[0] if same else _entry(MemoryId(self._ids.new()), agent_id, candidate, now)
        entry = self.entries[entry.id] = evolve(
            entry,
            importance=max(entry.importance, candidate.importance),
            seen_at=now,
            successes=entry.successes + int(candidate.success is True),
            executions=entry.executions + int(candidate.success is not None),
        )
        return Success(entry)

    @effect
    async def search(
        self, agent_id: AgentId, text: str, *, kinds: Sequence[MemoryKind] = (), limit: int = 20
    ) -> Result[tuple[MemoryEntry, ...], MemoryErrors]:
        """Return the agent's entries that contain every word of the text, newest first.

        None for no words.
        """
        if self.fails_with is not None:
            return Failure(self.fails_with)
        wanted = _words(text)
        found = [
            entry
            for entry in reversed(self.entries.values())
            if entry.agent_id == agent_id and (not kinds or entry.kind in kinds)
            if wanted and wanted <= _words(entry.content)
        ]
        return Success(tuple(found[:limit]))

    @effect
    async def forget(self, what: Forgetting) -> Result[int, MemoryErrors]:
        """Delete entries and sessions, and return their number."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        entries = {key: entry for key, entry in self.entries.items() if not _forgotten(entry, what)}
        sessions = [each for each in self.snapshots if not _session_forgotten(each, what)]
        dropped = len(self.entries) - len(entries) + len(self.snapshots) - len(sessions)
        self.entries, self.snapshots = entries, sessions
        return Success(dropped)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.lower()))


def _entry(entry_id: MemoryId, agent_id: AgentId, candidate: MemoryCandidate, now: datetime) -> MemoryEntry:
    return MemoryEntry(
        entry_id,
        agent_id,
        candidate.kind,
        candidate.content,
        candidate.origin,
        candidate.source,
        TaskId(""),
        candidate.importance,
        now,
        now,
    )


def _forgotten(entry: MemoryEntry, what: Forgetting) -> bool:
    match what:
        case ForgetEntry(id=entry_id):
            return entry.id == entry_id
        case ForgetAgent(agent_id=agent_id):
            return entry.agent_id == agent_id
        case ForgetOlder(before=before, agent_id=agent_id):
            return entry.seen_at < before and agent_id in (None, entry.agent_id)


def _session_forgotten(session: SessionSnapshot, what: Forgetting) -> bool:
    match what:
        case ForgetEntry():
            return False
        case ForgetAgent(agent_id=agent_id):
            return session.agent_id == agent_id
        case ForgetOlder(before=before, agent_id=agent_id):
            return session.ended_at < before and agent_id in (None, session.agent_id)


class InMemoryPlanStore:
    """Implements ``PlanStore`` with a dictionary.

    Args:
        fails_with: every method fails with it, and nothing is stored.

    Attributes:
        plans: the stored plans, in the order of their first saving.
        transitions: the plan and step of each update, in order.
    """

    def __init__(self, *, fails_with: MemoryErrors | None = None) -> None:
        self.fails_with = fails_with
        self.plans: dict[PlanId, Plan] = {}
        self.transitions: list[tuple[PlanId, PlanStep]] = []

    @effect
    async def save(self, plan: Plan) -> Result[None, MemoryErrors]:
        """Store the plan under its id, replacing an earlier version."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self.plans[plan.id] = plan
        return Success(None)

    @effect
    async def update_step(self, plan_id: PlanId, step: PlanStep) -> Result[None, MemoryErrors]:
        """Replace the step with the same id.

        Fails with ``MemoryUnavailable`` when there is no such step.
        """
        if self.fails_with is not None:
            return Failure(self.fails_with)
        plan = self.plans.get(plan_id)
        if plan is None or all(known.id != step.id for known in plan.steps):
            return Failure(MemoryUnavailable(f"No step {step.id!r} of a plan {plan_id!r}.", "update_step"))
        steps = tuple(step if known.id == step.id else known for known in plan.steps)
        self.plans[plan_id] = evolve(plan, steps=steps)
        self.transitions.append((plan_id, step))
        return Success(None)

    @effect
    async def get(self, plan_id: PlanId) -> Result[Maybe[Plan], MemoryErrors]:
        """Return the plan, or ``Nothing``."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        return Success(Maybe.from_optional(self.plans.get(plan_id)))

    @effect
    async def list_plans(self, agent_id: AgentId) -> Result[tuple[Plan, ...], MemoryErrors]:
        """Return the agent's plans, newest first; of the same age, the one saved later."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        of_agent = [plan for plan in reversed(self.plans.values()) if plan.agent_id == agent_id]
        return Success(tuple(sorted(of_agent, key=lambda plan: plan.created_at, reverse=True)))

    @effect
    async def rewrite_steps(
        self, plan_id: PlanId, rewritten: Callable[[PlanStep], PlanStep]
    ) -> Result[None, MemoryErrors]:
        """Change the steps of the plan and of all their transitions."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        plan = self.plans.get(plan_id)
        if plan is not None:
            self.plans[plan_id] = evolve(plan, steps=tuple(map(rewritten, plan.steps)))
        self.transitions = [
            (each, rewritten(step) if each == plan_id else step) for each, step in self.transitions
        ]
        return Success(None)


class InMemoryEffectivenessTracker:
    """Implements ``EffectivenessTracker`` with running averages.

    Args:
        clock: the time at which a strategy was last used.
        fails_with: every method fails with it, and nothing is recorded.

    Attributes:
        known: the record of each strategy on each type of task.
    """

    def __init__(self, clock: Clock | None = None, *, fails_with: MemoryErrors | None = None) -> None:
        self.fails_with = fails_with
        self.known: dict[tuple[ReasoningStrategy, str], StrategyEffectiveness] = {}
        self._clock = clock or FakeClock()

    @effect
    async def record(
        self, strategy: ReasoningStrategy, task_type: str, result: ReasoningResult, *, success: bool
    ) -> Result[None, MemoryErrors]:
        """Add one run to the averages."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        before = self.known.get((strategy, task_type))
        count = before.executions if before else 0

        def average(old: float, new: float) -> float:
            return (old * count + new) / (count + 1)

        figures = result.metadata
        self.known[strategy, task_type] = StrategyEffectiveness(
            strategy,
            task_type,
            success_rate=average(before.success_rate if before else 0.0, float(success)),
            avg_cost=average(before.avg_cost if before else 0.0, figures.cost),
            avg_duration=average(before.avg_duration if before else 0.0, figures.duration),
            avg_confidence=average(before.avg_confidence if before else 0.0, figures.confidence),
            executions=count + 1,
            last_used=self._clock.now(),
        )
        return Success(None)

    @effect
    async def get_effectiveness(
        self, strategy: ReasoningStrategy, task_type: str
    ) -> Result[Maybe[StrategyEffectiveness], MemoryErrors]:
        """Return the record, or ``Nothing``."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        return Success(Maybe.from_optional(self.known.get((strategy, task_type))))

    @effect
    async def get_best_strategy(self, task_type: str) -> Result[Maybe[ReasoningStrategy], MemoryErrors]:
        """Return the strategy with the highest success rate, then the most executions."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        of_type = [record for record in self.known.values() if record.task_type == task_type]
        if not of_type:
            return Success(Nothing)
        best = max(of_type, key=lambda record: (record.success_rate, record.executions))
        return Success(Some(best.strategy))

    @effect
    async def history(self, task_type: str) -> Result[tuple[StrategyEffectiveness, ...], MemoryErrors]:
        """Return the records of a task type, by the names of the strategies."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        of_type = [record for record in self.known.values() if record.task_type == task_type]
        return Success(tuple(sorted(of_type, key=lambda record: record.strategy)))
