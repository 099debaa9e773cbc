"""Records and work of personas in the memory file.

What decides is a durable transaction: events, plans, ends. Journal, notes, state and claims outlive the
process, and reach the disk with the next of those. Work is held by a lease, as runs are: a process that is
gone holds nothing, and what a process writes after it lost its lease is refused in the same transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from attrs import evolve
from returns.maybe import Maybe
from returns.result import Result

from reactive_agents.adapters.leases import LEASE_S, LeaseRenewal, is_gone, new_holder
from reactive_agents.adapters.memory.database import MemoryDatabase, record_redactor
from reactive_agents.adapters.memory.store import decoded, microseconds
from reactive_agents.adapters.sqlite import DatabasePath, Work, moment_of
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core import persona_queue as queue
from reactive_agents.core import personas
from reactive_agents.core.codec import to_json
from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.ids import ContextId, EventId, LearningId, PersonaId, PlanId, TaskId
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.core.plans import PlanStatus
from reactive_agents.core.redaction import Redactor
from reactive_agents.effects import effect
from reactive_agents.ports import Clock

CRASH_PAUSE_S = 1.0
"""Seconds before work is begun again at which two processes ended; each later time four times as long."""


_ROOM = "persona_id = ? AND tenant = ? AND domain = ? AND context_id = ?"
_OPEN = "status IN ('open', 'answered')"
_COLUMNS = (
    "number, kind, persona_id, tenant, domain, context_id, key, status, attempts, holder, lease_until, due, "
    "created_at, updated_at, reason, event, message, message_kind, plan_id, task_id, outcome, message_id, "
    "cost_usd"
)


class SqlitePersonaStore:
    """Implements ``PersonaStore``.

    Args:
        place: the memory file, or a database shared with other services.
        redactor: removes secrets from the texts before they are stored.
        clock: tells when work is due, and until when a lease is valid.
    """

    def __init__(
        self,
        place: MemoryDatabase | DatabasePath,
        *,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._database = place if isinstance(place, MemoryDatabase) else MemoryDatabase(place)
        self._records = record_redactor(redactor or Redactor())
        self._clock = clock or SystemClock()
        self._leases: LeaseRenewal[None] = LeaseRenewal("persona-leases", self._renew)

    async def aclose(self) -> None:
        """Close the file; the next use opens it again."""
        await self._database.aclose()

    # --- plans --------------------------------------------------------------------------------------------

    @effect
    async def save_plan(
        self, plan: personas.PersonaPlan, claim: queue.WorkItem | None = None, *, progress: bool = True
    ) -> Result[bool, MemoryErrors]:
        """Store the plan under its id, unless the claim was lost.

        Fails with ``MemoryUnavailable``.
        """
        clean = self._records.redacted(plan)
        work = partial(_save_plan, plan=clean, claim=claim, progress=progress, now=self._now())
        return await self._database.write("save_plan", work)

    @effect
    async def get_plan(self, plan_id: PlanId) -> Result[Maybe[personas.PersonaPlan], MemoryErrors]:
        """Return the plan, or ``Nothing``. Fails with ``MemoryUnavailable``."""
        return await self._one("get_plan", personas.PersonaPlan, "persona_plans WHERE id = ?", plan_id)

    @effect
    async def plan_of_event(
        self, room: personas.Room, event_id: EventId
    ) -> Result[Maybe[personas.PersonaPlan], MemoryErrors]:
        """Return the newest plan for the event of a room, or ``Nothing``.

        Fails with ``MemoryUnavailable``.
        """
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
        """Return the persona's plans, newest first.

        Of the same age, the one made later first.

        Fails with ``MemoryUnavailable``.
        """
        wanted: dict[str, object] = {
            "persona_id = ?": persona_id,
            "domain = ?": domain,
            "context_id = ?": context_id,
            "tenant = ?": tenant,
            "status = ?": status,
            "created_at >= ?": None if since is None else microseconds(since),
            "created_at < ?": None if until is None else microseconds(until),
        }
        conditions, values = _chosen(wanted)
        place = f"persona_plans WHERE {conditions} ORDER BY created_at DESC, seq DESC LIMIT ?"
        return await self._all("list_plans", personas.PersonaPlan, place, *values, limit)

    # --- learnings ----------------------------------------------------------------------------------------

    @effect
    async def save_learning(self, learning: personas.LearningEntry) -> Result[None, MemoryErrors]:
        """Store the learning under its id, replacing what was there.

        Fails with ``MemoryUnavailable``.
        """
        return await self._do(
            "save_learning",
            "INSERT INTO persona_learnings (id, persona_id, tenant, domain, confidence, use_count, data) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET confidence = excluded.confidence, "
            "use_count = excluded.use_count, data = excluded.data",
            learning.id,
            learning.persona_id,
            learning.tenant,
            learning.domain,
            learning.confidence,
            learning.use_count,
            to_json(self._records.redacted(learning)),
        )

    @effect
    async def get_learning(
        self, learning_id: LearningId
    ) -> Result[Maybe[personas.LearningEntry], MemoryErrors]:
        """Return the learning, or ``Nothing``. Fails with ``MemoryUnavailable``."""
        return await self._one(
            "get_learning", personas.LearningEntry, "persona_learnings WHERE id = ?", learning_id
        )

    @effect
    async def list_learnings(
        self, persona_id: PersonaId, *, domain: personas.Domain | None = None, tenant: str | None = None
    ) -> Result[tuple[personas.LearningEntry, ...], MemoryErrors]:
        """Return the learnings, the most confident first, then the most used.

        Fails with ``MemoryUnavailable``.
        """
        wanted = {"persona_id = ?": persona_id, "domain = ?": domain, "tenant = ?": tenant}
        conditions, values = _chosen(wanted)
        place = f"persona_learnings WHERE {conditions} ORDER BY confidence DESC, use_count DESC, seq"
        return await self._all("list_learnings", personas.LearningEntry, place, *values)

    @effect
    async def delete_learning(self, learning_id: LearningId) -> Result[bool, MemoryErrors]:
        """Delete the learning; return whether it existed.

        Fails with ``MemoryUnavailable``.
        """
        statement = "DELETE FROM persona_learnings WHERE id = ?"
        deleted = await self._database.change("delete_learning", statement, learning_id)
        return deleted.map(bool)

    @effect
    async def texts_of_other_rooms(
        self, room: personas.Room, limit: int = 500
    ) -> Result[tuple[str, ...], MemoryErrors]:
        """Return the newest events of the other rooms of a tenant.

        Fails with ``MemoryUnavailable``.
        """
        return await self._database.rows(
            "texts_of_other_rooms",
            str,
            "SELECT json_extract(event, '$.content') FROM persona_work WHERE kind = 'event'"
            " AND persona_id = ? AND tenant = ? AND NOT (domain = ? AND context_id = ?)"
            " ORDER BY number DESC LIMIT ?",
            *_place(room),
            limit,
        )

    # --- working memory and journal -----------------------------------------------------------------------

    @effect
    async def add_thought(self, thought: personas.Thought) -> Result[None, MemoryErrors]:
        """Add to the working memory of the room.

        The least important thoughts are removed.

        Fails with ``MemoryUnavailable``.
        """
        clean = self._records.redacted(thought)
        return await self._database.write_soon("add_thought", lambda file: _add_thought(file, clean))

    @effect
    async def recall_thoughts(
        self, room: personas.Room, *, kinds: Sequence[personas.ThoughtKind] = (), limit: int = 5
    ) -> Result[tuple[personas.Thought, ...], MemoryErrors]:
        """Return the most important thoughts of one room.

        Fails with ``MemoryUnavailable``.
        """
        wanted = f"AND kind IN ({', '.join('?' * len(kinds))}) " if kinds else ""
        place = f"persona_thoughts WHERE {_ROOM} {wanted}ORDER BY weight DESC, seq DESC LIMIT ?"
        return await self._all("recall_thoughts", personas.Thought, place, *_place(room), *kinds, limit)

    @effect
    async def get_self_state(self, room: personas.Room) -> Result[personas.SelfState, MemoryErrors]:
        """Return the self state in a room; an idle one when none is stored.

        Fails with ``MemoryUnavailable``.
        """
        place = f"persona_states WHERE {_ROOM}"
        found = await self._one("get_self_state", personas.SelfState, place, *_place(room))
        return found.map(lambda state: state.value_or(personas.SelfState(room)))

    @effect
    async def save_self_state(self, state: personas.SelfState) -> Result[None, MemoryErrors]:
        """Store the state, replacing what was there. Fails with ``MemoryUnavailable``."""
        clean = self._records.redacted(state)
        return await self._soon(
            "save_self_state",
            "INSERT OR REPLACE INTO persona_states (persona_id, tenant, domain, context_id, data) "
            "VALUES (?, ?, ?, ?, ?)",
            *_place(state.room),
            to_json(clean),
        )

    @effect
    async def record(self, event: PersonaEvent) -> Result[None, MemoryErrors]:
        """Append to the journal. Fails with ``MemoryUnavailable``."""
        clean = self._records.redacted(event)
        statement = "INSERT INTO persona_journal (task_id, data) VALUES (?, ?)"
        return await self._soon("record", statement, event.task_id, to_json(clean, PersonaEvent))

    @effect
    async def journal(self, task_id: TaskId) -> Result[tuple[PersonaEvent, ...], MemoryErrors]:
        """Return the journal of a task, in order. Fails with ``MemoryUnavailable``."""
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
        """Add an event, once, unless too many wait. Fails with ``MemoryUnavailable``."""
        work = partial(
            _add_event,
            room=room,
            event=self._records.redacted(event),
            capacity=capacity,
            drop_oldest=drop_oldest,
            now=self._now(),
        )
        return await self._database.write("add_event", work)

    @effect
    async def add_message(
        self, claim: queue.WorkItem, message: queue.NewMessage
    ) -> Result[bool, MemoryErrors]:
        """Add a message to be delivered, once by its key.

        Fails with ``MemoryUnavailable``.
        """
        clean = self._records.redacted(message)
        work = partial(_add_message, item=claim, message=clean, now=self._now())
        return await self._database.write("add_message", work)

    @effect
    async def claim(
        self,
        persona_id: PersonaId,
        kind: queue.WorkKind,
        *,
        domains: Sequence[personas.Domain],
        room: personas.Room | None = None,
    ) -> Result[queue.WorkItem | None, MemoryErrors]:
        """Claim the next item of some domains, or of one room.

        Fails with ``MemoryUnavailable``.
        """
        holder, now = new_holder(), self._now()
        work = partial(
            _claim,
            persona_id=persona_id,
            kind=kind,
            domains=domains,
            room=room,
            holder=holder,
            now=now,
            until=self._valid_until(),
        )
        claimed = await self._database.write_soon("claim", work)
        if claimed.value_or(None) is not None:
            self._leases.hold(holder, None)
        return claimed

    @effect
    async def begin_task(self, claim: queue.WorkItem, task_id: TaskId) -> Result[bool, MemoryErrors]:
        """Store the task of an event, under which its journal is.

        Fails with ``MemoryUnavailable``.
        """
        statement = "UPDATE persona_work SET task_id = ? WHERE number = ? AND holder = ?"
        values = (task_id, claim.number, claim.holder)
        work: Work[int] = lambda file: file.execute(statement, values).rowcount  # noqa: E731
        return (await self._database.write_soon("begin_task", work)).map(bool)

    @effect
    async def replace_content(self, claim: queue.WorkItem, content: str) -> Result[bool, MemoryErrors]:
        """Replace the content of an event. Fails with ``MemoryUnavailable``."""
        event = self._records.redacted(evolve(claim.event, content=content))
        statement = "UPDATE persona_work SET event = ? WHERE number = ? AND holder = ?"
        values = (to_json(event), claim.number, claim.holder)
        return (await self._database.change("replace_content", statement, *values)).map(bool)

    @effect
    async def end_event(self, claim: queue.WorkItem, end: queue.EventEnd) -> Result[bool, MemoryErrors]:
        """Store the end of an event with all that follows, in one transaction.

        Fails with ``MemoryUnavailable``.
        """
        work = partial(_end_event, claim=claim, end=self._records.redacted(end), now=self._now())
        return await self._database.write("end_event", work)

    @effect
    async def end_work(
        self,
        claim: queue.WorkItem,
        status: queue.WorkStatus = "done",
        *,
        reason: str = "",
        message_id: str = "",
        cost_usd: float = 0.0,
    ) -> Result[bool, MemoryErrors]:
        """End an item. Fails with ``MemoryUnavailable``."""
        self._leases.let_go(claim.holder)
        return await self._changed(
            "end_work",
            claim,
            "status = ?, reason = CASE WHEN ? = '' THEN reason ELSE ? END, message_id = ?, "
            "cost_usd = cost_usd + ?",
            status,
            *[self._records.redacted(reason)] * 2,
            message_id,
            cost_usd,
        )

    @effect
    async def release(
        self, claim: queue.WorkItem, *, due: datetime | None = None, reason: str = ""
    ) -> Result[bool, MemoryErrors]:
        """Give an item back; without a reason it was not tried.

        Fails with ``MemoryUnavailable``.
        """
        self._leases.let_go(claim.holder)
        return await self._changed(
            "release",
            claim,
            "due = ?, reason = ?, attempts = max(0, attempts - ?)",
            0 if due is None else microseconds(due),
            self._records.redacted(reason),
            int(not reason),
        )

    async def _changed(
        self, operation: str, claim: queue.WorkItem, changes: str, *values: object
    ) -> Result[bool, MemoryErrors]:
        statement = (
            f"UPDATE persona_work SET {changes}, holder = '', lease_until = 0, updated_at = ? "
            "WHERE number = ? AND holder = ?"
        )
        given = (*values, self._now(), claim.number, claim.holder)
        return (await self._database.change(operation, statement, *given)).map(bool)

    # --- the queue: what others see and order ---------------------------------------------------------------

    @effect
    async def find_work(self, chosen: queue.WorkFilter) -> Result[tuple[queue.WorkItem, ...], MemoryErrors]:
        """Return the items that fit, the newest first. Fails with ``MemoryUnavailable``."""
        return await self._database.read("find_work", partial(_find, chosen=chosen))

    @effect
    async def order_work(self, number: int, order: queue.WorkOrder) -> Result[bool, MemoryErrors]:
        """Do an item again from its first try, or drop it.

        Fails with ``MemoryUnavailable``.
        """
        return await self._database.write(
            "order_work", partial(_order, number=number, order=order, now=self._now())
        )

    @effect
    async def waiting(
        self, persona_id: PersonaId, kind: queue.WorkKind, *, domains: Sequence[personas.Domain]
    ) -> Result[int, MemoryErrors]:
        """Return the number of items that wait. Fails with ``MemoryUnavailable``."""
        work = partial(_waiting, persona_id=persona_id, kind=kind, domains=domains)
        return await self._database.read("waiting", work)

    @effect
    async def transcript(
        self, room: personas.Room, *, before: int | None = None, limit: int = 50
    ) -> Result[tuple[queue.Utterance, ...], MemoryErrors]:
        """Return the messages of a room, oldest first: its events with their answers.

        Fails with ``MemoryUnavailable``.
        """
        return await self._database.read(
            "transcript", partial(_transcript, room=room, before=before, limit=limit)
        )

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
        """Return what a tenant, a user or a room has used since a time.

        Fails with ``MemoryUnavailable``.
        """
        work = partial(
            _spending, persona_id=persona_id, since=microseconds(since), tenant=tenant, user=user, room=room
        )
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

        Fails with ``MemoryUnavailable``.
        """
        until = None if before is None else microseconds(before)
        work = partial(_forget, persona_id=persona_id, user=user, tenant=tenant, until=until)
        return await self._database.write("forget", work)

    # --- leases -------------------------------------------------------------------------------------------

    async def _renew(self, held: Mapping[str, None]) -> None:
        places = ", ".join("?" * len(held))
        statement = f"UPDATE persona_work SET lease_until = ? WHERE holder IN ({places})"
        await self._database.write_soon(
            "renew", lambda file: file.execute(statement, (self._valid_until(), *held)).rowcount
        )

    def _now(self) -> int:
        return microseconds(self._clock.now())

    def _valid_until(self) -> int:
        return self._now() + int(LEASE_S * 1e6)

    # --- rows -----------------------------------------------------------------------------------------------

    async def _do(self, operation: str, statement: str, *values: object) -> Result[None, MemoryErrors]:
        return (await self._database.change(operation, statement, *values)).map(lambda _: None)

    async def _soon(self, operation: str, statement: str, *values: object) -> Result[None, MemoryErrors]:
        """Write without waiting for the disk: the next durable write brings it there."""
        done = await self._database.write_soon(operation, lambda file: file.execute(statement, values))
        return done.map(lambda _: None)

    async def _all(
        self, operation: str, kind: Any, place: str, *values: object
    ) -> Result[tuple[Any, ...], MemoryErrors]:
        select = f"SELECT data FROM {place}"
        return await self._database.rows(operation, lambda data: decoded(data, kind), select, *values)

    async def _one(
        self, operation: str, kind: Any, place: str, *values: object
    ) -> Result[Maybe[Any], MemoryErrors]:
        found = await self._all(operation, kind, place, *values)
        return found.map(lambda rows: Maybe.from_optional(rows[0] if rows else None))


