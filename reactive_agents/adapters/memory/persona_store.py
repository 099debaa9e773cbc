"""Records and work of personas in the memory, a file or a Postgres database.

Events, plans and ends are written in durable transactions. Journal, notes, state and claims outlive the
process, and reach the disk with the next of these. Work is held by a lease, like runs: a process that is gone
holds nothing, and a write by a process that lost its lease is refused in the same transaction.

In Postgres, writers of different rooms do not wait for each other. Events are numbered one at a time, so that
a later one is not visible before an earlier one of its room. A claim changes an item only if it is unchanged:
of two concurrent claims, the second waits for the row and takes another item. Due times and leases use the
clock of the database.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from os import PathLike
from typing import Any, TypeAlias

from attrs import evolve
from returns.maybe import Maybe
from returns.result import Result

from reactive_agents.adapters import sql
from reactive_agents.adapters.leases import LEASE_S, LeaseClock, LeaseRenewal, is_gone, new_holder
from reactive_agents.adapters.memory.database import MemoryStore, open_memory_store, record_redactor
from reactive_agents.adapters.memory.store import forget_owner, microseconds
from reactive_agents.adapters.sql import ALL_ROWS, Transaction, decoded, marks, where
from reactive_agents.adapters.sqlite import DatabasePath, moment_of
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core import persona_queue as queue
from reactive_agents.core import personas
from reactive_agents.core.codec import to_json
from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.ids import ContextId, EventId, LearningId, PersonaId, PlanId, TaskId
from reactive_agents.core.json import without_surrogates
from reactive_agents.core.memory import owner_of
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.core.plans import PlanStatus
from reactive_agents.core.redaction import Redactor
from reactive_agents.effects import effect
from reactive_agents.ports import Clock

_log = logging.getLogger("reactive_agents")
UNREADABLE = "[Its stored form cannot be read.]"
"""The content of an event that another version wrote, or that was damaged."""
TRIED_BEFORE = "It was begun before a person ordered this."
"""The reason of such a message without one: it is looked for before it is sent again."""
LONGEST_COMPARED = 20_000
"""Characters of an event of another room that are read to judge a lesson."""
_CLOCK_TOLERANCE_US = 1_000_000
"""Microseconds by which the clock may go back by itself."""
CRASH_PAUSE_S = 1.0
"""Seconds before retrying work at which two processes ended.

