"""Fakes of memory, plan store, effectiveness tracker and persona store."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

from attrs import evolve
from returns.maybe import Maybe, Nothing, Some
from returns.result import Failure, Result, Success

from reactive_agents.core import memory, personas
from reactive_agents.core import persona_queue as queue
from reactive_agents.core.codec import from_json, to_json
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.core.ids import AgentId, ContextId, EventId, LearningId, PersonaId, PlanId, TaskId
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.core.plans import Plan, PlanStatus, PlanStep
from reactive_agents.core.results import ReasoningResult, ReasoningStrategy, StrategyEffectiveness
from reactive_agents.core.tasks import Task
from reactive_agents.effects import effect
from reactive_agents.ports import LLM, Clock
from reactive_agents.testing.core import FakeClock, SequentialIds, fake_effect

NOTHING_RECALLED = memory.MemoryContext(tier="1")


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
        context: memory.MemoryContext = NOTHING_RECALLED,
        *,
        clock: Clock | None = None,
        fails_with: MemoryErrors | None = None,
    ) -> None:
        self.context = context
        self.fails_with = fails_with
        self.bootstrapped: list[tuple[AgentId, Task]] = []
        self.flushed: list[tuple[Task, ReasoningResult]] = []
        self.snapshots: list[memory.SessionSnapshot] = []
        self.entries: dict[memory.MemoryId, memory.MemoryEntry] = {}
        self._notes: dict[TaskId, tuple[memory.MemoryCandidate, ...]] = {}
        self._clock = clock or FakeClock()
        self._ids = SequentialIds("memory-")

    @effect
    async def bootstrap(self, agent_id: AgentId, task: Task) -> Result[memory.MemoryContext, MemoryErrors]:
        """Return the configured context."""
        self.bootstrapped.append((agent_id, task))
        return Success(self.context) if self.fails_with is None else Failure(self.fails_with)

    @effect
    async def flush(
        self, task: Task, result: ReasoningResult, *, llm: LLM | None = None, model: str | None = None
    ) -> Result[memory.FlushReport, MemoryErrors]:
        """Record the task and its result.

        The notes of the task are dropped, and no model is asked.
        """
        self.flushed.append((task, result))
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self._notes.pop(task.id, None)
        return Success(memory.FlushReport())

    @effect
    async def snapshot(self, session: memory.SessionSnapshot) -> Result[None, MemoryErrors]:
        """Record the session."""
        self.snapshots.append(session)
        return Success(None) if self.fails_with is None else Failure(self.fails_with)

    def note(self, task_id: TaskId, note: memory.MemoryCandidate) -> None:
        """Keep a note until the task is flushed."""
        self._notes[task_id] = (*self.notes(task_id), note)

    def notes(self, task_id: TaskId) -> tuple[memory.MemoryCandidate, ...]:
        """Return the notes of a task, oldest first."""
        return self._notes.get(task_id, ())

    @fake_effect
    async def remember(
        self, agent_id: AgentId, candidate: memory.MemoryCandidate, *, user: str | None = None
    ) -> Result[memory.MemoryEntry, MemoryErrors]:
        """Store an entry, or renew the one with the same text."""
        now = self._clock.now()
        new = memory.MemoryEntry(
            memory.MemoryId(self._ids.new()),
            agent_id,
            candidate.kind,
            candidate.content,
            candidate.origin,
            candidate.source,
            TaskId(""),
            candidate.importance,
            now,
            now,
            owner=memory.owner_of(user, None),
        )
        entry = next((each for each in self.entries.values() if _mark(each) == _mark(new)), new)
        entry = self.entries[entry.id] = evolve(
            entry,
            importance=max(entry.importance, candidate.importance),
            seen_at=now,
            successes=entry.successes + int(candidate.success is True),
            executions=entry.executions + int(candidate.success is not None),
        )
        return Success(entry)

    @fake_effect
    async def search(
        self,
        agent_id: AgentId,
        text: str,
        *,
        user: str | None = None,
        kinds: Sequence[memory.MemoryKind] = (),
        limit: int = 20,
    ) -> Result[tuple[memory.MemoryEntry, ...], MemoryErrors]:
        """Return the agent's entries that contain every word of the text, newest first.

        None for no words.
        """
        wanted, owners = _words(text), ("", memory.owner_of(user, None))
        found = [
            entry
            for entry in reversed(self.entries.values())
            if entry.agent_id == agent_id and (not kinds or entry.kind in kinds)
            if wanted and wanted <= _words(entry.content) and entry.owner in owners
        ]
        return Success(tuple(found[:limit]))

    @fake_effect
    async def forget(self, what: memory.Forgetting) -> Result[int, MemoryErrors]:
        """Delete entries and sessions, and return their number."""
        entries = {key: entry for key, entry in self.entries.items() if not _forgotten(entry, what)}
        sessions = [each for each in self.snapshots if not _forgotten(each, what)]
        dropped = len(self.entries) - len(entries) + len(self.snapshots) - len(sessions)
        self.entries, self.snapshots = entries, sessions
        return Success(dropped)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.lower()))


def _mark(entry: memory.MemoryEntry) -> tuple[str, ...]:
    return entry.agent_id, entry.owner, entry.kind, entry.content


def _forgotten(kept: memory.MemoryEntry | memory.SessionSnapshot, what: memory.Forgetting) -> bool:
    is_entry = isinstance(kept, memory.MemoryEntry)
    match what:
        case memory.ForgetEntry(id=entry_id):
            return is_entry and kept.id == entry_id
        case memory.ForgetAgent(agent_id=agent_id):
            return kept.agent_id == agent_id
        case memory.ForgetUser(user=user, agent_id=agent_id):
            return kept.owner == memory.user_owner(user) and agent_id in (None, kept.agent_id)
        case memory.ForgetOlder(before=before, agent_id=agent_id):
            at = kept.seen_at if isinstance(kept, memory.MemoryEntry) else kept.ended_at
            return at < before and agent_id in (None, kept.agent_id)


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

    @fake_effect
    async def save(self, plan: Plan) -> Result[None, MemoryErrors]:
        """Store the plan under its id, replacing an earlier version."""
        self.plans[plan.id] = plan
        return Success(None)

    @fake_effect
    async def update_step(self, plan_id: PlanId, step: PlanStep) -> Result[None, MemoryErrors]:
        """Replace the step with the same id.

        Fails with ``MemoryUnavailable`` when there is no such step.
        """
        plan = self.plans.get(plan_id)
        if plan is None or all(known.id != step.id for known in plan.steps):
            return Failure(MemoryUnavailable(f"No step {step.id!r} of a plan {plan_id!r}.", "update_step"))
        steps = tuple(step if known.id == step.id else known for known in plan.steps)
        self.plans[plan_id] = evolve(plan, steps=steps)
        self.transitions.append((plan_id, step))
        return Success(None)

    @fake_effect
    async def get(self, plan_id: PlanId) -> Result[Maybe[Plan], MemoryErrors]:
        """Return the plan, or ``Nothing``."""
        return Success(Maybe.from_optional(self.plans.get(plan_id)))

    @fake_effect
    async def list_plans(self, agent_id: AgentId) -> Result[tuple[Plan, ...], MemoryErrors]:
        """Return the agent's plans, newest first; of the same age, the one saved later."""
        of_agent = [plan for plan in reversed(self.plans.values()) if plan.agent_id == agent_id]
        return Success(tuple(sorted(of_agent, key=lambda plan: plan.created_at, reverse=True)))

    @fake_effect
    async def rewrite_steps(
        self, plan_id: PlanId, rewritten: Callable[[PlanStep], PlanStep]
    ) -> Result[None, MemoryErrors]:
        """Change the steps of the plan and of all their transitions."""
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

    @fake_effect
    async def record(
        self, strategy: ReasoningStrategy, task_type: str, result: ReasoningResult, *, success: bool
    ) -> Result[None, MemoryErrors]:
        """Add one run to the averages."""
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

    @fake_effect
    async def get_effectiveness(
        self, strategy: ReasoningStrategy, task_type: str
    ) -> Result[Maybe[StrategyEffectiveness], MemoryErrors]:
        """Return the record, or ``Nothing``."""
        return Success(Maybe.from_optional(self.known.get((strategy, task_type))))

    @fake_effect
    async def get_best_strategy(self, task_type: str) -> Result[Maybe[ReasoningStrategy], MemoryErrors]:
        """Return the strategy with the highest success rate, then the most executions."""
        of_type = [record for record in self.known.values() if record.task_type == task_type]
        if not of_type:
            return Success(Nothing)
        best = max(of_type, key=lambda record: (record.success_rate, record.executions))
        return Success(Some(best.strategy))

    @fake_effect
    async def history(self, task_type: str) -> Result[tuple[StrategyEffectiveness, ...], MemoryErrors]:
        """Return the records of a task type, by the names of the strategies."""
        of_type = [record for record in self.known.values() if record.task_type == task_type]
        return Success(tuple(sorted(of_type, key=lambda record: record.strategy)))


