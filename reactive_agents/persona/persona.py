"""A persona: takes each event through planning, steps, delivery and evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TypeAlias

import anyio
import anyio.abc
from attrs import evolve, frozen
from returns.maybe import Maybe
from returns.result import Failure, Result, Success

from reactive_agents.core import persona_events
from reactive_agents.core.errors import DeliveryFailed, MemoryErrors, UnknownDomain
from reactive_agents.core.ids import ContextId, EventId, TaskId
from reactive_agents.core.personas import (
    Domain,
    DomainEvent,
    EngagementDecision,
    Evaluation,
    PersonaOutcome,
    PersonaPlan,
    PersonaSettings,
    PersonaTask,
)
from reactive_agents.core.plans import PlanStatus
from reactive_agents.effects import attempt, effect
from reactive_agents.persona.cycle import (
    Cycle,
    PersonaServices,
    add_thought,
    begin_cycle,
    execute_step,
    is_abstention,
)
from reactive_agents.persona.domain import PersonaDomain, should_engage
from reactive_agents.persona.plan_changes import answer_of, begin_step, end_plan
from reactive_agents.persona.planning import expand_large_step
from reactive_agents.persona.reasoning_system import PersonaReasoningSystem

DECISION_IMPORTANCE = 0.6


class Persona:
    """A long-lived named agent whose events come from one or more domains.

    Any number of events may be processed at once; :class:`reactive_agents.persona.PersonaInbox` keeps those
    of one context in order. Entered as an async context manager, it evaluates in the background where its
    settings say so, and waits for that at the end; otherwise it evaluates at once.

    Attributes:
        waiting: number of events in its inbox, a part of its cognitive load.

    Raises:
        ValueError: two domains have the same name.
    """

    def __init__(
        self, settings: PersonaSettings, domains: Iterable[PersonaDomain], services: PersonaServices
    ) -> None:
        listed = tuple(domains)
        self.settings = settings
        self.services = services
        self.domains = {domain.name: domain for domain in listed}
        self.reasoning = PersonaReasoningSystem(settings, services)
        self.waiting = 0
        self._processing: set[EventId] = set()
        self._engaged: dict[EventId, tuple[Domain, ContextId, datetime]] = {}  # of those being processed
        self._background: anyio.abc.TaskGroup | None = None
        if len(self.domains) != len(listed):
            names = ", ".join(each.name for each in listed)
            raise ValueError(f"Persona: domains: got {names}, expected each name once.")

    async def __aenter__(self) -> Persona:
        self._background = await open_group()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        background, self._background = self._background, None
        if background is not None:
            await close_group(background, kind, error, trace)

    @effect
    async def process_event(
        self, domain: Domain, event: DomainEvent
    ) -> Result[PersonaOutcome, UnknownDomain]:
        """Process one event: engagement, plan, steps, delivery, evaluation.

        An event with an active plan, from before a restart, is resumed; one that this object is processing
        already is declined. A plan that failed is an outcome with the reason.

        Fails only with ``UnknownDomain``.
        """
        found = self.domains.get(domain)
        if found is None:
            return Failure(UnknownDomain(domain, tuple(self.domains)))
        if event.id in self._processing:
            return Success(PersonaOutcome(event.id, "declined", "It is being processed already."))
        self._processing.add(event.id)
        try:
            return Success(await self._process(found, event))
        finally:
            self._processing.discard(event.id)
            self._engaged.pop(event.id, None)

    @effect
    async def resume(self) -> Result[tuple[PersonaOutcome, ...], MemoryErrors]:
        """Resume every interrupted plan, the oldest first.

        Completed steps are not repeated.

        A step that was running is executed again. Plans of domains that were removed are skipped.

        Fails with ``MemoryUnavailable`` when the plans cannot be read.
        """
        listed = await attempt(self.services.store.list_plans(self.settings.id, status="active", limit=1_000))
        if isinstance(listed, Failure):
            return Failure(listed.failure())
        outcomes = []
        for listed_plan in reversed(listed.unwrap()):
            domain = self.domains.get(listed_plan.domain)
            if domain is None or listed_plan.event.id in self._processing:
                continue
            read = await attempt(self.services.store.get_plan(listed_plan.id))
            if isinstance(read, Failure):
                return Failure(read.failure())
            plan = read.unwrap().value_or(listed_plan)
            if plan.plan.status != "active":  # it ended while others were resumed
                continue
            self._processing.add(plan.event.id)
            try:
                outcomes.append(await self._resume_plan(plan, domain))
            finally:
                self._processing.discard(plan.event.id)
        return Success(tuple(outcomes))

    # --- the parts of a cycle ---------------------------------------------------------------------------

    async def _process(self, domain: PersonaDomain, event: DomainEvent) -> PersonaOutcome:
        services = self.services
        cycle = begin_cycle(self.settings, services, domain, TaskId(services.ids.new()))
        earlier = await self._plan_of(event, cycle)
        if earlier is not None and earlier.plan.status == "active":
            return await self._resume_plan(earlier, domain)
        await cycle.publish(
            persona_events.PersonaEventReceived, persona_id=self.settings.id, domain=domain.name, event=event
        )
        decision = await self._decide(event, cycle, handled=earlier is not None)
        await cycle.publish(
            persona_events.PersonaEngagementDecided,
            persona_id=self.settings.id,
            event_id=event.id,
            engage=decision.engage,
            reason=decision.reason,
        )
        if not decision.engage:
            return PersonaOutcome(event.id, "declined", decision.reason)
        try:
            description = domain.description_of(event)
        except Exception as error:  # noqa: BLE001 - a describe function is the user's code
            reason = f"The event could not be described: {type(error).__name__}: {error}"
            return PersonaOutcome(event.id, "failed", reason)
        task = PersonaTask(
            id=cycle.events.task_id,
            domain=domain.name,
            context_id=event.context_id,
            description=description,
            priority=event.priority,
            triggered_by=event.id,
            created_at=services.clock.now(),
        )
        formulated = await self.reasoning.formulate_plan(task, event, cycle)
        plan = formulated.plan
        await cycle.attempt_or("record", services.store.save_plan(plan), None)
        await cycle.publish(
            persona_events.PersonaPlanFormulated, plan=plan, reason=formulated.reason, shown=formulated.shown
        )
        decision_text = f"Plan for {plan.plan.goal!r}: {formulated.reason}"
        await add_thought(plan, "decision", decision_text, DECISION_IMPORTANCE, cycle)
        return await self._execute(plan, cycle)

    async def _plan_of(self, event: DomainEvent, cycle: Cycle) -> PersonaPlan | None:
        """Return the plan for this event, if there is one."""
        stored = self.services.store.plan_of_event(self.settings.id, event.id)
        return await cycle.attempt_or("recall", stored.map(_or_none), None)

    async def _decide(self, event: DomainEvent, cycle: Cycle, *, handled: bool) -> EngagementDecision:
        policy = self.settings.engagement
        listed = self.services.store.list_plans(
            self.settings.id, domain=cycle.domain.name, context_id=event.context_id, limit=policy.max_events
        )
        recent = {
            plan.event.id: plan.task.created_at for plan in await cycle.attempt_or("recall", listed, ())
        }
        place, now = (cycle.domain.name, event.context_id), self.services.clock.now()
        for name, (domain, context, at) in self._engaged.items():  # some have no plan yet
            if (domain, context) == place:
                recent.setdefault(name, at)
        decision = should_engage(
            event,
            name=self.settings.name,
            policy=policy,
            recent=tuple(recent.values()),
            now=now,
            handled=handled,
        )
        if decision.engage:
            self._engaged[event.id] = (*place, now)
        return decision

    async def _resume_plan(self, plan: PersonaPlan, domain: PersonaDomain) -> PersonaOutcome:
        cycle = begin_cycle(self.settings, self.services, domain, plan.task.id)
        completed = sum(step.status == "completed" for step in plan.plan.steps)
        await cycle.publish(persona_events.PersonaPlanResumed, plan_id=plan.id, completed_steps=completed)
        return await self._execute(plan, cycle)

    async def _execute(self, plan: PersonaPlan, cycle: Cycle) -> PersonaOutcome:
        services = self.services
        load = min(1.0, (len(self._processing) + self.waiting) / self.settings.inbox.capacity)
        await self.reasoning.update_state(cycle, focus=plan.plan.goal, load=load)
        status: PlanStatus = "completed"
        abstained = False
        reason = "Every step succeeded or was recovered from."
        while (step := plan.next_step) is not None:
            expanded = await expand_large_step(plan, step, cycle)
            if expanded is not None:
                plan = expanded
                continue
            plan = begin_step(plan, step.id, services.clock.now())
            await cycle.attempt_or("record", services.store.save_plan(plan), None)
            await cycle.publish(persona_events.PersonaStepStarted, plan_id=plan.id, step=step)
            outcome = await execute_step(plan, step, cycle)
            adjustment = await self.reasoning.adjust_plan(plan, outcome, cycle)
            plan = adjustment.plan
            if adjustment.action == "ABORT":  # on disk at once, so that no restart goes on with it
                status, reason = "failed", adjustment.reasoning
                if is_abstention(outcome):
                    abstained, reason = True, f"{reason} {outcome.error.message if outcome.error else ''}"
                plan = end_plan(plan, status, services.clock.now())
            await cycle.attempt_or("record", services.store.save_plan(plan), None)
            await cycle.publish(persona_events.PersonaStepEnded, plan_id=plan.id, outcome=outcome)
            await cycle.publish(
                persona_events.PersonaPlanAdjusted,
                plan_id=plan.id,
                step_id=step.id,
                action=adjustment.action,
                reasoning=adjustment.reasoning,
                error_kind=adjustment.error_kind,
            )
        answer = answer_of(plan)
        if status == "completed":
            undelivered = await self._deliver(plan, answer, cycle)
            if undelivered is not None:
                status, reason = "failed", undelivered.message
        if plan.plan.status == "active":
            plan = end_plan(plan, status, services.clock.now())
        return await self._end(plan, answer, reason, cycle, abstained=abstained)

    async def _deliver(self, plan: PersonaPlan, answer: str, cycle: Cycle) -> DeliveryFailed | None:
        deliver, limit = cycle.domain.deliver, self.settings.timeouts.step_s
        if deliver is None:
            return None
        detail = f"it took more than {limit:g} seconds"
        with anyio.move_on_after(limit):
            try:
                await deliver(plan.event, answer)
            except Exception as error:  # noqa: BLE001 - a deliver function is the user's code: its errors are reported
                detail = f"{type(error).__name__}: {error}"
            else:
                return None
        failed = DeliveryFailed(cycle.domain.name, detail)
        await cycle.fail_stage("deliver", failed)
        return failed

    async def _end(
        self, plan: PersonaPlan, answer: str, reason: str, cycle: Cycle, *, abstained: bool
    ) -> PersonaOutcome:
        await cycle.attempt_or("record", self.services.store.save_plan(plan), None)
        await cycle.publish(
            persona_events.PersonaPlanEnded,
            plan_id=plan.id,
            status=plan.plan.status,
            reason=reason,
            answer=answer,
        )
        evaluation = await self._evaluation_of(plan, cycle)
        await self.reasoning.update_state(cycle, focus="")
        if evaluation is not None:
            plan = evolve(plan, succeeded=evaluation.meets_criteria)
        return PersonaOutcome(
            event_id=plan.event.id,
            status="completed" if plan.plan.status == "completed" else "abstained" if abstained else "failed",
            reason=reason,
            plan=plan,
            answer=answer,
            evaluation=evaluation,
            duration_ms=(self.services.clock.monotonic() - cycle.started) * 1000,
            tokens=cycle.tokens,
            cost_usd=cycle.cost_usd,
        )

    async def _evaluation_of(self, plan: PersonaPlan, cycle: Cycle) -> Evaluation | None:
        mode = self.settings.evaluation
        if mode == "off" or not self.settings.reasoning:
            return None
        if mode == "background" and self._background is not None:
            self._background.start_soon(self.reasoning.evaluate_outcome, plan, cycle)
            return None
        evaluated = await self.reasoning.evaluate_outcome(plan, cycle)
        return evaluated.value_or(None)


def _or_none(plan: Maybe[PersonaPlan]) -> PersonaPlan | None:
    return plan.value_or(None)


# --- task groups that live as long as an object -------------------------------------------------------------


async def open_group() -> anyio.abc.TaskGroup:
    """Create and enter a task group."""
    return await anyio.create_task_group().__aenter__()


async def close_group(
    group: anyio.abc.TaskGroup,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    """Wait for the tasks of the group.

    Cancel them when the body raised, and pass its exception unwrapped.
    """
    try:
        await group.__aexit__(kind, error, trace)
    except BaseExceptionGroup as raised:
        if error is None or raised.exceptions != (error,):
            raise


# --- comparison of personas on the same events ----------------------------------------------------------

OutcomeJudge: TypeAlias = Callable[[DomainEvent, PersonaOutcome], bool]
"""Returns whether an outcome is a success; it should judge the answer, not the persona's own evaluation."""