The next wait is four times as long, later ones sixteen times.
"""

_ROOM = "persona_id = ? AND tenant = ? AND domain = ? AND context_id = ?"
_OPEN = "status IN ('open', 'answered')"
_NOT_CRON = f"substr(key, 1, {len(queue.CRON)}) != '{queue.CRON}'"
_LET_GO = "holder = '', lease_until = 0"
_FIELDS = (
    *("number", "kind", "key", "status", "attempts", "holder", "due", "created_at", "updated_at", "reason"),
    *("event", "message", "message_kind", "plan_id", "task_id", "outcome", "message_id", "cost_usd"),
)
"""The columns of an item that have the names of its fields."""
COLUMNS = f"persona_id, tenant, domain, context_id, {', '.join(_FIELDS)}"

Now: TypeAlias = Callable[[], int]
"""The database clock in microseconds, which a transaction reads when it begins."""


class SqlitePersonaStore:
    """Implements ``PersonaStore``; each effect fails with ``MemoryUnavailable``.

    Args:
        place: the memory file, a Postgres URL, or the memory of other services.
        redactor: removes secrets from the texts before they are stored.
        clock: the clock for due times and leases.
    """

    def __init__(
        self,
        place: MemoryStore | DatabasePath,
        *,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._database = open_memory_store(place) if isinstance(place, str | PathLike) else place
        self._records = record_redactor(redactor or Redactor())
        self._clock = clock or SystemClock()
        self._lease_clock = LeaseClock(self._clock)
        self._leases: LeaseRenewal[None] = LeaseRenewal("persona-leases", self._renew)
        self._served: dict[tuple[PersonaId, queue.WorkKind, tuple[str, ...]], str] = {}

    async def aclose(self) -> None:
        """Close the database and stop renewing leases; the next use opens it again."""
        self._leases.let_go_of_all()
        await self._database.aclose()

    @effect
    async def save_plan(
        self,
        plan: personas.PersonaPlan,
        claim: queue.WorkItem | None = None,
        *,
        progress: bool = True,
        cost_usd: float = 0.0,
        journal: Sequence[PersonaEvent] = (),
    ) -> Result[bool, MemoryErrors]:
        """Store the plan and what it adds to the journal, unless the claim was lost."""
        clean, events = self._records.redacted(plan), [self._records.redacted(each) for each in journal]

        def work(file: Transaction) -> bool:
            saved = _save_plan(
                file, plan=clean, claim=claim, progress=progress, cost_usd=cost_usd, now=self._now
            )
            for event in events if saved else ():
                _add_to_journal(file, event)
            return saved

        return await self._database.write("save_plan", work, of=_part(plan.room))

    @effect
    async def get_plan(self, plan_id: PlanId) -> Result[Maybe[personas.PersonaPlan], MemoryErrors]:
        """Return the plan, or ``Nothing``."""
        return await self._one("get_plan", personas.PersonaPlan, "persona_plans WHERE id = ?", plan_id)

    @effect
    async def plan_of_event(
        self, room: personas.Room, event_id: EventId
    ) -> Result[Maybe[personas.PersonaPlan], MemoryErrors]:
        """Return the newest plan for the event of a room, or ``Nothing``."""
        place = f"persona_plans WHERE {_ROOM} AND event_id = ? ORDER BY seq DESC LIMIT 1"
        return await self._one("plan_of_event", personas.PersonaPlan, place, *_place(room), event_id)

    @effect
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
        """Return the persona's plans, newest first; of the same age, the later created."""
        wanted: dict[str, object] = {
            "persona_id = ?": persona_id,
            "domain = ?": domain,
            "context_id = ?": context_id,
            "tenant = ?": tenant,
            "status = ?": status,
            "created_at >= ?": None if since is None else microseconds(since),
            "created_at < ?": None if until is None else microseconds(until),
        }
        conditions, values = where(wanted)
        place = f"persona_plans WHERE {conditions} ORDER BY created_at DESC, seq DESC LIMIT ?"
        return await self._all("list_plans", personas.PersonaPlan, place, *values, limit)

    @effect
    async def change_learnings(
        self,
        changes: Sequence[tuple[personas.LearningEntry | None, personas.LearningEntry | None]],
        claim: queue.WorkItem | None = None,
        *,
        plan: tuple[personas.PersonaPlan, personas.PersonaPlan] | None = None,
    ) -> Result[queue.LearningsChange, MemoryErrors]:
        """Store learnings, and a plan, in place of those that were read, all or none."""
        clean = [(known, new and self._records.redacted(new)) for known, new in changes]
        clean_plan = plan and (plan[0], self._records.redacted(plan[1]))
        owners = (each.persona_id for pair in (*changes, plan or ()) for each in pair if each)
        persona_id = next(owners, "")
        work = partial(_change_learnings, changes=clean, plan=clean_plan, claim=claim, now=self._now)
        return await self._database.write("change_learnings", work, of=f"learnings {persona_id}")

    @effect
    async def get_learning(
        self, learning_id: LearningId
    ) -> Result[Maybe[personas.LearningEntry], MemoryErrors]:
        """Return the learning, or ``Nothing``."""
        return await self._one(
            "get_learning", personas.LearningEntry, "persona_learnings WHERE id = ?", learning_id
        )

    @effect
    async def list_learnings(
        self, persona_id: PersonaId, *, domain: personas.Domain | None = None, tenant: str | None = None
    ) -> Result[tuple[personas.LearningEntry, ...], MemoryErrors]:
        """Return the learnings, most confident first, then most used."""
        wanted = {"persona_id = ?": persona_id, "domain = ?": domain, "tenant = ?": tenant}
        conditions, values = where(wanted)
        place = f"persona_learnings WHERE {conditions} ORDER BY confidence DESC, use_count DESC, seq"
        return await self._all("list_learnings", personas.LearningEntry, place, *values)

    @effect
    async def texts_of_other_rooms(
        self, room: personas.Room, limit: int = 500
    ) -> Result[tuple[str, ...], MemoryErrors]:
        """Return the newest events of the other rooms of a tenant."""
        return await sql.rows(
            self._database,
            "texts_of_other_rooms",
            lambda event: decoded(event, personas.DomainEvent).content,
            "SELECT event FROM persona_work WHERE kind = 'event'"
            " AND persona_id = ? AND tenant = ? AND NOT (domain = ? AND context_id = ?)"
            " AND length(event) <= ? ORDER BY number DESC LIMIT ?",
            *_place(room),
            LONGEST_COMPARED,
            limit,
        )

    @effect
    async def add_thought(self, thought: personas.Thought) -> Result[None, MemoryErrors]:
        """Add to the room's working memory, and remove the least important thoughts."""
        thought = self._records.redacted(thought)

        def work(file: Transaction) -> None:
            place = _place(thought.room)
            file.execute(
                "INSERT INTO persona_thoughts (persona_id, tenant, domain, context_id, kind, weight, "
                '"user", data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
                (*place, thought.kind, personas.thought_weight(thought), thought.user, to_json(thought)),
            )
            file.execute(
                f"DELETE FROM persona_thoughts WHERE seq IN (SELECT seq FROM persona_thoughts WHERE {_ROOM} "
                f"ORDER BY weight DESC, seq DESC LIMIT {ALL_ROWS} OFFSET ?)",
                (*place, personas.THOUGHTS_KEPT),
            )

        return await self._database.write_soon("add_thought", work, of=_part(thought.room))

    @effect
    async def recall_thoughts(
        self, room: personas.Room, *, kinds: Sequence[personas.ThoughtKind] = (), limit: int = 5
    ) -> Result[tuple[personas.Thought, ...], MemoryErrors]:
        """Return the most important thoughts of one room."""
        wanted = f"AND kind IN ({marks(kinds)}) " if kinds else ""
        place = f"persona_thoughts WHERE {_ROOM} {wanted}ORDER BY weight DESC, seq DESC LIMIT ?"
        return await self._all("recall_thoughts", personas.Thought, place, *_place(room), *kinds, limit)

    @effect
    async def get_self_state(self, room: personas.Room) -> Result[personas.SelfState, MemoryErrors]:
        """Return the self state in a room; an idle one if none is stored."""
        place = f"persona_states WHERE {_ROOM}"
        found = await self._one("get_self_state", personas.SelfState, place, *_place(room))
        return found.map(lambda state: state.value_or(personas.SelfState(room)))

    @effect
    async def save_self_state(self, state: personas.SelfState) -> Result[None, MemoryErrors]:
        """Store the state, replacing an earlier one."""
        data = to_json(self._records.redacted(state))

        def work(file: Transaction) -> None:
            file.execute(
                "INSERT INTO persona_states (persona_id, tenant, domain, context_id, data) "
                "VALUES (?, ?, ?, ?, ?) ON CONFLICT (persona_id, tenant, domain, context_id) "
                "DO UPDATE SET data = excluded.data",
                (*_place(state.room), data),
            )

        return await self._database.write_soon("save_self_state", work, of=_part(state.room))

    @effect
    async def record(self, event: PersonaEvent) -> Result[None, MemoryErrors]:
        """Append to the journal."""
        work = partial(_add_to_journal, event=self._records.redacted(event))
        return await self._database.write_soon("record", work, of=f"journal {event.task_id}")

    @effect
    async def journal(self, task_id: TaskId) -> Result[tuple[PersonaEvent, ...], MemoryErrors]:
        """Return the journal of a task, in order."""
        return await self._all(
            "journal", PersonaEvent, "persona_journal WHERE task_id = ? ORDER BY seq", task_id
        )

    # --- the queue: what a worker does ----------------------------------------------------------------------

    @effect
    async def add_event(
        self,
        room: personas.Room,
        event: personas.DomainEvent,
        *,
        capacity: int | None = None,
        drop_oldest: bool = False,
    ) -> Result[queue.Submission, MemoryErrors]:
        """Add an event once, unless too many are waiting."""
        event = self._records.redacted(event)

        def work(file: Transaction) -> queue.Submission:
            known = _item_of(file, room, "event", event.id)
            waiting = _waiting(file, persona_id=room.persona_id, kind="event", tenant=room.tenant)
            if known is not None:
                return queue.Submission(known, is_new=False, waiting=waiting)
            dropped = None
            if capacity is not None and waiting >= capacity:
                if not drop_oldest:
                    return queue.Submission(None, is_new=False, waiting=waiting)
                oldest = file.execute(
                    "UPDATE persona_work SET status = 'dropped', reason = 'The inbox was full.', "
                    "updated_at = ? WHERE number = (SELECT min(number) FROM persona_work "
                    "WHERE persona_id = ? AND kind = 'event' AND tenant = ? AND status = 'open' "
                    f"AND holder = '') RETURNING {COLUMNS}",
                    (self._now(), room.persona_id, room.tenant),
                ).fetchone()
                dropped = None if oldest is None else item_of(oldest)
            _insert(file, "event", room, event.id, event, self._now)
            added = _item_of(file, room, "event", event.id)
            return queue.Submission(added, is_new=True, dropped=dropped, waiting=waiting + (dropped is None))

        return await self._database.write("add_event", work, of=f"events of {room.persona_id}")

    @effect
    async def now(self) -> Result[datetime, MemoryErrors]:
        """Return the time of the clock that all processes share."""
        return await self._database.read("now", lambda _: moment_of(self._now()))

    @effect
    async def add_schedule(
        self, room: personas.Room, key: str, event: personas.DomainEvent, due: datetime
    ) -> Result[None, MemoryErrors]:
        """Store an event for later, by its key."""
        place = evolve(room, context_id=ContextId(key))  # schedules do not wait for each other
        event, due_us = self._records.redacted(event), microseconds(due)

        def work(file: Transaction) -> None:
            if _insert(file, "schedule", place, key, event, self._now, due=due_us) is None:
                file.execute(
                    "UPDATE persona_work SET status = 'open', due = ?, event = ?, event_id = ?, "
                    f'"user" = ?, priority = ?, attempts = 0, {_LET_GO}, updated_at = ? '
                    f"WHERE kind = 'schedule' AND {_ROOM} AND key = ? "
                    "AND NOT (status = 'open' AND event = ? AND due <= ?)",  # later: by a wrong clock
                    (
                        *(due_us, to_json(event), event.id, event.user_id, event.priority, self._now()),
                        *(*_place(place), key, to_json(event), due_us),
                    ),
                )

        return await self._database.write("add_schedule", work, of=_part(place))

    @effect
    async def claim(
        self,
        persona_id: PersonaId,
        kind: queue.WorkKind,
        *,
        domains: Sequence[personas.Domain],
        room: personas.Room | None = None,
        schedules: Sequence[str] = (),
    ) -> Result[queue.WorkItem | None, MemoryErrors]:
        """Claim the next item of some domains, or of one room.

        Among rooms of equal priority, tenants take turns.
        """
        holder = new_holder()
        place = persona_id, kind, tuple(domains)
        served = self._served.get(place)
        chosen = (*(domains if room is None else _place(room)), *(schedules if kind == "schedule" else ()))

        def work(file: Transaction) -> queue.WorkItem | None:
            places = f"domain IN ({marks(domains)})" if room is None else _ROOM
            if kind == "schedule":
                places += f" AND ({_NOT_CRON} OR key IN ({marks(schedules) or 'NULL'}))"
            at = self._now()
            judged_at = self._lease_clock.at(at)
            heads = file.execute(
                "SELECT work.number, due, holder, lease_until, attempts, updated_at, status "
                "FROM persona_work AS work JOIN (SELECT min(number) AS number, max(priority) AS highest "
                f"FROM persona_work WHERE persona_id = ? AND kind = ? AND {_OPEN} AND {places} "
                "GROUP BY tenant, domain, context_id) AS first ON work.number = first.number "
                "ORDER BY first.highest DESC, work.tenant <= ?, work.tenant, work.number",
                (persona_id, kind, *chosen, served),
            ).fetchall()
            for head, due, held_by, lease_until, attempts, begun, status in heads:
                is_held = held_by and lease_until >= judged_at and not is_gone(held_by)
                # pauses cannot be measured with another clock
                was_set_back = kind != "schedule" and begun > at + _CLOCK_TOLERANCE_US
                free_at = _crash_pause_end(begun, attempts) if held_by and attempts > 1 else due
                if is_held or (free_at > at and not was_set_back):
                    continue
                tried = not (kind == "event" and status == "open")  # an event is tried when its task begins
                row = file.execute(
                    "UPDATE persona_work SET holder = ?, lease_until = ?, attempts = attempts + ?, "
                    "updated_at = ? WHERE number = ? AND holder = ? AND lease_until = ? AND due = ? "
                    f"AND {_OPEN} RETURNING {COLUMNS}",
                    (holder, self._lease_end(at), int(tried), at, head, held_by, lease_until, due),
                ).fetchone()
                if row is None:  # another claim was faster
                    continue
                item = item_of(row)
                if item.event.content != UNREADABLE:
                    return item if tried else evolve(item, attempts=item.attempts + 1)
                file.execute(  # it blocks nothing else
                    f"UPDATE persona_work SET status = 'dead', reason = ?, {_LET_GO} WHERE number = ?",
                    (UNREADABLE, head),
                )
                _log.warning("The %s %d is a dead letter: %s", kind, head, UNREADABLE)
            return None

        claimed = await self._database.write_soon("claim", work, of=f"claim {holder}")
        item = claimed.value_or(None)
        if item is not None:
            self._served[place] = item.room.tenant
            self._hold(holder)
        return claimed

    @effect
    async def begin_task(self, claim: queue.WorkItem, task_id: TaskId) -> Result[bool, MemoryErrors]:
        """Store the task of an event, the key of its journal, and count the try."""
        changes = "task_id = ?, attempts = ?"
        return await self._changed("begin_task", claim, changes, task_id, claim.attempts, soon=True)

    @effect
    async def replace_event(
        self, claim: queue.WorkItem, event: personas.DomainEvent
    ) -> Result[bool, MemoryErrors]:
        """Replace an event."""
        return await self._changed(
            "replace_event", claim, "event = ?", to_json(self._records.redacted(event))
        )

    @effect
    async def engage(
        self, claim: queue.WorkItem, limits: personas.DailyLimits, since: datetime
    ) -> Result[str, MemoryErrors]:
        """Count an event for its day, unless there are too many."""
        room = claim.room

        def work(file: Transaction) -> str:
            for whose, most in limits.of_events.items():
                user = claim.event.user_id if whose == "user" else None
                of_room = room if whose == "room" else None
                counted = _since(room.persona_id, room.tenant, since, user=user, room=of_room)
                conditions, values = where({**counted, "number != ?": claim.number})
                (count,) = file.execute(
                    "SELECT count(*) FROM persona_work WHERE kind = 'event' AND plan_id IS NOT NULL "
                    f"AND {conditions}",
                    values,
                ).fetchone()
                if count >= most:
                    return whose
            file.execute(  # marked as planned already, so that others count it
                "UPDATE persona_work SET plan_id = coalesce(plan_id, ''), updated_at = ? "
                "WHERE number = ? AND holder = ?",
                (self._now(), claim.number, claim.holder),
            )
            return ""

        return await self._database.write("engage", work, of=f"limits {room.persona_id}\x1f{room.tenant}")

    @effect
    async def end_event(self, claim: queue.WorkItem, end: queue.EventEnd) -> Result[bool, MemoryErrors]:
        """Store the end of an event with all its consequences, in one transaction."""
        end = self._records.redacted(end)

        def work(file: Transaction) -> bool:
            plan = end.plan
            ended = file.execute(
                "UPDATE persona_work SET status = 'answered', reason = ?, plan_id = ?, outcome = ?, "
                "cost_usd = cost_usd + ?, attempts = 1, updated_at = ? "
                "WHERE number = ? AND holder = ?",
                (
                    without_surrogates(end.outcome.reason),
                    None if plan is None else plan.id,
                    to_json(evolve(end.outcome, plan=None)),
                    end.cost_usd,
                    self._now(),
                    claim.number,
                    claim.holder,
                ),
            )
            if not ended.rowcount:
                return False
            if plan is not None:
                _save_plan(file, plan=plan, now=self._now)
            for event in end.journal:
                _add_to_journal(file, event)
            item = evolve(claim, plan_id=None if plan is None else plan.id)
            for message in end.messages:
                _add_message(file, item=item, message=message, now=self._now)
            if end.evaluate and plan is not None:
                ids = {"plan_id": plan.id, "task_id": plan.task.id}
                _insert(file, "evaluation", claim.room, plan.id, claim.event, self._now, **ids)
            return True

        return await self._database.write("end_event", work, of=_part(claim.room))

    @effect
    async def end_work(
        self,
        claim: queue.WorkItem,
        status: queue.WorkStatus = "done",
        *,
        reason: str = "",
        message_id: str = "",
        cost_usd: float = 0.0,
        message: queue.NewMessage | None = None,
    ) -> Result[bool, MemoryErrors]:
        """End an item, with the message that is sent for it, in one transaction."""
        self._leases.let_go(claim.holder)
        return await self._changed(
            "end_work",
            claim,
            f"status = ?, reason = coalesce(CAST(? AS TEXT), reason), message_id = ?, "
            f"cost_usd = cost_usd + ?, {_LET_GO}",
            status,
            without_surrogates(self._records.redacted(reason)) or None,
            without_surrogates(message_id),
            cost_usd,
            message=message and self._records.redacted(message),
        )

    @effect
    async def release(
        self, claim: queue.WorkItem, *, due: datetime | None = None, reason: str = "", cost_usd: float = 0.0
    ) -> Result[bool, MemoryErrors]:
        """Release an item; without a reason it was not tried."""
        self._leases.let_go(claim.holder)
        untried = claim.attempts - (not reason)  # fewer if it made progress, or was not begun
        due_us = 0
        if due is not None:  # a pause is of this machine's clock, the time of a schedule of all
            due_us = microseconds(due) if claim.kind == "schedule" else sql.shared_us(due, self._database)
        return await self._changed(
            "release",
            claim,
            "due = ?, reason = ?, attempts = CASE WHEN attempts < ? THEN attempts ELSE ? END, "
            f"cost_usd = cost_usd + ?, {_LET_GO}",
            due_us,
            without_surrogates(self._records.redacted(reason)),
            untried,
            untried,
            cost_usd,
        )

    async def _changed(
        self,
        operation: str,
        claim: queue.WorkItem,
        changes: str,
        *values: object,
        message: queue.NewMessage | None = None,
        soon: bool = False,
    ) -> Result[bool, MemoryErrors]:
        """Change an item that is still held, and add a message of it."""
        statement = f"UPDATE persona_work SET {changes}, updated_at = ? WHERE number = ? AND holder = ?"

        def work(file: Transaction) -> bool:
            changed = file.execute(statement, (*values, self._now(), claim.number, claim.holder)).rowcount > 0
            if changed and message is not None:
                _add_message(file, item=claim, message=message, now=self._now)
            return changed

        write = self._database.write_soon if soon else self._database.write
        return await write(operation, work, of=_part(claim.room))

    # --- the queue: what others see and order ---------------------------------------------------------------

    @effect
    async def find_work(self, chosen: queue.WorkFilter) -> Result[tuple[queue.WorkItem, ...], MemoryErrors]:
        """Return the matching items, newest first."""

        def work(file: Transaction) -> tuple[queue.WorkItem, ...]:
            conditions, values = where(
                {
                    "persona_id = ?": chosen.persona_id,
                    "tenant = ?": chosen.tenant,
                    "domain = ?": chosen.domain,
                    "context_id = ?": chosen.context_id,
                    '"user" = ?': chosen.user,
                    "event_id = ?": chosen.event_id,
                    "message_id != '' AND message_id = ?": chosen.message_id
                    and without_surrogates(chosen.message_id),
                    "created_at >= ?": None if chosen.since is None else microseconds(chosen.since),
                    "created_at < ?": None if chosen.until is None else microseconds(chosen.until),
                    "number = ?": chosen.number,
                }
            )
            for column, several in (("kind", chosen.kinds), ("status", chosen.statuses)):
                if several:
                    conditions += f" AND {column} IN ({marks(several)})"
                    values += several
            rows = file.execute(
                f"SELECT {COLUMNS} FROM persona_work WHERE {conditions} ORDER BY number DESC LIMIT ?",
                (*values, chosen.limit),
            )
            return tuple(map(item_of, rows.fetchall()))

        return await self._database.read("find_work", work)

    @effect
    async def order_work(self, number: int, order: queue.WorkOrder) -> Result[bool, MemoryErrors]:
        """Retry an item from its first try, or drop it."""

        def work(file: Transaction) -> bool:
            status, needed = "dropped", "'dead', 'open'"
            if order == "retry":
                status, needed = _retried(file, number), "'dead', 'dropped', 'open', 'done'"
            changed = file.execute(
                "UPDATE persona_work SET status = ?, reason = CASE "
                "WHEN kind = 'delivery' AND attempts > 0 AND reason = '' THEN ? ELSE reason END, "
                f"attempts = 0, due = 0, {_LET_GO}, updated_at = ? WHERE number = ? AND status IN ({needed})",
                (status, TRIED_BEFORE if order == "retry" else "", self._now(), number),
            )
            return changed.rowcount > 0

        return await self._database.write("order_work", work, of=f"item {number}")

    @effect
    async def waiting(
        self, persona_id: PersonaId, kind: queue.WorkKind, *, domains: Sequence[personas.Domain]
    ) -> Result[int, MemoryErrors]:
        """Return the number of waiting items."""
        work = partial(_waiting, persona_id=persona_id, kind=kind, domains=domains)
        return await self._database.read("waiting", work)

    @effect
    async def transcript(
        self, room: personas.Room, *, before: int | None = None, limit: int = 50
    ) -> Result[tuple[queue.Utterance, ...], MemoryErrors]:
        """Return the messages of a room, oldest first: its events with their answers.

        Excludes events that wait, were dropped or never ended, which no guardrail has checked.
        """

        def work(file: Transaction) -> tuple[queue.Utterance, ...]:
            place = (*_place(room), ALL_ROWS if before is None else before, limit)
            latest = (
                f"FROM persona_work WHERE kind = 'event' AND {_ROOM} AND number < ? "
                "AND status NOT IN ('open', 'dropped') AND NOT (status = 'dead' AND outcome IS NULL) "
                "ORDER BY number DESC LIMIT ?"
            )
            events = file.execute(f"SELECT {COLUMNS} {latest}", place).fetchall()
            answers: dict[str, list[queue.Utterance]] = {}
            for event_id, text, at in file.execute(  # joined, to skip those of other events
                f"SELECT event_id, message, created_at FROM (SELECT event_id AS latest_id {latest}) "
                f"AS latest JOIN persona_work ON event_id = latest_id WHERE {_ROOM} AND kind = 'delivery' "
                "AND status != 'dropped' ORDER BY number",
                (*place, *_place(room)),
            ).fetchall():
                answer = queue.Utterance("", text, moment_of(at), EventId(event_id))
                answers.setdefault(event_id, []).append(answer)
            said: list[queue.Utterance] = []
            for item in map(item_of, reversed(events)):
                said.append(queue.utterance_of(item.event))
                said += answers.get(item.event.id, ())
            return tuple(said[-limit:]) if limit else ()

        return await self._database.read("transcript", work)

    @effect
    async def spending(
        self,
        persona_id: PersonaId,
        since: datetime,
        *,
        tenant: str,
        user: str | None = None,
        room: personas.Room | None = None,
    ) -> Result[queue.Spending, MemoryErrors]:
        """Return the usage of a tenant, user or room since a time."""

        def work(file: Transaction) -> queue.Spending:
            conditions, values = where(_since(persona_id, tenant, since, user=user, room=room))
            events, cost_usd = file.execute(
                "SELECT count(CASE WHEN kind = 'event' AND plan_id IS NOT NULL THEN 1 END), "
                f"coalesce(sum(cost_usd), 0) FROM persona_work WHERE {conditions}",
                values,
            ).fetchone()
            return queue.Spending(int(events), float(cost_usd))

        return await self._database.read("spending", work)

    @effect
    async def forget(
        self,
        persona_id: PersonaId,
        *,
        user: str | None = None,
        tenant: str | None = None,
        before: datetime | None = None,
    ) -> Result[int, MemoryErrors]:
        """Delete the records of a user, a tenant or a time; return the number of events.

        Deletes ended and waiting work with its plans, journals and notes.
        """
        until = None if before is None else microseconds(before)
        about = {"persona_id = ?": persona_id, '"user" = ?': user, "tenant = ?": tenant}

        def work(file: Transaction) -> int:
            conditions, values = where({**about, f"NOT {_OPEN} AND updated_at < ?": until})
            rows = file.execute(
                "SELECT number, kind, event_id, task_id, tenant, domain, context_id, event FROM persona_work "
                f"WHERE {conditions}",
                values,
            ).fetchall()
            for number, kind, event_id, task_id, *place, _ in rows:
                file.execute("DELETE FROM persona_work WHERE number = ?", (number,))
                if kind == "event":  # a retried event has several plans
                    doomed = f"DELETE FROM persona_plans WHERE {_ROOM} AND event_id = ?"
                    file.execute(doomed, (persona_id, *place, event_id))
                if task_id is not None:
                    file.execute("DELETE FROM persona_journal WHERE task_id = ?", (task_id,))
            if until is None:
                rooms = {tuple(row[4:7]) for row in rows}
                for event in filter(None, (_readable(row[7], personas.DomainEvent) for row in rows)):
                    if event.feedback is not None:
                        _forget_reaction(file, event.feedback)
                conditions, values = where(about)
                file.execute(f"DELETE FROM persona_thoughts WHERE {conditions}", values)
                for of_tenant, domain, context in rooms:  # the self state may be about them
                    room = personas.Room(persona_id, domain, ContextId(context), of_tenant)
                    file.execute(f"DELETE FROM persona_states WHERE {_ROOM}", _place(room))
                    forget_owner(file, owner_of(None, room.key))
                _forget_lessons(file, persona_id, {row[3] for row in rows if row[3] is not None})
            return sum(row[1] == "event" for row in rows)

        events = f"events of {persona_id}"
        return await sql.erase(self._database, "forget", work, of=events, rewrites=until is None)

    # --- leases, which a fake has otherwise ----------------------------------------------------------------

    def _hold(self, holder: str) -> None:
        self._leases.hold(holder, None)

    def _lease_end(self, at: int) -> int:
        return at + int(LEASE_S * 1e6)

    async def _renew(self, held: Mapping[str, None]) -> None:
        places = marks(held)
        statement = (
            "UPDATE persona_work SET lease_until = ? "
            f"WHERE holder != '' AND holder IN ({places}) RETURNING holder"  # as the condition of its index
        )

        def work(file: Transaction) -> set[str]:
            return {holder for (holder,) in file.execute(statement, (self._lease_end(self._now()), *held))}

        renewed = await self._database.write_soon("renew", work, of=f"leases of {min(held)}")
        for lost in set(held) - renewed.value_or(set(held)):  # other processes hold it now
            self._leases.let_go(lost)

    def _now(self) -> int:
        return sql.shared_us(self._clock.now(), self._database)

    async def _all(
        self, operation: str, kind: Any, place: str, *values: object
    ) -> Result[tuple[Any, ...], MemoryErrors]:
        select = f"SELECT data FROM {place}"
        return await sql.rows(self._database, operation, lambda data: decoded(data, kind), select, *values)

    async def _one(
        self, operation: str, kind: Any, place: str, *values: object
    ) -> Result[Maybe[Any], MemoryErrors]:
        found = await self._all(operation, kind, place, *values)
        return found.map(lambda rows: Maybe.from_optional(rows[0] if rows else None))


