"""A persona, which processes events by planning, steps, delivery and evaluation."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from itertools import takewhile
from operator import not_
from types import TracebackType
from typing import TypeAlias
from zoneinfo import ZoneInfo

import anyio
import anyio.abc
from anyio.lowlevel import EventLoopToken, current_token
from attrs import evolve, frozen
from returns.future import FutureResult
from returns.maybe import Nothing
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, persona_events
from reactive_agents.core.channels import DeliveryDelayed, Reaction
from reactive_agents.core.codec import to_json
from reactive_agents.core.ids import ContextId, EventId, PlanId, TaskId
from reactive_agents.core.persona_queue import (
    CRON,
    EventEnd,
    NewMessage,
    Submission,
    WorkFilter,
    WorkItem,
    WorkKind,
    delivery_key,
    digest_of,
)
from reactive_agents.core.personas import (
    Domain,
    DomainEvent,
    EngagementDecision,
    Evaluation,
    EventSchedule,
    Feedback,
    OutcomeStatus,
    PersonaOutcome,
    PersonaPlan,
    PersonaSettings,
    PersonaTask,
    PlanAdjustment,
    Room,
    StepOutcome,
    joined_names,
)
from reactive_agents.core.plans import PlanStatus, PlanStep
from reactive_agents.core.run_record import latest_time, next_time
from reactive_agents.effects import attempt, beside, effect, outcome_of, task_group
from reactive_agents.event_loop import to_the_end
from reactive_agents.persona.cycle import (
    Cycle,
    OvertakenError,
    PersonaServices,
    UnreadableError,
    add_thought,
    begin_cycle,
    cancel_steps,
    execute_step,
    is_abstention,
)
from reactive_agents.persona.domain import PersonaDomain, should_engage
from reactive_agents.persona.plan_changes import answer_of, begin_step, complete_step, end_plan, fail_step
from reactive_agents.persona.planning import adjust_plan, expand_large_step, formulate_plan
from reactive_agents.persona.prompts import REMINDER_ID
from reactive_agents.persona.reasoning_system import PersonaReasoningSystem

_log = logging.getLogger("reactive_agents")
DECISION_IMPORTANCE = 0.6
MOST_DELAY = timedelta(days=1)
"""How long a channel can delay a message before its tries are counted."""
BLOCKED = "[A message that a guardrail blocked.]"
BLOCKED_NAME = "[A name that is not shown.]"
UNCHECKED = "[A message that was not checked.]"
_TRIES_WITHOUT_CALLS = 3
_MOST_NAMES = 1_000
"""The maximum of allowed names, which are not checked again."""
REMINDER = "A reminder that was asked for here: "
MOST_REMINDERS = 100
"""Maximum number of waiting reminders of one user."""
MOST_DELAYED = timedelta(days=366)
_MOST_SCHEDULES = 10_000
UNSERVED_SCHEDULE = timedelta(days=1)
"""How long after it was found unserved at its time a schedule is dropped, if no process serves it."""
_TYPING_S = 20.0
"""Seconds between typing indicators."""
_POLL_S = 0.5
"""Seconds between checks of a worker for work of other processes."""


@frozen
class Evaluated:
    """An evaluation with its cost; ``None`` if the model returned none."""

    evaluation: Evaluation | None
    tokens: int
    cost_usd: float


class Persona:
    """A long-lived named agent with events from one or more domains.

    Every event and every message is stored in a queue first, so that another or later process can continue.
    Events of one room are processed in the order of arrival, those of several rooms in parallel.

    Entered as an async context manager, it evaluates in the background if so configured, and waits for that
    at the end; otherwise it evaluates at once.

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
        self._processing: set[tuple[Room, EventId]] = set()
        # set by an earlier waiter of the room
        self._taken: dict[tuple[Room, EventId], PersonaOutcome | None] = {}
        self._under_way = 0
        self._allowed_names: set[tuple[Domain, str]] = set()
        self._entered: list[
            tuple[AbstractAsyncContextManager[object], anyio.abc.TaskGroup, EventLoopToken]
        ] = []
        if len(self.domains) != len(listed):
            names = ", ".join(each.name for each in listed)
            raise ValueError(f"Persona: domains: got {names}, expected each name once.")

    async def __aenter__(self) -> Persona:
        entered = task_group()
        self._entered.append((entered, await entered.__aenter__(), current_token()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        entered = next(each for each in reversed(self._entered) if each[2] == current_token())
        self._entered.remove(entered)
        await entered[0].__aexit__(kind, error, trace)

    def problem_of(
        self, domain: Domain, event: DomainEvent
    ) -> errors.UnknownDomain | errors.InvalidEvent | None:
        """Return why the persona cannot process an event; ``None`` if it can."""
        known = self.domains.get(domain)
        return errors.UnknownDomain(domain, tuple(self.domains)) if known is None else known.problem_of(event)

    def room_of(self, domain: Domain, event: DomainEvent) -> Room:
        """Return the room of an event."""
        return Room(self.settings.id, domain, event.context_id, event.tenant)

    @effect
    async def process_event(
        self, domain: Domain, event: DomainEvent
    ) -> Result[PersonaOutcome, errors.UnknownDomain | errors.InvalidEvent]:
        """Process one event: engagement, plan, steps, delivery, evaluation.

        Earlier events of its room are processed first. A repeated event is declined; if another worker takes
        a new one, waits for that worker. A failed plan is an outcome with the reason.

        Fails only with ``UnknownDomain``, and with ``InvalidEvent`` for an event without text or with a wrong
        name.
        """
        problem = self.problem_of(domain, event)
        if problem is not None:
            return Failure(problem)
        room = self.room_of(domain, event)
        if (room, event.id) in self._processing:
            return Success(_declined(event, room, _UNDER_WAY))
        self._processing.add((room, event.id))
        try:
            return Success(await self._process_in_turn(room, event))
        finally:
            self._processing.discard((room, event.id))
            self._taken.pop((room, event.id), None)

    @effect
    async def resume(self) -> Result[tuple[PersonaOutcome, ...], errors.MemoryErrors]:
        """Do the remaining work of earlier processes: events, messages and evaluations.

        Completed steps are not repeated; a step that was running is executed again. Skips work of removed
        domains and of processes that are alive. Returns the outcomes of the events.

        Fails with ``MemoryUnavailable`` if the queue cannot be read.
        """
        outcomes: list[PersonaOutcome] = []
        armed = await self.arm_schedules()
        if isinstance(armed, Failure):
            return armed
        while True:
            claimed = await self.claim("event")
            if isinstance(claimed, Failure):
                return Failure(claimed.failure())
            item = claimed.unwrap()
            if item is None:
                break
            outcome = await self.work_event(item)
            if outcome is not None:
                outcomes.append(await self._finish(item, outcome))
        for kind in ("delivery", "evaluation"):
            while (left := (await self.claim(kind)).value_or(None)) is not None:
                await self.work_item(left)
        return Success(tuple(outcomes))

    # --- events that come later ---------------------------------------------------------------------------

    @effect
    async def schedule(
        self, domain: Domain, event: DomainEvent, due: datetime
    ) -> Result[None, errors.UnknownDomain | errors.InvalidEvent | errors.MemoryErrors]:
        """Add an event to the queue at a later time, once.

        Fails with ``UnknownDomain``, ``InvalidEvent``, or ``MemoryUnavailable``.
        """
        problem = self.problem_of(domain, event)
        if problem is None and not isinstance(due, datetime):
            problem = errors.InvalidEvent("due", event.id, repr(due), "a datetime")
        if problem is not None:
            return Failure(problem)
        room = self.room_of(domain, event)
        key = f"once/{joined_names(room.context_id, event.id)}"
        return await attempt(self.services.store.add_schedule(room, key, event, due))

    async def arm_schedules(self) -> Result[None, errors.MemoryErrors]:
        """Store the schedules of the domains, and add due events.

        Each process serves its own schedules, so that an older and a newer version of the program do not
        drop those of each other. Those that nobody has served for some time are dropped.

        Fails with ``MemoryUnavailable``.
        """
        store, own = self.services.store, self._schedules
        clock = await attempt(store.now())  # that of this machine may be days ahead
        listed = WorkFilter(self.settings.id, ("schedule",), ("open",), limit=_MOST_SCHEDULES)
        found = await attempt(store.find_work(listed))
        if isinstance(clock, Failure):
            return Failure(clock.failure())
        if isinstance(found, Failure):
            return Failure(found.failure())
        now, every = clock.unwrap(), [item for item in found.unwrap() if item.key.startswith(CRON)]
        stored = {(item.room.domain, item.key, to_json(item.event)): item for item in every}
        for key, (domain, each) in own.items():
            event = _scheduled(each)
            following = next_time(each.cron, each.timezone, now)
            earlier = stored.get((domain, f"{CRON}{each.name}", to_json(event)))  # from when names were keys
            if earlier is not None and earlier.due is not None:
                following = min(following, earlier.due)
            added = await attempt(store.add_schedule(self.room_of(domain, event), key, event, following))
            if isinstance(added, Failure):
                return added
            if earlier is not None:
                await attempt(store.order_work(earlier.number, "drop"))
        for item in every:
            if item.key in own or item.room.domain not in self.domains or item.due is None:
                continue
            if item.updated_at <= item.due < now:  # perhaps by a clock far ahead, so its day begins here
                claimed = store.claim(
                    self.settings.id, "schedule", domains=(), room=item.room, schedules=(item.key,)
                )
                unserved = (await attempt(claimed)).value_or(None)
                if unserved is not None:
                    await attempt(store.release(unserved, due=item.due))
            elif item.due < item.updated_at <= now - UNSERVED_SCHEDULE:
                await attempt(store.order_work(item.number, "drop"))
        while (due := (await self.claim("schedule")).value_or(None)) is not None:
            if not await self._come_due(due):
                break  # a later try may store it
        return Success(None)

    @property
    def _schedules(self) -> Mapping[str, tuple[Domain, EventSchedule]]:
        """The schedules of the domains, by keys that differ after any change."""
        return {
            _cron_key(domain.name, each): (domain.name, each)
            for domain in self.domains.values()
            for each in domain.schedules
        }

    async def _come_due(self, item: WorkItem) -> bool:
        """Add the event of a schedule to the queue, and reschedule it.

        Returns whether that is done; otherwise it is due again.
        """
        store, event = self.services.store, item.event
        now = item.updated_at  # when it was claimed, by the clock of the store, by which it is due
        due, following = item.due or now, None
        if item.key.startswith(CRON):
            _, schedule = self._schedules[item.key]
            due = latest_time(schedule.cron, schedule.timezone, due, now)
            following = next_time(schedule.cron, schedule.timezone, now)
            grace_s = schedule.misfire_grace_s
            if grace_s is not None and (now - due).total_seconds() > grace_s:
                _log.warning("The schedule %s missed its time of %s.", schedule.name, due.isoformat())
                await attempt(store.release(item, due=following))
                return True
            local = due.astimezone(ZoneInfo(schedule.timezone))  # an hour that occurs twice has one event
            event = evolve(event, id=EventId(f"{event.id}@{local:%Y-%m-%dT%H:%M:%S}"))
        room = self.room_of(item.room.domain, event)
        added = await attempt(store.add_event(room, evolve(event, at=due)))
        if isinstance(added, Failure):  # its time is a part of its id, and does not change
            await attempt(store.release(item, due=item.due))
        elif following is None:
            await attempt(store.end_work(item))
        else:
            await attempt(store.release(item, due=following))
        return isinstance(added, Success)

    @effect
    async def feedback_of(
        self, domain: Domain, reaction: Reaction
    ) -> Result[DomainEvent | None, errors.MemoryErrors]:
        """Return the event of a reaction; ``None`` if there is no such message.

        A repeated reaction is the same event; without a platform id, so is the same opinion of the same user
        about a message. Fails with ``MemoryUnavailable``.
        """
        chosen = WorkFilter(
            self.settings.id,
            ("delivery",),
            tenant=reaction.tenant,
            domain=domain,
            message_id=reaction.message_id,
            limit=1,
        )
        found = await attempt(self.services.store.find_work(chosen))
        if isinstance(found, Failure):
            return Failure(found.failure())
        item = next(iter(found.unwrap()), None)
        if item is None or item.plan_id is None or not reaction.message_id:
            return Success(None)
        opinion = "good" if reaction.good else "bad"
        name = ("reaction", opinion, reaction.user, reaction.message_id, reaction.id)
        now = self.services.clock.now()
        return Success(
            DomainEvent(
                EventId(joined_names(*name)),
                item.room.context_id,
                reaction.user,
                f"[A reaction to the answer: {reaction.sign or opinion}]",
                now,
                user=reaction.user,
                tenant=reaction.tenant,
                feedback=Feedback(item.plan_id, reaction.user, reaction.good, now),
            )
        )

    # --- items of the queue -------------------------------------------------------------------------------

    async def claim(
        self, kind: WorkKind, room: Room | None = None, *, domains: Sequence[Domain] = ()
    ) -> Result[WorkItem | None, errors.MemoryErrors]:
        """Claim the next item of a kind, in all domains, some of them, or one room.

        Fails with ``MemoryUnavailable``.
        """
        schedules = tuple(self._schedules) if kind == "schedule" else ()
        places = tuple(domains or self.domains)
        return await attempt(
            self.services.store.claim(self.settings.id, kind, domains=places, room=room, schedules=schedules)
        )

    async def work_event(self, item: WorkItem, event: DomainEvent | None = None) -> PersonaOutcome | None:
        """Process a claimed event up to its stored end; it stays claimed.

        Returns ``None`` if another process has taken it. A cancelled event is released.

        Args:
            event: the original event; the stored one is without secrets.
        """
        if item.status == "answered" and item.outcome is not None:
            return await self._with_plan(item.outcome, item)
        if await self.gave_up(item):
            return None
        cycle = self._cycle_of(item)
        under_way = EVENT_UNDER_WAY.set((self, item.room, item.event))
        self._under_way += 1
        try:
            async with _given_back(item, cycle):
                try:
                    return await self._run_cycle(event or item.event, cycle)
                except OvertakenError:
                    return None
                except UnreadableError as error:
                    await self.try_later(item, str(error), cycle.unstored_usd, is_unanswered=True)
                    return None
        finally:
            self._under_way -= 1
            EVENT_UNDER_WAY.reset(under_way)

    async def _with_plan(self, outcome: PersonaOutcome, item: WorkItem) -> PersonaOutcome:
        """Return the stored outcome of an event, with its plan added."""
        plan = None
        if item.plan_id is not None:
            read = await attempt(self.services.store.get_plan(item.plan_id))
            plan = read.map(lambda found: found.value_or(None)).value_or(None)
        return evolve(outcome, plan=plan, room=item.room)

    async def work_item(self, item: WorkItem, text: str | None = None) -> Evaluated | None:
        """Do a claimed delivery, evaluation or schedule; return the evaluation.

        If it fails, it is released for a later try, or becomes a dead letter after the last.

        Args:
            text: the original text of the message; the stored one is without secrets.
        """
        if item.kind == "schedule":
            if not await self._come_due(item):
                await anyio.sleep(_POLL_S)  # it is due at once
            return None
        if await self.gave_up(item):
            return None
        if item.kind == "delivery":
            await self._deliver(item, item.message if text is None else text)
            return None
        return await self._evaluate(item)

    async def end_event(self, item: WorkItem, outcome: PersonaOutcome) -> None:
        """End an event after its outcome was reported."""
        await attempt(self.services.store.end_work(item, "dead" if outcome.given_up else "done"))

    async def gave_up(self, item: WorkItem) -> bool:
        """End work that ended too many processes as a dead letter; return whether it did.

        An open event is given up with an end of its plan before; it comes here if that ends processes too.
        """
        is_open = item.kind == "event" and item.status == "open"
        if item.attempts - 1 <= self._most_ends(item) * (2 if is_open else 1):
            return False
        what = "Taking its outcome" if item.status == "answered" and item.kind == "event" else "It"
        reason = f"{what} was interrupted {item.attempts - 1} times, and it is given up."
        await self._end_dead(item, reason, is_unanswered=is_open)
        return True

    async def try_later(
        self, item: WorkItem, reason: str, cost_usd: float = 0.0, *, is_unanswered: bool = False
    ) -> None:
        """Release an item after a failed try, or make it a dead letter after the last.

        Args:
            cost_usd: the unstored cost of the try.
            is_unanswered: whether to send the fallback after the last try.
        """
        policy = self.settings.delivery
        if item.attempts >= policy.tries:
            await self._end_dead(item, reason, cost_usd, is_unanswered=is_unanswered)
            return
        due = self.services.clock.now() + timedelta(seconds=policy.pause_s(item.attempts))
        await attempt(self.services.store.release(item, due=due, reason=reason, cost_usd=cost_usd))

    async def _end_dead(
        self, item: WorkItem, reason: str, cost_usd: float = 0.0, *, is_unanswered: bool
    ) -> None:
        """End an item as a dead letter with its fallback, and a warning in the log."""
        fallback = self.settings.delivery.fallback if is_unanswered else ""
        message = _fallback(item.event.id, fallback) if fallback else None
        ended = self.services.store.end_work(item, "dead", reason=reason, cost_usd=cost_usd, message=message)
        if (await attempt(ended)).value_or(False):  # otherwise another process has it, or it is tried again
            _log.warning("The %s %d is a dead letter: %s", item.kind, item.number, reason)

    def _most_ends(self, item: WorkItem) -> int:
        """Return how many processes an item may end, after the first one.

        The first one does not count: another event in progress may have ended it. Later tries of an event run
        alone. If no tool can have been called there are more tries: nothing is done twice, and processes are
        seldom ended by the item.
        """
        begun = item.kind == "event" and item.status == "open" and item.plan_id
        called = begun and self.domains[item.room.domain].tool_names()
        return self.settings.delivery.tries * (1 if called else _TRIES_WITHOUT_CALLS)

    # --- the parts of a cycle ---------------------------------------------------------------------------

    async def _process_in_turn(self, room: Room, event: DomainEvent) -> PersonaOutcome:
        added = await attempt(self.services.store.add_event(room, event))
        submission = added.value_or(None)
        own = None if submission is None else submission.item
        if submission is None or own is None:
            return await self._process_without_queue(room, event, added)
        if not own.is_open:
            return _declined(event, room, _HANDLED if own.status == "done" else own.reason)
        pause_s, key, looked, failures = 0.01, (room, event.id), False, 0
        while True:
            claimed = await self.claim("event", room)
            failures = failures + 1 if isinstance(claimed, Failure) else 0
            if isinstance(claimed, Failure) and failures >= _MOST_FAILURES:  # it stays in the queue
                return PersonaOutcome(event.id, "failed", claimed.failure().message, room=room)
            item = claimed.value_or(None)
            if item is not None and item.number == own.number:
                outcome = await self.work_event(item, event)
                if outcome is not None:
                    return await self._finish(item, outcome)
                current = await self._current(own)
                reason = _CANCELLED if current.status == "dropped" else current.reason or _UNDER_WAY
                return _declined(event, room, reason)
            if item is not None:
                await self._work_for_another(item)
                continue
            taken = self._taken.get(key, _NOT_TAKEN)
            if isinstance(taken, PersonaOutcome):
                return taken
            now = await self._current(own)
            if submission.is_new and now.outcome is not None:  # another worker was faster
                return await self._with_plan(now.outcome, now)
            is_waited_for = taken is not _NOT_TAKEN or (submission.is_new and now.is_open)
            if (now.holder or not now.is_open) and not is_waited_for:
                if looked:  # it is not of this process, which would have returned
                    ended = _CANCELLED if now.status == "dropped" else _HANDLED
                    return _declined(event, room, _UNDER_WAY if now.is_open else ended)
                looked = True
            await anyio.sleep(pause_s)
            pause_s = min(_POLL_S, pause_s * 2)

    async def _process_without_queue(
        self, room: Room, event: DomainEvent, added: Result[Submission, errors.MemoryErrors]
    ) -> PersonaOutcome:
        """Answer an event that the store did not take."""
        task_id = TaskId(self.services.ids.new())
        cycle = begin_cycle(self.settings, self.services, self.domains[room.domain], task_id, room)
        await cycle.attempt_or("record", FutureResult.from_result(added), None)
        try:
            return await self._run_cycle(event, cycle)
        finally:
            await cycle.record_cost()

    async def _current(self, item: WorkItem) -> WorkItem:
        chosen = WorkFilter.of_event(item.room, item.event.id, item.kind)
        found = await attempt(self.services.store.find_work(chosen))
        gone = evolve(item, status="dropped") if isinstance(found, Success) else item  # it was deleted
        return next(iter(found.value_or(())), gone)

    async def _work_for_another(self, item: WorkItem) -> None:
        """Process an earlier event of the room, for its waiter."""
        key = (item.room, item.event.id)
        ended: PersonaOutcome | None = None
        self._taken[key] = None
        try:
            outcome = await self.work_event(item)
            if outcome is not None:
                ended = await self._finish(item, outcome, waits=False)
        finally:
            if ended is None or key not in self._processing:
                self._taken.pop(key, None)
            else:
                self._taken[key] = ended

    async def _finish(self, item: WorkItem, outcome: PersonaOutcome, *, waits: bool = True) -> PersonaOutcome:
        """Do the queued deliveries and evaluation of an event, and end it.

        Args:
            waits: whether to wait for further tries of the event's messages.
        """
        outcome = await self._deliver_in_turn(item, outcome, waits=waits)
        here = [group for _, group, token in self._entered if token == current_token()]
        if self.settings.evaluation == "background" and here:
            here[-1].start_soon(self._evaluate_in_turn, item)
        else:
            outcome = await self.evaluated(item, outcome)
        await self.end_event(item, outcome)
        return outcome

    async def _deliver_in_turn(
        self, event: WorkItem, outcome: PersonaOutcome, *, waits: bool
    ) -> PersonaOutcome:
        chosen = WorkFilter.of_event(event.room, event.event.id, "delivery")
        while True:
            found = await attempt(self.services.store.find_work(chosen))
            own = found.value_or(())
            left = [each for each in own if each.is_open]
            if not left:
                dead = next((each for each in own if each.status == "dead"), None)
                return outcome if dead is None else evolve(outcome, status="failed", reason=dead.reason)
            item = (await self.claim("delivery", event.room)).value_or(None)
            if item is not None:
                is_answer = item.event.id == event.event.id and item.message_kind == "answer"
                await self.work_item(item, outcome.answer if is_answer else None)
            elif not waits:
                return outcome
            else:
                dues = [each.due for each in left if each.due is not None]
                left_s = (min(dues) - self.services.clock.now()).total_seconds() if dues else _POLL_S
                await anyio.sleep(min(_POLL_S, max(0.001, left_s)))

    async def evaluated(self, event: WorkItem, outcome: PersonaOutcome) -> PersonaOutcome:
        """Evaluate the plan of an event in turn; return the full outcome."""
        made = await self._evaluate_in_turn(event)
        if made is None:
            return outcome
        evaluation, plan = made.evaluation, outcome.plan
        if plan is not None and evaluation is not None:
            plan = evolve(plan, succeeded=evaluation.meets_criteria)
        tokens, cost_usd = outcome.tokens + made.tokens, outcome.cost_usd + made.cost_usd
        return evolve(outcome, evaluation=evaluation, plan=plan, tokens=tokens, cost_usd=cost_usd)

    async def _evaluate_in_turn(self, event: WorkItem) -> Evaluated | None:
        while (item := (await self.claim("evaluation", event.room)).value_or(None)) is not None:
            made = await self.work_item(item)
            if item.event.id == event.event.id:
                return made
        return None

    async def _run_cycle(self, event: DomainEvent, cycle: Cycle) -> PersonaOutcome:
        claim, store = cycle.claim, self.services.store
        active: PersonaPlan | None = None
        if claim is not None:
            await cycle.attempt_or("record", store.begin_task(claim, cycle.events.task_id), True)
            found = await cycle.read(store.plan_of_event(cycle.room, event.id), Nothing)
            active = found.value_or(None)  # its completed steps are not repeated
            if active is not None and active.plan.status != "active":
                active = None
            if claim.attempts - 1 > self._most_ends(claim):
                return await self._give_up(event, active, cycle)
        await cycle.recall()
        if active is not None:
            completed = sum(step.status == "completed" for step in active.plan.steps)
            await cycle.publish(
                persona_events.PersonaPlanResumed, plan_id=active.id, completed_steps=completed
            )
            async with _typing(event, cycle):
                return await self._execute(active, cycle)
        await cycle.publish(
            persona_events.PersonaEventReceived,
            persona_id=self.settings.id,
            domain=cycle.domain.name,
            event=event,
        )
        event, blocked = await self._guarded(event, cycle)  # later prompts include declined events
        try:
            decision = await self._decide(event, blocked, cycle)
        except UnreadableError:
            raise
        except Exception as error:  # noqa: BLE001 - an engage function is the user's code
            reason = f"Whether to engage could not be decided: {type(error).__name__}: {error}"
            return await self._end(PersonaOutcome(event.id, "failed", reason), None, cycle)
        await cycle.publish(
            persona_events.PersonaEngagementDecided,
            persona_id=self.settings.id,
            event_id=event.id,
            engage=decision.engage,
            reason=decision.reason,
        )
        if not decision.engage:
            declined = _declined(event, cycle.room, decision.reason)
            return await self._end(evolve(declined, refused=decision.refused), None, cycle)
        try:
            description = cycle.domain.description_of(event)
        except Exception as error:  # noqa: BLE001 - a describe function is the user's code
            reason = f"The event could not be described: {type(error).__name__}: {error}"
            return await self._end(PersonaOutcome(event.id, "failed", reason), None, cycle)
        async with _typing(event, cycle):
            return await self._answer(event, description, cycle)

    async def _answer(self, event: DomainEvent, description: str, cycle: Cycle) -> PersonaOutcome:
        domain = cycle.domain
        task = PersonaTask(
            id=cycle.events.task_id,
            domain=domain.name,
            context_id=event.context_id,
            description=description,
            priority=event.priority,
            triggered_by=event.id,
            created_at=self.services.clock.now(),
        )
        formulated = await formulate_plan(task, event, cycle)
        plan = formulated.plan
        if formulated.corrects:
            await self._take_correction(event, cycle)
        await cycle.save(plan)
        await cycle.publish(
            persona_events.PersonaPlanFormulated,
            plan=plan,
            reason=formulated.reason,
            shown=formulated.shown,
            warnings=formulated.warnings,
            transcript=tuple(dict.fromkeys(each.event_id for each in cycle.transcript)),
            notes=len(cycle.thoughts),
        )
        decision_text = f"Plan for {plan.plan.goal!r}: {formulated.reason}"
        await add_thought(plan, "decision", decision_text, DECISION_IMPORTANCE, cycle)
        return await self._execute(plan, cycle)

    async def _take_correction(self, event: DomainEvent, cycle: Cycle) -> None:
        """Record that the last answer to the event's author was bad."""
        for plan in await cycle.plans():
            if plan.event.user_id == event.user_id and plan.event.id != event.id:
                feedback = Feedback(plan.id, event.user_id, good=False, at=event.at)
                await self.reasoning.take_feedback(feedback, cycle)
                return

    async def _decide(self, event: DomainEvent, blocked: str, cycle: Cycle) -> EngagementDecision:
        """Decide whether to engage with an event; a reaction is only noted.

        Args:
            blocked: why a guardrail blocked it, if so.
        """
        if blocked:
            return EngagementDecision(engage=False, reason=blocked)
        if event.feedback is not None:
            noted = await self.reasoning.take_feedback(event.feedback, cycle)
            return EngagementDecision(engage=False, reason=noted)
        decision = await self._by_policy(event, cycle)
        if decision.engage:
            with anyio.fail_after(self.settings.timeouts.step_s):
                decision = await outcome_of(cycle.domain.decide(event, cycle.heard))
        if decision.engage:
            reached = await cycle.read_limits() or await cycle.engage()
            if reached:
                return EngagementDecision(engage=False, reason=reached, refused=True)
        return decision

    async def _by_policy(self, event: DomainEvent, cycle: Cycle) -> EngagementDecision:
        policy, now = self.settings.engagement, self.services.clock.now()
        since = now - timedelta(seconds=policy.window_s)
        recent = [plan.task.created_at for plan in await cycle.plans(since=since, limit=policy.max_events)]
        speakers = ("", self.settings.name, *policy.peers)
        said = tuple(each for each in cycle.heard if not each.is_reaction)
        of_people = (each.author not in speakers for each in reversed(said))
        return should_engage(
            event,
            name=self.settings.name,
            policy=policy,
            recent=recent,
            now=now,
            peer_turns=len(tuple(takewhile(not_, of_people))),
            transcript=said,
        )

    async def _guarded(self, event: DomainEvent, cycle: Cycle) -> tuple[DomainEvent, str]:
        """Return the event after the guardrail, and why it is blocked, if so.

        The author's name, which is part of prompts, is checked like the content when it is new. It is not
        redacted, since the engagement rules use it. A guardrail may call a model, so once the dollars of the
        day are used up nothing is checked, and later prompts have a note instead of the event.
        """
        if cycle.domain.engine.ports.guardrail == Nothing:
            return event, ""
        changed, blocked = event, ""
        if await cycle.read_limits():
            changed = evolve(event, content=UNCHECKED, author=self._name_of(event, cycle))
        else:
            blocked = await self._check_name(event, cycle)
            report = await cycle.check(event.content, "input")
            if report.redacted is not None:
                changed = evolve(event, content=report.redacted)
            if not report.allowed:
                changed, blocked = evolve(event, content=BLOCKED), report.detail or report.violation
            changed = evolve(changed, author=self._name_of(event, cycle))
        if changed != event and cycle.claim is not None:
            replaced = self.services.store.replace_event(cycle.claim, changed)
            await cycle.read(replaced, default=True, stage="record")
        return changed, blocked and f"A guardrail blocked the event: {blocked}"

    async def _check_name(self, event: DomainEvent, cycle: Cycle) -> str:
        """Check the name of an author, once; return why it is blocked, if so."""
        name = (cycle.domain.name, event.author)
        if name in self._allowed_names:
            return ""
        report = await cycle.check(event.author, "input")
        if not report.allowed:
            return report.detail or report.violation
        if len(self._allowed_names) >= _MOST_NAMES:
            self._allowed_names.clear()
        self._allowed_names.add(name)
        return ""

    def _name_of(self, event: DomainEvent, cycle: Cycle) -> str:
        return event.author if (cycle.domain.name, event.author) in self._allowed_names else BLOCKED_NAME

    async def _give_up(self, event: DomainEvent, plan: PersonaPlan | None, cycle: Cycle) -> PersonaOutcome:
        """End an event that ended several processes."""
        ends = 0 if cycle.claim is None else cycle.claim.attempts - 1
        reason = f"Its process ended {ends} times without progress, and it is given up."
        if plan is None and cycle.claim is not None and cycle.domain.engine.ports.guardrail != Nothing:
            unchecked = evolve(event, content=UNCHECKED, author=self._name_of(event, cycle))
            replaced = self.services.store.replace_event(cycle.claim, unchecked)
            await cycle.read(replaced, default=True, stage="record")
        if plan is not None:
            for cancelled in await cancel_steps(plan, cycle):
                plan = complete_step(plan, cancelled) if cancelled.success else fail_step(plan, cancelled)
                await cycle.publish(persona_events.PersonaStepEnded, plan_id=plan.id, outcome=cancelled)
            plan = end_plan(plan, "failed", self.services.clock.now())
            await cycle.publish(
                persona_events.PersonaPlanEnded, plan_id=plan.id, status="failed", reason=reason, answer=""
            )
        outcome = PersonaOutcome(event.id, "failed", reason, plan, given_up=True)
        return await self._end(outcome, plan, cycle)

    async def _execute(self, plan: PersonaPlan, cycle: Cycle) -> PersonaOutcome:
        queued = self.services.store.waiting(self.settings.id, "event", domains=tuple(self.domains))
        waiting = await cycle.attempt_or("recall", queued, 0)
        load = min(1.0, (max(1, self._under_way) + waiting) / self.settings.inbox.capacity)
        await self.reasoning.update_state(cycle, focus=plan.plan.goal, load=load)
        status: PlanStatus = "completed"
        failed: OutcomeStatus = "failed"
        reason = "Every step succeeded or was recovered from."
        while (step := plan.next_step) is not None:
            reached = await cycle.read_limits()  # other events of the tenant spend at the same time
            if reached:
                status, reason = "failed", reached
                break
            expanded = await expand_large_step(plan, step, cycle)
            if expanded is not None:
                plan = expanded
                continue
            outcome, adjustment = await self._take_step(plan, step, cycle)
            plan = adjustment.plan
            if adjustment.action == "ABORT":
                failed, reason = "abstained" if is_abstention(outcome) else "failed", adjustment.reasoning
        if plan.plan.status == "active":
            plan = end_plan(plan, status, self.services.clock.now())
        answer = answer_of(plan)
        await cycle.publish(
            persona_events.PersonaPlanEnded,
            plan_id=plan.id,
            status=plan.plan.status,
            reason=reason,
            answer=answer,
        )
        await self.reasoning.update_state(cycle, focus="")
        ended: OutcomeStatus = "completed" if plan.plan.status == "completed" else failed
        return await self._end(PersonaOutcome(plan.event.id, ended, reason, plan, answer), plan, cycle)

    async def _take_step(
        self, plan: PersonaPlan, step: PlanStep, cycle: Cycle
    ) -> tuple[StepOutcome, PlanAdjustment]:
        """Execute a step, and store how the plan continues."""
        plan = begin_step(plan, step.id, self.services.clock.now())
        await cycle.save(plan, progress=False)  # bounds the retries of a step that ends the process
        await cycle.publish(persona_events.PersonaStepStarted, plan_id=plan.id, step=step)
        outcome = await execute_step(plan, step, cycle)
        adjustment = await adjust_plan(plan, outcome, cycle)
        if adjustment.action == "ABORT":  # on disk at once, so that a restart does not continue it
            ended = end_plan(adjustment.plan, "failed", self.services.clock.now())
            adjustment = evolve(adjustment, plan=ended)
        step_ended = persona_events.PersonaStepEnded(*cycle.events.stamp(), plan_id=plan.id, outcome=outcome)
        await cycle.save(adjustment.plan, ended=step_ended)  # later steps are told of a failed one
        await cycle.publish(
            persona_events.PersonaPlanAdjusted,
            plan_id=plan.id,
            step_id=step.id,
            action=adjustment.action,
            reasoning=adjustment.reasoning,
            error_kind=adjustment.error_kind,
        )
        return outcome, adjustment

    async def _end(self, outcome: PersonaOutcome, plan: PersonaPlan | None, cycle: Cycle) -> PersonaOutcome:
        """Store the end of an event with its message, in one transaction."""
        outcome = evolve(
            outcome,
            room=cycle.room,
            duration_ms=(self.services.clock.monotonic() - cycle.started) * 1000,
            tokens=cycle.tokens,
            cost_usd=cycle.cost_usd,
        )
        delivered, policy = not cycle.domain.delivers, self.settings.delivery
        messages: tuple[NewMessage, ...] = ()
        if outcome.status == "completed":
            key = f"{outcome.event_id}#answer"
            messages = (NewMessage(key, outcome.answer, is_delivered=delivered),)
        elif outcome.status != "declined" and policy.fallback:
            messages = (_fallback(outcome.event_id, policy.fallback, is_delivered=delivered),)
        evaluates = plan is not None and cycle.reasons and self.settings.evaluation != "off"
        end = EventEnd(
            outcome,
            plan,
            messages,
            evaluates and not outcome.given_up,
            cycle.unstored_usd,
            cycle.unrecorded,
        )
        if cycle.claim is not None:
            stored = await attempt(self.services.store.end_event(cycle.claim, end))
            if isinstance(stored, Failure):  # it is lost with the process too, and done again
                reason, spent = stored.failure().message, cycle.unstored_usd
                await self.try_later(cycle.claim, reason, spent, is_unanswered=True)
                raise OvertakenError
            if not stored.unwrap():
                raise OvertakenError
            return outcome
        return await self._end_unrecorded(end, cycle)

    async def _end_unrecorded(self, end: EventEnd, cycle: Cycle) -> PersonaOutcome:
        """Deliver and evaluate at once, without a queue."""
        outcome, plan = end.outcome, end.plan
        for message in end.messages:
            if plan is not None and not message.is_delivered:
                key = delivery_key(cycle.room, message.key)
                sent = await self._send(plan.event, message.content, key, cycle)
                if isinstance(sent, Failure):
                    outcome = evolve(outcome, status="failed", reason=sent.failure().message)
        if plan is not None:
            await cycle.save(plan)
            if end.evaluate:
                evaluated = await self.reasoning.evaluate_outcome(plan, cycle)
                spent = {"tokens": cycle.tokens, "cost_usd": cycle.cost_usd}
                outcome = evolve(outcome, evaluation=evaluated.value_or(None), **spent)  # type: ignore[arg-type]
        return outcome

    # --- deliveries and evaluations -----------------------------------------------------------------------

    def _cycle_of(self, item: WorkItem) -> Cycle:
        task_id = item.task_id or TaskId(self.services.ids.new())
        domain = self.domains[item.room.domain]
        return begin_cycle(self.settings, self.services, domain, task_id, item.room, item)

    async def _deliver(self, item: WorkItem, text: str) -> None:
        cycle, store = self._cycle_of(item), self.services.store
        # an interrupted try counts, since the message may have been sent
        async with _given_back(item, cycle, reason="Its delivery was interrupted."):
            again = item.attempts > 1 or item.reason != ""
            sent = await self._send(item.event, text, item.delivery_key, cycle, again=again)
            if isinstance(sent, Success):
                await cycle.attempt_or("deliver", store.end_work(item, message_id=sent.unwrap()), True)
            elif not await self._delayed(item, sent.failure()):
                await self.try_later(item, sent.failure().message)

    async def _delayed(self, item: WorkItem, failed: errors.DeliveryFailed) -> bool:
        """Release a message until its channel accepts it, without counting a try.

        After a day of delays by its channel, tries count again.
        """
        if failed.retry_after_s is None or item.updated_at - item.created_at > MOST_DELAY:
            return False
        due = self.services.clock.now() + timedelta(
            seconds=max(failed.retry_after_s, self.settings.delivery.backoff_s)
        )
        return (await attempt(self.services.store.release(item, due=due))).value_or(False)

    async def _send(
        self, event: DomainEvent, text: str, key: str, cycle: Cycle, *, again: bool = False
    ) -> Result[str, errors.DeliveryFailed]:
        limit = self.settings.timeouts.step_s
        detail, retry_after_s = f"it took more than {limit:g} seconds", None
        with anyio.move_on_after(limit):
            try:
                return Success(await outcome_of(cycle.domain.send(event, text, key, again=again)))
            except DeliveryDelayed as error:
                detail, retry_after_s = str(error), error.retry_after_s
            except Exception as error:  # noqa: BLE001 - a deliver function is the user's code: its errors are reported
                detail = f"{type(error).__name__}: {error}"
        failed = errors.DeliveryFailed(cycle.domain.name, detail, retry_after_s)
        await cycle.fail_stage("deliver", failed)
        return Failure(failed)

    async def _evaluate(self, item: WorkItem) -> Evaluated | None:
        cycle, store = self._cycle_of(item), self.services.store
        evaluated: Result[Evaluation, errors.StructuredOutputError | None] = Failure(None)
        async with _given_back(item, cycle):
            try:
                found = await cycle.read(store.get_plan(item.plan_id or PlanId("")), Nothing)
                plan = None if item.status == "answered" else found.value_or(None)
                if plan is not None:
                    await cycle.recall()
                    await cycle.read_limits()
                    evaluated = await self.reasoning.evaluate_outcome(plan, cycle)
                problem = None if isinstance(evaluated, Success) else evaluated.failure()
                if problem is None:  # evaluated, now or by a process that ended, or its plan was deleted
                    await attempt(store.end_work(item, cost_usd=cycle.unstored_usd))
                else:
                    await self.try_later(item, problem.message, cycle.unstored_usd)
                return Evaluated(evaluated.value_or(None), cycle.tokens, cycle.cost_usd)
            except OvertakenError:
                return None
            except UnreadableError as error:
                await self.try_later(item, str(error), cycle.unstored_usd)
                return None


EVENT_UNDER_WAY: ContextVar[tuple[Persona, Room, DomainEvent] | None] = ContextVar(
    "event_under_way", default=None
)
"""The event that a persona is processing, with its room."""


async def remind(at: str, text: str) -> str:
    """Do something in this conversation at a later time, such as a reminder.

    Args:
        at: date and time with its offset, such as 2026-01-31T09:00:00+01:00.
        text: what is to be done or said then, complete in itself.
    """
    under_way = EVENT_UNDER_WAY.get()
    if under_way is None:
        raise RuntimeError("There is no conversation to come back to.")
    persona, room, event = under_way
    services, now = persona.services, persona.services.clock.now()
    try:
        due = datetime.fromisoformat(at)
    except ValueError:
        raise ValueError(f"at: got {at!r}, expected a time such as {now:%Y-%m-%dT%H:%M:%S%z}") from None
    if due.tzinfo is None:
        raise ValueError(f"at: {at!r} has no offset from UTC, such as +01:00")
    if not now < due < now + MOST_DELAYED:
        raise ValueError(f"at: {at!r} is not within a year from now, which is {now:%Y-%m-%dT%H:%M:%S%z}")
    if not text.strip():
        raise ValueError("text: got nothing")
    waiting = WorkFilter(
        room.persona_id, ("schedule",), ("open",), room.tenant, user=event.user_id, limit=MOST_REMINDERS
    )
    if len((await attempt(services.store.find_work(waiting))).value_or(())) >= MOST_REMINDERS:
        raise RuntimeError(f"{event.author} has {MOST_REMINDERS} reminders already.")
    later = evolve(
        event,
        id=EventId(f"{REMINDER_ID}{sha256(to_json((event.id, at, text)).encode()).hexdigest()[:16]}"),
        content=f"{REMINDER}{text}",
        priority=1.0,  # the user chose the time, so it comes in quiet hours too
        details={**event.details, "direct": True},
    )
    stored = await attempt(persona.schedule(room.domain, later, due))
    if isinstance(stored, Failure):
        raise RuntimeError(stored.failure().message)
    return f"It will be done on {due.astimezone(UTC):%Y-%m-%d %H:%M} UTC."


_UNDER_WAY = "It is being processed already."
_HANDLED = "It was handled already."
_CANCELLED = "It was cancelled."
_MOST_FAILURES = 5
"""Consecutive failures to read the queue after which the caller of an event stops waiting."""
_NOT_TAKEN = object()


@asynccontextmanager
async def _typing(event: DomainEvent, cycle: Cycle) -> AsyncIterator[None]:
    channel = cycle.domain.channel
    if channel is None:
        yield
        return

    async def show(_: anyio.CancelScope) -> None:
        while True:
            with anyio.move_on_after(_TYPING_S):
                try:
                    await outcome_of(channel.typing(event))
                except Exception as error:  # noqa: BLE001 - nothing depends on it
                    _log.debug("A channel did not show that an answer is being made.", exc_info=error)
            await anyio.sleep(_TYPING_S)

    async with beside(show):
        yield


@asynccontextmanager
async def _given_back(item: WorkItem, cycle: Cycle, *, reason: str = "") -> AsyncIterator[None]:
    """Record what the work on an item cost; release it if that is cancelled or raises."""
    try:
        yield
    except BaseException:
        released = cycle.services.store.release(item, reason=reason, cost_usd=cycle.unstored_usd)
        await to_the_end(partial(attempt, released))
        raise
    finally:
        await cycle.record_cost()


def _fallback(event_id: EventId, text: str, *, is_delivered: bool = False) -> NewMessage:
    return NewMessage(f"{event_id}#fallback", text, "fallback", is_delivered=is_delivered)


def _declined(event: DomainEvent, room: Room, reason: str) -> PersonaOutcome:
    return PersonaOutcome(event.id, "declined", reason, room=room)


def _cron_key(domain: Domain, schedule: EventSchedule) -> str:
    """Return the key of a schedule, another one after any change."""
    each = schedule
    texts = (domain, each.cron, each.timezone, each.content, each.context, each.author, each.tenant)
    return f"{CRON}{each.name}/{digest_of(*texts, f'{each.priority:g}')[:8]}"


def _scheduled(schedule: EventSchedule) -> DomainEvent:
    return DomainEvent(
        EventId(schedule.name),
        ContextId(schedule.context),
        schedule.author,
        schedule.content,
        datetime.fromtimestamp(0, UTC),
        schedule.priority,
        {"cron": schedule.cron, "timezone": schedule.timezone, "direct": True},
        tenant=schedule.tenant,
    )


# --- comparison of personas on the same events ----------------------------------------------------------

OutcomeJudge: TypeAlias = Callable[[DomainEvent, PersonaOutcome], bool]
"""Return whether an outcome is a success; judge the answer, not the persona's own evaluation."""


@frozen
class VariantReport:
    """Results of one persona over all events.

    Attributes:
        succeeded: whether each event succeeded, in the order of the events.
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
) -> Result[tuple[VariantReport, ...], errors.UnknownDomain | errors.InvalidEvent]:
    """Send every event to every variant and return a report for each variant.

    To compare planning with plain reactions, make one variant with ``reasoning`` and one without, each with
    a separate store. Fails as ``process_event`` does.
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
