"""Memory, plans and effectiveness kept in the test's own process, open to inspection."""

from __future__ import annotations

from attrs import evolve
from returns.maybe import Maybe, Nothing, Some
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.core.ids import AgentId, PlanId
from reactive_agents.core.memory import MemoryContext, SessionSnapshot
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.reasoning import ReasoningResult, ReasoningStrategy, StrategyEffectiveness
from reactive_agents.core.tasks import Task
from reactive_agents.effects import effect
from reactive_agents.ports.system import Clock
from reactive_agents.testing.system import FakeClock

NOTHING_RECALLED = MemoryContext(tier="1")


class InMemoryMemory:
    """Implements ``MemoryService``: recalls what it is told to, and records what it was given.

    Args:
        context: what every bootstrap recalls.
        fails_with: every method fails with it.

    Attributes:
        bootstrapped: the agent and task of each bootstrap.
        flushed: the task and result of each flush.
        snapshots: the sessions that were kept.
    """

    def __init__(
        self, context: MemoryContext = NOTHING_RECALLED, *, fails_with: MemoryErrors | None = None
    ) -> None:
        self.context = context
        self.fails_with = fails_with
        self.bootstrapped: list[tuple[AgentId, Task]] = []
        self.flushed: list[tuple[Task, ReasoningResult]] = []
        self.snapshots: list[SessionSnapshot] = []

    @effect
    async def bootstrap(self, agent_id: AgentId, task: Task) -> Result[MemoryContext, MemoryErrors]:
        """The configured context."""
        self.bootstrapped.append((agent_id, task))
        return Success(self.context) if self.fails_with is None else Failure(self.fails_with)

    @effect
    async def flush(self, task: Task, result: ReasoningResult) -> Result[None, MemoryErrors]:
        """Record the task and its result."""
        self.flushed.append((task, result))
        return Success(None) if self.fails_with is None else Failure(self.fails_with)

    @effect
    async def snapshot(self, session: SessionSnapshot) -> Result[None, MemoryErrors]:
        """Record the session."""
        self.snapshots.append(session)
        return Success(None) if self.fails_with is None else Failure(self.fails_with)


class InMemoryPlanStore:
    """Implements ``PlanStore`` with a dictionary.

    Args:
        fails_with: every method fails with it, and nothing is stored.

    Attributes:
        plans: what is stored, in the order of its first saving.
        transitions: the plan and step of each update, in order.
    """

    def __init__(self, *, fails_with: MemoryErrors | None = None) -> None:
        self.fails_with = fails_with
        self.plans: dict[PlanId, Plan] = {}
        self.transitions: list[tuple[PlanId, PlanStep]] = []

    @effect
    async def save(self, plan: Plan) -> Result[None, MemoryErrors]:
        """Store the plan under its id, replacing what was there."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self.plans[plan.id] = plan
        return Success(None)

    @effect
    async def update_step(self, plan_id: PlanId, step: PlanStep) -> Result[None, MemoryErrors]:
        """Replace the step with the same id. Fails with ``MemoryUnavailable`` when there is no such step."""
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
        """The plan, or ``Nothing``."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        return Success(Maybe.from_optional(self.plans.get(plan_id)))

    @effect
    async def list_plans(self, agent_id: AgentId) -> Result[tuple[Plan, ...], MemoryErrors]:
        """The agent's plans, newest first; of the same age, the one saved later."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        of_agent = [plan for plan in reversed(self.plans.values()) if plan.agent_id == agent_id]
        return Success(tuple(sorted(of_agent, key=lambda plan: plan.created_at, reverse=True)))


class InMemoryEffectivenessTracker:
    """Implements ``EffectivenessTracker`` with running averages.

    Args:
        clock: tells when a strategy was last used.
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
        """The record, or ``Nothing``."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        return Success(Maybe.from_optional(self.known.get((strategy, task_type))))

    @effect
    async def get_best_strategy(self, task_type: str) -> Result[Maybe[ReasoningStrategy], MemoryErrors]:
        """The highest success rate; of equal ones, the strategy that was used more often."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        of_type = [record for record in self.known.values() if record.task_type == task_type]
        if not of_type:
            return Success(Nothing)
        best = max(of_type, key=lambda record: (record.success_rate, record.executions))
        return Success(Some(best.strategy))