# --- personas --------------------------------------------------------------------------------------------


def _without(event: PersonaEvent, learning: personas.LearningEntry) -> PersonaEvent:
    text = to_json(event, PersonaEvent)
    for said in filter(None, (learning.pattern, learning.context)):
        text = text.replace(to_json(said), to_json("[deleted]"))
    changed: PersonaEvent = from_json(text, PersonaEvent).unwrap()
    return changed


class InMemoryPersonaStore:
    """Implements ``PersonaStore`` with dictionaries and lists.

    Args:
        fails_with: every method fails with it, and nothing is stored.
        clock: tells when work is due.

    Attributes:
        plans: the stored plans, in the order of their first saving; likewise ``learnings``.
        thoughts: the working memory of all rooms, in order.
        states: the self state in each room.
        events: the journal of all tasks, in order.
        work: the queue, by the numbers of its items.
    """

    def __init__(self, *, fails_with: MemoryErrors | None = None, clock: Clock | None = None) -> None:
        self.fails_with = fails_with
        self.plans: dict[PlanId, personas.PersonaPlan] = {}
        self.learnings: dict[LearningId, personas.LearningEntry] = {}
        self.thoughts: list[personas.Thought] = []
        self.states: dict[personas.Room, personas.SelfState] = {}
        self.events: list[PersonaEvent] = []
        self.work: dict[int, queue.WorkItem] = {}
        self._clock = clock or _Now()
        self._claims = 0
        self._numbers = count(1)
        self._served: dict[tuple[PersonaId, queue.WorkKind], str] = {}

    @fake_effect
    async def save_plan(
        self,
        plan: personas.PersonaPlan,
        claim: queue.WorkItem | None = None,
        *,
        progress: bool = True,
        cost_usd: float = 0.0,
    ) -> Result[bool, MemoryErrors]:
        """Store the plan under its id, unless the claim was lost."""
        if claim is not None:
            known = self.work.get(claim.number, claim)
            changes = {"attempts": 1 if progress else known.attempts, "cost_usd": known.cost_usd + cost_usd}
            if not self._change(claim, **changes, plan_id=plan.id):
                return Success(False)
        self.plans[plan.id] = plan
        return Success(True)

    @fake_effect
    async def get_plan(self, plan_id: PlanId) -> Result[Maybe[personas.PersonaPlan], MemoryErrors]:
        """Return the plan, or ``Nothing``."""
        return Success(Maybe.from_optional(self.plans.get(plan_id)))

    @fake_effect
    async def plan_of_event(
        self, room: personas.Room, event_id: EventId
    ) -> Result[Maybe[personas.PersonaPlan], MemoryErrors]:
        """Return the newest plan for the event, or ``Nothing``."""
        made = (
            plan for plan in reversed(self.plans.values()) if (plan.room, plan.event.id) == (room, event_id)
        )
        return Success(Maybe.from_optional(next(made, None)))

    @fake_effect
    async def list_plans(
        self,
        persona_id: PersonaId,
        *,
        domain: personas.Domain | None = None,
        context_id: ContextId | None = None,
        tenant: str | None = None,
        status: PlanStatus | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
    ) -> Result[tuple[personas.PersonaPlan, ...], MemoryErrors]:
        """Return the plans, newest first; of the same age, the one made later first."""
        found = [
            plan
            for plan in reversed(self.plans.values())
            if plan.persona_id == persona_id
            and domain in (None, plan.domain)
            and context_id in (None, plan.context_id)
            and tenant in (None, plan.event.tenant)
            and status in (None, plan.plan.status)
            and (since is None or plan.plan.created_at >= since)
            and (until is None or plan.plan.created_at < until)
        ]
        found.sort(key=lambda plan: plan.plan.created_at, reverse=True)
        return Success(tuple(found[:limit]))

    @fake_effect
    async def save_learning(self, learning: personas.LearningEntry) -> Result[None, MemoryErrors]:
        """Store the learning under its id."""
        self.learnings[learning.id] = learning
        return Success(None)

    @fake_effect
    async def get_learning(
        self, learning_id: LearningId
    ) -> Result[Maybe[personas.LearningEntry], MemoryErrors]:
        """Return the learning, or ``Nothing``."""
        return Success(Maybe.from_optional(self.learnings.get(learning_id)))

    @fake_effect
    async def list_learnings(
        self, persona_id: PersonaId, *, domain: personas.Domain | None = None, tenant: str | None = None
    ) -> Result[tuple[personas.LearningEntry, ...], MemoryErrors]:
        """Return the learnings: the most confident first, then the most used."""
        found = [
            each
            for each in self.learnings.values()
            if each.persona_id == persona_id
            and domain in (None, each.domain)
            and tenant in (None, each.tenant)
        ]
        return Success(tuple(sorted(found, key=lambda each: (-each.confidence, -each.use_count))))

    @fake_effect
    async def delete_learning(self, learning_id: LearningId) -> Result[bool, MemoryErrors]:
        """Delete the learning; return whether it existed."""
        return Success(self.learnings.pop(learning_id, None) is not None)

    @fake_effect
    async def texts_of_other_rooms(
        self, room: personas.Room, limit: int = 500
    ) -> Result[tuple[str, ...], MemoryErrors]:
        """Return the newest events of the tenant's other rooms."""
        texts = [
            item.event.content
            for item in reversed(self.work.values())
            if item.kind == "event"
            and item.room != room
            and (item.room.persona_id, item.room.tenant) == (room.persona_id, room.tenant)
        ]
        return Success(tuple(texts[:limit]))

    @fake_effect
    async def add_thought(self, thought: personas.Thought) -> Result[None, MemoryErrors]:
        """Add to the working memory; the lightest thought beyond the limit is removed."""
        self.thoughts.append(thought)
        of_room = [each for each in self.thoughts if each.room == thought.room]
        if len(of_room) > personas.THOUGHTS_KEPT:
            self.thoughts.remove(min(of_room, key=personas.thought_weight))
        return Success(None)

    @fake_effect
    async def recall_thoughts(
        self, room: personas.Room, *, kinds: Sequence[personas.ThoughtKind] = (), limit: int = 5
    ) -> Result[tuple[personas.Thought, ...], MemoryErrors]:
        """Return the thoughts of one room with the highest weight, then the newest."""
        found = [
            each
            for each in reversed(self.thoughts)
            if each.room == room and (not kinds or each.kind in kinds)
        ]
        return Success(tuple(sorted(found, key=personas.thought_weight, reverse=True)[:limit]))

    @fake_effect
    async def get_self_state(self, room: personas.Room) -> Result[personas.SelfState, MemoryErrors]:
        """Return the self state in a room; an idle one when none is stored."""
        return Success(self.states.get(room, personas.SelfState(room)))

    @fake_effect
    async def save_self_state(self, state: personas.SelfState) -> Result[None, MemoryErrors]:
        """Store the state."""
        self.states[state.room] = state
        return Success(None)

    @fake_effect
    async def record(self, event: PersonaEvent) -> Result[None, MemoryErrors]:
        """Append to the journal."""
        self.events.append(event)
        return Success(None)

    @fake_effect
    async def journal(self, task_id: TaskId) -> Result[tuple[PersonaEvent, ...], MemoryErrors]:
        """Return the journal of a task, in order."""
        return Success(tuple(event for event in self.events if event.task_id == task_id))

    # --- the queue ------------------------------------------------------------------------------------------

    @fake_effect
    async def add_event(
        self,
        room: personas.Room,
        event: personas.DomainEvent,
        *,
        capacity: int | None = None,
        drop_oldest: bool = False,
    ) -> Result[queue.Submission, MemoryErrors]:
        """Add an event, once, unless too many wait."""
        waiting = [
            each for each in self._waiting(room.persona_id, "event") if each.room.tenant == room.tenant
        ]
        for item in self.work.values():
            if (item.kind, item.room, item.key) == ("event", room, event.id):
                return Success(queue.Submission(item, is_new=False, waiting=len(waiting)))
        dropped = None
        if capacity is not None and len(waiting) >= capacity:
            if not drop_oldest:
                return Success(queue.Submission(None, is_new=False, waiting=len(waiting)))
            dropped = next((each for each in waiting if each.status == "open"), None)
        if dropped is not None:
            changes = {"status": "dropped", "reason": "The inbox was full.", "updated_at": self._clock.now()}
            dropped = evolve(dropped, **changes)  # type: ignore[arg-type]
            self.work[dropped.number] = dropped
        item = self._add("event", room, event.id, event)
        return Success(queue.Submission(item, True, dropped, len(waiting) + (dropped is None)))

    @fake_effect
    async def add_schedule(
        self, room: personas.Room, key: str, event: personas.DomainEvent, due: datetime
    ) -> Result[None, MemoryErrors]:
        """Store an event that comes later, by its key."""
        place = evolve(room, context_id=ContextId(key))
        name = ("schedule", place, key)
        known = next((each for each in self.work.values() if (each.kind, each.room, each.key) == name), None)
        if known is None:
            self._add("schedule", place, key, event, due=due)
        elif (known.status, known.event) != ("open", event):
            changes = {"status": "open", "attempts": 0, "holder": "", "updated_at": self._clock.now()}
            self.work[known.number] = evolve(known, event=event, due=due, **changes)  # type: ignore[arg-type]
        return Success(None)

    @fake_effect
    async def add_message(
        self, claim: queue.WorkItem, message: queue.NewMessage
    ) -> Result[bool, MemoryErrors]:
        """Add a message to be delivered, once by its key."""
        return Success(self._add_message(claim, message))

    @fake_effect
    async def claim(
        self,
        persona_id: PersonaId,
        kind: queue.WorkKind,
        *,
        domains: Sequence[personas.Domain],
        room: personas.Room | None = None,
    ) -> Result[queue.WorkItem | None, MemoryErrors]:
        """Claim the next item of some domains, or of one room, that is due."""
        heads: dict[personas.Room, queue.WorkItem] = {}
        priorities: dict[personas.Room, float] = {}
        for item in self.work.values():
            if item.kind != kind or not item.is_open or item.room.persona_id != persona_id:
                continue
            if item.room.domain in domains if room is None else item.room == room:
                heads.setdefault(item.room, item)
                priorities[item.room] = max(priorities.get(item.room, 0.0), item.event.priority)
        now, served = self._clock.now(), self._served.get((persona_id, kind))

        def turn(head: queue.WorkItem) -> tuple[float, bool, str, int]:
            tenant = head.room.tenant
            return -priorities[head.room], served is not None and tenant <= served, tenant, head.number

        for head in sorted(heads.values(), key=turn):
            due = head.due is None or head.due <= now
            if due and not head.holder:
                self._claims += 1
                self._served[persona_id, kind] = head.room.tenant
                held = {"holder": f"claim-{self._claims}", "updated_at": now}
                tried = evolve(head, attempts=head.attempts + 1, **held)  # type: ignore[arg-type]
                begins = kind == "event" and head.status == "open"  # it is tried when its task begins
                self.work[head.number] = evolve(tried, attempts=head.attempts) if begins else tried
                return Success(tried)
        return Success(None)

    @fake_effect
    async def begin_task(self, claim: queue.WorkItem, task_id: TaskId) -> Result[bool, MemoryErrors]:
        """Store the task of an event, and that it is tried."""
        return Success(self._change(claim, task_id=task_id, attempts=claim.attempts))

    @fake_effect
    async def replace_event(
        self, claim: queue.WorkItem, event: personas.DomainEvent
    ) -> Result[bool, MemoryErrors]:
        """Replace an event."""
        return Success(self._change(claim, event=event))

    @fake_effect
    async def engage(
        self, claim: queue.WorkItem, limits: personas.DailyLimits, since: datetime
    ) -> Result[str, MemoryErrors]:
        """Count an event among those of a day, unless there are too many."""
        room, user = claim.room, claim.event.user_id
        for whose, most in limits.of_events.items():
            counted = self._spent(
                room.persona_id,
                since,
                room.tenant,
                user if whose == "user" else None,
                room if whose == "room" else None,
            )
            others = [each for each in counted if each.kind == "event" and each.plan_id is not None]
            if sum(each.number != claim.number for each in others) >= most:
                return Success(whose)
        known = self.work.get(claim.number, claim)
        self._change(claim, plan_id=known.plan_id or PlanId(""))
        return Success("")

    @fake_effect
    async def end_event(self, claim: queue.WorkItem, end: queue.EventEnd) -> Result[bool, MemoryErrors]:
        """Store the end of an event with its plan, messages and evaluation."""
        outcome, plan = evolve(end.outcome, plan=None), end.plan
        plan_id = None if plan is None else plan.id
        known = self.work.get(claim.number, claim)
        attempts, cost_usd = known.attempts if end.is_dead else 1, known.cost_usd + end.cost_usd
        changes = {"status": "answered", "outcome": outcome, "reason": outcome.reason, "plan_id": plan_id}
        if not self._change(claim, **changes, attempts=attempts, cost_usd=cost_usd):
            return Success(False)
        if plan is not None:
            self.plans[plan.id] = plan
        for message in end.messages:
            self._add_message(evolve(claim, plan_id=plan_id), message)
        if end.evaluate and plan is not None:
            self._add("evaluation", claim.room, plan.id, claim.event, plan_id=plan.id, task_id=plan.task.id)
        return Success(True)

    @fake_effect
    async def end_work(
        self,
        claim: queue.WorkItem,
        status: queue.WorkStatus = "done",
        *,
        reason: str = "",
        message_id: str = "",
        cost_usd: float = 0.0,
    ) -> Result[bool, MemoryErrors]:
        """End an item."""
        known = self.work.get(claim.number, claim)
        changes = {"reason": reason or known.reason, "message_id": message_id}
        spent = known.cost_usd + cost_usd
        return Success(self._change(claim, status=status, holder="", cost_usd=spent, **changes))

    @fake_effect
    async def release(
        self, claim: queue.WorkItem, *, due: datetime | None = None, reason: str = "", cost_usd: float = 0.0
    ) -> Result[bool, MemoryErrors]:
        """Give an item back."""
        known = self.work.get(claim.number, claim)
        attempts, spent = min(known.attempts, claim.attempts - (not reason)), known.cost_usd + cost_usd
        return Success(
            self._change(claim, due=due, reason=reason, attempts=attempts, holder="", cost_usd=spent)
        )

    @fake_effect
    async def find_work(self, chosen: queue.WorkFilter) -> Result[tuple[queue.WorkItem, ...], MemoryErrors]:
        """Return the items that fit, the newest first."""
        found = [
            each
            for each in reversed(self.work.values())
            if chosen.persona_id in (None, each.room.persona_id)
            and (not chosen.kinds or each.kind in chosen.kinds)
            and (not chosen.statuses or each.status in chosen.statuses)
            and chosen.tenant in (None, each.room.tenant)
            and chosen.domain in (None, each.room.domain)
            and chosen.context_id in (None, each.room.context_id)
            and chosen.user in (None, each.event.user_id)
            and chosen.event_id in (None, each.event.id)
            and chosen.message_id in (None, each.message_id)
            and chosen.number in (None, each.number)
            and (chosen.since is None or each.created_at >= chosen.since)
            and (chosen.until is None or each.created_at < chosen.until)
        ]
        return Success(tuple(found[: chosen.limit]))

    @fake_effect
    async def order_work(self, number: int, order: queue.WorkOrder) -> Result[bool, MemoryErrors]:
        """Do an item again, or drop it."""
        item = self.work.get(number)
        needed = ("dead", "dropped", "open", "done") if order == "retry" else ("dead", "open")
        if item is None or item.status not in needed:
            return Success(False)
        status: queue.WorkStatus = "open" if order == "retry" else "dropped"
        now = self._clock.now()
        self.work[number] = evolve(item, status=status, attempts=0, due=None, holder="", updated_at=now)
        return Success(True)

    @fake_effect
    async def waiting(
        self, persona_id: PersonaId, kind: queue.WorkKind, *, domains: Sequence[personas.Domain]
    ) -> Result[int, MemoryErrors]:
        """Return the number of items that wait."""
        return Success(sum(each.room.domain in domains for each in self._waiting(persona_id, kind)))

    @fake_effect
    async def transcript(
        self, room: personas.Room, *, before: int | None = None, limit: int = 50
    ) -> Result[tuple[queue.Utterance, ...], MemoryErrors]:
        """Return the messages of a room, oldest first."""
        if not limit:
            return Success(())
        of_room = [each for each in self.work.values() if each.room == room]
        replies: dict[str, list[queue.Utterance]] = {}
        for each in of_room:
            if each.kind == "delivery" and each.status != "dropped":
                reply = queue.Utterance("", each.message, each.created_at, each.event.id)
                replies.setdefault(each.event.id, []).append(reply)
        said: list[queue.Utterance] = []
        for item in of_room:
            is_earlier = before is None or item.number < before
            if item.kind == "event" and is_earlier and item.status not in ("open", "dropped"):
                event = item.event
                said.append(queue.utterance_of(event))
                said += replies.get(event.id, ())
        return Success(tuple(said[-limit:]))

    @fake_effect
    async def spending(
        self,
        persona_id: PersonaId,
        since: datetime,
        *,
        tenant: str,
        user: str | None = None,
        room: personas.Room | None = None,
    ) -> Result[queue.Spending, MemoryErrors]:
        """Return what a tenant, a user or a room has used since a time."""
        found = self._spent(persona_id, since, tenant, user, room)
        events = sum(each.kind == "event" and each.plan_id is not None for each in found)
        return Success(queue.Spending(events, sum(each.cost_usd for each in found)))

    def _spent(
        self,
        persona_id: PersonaId,
        since: datetime,
        tenant: str,
        user: str | None,
        room: personas.Room | None,
    ) -> list[queue.WorkItem]:
        return [
            each
            for each in self.work.values()
            if (each.room.persona_id, each.room.tenant) == (persona_id, tenant)
            and user in (None, each.event.user_id)
            and room in (None, each.room)
            and each.updated_at >= since
        ]

    @fake_effect
    async def forget(
        self,
        persona_id: PersonaId,
        *,
        user: str | None = None,
        tenant: str | None = None,
        before: datetime | None = None,
    ) -> Result[int, MemoryErrors]:
        """Delete the records of a user, a tenant or a time."""
        doomed = [
            each
            for each in self.work.values()
            if each.room.persona_id == persona_id
            and user in (None, each.event.user_id)
            and tenant in (None, each.room.tenant)
            and (before is None or (not each.is_open and each.updated_at < before))
        ]
        tasks = {each.task_id for each in doomed if each.task_id is not None}
        for item in doomed:
            del self.work[item.number]
            of_event = (item.kind, item.room, item.event.id)
            self.plans = {
                key: each
                for key, each in self.plans.items()
                if of_event != ("event", each.room, each.event.id)
            }
        self.events = [each for each in self.events if each.task_id not in tasks]
        if before is None:
            self.thoughts = [
                each
                for each in self.thoughts
                if each.persona_id != persona_id
                or user not in (None, each.user)
                or tenant not in (None, each.tenant)
            ]
            for room in {each.room for each in doomed}:
                self.states.pop(room, None)
            for feedback in filter(None, (each.event.feedback for each in doomed)):
                if (plan := self.plans.get(feedback.plan_id)) is not None:
                    others = tuple(each for each in plan.feedback if each.user != feedback.user)
                    self.plans[plan.id] = evolve(plan, feedback=others)
            for learning in tuple(self.learnings.values()):
                if learning.learned_from and tasks.issuperset(learning.learned_from) and not learning.pinned:
                    del self.learnings[learning.id]
                    self.events = [_without(each, learning) for each in self.events]
                    for plan in tuple(self.plans.values()):
                        known = tuple(each for each in plan.learnings if each != learning.pattern)
                        self.plans[plan.id] = evolve(plan, learnings=known)
        return Success(sum(each.kind == "event" for each in doomed))

    def _waiting(self, persona_id: PersonaId, kind: queue.WorkKind) -> list[queue.WorkItem]:
        return [
            each
            for each in self.work.values()
            if (each.room.persona_id, each.kind, each.holder) == (persona_id, kind, "") and each.is_open
        ]

    def _add(
        self,
        kind: queue.WorkKind,
        room: personas.Room,
        key: str,
        event: personas.DomainEvent,
        **fields: Any,
    ) -> queue.WorkItem:
        number, now = next(self._numbers), self._clock.now()
        item = queue.WorkItem(number, kind, room, key, event, "open", 0, now, now, **fields)
        self.work[number] = item
        return item

    def _add_message(self, claim: queue.WorkItem, message: queue.NewMessage) -> bool:
        name = ("delivery", claim.room, message.key)
        if any((each.kind, each.room, each.key) == name for each in self.work.values()):
            return False
        ids = {"plan_id": claim.plan_id, "task_id": claim.task_id}
        texts = {"message": message.content, "message_kind": message.kind}
        item = self._add("delivery", claim.room, message.key, claim.event, **ids, **texts)
        if message.is_delivered:
            self.work[item.number] = evolve(item, status="done")
        return True

    def _change(self, claim: queue.WorkItem, **changes: Any) -> bool:
        known = self.work.get(claim.number)
        if known is None or known.holder != claim.holder:
            return False
        self.work[claim.number] = evolve(known, updated_at=self._clock.now(), **changes)
        return True


class _Now:
    """The time of day, where a test gives no clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()