# --- one transaction each -----------------------------------------------------------------------------------


def _place(room: personas.Room) -> tuple[str, ...]:
    return room.persona_id, room.tenant, room.domain, room.context_id


def _part(room: personas.Room) -> str:
    """Return the part of the store for the writes of a room."""
    return "room " + "\x1f".join(_place(room))


def _since(
    persona_id: PersonaId, tenant: str, since: datetime, *, user: str | None, room: personas.Room | None
) -> dict[str, object]:
    """Return the conditions on the work of a tenant, or its user or room."""
    return {
        "persona_id = ?": persona_id,
        "tenant = ?": tenant,
        '"user" = ?': user,
        "domain = ?": None if room is None else room.domain,
        "context_id = ?": None if room is None else room.context_id,
        "updated_at >= ?": microseconds(since),
    }


def _save_plan(
    file: Transaction,
    *,
    plan: personas.PersonaPlan,
    now: Now,
    claim: queue.WorkItem | None = None,
    progress: bool = True,
    cost_usd: float = 0.0,
) -> bool:
    if claim is not None:
        changed = file.execute(
            "UPDATE persona_work SET attempts = CASE WHEN ? THEN 1 ELSE attempts END, plan_id = ?, "
            "cost_usd = cost_usd + ?, updated_at = ? WHERE number = ? AND holder = ?",
            (progress, plan.id, cost_usd, now(), claim.number, claim.holder),
        )
        if not changed.rowcount:
            return False
        if claim.kind == "evaluation":  # users may have reacted meanwhile
            known = _readable(_held(file, "persona_plans", plan), personas.PersonaPlan)
            plan = plan if known is None else evolve(plan, feedback=known.feedback)
    file.execute(
        "INSERT INTO persona_plans "
        "(id, persona_id, tenant, domain, context_id, event_id, status, created_at, data) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
        "status = excluded.status, data = excluded.data",
        (
            plan.id,
            *_place(plan.room),
            plan.event.id,
            plan.plan.status,
            microseconds(plan.plan.created_at),
            to_json(plan),
        ),
    )
    return True