# --- one transaction each -----------------------------------------------------------------------------------


def _place(room: personas.Room) -> tuple[str, ...]:
    return room.persona_id, room.tenant, room.domain, room.context_id


def _chosen(wanted: Mapping[str, object]) -> tuple[str, list[object]]:
    named = {condition: value for condition, value in wanted.items() if value is not None}
    return " AND ".join(named) or "1 = 1", list(named.values())


def _save_plan(
    file: sqlite3.Connection,
    *,
    plan: personas.PersonaPlan,
    now: int,
    claim: queue.WorkItem | None = None,
    progress: bool = True,
) -> bool:
    if claim is not None:
        changed = file.execute(
            "UPDATE persona_work SET attempts = CASE WHEN ? THEN 1 ELSE attempts END, plan_id = ?, "
            "updated_at = ? WHERE number = ? AND holder = ?",
            (progress, plan.id, now, claim.number, claim.holder),
        )
        if not changed.rowcount:
            return False
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


def _add_thought(file: sqlite3.Connection, thought: personas.Thought) -> None:
    place = _place(thought.room)
    file.execute(
        'INSERT INTO persona_thoughts (persona_id, tenant, domain, context_id, kind, weight, "user", data) '
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*place, thought.kind, personas.thought_weight(thought), thought.user, to_json(thought)),
    )
    file.execute(
        f"DELETE FROM persona_thoughts WHERE seq IN (SELECT seq FROM persona_thoughts WHERE {_ROOM} "
        "ORDER BY weight DESC, seq DESC LIMIT -1 OFFSET ?)",
        (*place, personas.THOUGHTS_KEPT),
    )