@frozen
class VariantReport:
    """Results of one persona over all events.

    Attributes:
        succeeded: whether each event succeeded, in the order of the events.
        tokens: tokens of all events.
        cost_usd: US dollars of all events, for model calls with a known price.
        duration_ms: average wall-clock milliseconds of one event.
    """

    name: str
    succeeded: tuple[bool, ...]
    tokens: int
    cost_usd: float
    duration_ms: float

    @property
    def success_rate(self) -> float:
        """Share of successes, 0 to 1; 0 without events."""
        return sum(self.succeeded) / len(self.succeeded) if self.succeeded else 0.0


@effect
async def compare_personas(
    domain: Domain, events: Sequence[DomainEvent], variants: Mapping[str, Persona], judge: OutcomeJudge
) -> Result[tuple[VariantReport, ...], UnknownDomain]:
    """Send every event to every variant and return a report for each variant.

    To compare planning with plain reactions, make one variant with ``reasoning`` and one without, each with
    a separate store. Fails with ``UnknownDomain`` when a variant lacks the domain.
    """
    reports = []
    for name, persona in variants.items():
        outcomes = []
        for event in events:
            outcome = await attempt(persona.process_event(domain, event))
            if isinstance(outcome, Failure):
                return Failure(outcome.failure())
            outcomes.append(outcome.unwrap())
        judged = zip(events, outcomes, strict=True)
        report = VariantReport(
            name,
            succeeded=tuple(judge(event, outcome) for event, outcome in judged),
            tokens=sum(outcome.tokens for outcome in outcomes),
            cost_usd=sum(outcome.cost_usd for outcome in outcomes),
            duration_ms=sum(outcome.duration_ms for outcome in outcomes) / max(1, len(outcomes)),
        )
        reports.append(report)
    return Success(tuple(reports))