def _held(file: Transaction, table: str, known: personas.LearningEntry | personas.PersonaPlan) -> str:
    """Return a record in its present form, and let no other transaction change it."""
    row = file.execute(f"UPDATE {table} SET data = data WHERE id = ? RETURNING data", (known.id,)).fetchone()
    return "" if row is None else to_json(_readable(row[0], type(known)))


def _add_to_journal(file: Transaction, event: PersonaEvent) -> None:
    """Append an event once: the answer to an earlier try may have been lost."""
    values = (event.task_id, to_json(event, PersonaEvent))
    file.execute(
        "INSERT INTO persona_journal (task_id, data) SELECT ?, ?"
        " WHERE NOT EXISTS (SELECT 1 FROM persona_journal WHERE task_id = ? AND data = ?)",
        (*values, *values),
    )


def _change_learnings(
    file: Transaction,
    *,
    changes: Sequence[tuple[personas.LearningEntry | None, personas.LearningEntry | None]],
    plan: tuple[personas.PersonaPlan, personas.PersonaPlan] | None,
    claim: queue.WorkItem | None,
    now: Now,
) -> queue.LearningsChange:
    if claim is not None:
        held = "UPDATE persona_work SET updated_at = ? WHERE number = ? AND holder = ?"
        if not file.execute(held, (now(), claim.number, claim.holder)).rowcount:
            return "lost"
    for known, _ in changes:
        if known is not None and _held(file, "persona_learnings", known) != to_json(known):
            return "stale"
    if plan is not None:
        if _held(file, "persona_plans", plan[0]) != to_json(plan[0]):
            return "stale"
        _save_plan(file, plan=plan[1], now=now)
    for known, new in changes:
        if new is None:
            if known is not None:
                file.execute("DELETE FROM persona_learnings WHERE id = ?", (known.id,))
            continue
        file.execute(
            "INSERT INTO persona_learnings (id, persona_id, tenant, domain, confidence, use_count, data) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET confidence = excluded.confidence, "
            "use_count = excluded.use_count, data = excluded.data",
            (
                new.id,
                new.persona_id,
                new.tenant,
                new.domain,
                new.confidence,
                new.use_count,
                to_json(new),
            ),
        )
    if claim is not None and claim.kind == "evaluation":
        file.execute("UPDATE persona_work SET status = 'answered' WHERE number = ?", (claim.number,))
    return "stored"