def _add_event(
    file: sqlite3.Connection,
    *,
    room: personas.Room,
    event: personas.DomainEvent,
    capacity: int | None,
    drop_oldest: bool,
    now: int,
) -> queue.Submission:
    known = _item_of(file, room, "event", event.id)
    waiting = _waiting(file, persona_id=room.persona_id, kind="event")
    if known is not None:
        return queue.Submission(known, is_new=False, waiting=waiting)
    dropped = None
    if capacity is not None and waiting >= capacity:
        if not drop_oldest:
            return queue.Submission(None, is_new=False, waiting=waiting)
        oldest = file.execute(
            f"UPDATE persona_work SET status = 'dropped', reason = 'The inbox was full.', updated_at = ? "
            "WHERE number = (SELECT min(number) FROM persona_work WHERE persona_id = ? AND kind = 'event' "
            f"AND status = 'open' AND holder = '') RETURNING {_COLUMNS}",
            (now, room.persona_id),
        ).fetchone()
        dropped = None if oldest is None else _item(oldest)
    number = _insert(file, "event", room, event.id, event, now)
    added = _row(file, number)
    return queue.Submission(added, is_new=True, dropped=dropped, waiting=waiting + (dropped is None))


def _insert(
    file: sqlite3.Connection,
    kind: queue.WorkKind,
    room: personas.Room,
    key: str,
    event: personas.DomainEvent,
    now: int,
    **columns: object,
) -> int:
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
        "created_at": now,
        "updated_at": now,
        "event": to_json(event),
        **columns,
    }
    names = ", ".join(f'"{name}"' for name in values)
    inserted = file.execute(
        f"INSERT OR IGNORE INTO persona_work ({names}) VALUES ({', '.join('?' * len(values))})",
        tuple(values.values()),
    )
    return inserted.lastrowid or 0


