"""The live plan of a run: every change of it is told, and stored where plans are kept."""

from __future__ import annotations

from attrs import define, evolve
from returns.result import Failure

from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.events import (
    PlanCreated,
    PlanEnded,
    PlanRevised,
    PlanStepChanged,
    PlanStoreFailed,
)
from reactive_agents.core.plan_events import PlanChange
from reactive_agents.core.plans import Plan, PlanStatus, PlanStep
from reactive_agents.effects import Effect, attempt
from reactive_agents.kernel import RunEvents
from reactive_agents.ports import PlanStore
from reactive_agents.reasoning.strategy import Measure, StrategyServices


@define(eq=False)
class PlanRecord:
    """The one place where the plan of a run changes.

    A store that fails is told of once and not asked again: the run goes on without it.

    Attributes:
        plan: as it stands.
        before: the plan's tokens and cost before this run.
        store: ``None`` when there is none, or when it has failed.
    """

    plan: Plan
    measure: Measure
    services: StrategyServices
    before: tuple[int, float]
    store: PlanStore | None

    @classmethod
    def of(cls, plan: Plan, measure: Measure, services: StrategyServices) -> PlanRecord:
        """The record of a plan that nothing was told of yet."""
        before = plan.total_tokens, plan.total_cost
        return cls(plan, measure, services, before, services.plans.value_or(None))

    async def begin(self, *, resumed: bool) -> None:
        """Tell that the plan begins."""
        plan, events = self.plan, self._events
        if events is not None:
            events.publish(
                PlanCreated(
                    *events.stamp(),
                    plan_id=plan.id,
                    goal=plan.goal,
                    mode=plan.mode,
                    steps=plan.steps,
                    resumed=resumed,
                )
            )
        await self._save()

    async def change_step(self, step: PlanStep) -> None:
        """Put a step in the place of the one with its id."""
        steps = tuple(step if each.id == step.id else each for each in self.plan.steps)
        self.plan = evolve(self.plan, steps=steps, updated_at=self.services.kernel.clock.now())
        events = self._events
        if events is not None:
            events.publish(
                PlanStepChanged(
                    *events.stamp(),
                    plan_id=self.plan.id,
                    step_id=step.id,
                    title=step.title,
                    status=step.status,
                    error=step.error or "",
                    retries=step.retries,
                )
            )
        if self.store is not None:
            await self._keep(self.store.update_step(self.plan.id, step))

    async def revise(self, plan: Plan, change: PlanChange) -> None:
        """Put a plan with other steps in the place of this one."""
        self.plan = plan
        events = self._events
        if events is not None:
            pending = tuple(step for step in plan.steps if step.status == "pending")
            events.publish(
                PlanRevised(
                    *events.stamp(), plan_id=plan.id, version=plan.version, change=change, steps=pending
                )
            )
        await self._save()

    async def end(self, status: PlanStatus) -> None:
        """Tell that the run is done with the plan."""
        self.plan = evolve(self.plan, status=status, updated_at=self.services.kernel.clock.now())
        events = self._events
        if events is not None:
            events.publish(PlanEnded(*events.stamp(), plan_id=self.plan.id, status=status))
        await self._save()

    @property
    def _events(self) -> RunEvents | None:
        return self.services.kernel.events.value_or(None)

    async def _save(self) -> None:
        spent = self.services.meter.spending.since(self.measure.spent)
        tokens, cost = self.before
        self.plan = evolve(
            self.plan, total_tokens=tokens + spent.usage.total_tokens, total_cost=cost + spent.cost_usd
        )
        if self.store is not None:
            await self._keep(self.store.save(self.plan))

    async def _keep(self, pending: Effect[None, MemoryErrors]) -> None:
        kept = await attempt(pending)
        if not isinstance(kept, Failure):
            return
        self.store = None
        events = self._events
        if events is not None:
            events.publish(PlanStoreFailed(*events.stamp(), plan_id=self.plan.id, error=kept.failure()))