def _insert(
    file: Transaction,
    kind: queue.WorkKind,
    room: personas.Room,
    key: str,
    event: personas.DomainEvent,
    now: Now,
    **columns: object,
) -> int | None:
    """Add an item; return its number, or ``None`` if its key is known."""
    at = now()
    values: dict[str, object] = {
        "kind": kind,
        "persona_id": room.persona_id,
        "tenant": room.tenant,
        "domain": room.domain,
        "context_id": room.context_id,
        "key": key,
        "event_id": event.id,
        "user": event.user_id,
        "priority": event.priority,
        "created_at": at,
        "updated_at": at,
        "event": to_json(event),
        **columns,
    }
    names = ", ".join(f'"{name}"' for name in values)
    inserted = file.execute(
        f"INSERT INTO persona_work ({names}) VALUES ({marks(values)}) "
        "ON CONFLICT (kind, persona_id, tenant, domain, context_id, key) DO NOTHING RETURNING number",
        tuple(values.values()),
    ).fetchone()
    return None if inserted is None else inserted[0]


def _add_message(file: Transaction, *, item: queue.WorkItem, message: queue.NewMessage, now: Now) -> None:
    """Add a message for delivery in the room of an item, once by its key."""
    _insert(
        file,
        "delivery",
        item.room,
        message.key,
        item.event,
        now,
        message=without_surrogates(message.content),
        message_kind=message.kind,
        status="done" if message.is_delivered else "open",
        plan_id=item.plan_id,
        task_id=item.task_id,
    )