def _add_message(
    file: sqlite3.Connection, *, item: queue.WorkItem, message: queue.NewMessage, now: int
) -> bool:
    before = file.total_changes
    _insert(
        file,
        "delivery",
        item.room,
        message.key,
        item.event,
        now,
        message=message.content,
        message_kind=message.kind,
        status="done" if message.is_delivered else "open",
        plan_id=item.plan_id,
        task_id=item.task_id,
    )
    return file.total_changes > before


def _claim(
    file: sqlite3.Connection,
    *,
    persona_id: PersonaId,
    kind: queue.WorkKind,
    domains: Sequence[personas.Domain],
    room: personas.Room | None,
    holder: str,
    now: int,
    until: int,
) -> queue.WorkItem | None:
    places = f"domain IN ({', '.join('?' * len(domains))})" if room is None else _ROOM
    heads = file.execute(
        f"SELECT min(number) FROM persona_work WHERE persona_id = ? AND kind = ? AND {_OPEN} AND {places} "
        "GROUP BY tenant, domain, context_id ORDER BY max(priority) DESC, min(number)",
        (persona_id, kind, *(domains if room is None else _place(room))),
    ).fetchall()
    for (head,) in heads:
        row = file.execute(
            "SELECT due, holder, lease_until, attempts, updated_at FROM persona_work WHERE number = ?",
            (head,),
        ).fetchone()
        due, held_by, lease_until, attempts, begun = row
        if held_by and lease_until >= now and not is_gone(held_by):
            continue
        if held_by and attempts > 1:  # processes end again and again: what is left is tried in peace
            due = begun + int(CRASH_PAUSE_S * 1e6) * 4 ** (attempts - 2)
        if due > now:
            continue
        file.execute(
            "UPDATE persona_work SET holder = ?, lease_until = ?, attempts = attempts + 1, updated_at = ? "
            "WHERE number = ?",
            (holder, until, now, head),
        )
        return _row(file, head)
    return None