def _item_of(file: Transaction, room: personas.Room, kind: queue.WorkKind, key: str) -> queue.WorkItem | None:
    row = file.execute(
        f"SELECT {COLUMNS} FROM persona_work WHERE kind = ? AND {_ROOM} AND key = ?",
        (kind, *_place(room), key),
    ).fetchone()
    return None if row is None else item_of(row)


def item_of(row: Sequence[Any]) -> queue.WorkItem:
    """Return the item of a row of ``COLUMNS``."""
    persona_id, tenant, domain, context_id, *fields = row
    room = personas.Room(PersonaId(persona_id), domain, ContextId(context_id), tenant)
    known = dict(zip(_FIELDS, fields, strict=True))
    created_at, holder, due = moment_of(known["created_at"]), known["holder"], known["due"]
    try:
        event = decoded(known["event"], personas.DomainEvent)
        ended = known["outcome"]
        outcome = None if ended is None else decoded(ended, personas.PersonaOutcome)
    except ValueError:
        event = personas.DomainEvent(
            EventId(known["key"]), room.context_id, "unknown", UNREADABLE, created_at, tenant=tenant
        )
        outcome = None
    read = {
        "event": event,
        "created_at": created_at,
        "updated_at": moment_of(known["updated_at"]),
        "holder": "" if not holder or is_gone(holder) else holder,
        "due": moment_of(due) if due else None,
        "plan_id": known["plan_id"] or None,
        "outcome": outcome,
    }
    return queue.WorkItem(room=room, **{**known, **read})