def _end_event(file: sqlite3.Connection, *, claim: queue.WorkItem, end: queue.EventEnd, now: int) -> bool:
    plan = end.plan
    ended = file.execute(
        "UPDATE persona_work SET status = ?, reason = ?, plan_id = ?, outcome = ?, cost_usd = cost_usd + ?, "
        "attempts = CASE WHEN ? THEN attempts ELSE 1 END, updated_at = ? WHERE number = ? AND holder = ?",
        (
            "answered",
            end.outcome.reason,
            None if plan is None else plan.id,
            to_json(evolve(end.outcome, plan=None)),
            end.cost_usd,
            end.is_dead,
            now,
            claim.number,
            claim.holder,
        ),
    )
    if not ended.rowcount:
        return False
    if plan is not None:
        _save_plan(file, plan=plan, now=now)
    item = evolve(claim, plan_id=None if plan is None else plan.id)
    for message in end.messages:
        _add_message(file, item=item, message=message, now=now)
    if end.evaluate and plan is not None:
        ids = {"plan_id": plan.id, "task_id": plan.task.id}
        _insert(file, "evaluation", claim.room, claim.key, claim.event, now, **ids)
    return True


def _row(file: sqlite3.Connection, number: int) -> queue.WorkItem:
    return _item(file.execute(f"SELECT {_COLUMNS} FROM persona_work WHERE number = ?", (number,)).fetchone())


def _item_of(
    file: sqlite3.Connection, room: personas.Room, kind: queue.WorkKind, key: str
) -> queue.WorkItem | None:
    row = file.execute(
        f"SELECT {_COLUMNS} FROM persona_work WHERE kind = ? AND {_ROOM} AND key = ?",
        (kind, *_place(room), key),
    ).fetchone()
    return None if row is None else _item(row)


def _item(row: Sequence[Any]) -> queue.WorkItem:
    (
        number,
        kind,
        persona_id,
        tenant,
        domain,
        context_id,
        key,
        status,
        attempts,
        holder,
        _,
        due,
        created_at,
        updated_at,
        reason,
        event,
        message,
        message_kind,
        plan_id,
        task_id,
        outcome,
        message_id,
        cost_usd,
    ) = row
    return queue.WorkItem(
        number,
        kind,
        personas.Room(PersonaId(persona_id), domain, ContextId(context_id), tenant),
        key,
        decoded(event, personas.DomainEvent),
        status,
        attempts,
        moment_of(created_at),
        moment_of(updated_at),
        holder="" if not holder or is_gone(holder) else holder,
        due=None if not due else moment_of(due),
        reason=reason,
        message=message,
        message_kind=message_kind,
        plan_id=None if plan_id is None else PlanId(plan_id),
        task_id=None if task_id is None else TaskId(task_id),
        outcome=None if outcome is None else decoded(outcome, personas.PersonaOutcome),
        message_id=message_id,
        cost_usd=cost_usd,
    )