def _crash_pause_end(begun: int, attempts: int) -> int:
    """Return when work at which processes ended is tried again: one at a time."""
    return begun + int(CRASH_PAUSE_S * 1e6 * (1, 4, 16)[min(attempts - 2, 2)])


def _retried(file: Transaction, number: int) -> queue.WorkStatus:
    """Return the status of a retried item; an untaken answer is not made again."""
    row = file.execute(
        "SELECT outcome FROM persona_work WHERE number = ? AND status = 'dead' AND outcome IS NOT NULL",
        (number,),
    ).fetchone()
    outcome = None if row is None else _readable(row[0], personas.PersonaOutcome)
    return "answered" if outcome is not None and outcome.status in ("completed", "declined") else "open"


def _waiting(
    file: Transaction,
    *,
    persona_id: PersonaId,
    kind: queue.WorkKind,
    domains: Sequence[personas.Domain] | None = None,
    tenant: str = "",
) -> int:
    """Count the waiting items of some domains, or of a tenant."""
    places = "tenant = ?" if domains is None else f"domain IN ({marks(domains)})"
    rows = file.execute(
        f"SELECT holder, count(*) FROM persona_work WHERE persona_id = ? AND kind = ? AND {_OPEN} "
        f"AND {places} GROUP BY holder",
        (persona_id, kind, *((tenant,) if domains is None else domains)),
    ).fetchall()
    return sum(count for holder, count in rows if not holder or is_gone(holder))