def _find(file: sqlite3.Connection, *, chosen: queue.WorkFilter) -> tuple[queue.WorkItem, ...]:
    conditions, values = _chosen(
        {
            "persona_id = ?": chosen.persona_id,
            "tenant = ?": chosen.tenant,
            "domain = ?": chosen.domain,
            "context_id = ?": chosen.context_id,
            '"user" = ?': chosen.user,
            "event_id = ?": chosen.event_id,
            "created_at >= ?": None if chosen.since is None else microseconds(chosen.since),
            "created_at < ?": None if chosen.until is None else microseconds(chosen.until),
        }
    )
    for column, several in (("kind", chosen.kinds), ("status", chosen.statuses)):
        if several:
            conditions += f" AND {column} IN ({', '.join('?' * len(several))})"
            values += several
    rows = file.execute(
        f"SELECT {_COLUMNS} FROM persona_work WHERE {conditions} ORDER BY number DESC LIMIT ?",
        (*values, chosen.limit),
    )
    return tuple(map(_item, rows.fetchall()))


def _order(file: sqlite3.Connection, *, number: int, order: queue.WorkOrder, now: int) -> bool:
    status, needed = "dropped", "'dead', 'open'"
    if order == "retry":
        status, needed = "open", "'dead', 'dropped', 'open', 'done'"
    changed = file.execute(
        "UPDATE persona_work SET status = ?, attempts = 0, due = 0, holder = '', lease_until = 0, "
        f"updated_at = ? WHERE number = ? AND status IN ({needed})",
        (status, now, number),
    )
    return changed.rowcount > 0


def _waiting(
    file: sqlite3.Connection,
    *,
    persona_id: PersonaId,
    kind: queue.WorkKind,
    domains: Sequence[personas.Domain] | None = None,
) -> int:
    places = "" if domains is None else f" AND domain IN ({', '.join('?' * len(domains))})"
    rows = file.execute(
        f"SELECT holder, count(*) FROM persona_work WHERE persona_id = ? AND kind = ? AND {_OPEN}{places} "
        "GROUP BY holder",
        (persona_id, kind, *(domains or ())),
    ).fetchall()
    return sum(count for holder, count in rows if not holder or is_gone(holder))