def _readable(data: str, kind: type[Any]) -> Any:
    """Return a record; ``None`` if it is damaged or of an unknown version."""
    try:
        return decoded(data, kind)
    except ValueError:
        return None


def _forget_reaction(file: Transaction, feedback: personas.Feedback) -> None:
    found = file.execute("SELECT data FROM persona_plans WHERE id = ?", (feedback.plan_id,)).fetchone()
    plan = None if found is None else _readable(found[0], personas.PersonaPlan)
    if plan is not None:
        others = tuple(each for each in plan.feedback if each.user != feedback.user)
        data = to_json(evolve(plan, feedback=others))
        file.execute("UPDATE persona_plans SET data = ? WHERE id = ?", (data, plan.id))


def _forget_lessons(file: Transaction, persona_id: PersonaId, tasks: set[str]) -> None:
    """Delete the lessons learned only from these tasks, also from plans."""
    for number, data in file.execute(
        "SELECT seq, data FROM persona_learnings WHERE persona_id = ?", (persona_id,)
    ).fetchall():
        known = json.loads(data)
        learned = set(known.get("learned_from", ()))
        if learned and learned <= tasks and not known.get("pinned"):
            file.execute("DELETE FROM persona_learnings WHERE seq = ?", (number,))
            for text in filter(None, (known["pattern"], known.get("context"))):
                file.execute(
                    "UPDATE persona_journal SET data = replace(data, ?, ?)",
                    (to_json(text), to_json("[deleted]")),
                )
            for plan_id, stored in file.execute(
                "SELECT id, data FROM persona_plans WHERE persona_id = ? AND replace(data, ?, '') != data",
                (persona_id, to_json(known["pattern"])),
            ).fetchall():
                plan = _readable(stored, personas.PersonaPlan)
                if plan is not None:
                    kept = tuple(each for each in plan.learnings if each != known["pattern"])
                    data = to_json(evolve(plan, learnings=kept))
                    file.execute("UPDATE persona_plans SET data = ? WHERE id = ?", (data, plan_id))