def _transcript(
    file: sqlite3.Connection, *, room: personas.Room, before: int | None, limit: int
) -> tuple[queue.Utterance, ...]:
    """Return each event of a room with its answers, oldest first."""
    events = file.execute(
        f"SELECT {_COLUMNS} FROM persona_work WHERE kind = 'event' AND {_ROOM} AND number < ? "
        "ORDER BY number DESC LIMIT ?",
        (*_place(room), 2**62 if before is None else before, limit),
    ).fetchall()
    said: list[queue.Utterance] = []
    for item in map(_item, reversed(events)):
        said.append(queue.Utterance(item.event.author, item.event.content, item.event.at, item.event.id))
        answers = file.execute(
            f"SELECT message, created_at FROM persona_work WHERE {_ROOM} AND event_id = ? "
            "AND kind = 'delivery' AND status != 'dropped' ORDER BY number",
            (*_place(room), item.event.id),
        ).fetchall()
        said += [queue.Utterance("", text, moment_of(at), item.event.id) for text, at in answers]
    return tuple(said[-limit:]) if limit else ()


def _spending(
    file: sqlite3.Connection,
    *,
    persona_id: PersonaId,
    since: int,
    tenant: str,
    user: str | None,
    room: personas.Room | None,
) -> queue.Spending:
    conditions, values = _chosen(
        {
            "persona_id = ?": persona_id,
            "tenant = ?": tenant,
            '"user" = ?': user,
            "domain = ?": None if room is None else room.domain,
            "context_id = ?": None if room is None else room.context_id,
            "updated_at >= ?": since,
        }
    )
    events, cost_usd = file.execute(
        "SELECT count(CASE WHEN kind = 'event' AND plan_id IS NOT NULL THEN 1 END), total(cost_usd) "
        f"FROM persona_work WHERE {conditions}",
        values,
    ).fetchone()
    return queue.Spending(int(events), float(cost_usd))


def _forget(
    file: sqlite3.Connection,
    *,
    persona_id: PersonaId,
    user: str | None,
    tenant: str | None,
    until: int | None,
) -> int:
    """Delete ended and waiting work with its plans and journals, and the notes on it."""
    conditions, values = _chosen(
        {
            "persona_id = ?": persona_id,
            '"user" = ?': user,
            "tenant = ?": tenant,
            f"NOT {_OPEN} AND updated_at < ?": until,
        }
    )
    rows = file.execute(
        "SELECT number, kind, plan_id, task_id, tenant, domain, context_id FROM persona_work "
        f"WHERE {conditions}",
        values,
    ).fetchall()
    for number, _, plan_id, task_id, *_room in rows:
        file.execute("DELETE FROM persona_work WHERE number = ?", (number,))
        if plan_id is not None:
            file.execute("DELETE FROM persona_plans WHERE id = ?", (plan_id,))
        if task_id is not None:
            file.execute("DELETE FROM persona_journal WHERE task_id = ?", (task_id,))
    if until is None:
        rooms = {tuple(row[4:]) for row in rows}
        conditions, values = _chosen({"persona_id = ?": persona_id, '"user" = ?': user, "tenant = ?": tenant})
        file.execute(f"DELETE FROM persona_thoughts WHERE {conditions}", values)
        for place in rooms:  # what it is busy with may be about them
            file.execute(f"DELETE FROM persona_states WHERE {_ROOM}", (persona_id, *place))
        _forget_lessons(file, persona_id, {row[3] for row in rows if row[3] is not None})
    return sum(row[1] == "event" for row in rows)


def _forget_lessons(file: sqlite3.Connection, persona_id: PersonaId, tasks: set[str]) -> None:
    """Delete the lessons that were learned from these tasks alone."""
    for number, data in file.execute(
        "SELECT seq, data FROM persona_learnings WHERE persona_id = ?", (persona_id,)
    ).fetchall():
        known = json.loads(data)
        learned = set(known.get("learned_from", ()))
        if learned and learned <= tasks and not known.get("pinned"):
            file.execute("DELETE FROM persona_learnings WHERE seq = ?", (number,))
