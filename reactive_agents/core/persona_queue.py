"""Work of personas that outlives a process, in one queue.

An event is one item of the queue, unique by its room and id. Its end, its plan in the final state, the
messages to deliver and the evaluation to make are stored in one transaction. Items of one kind and room are
done in the order of their numbers; a process holds an item by a lease.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.ids import ContextId, EventId, PersonaId, PlanId, TaskId
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.core.personas import Domain, DomainEvent, PersonaOutcome, PersonaPlan, Room
from reactive_agents.core.values import Value

WorkKind: TypeAlias = Literal["event", "delivery", "evaluation", "schedule"]
"""``event``: to be answered; ``delivery``: a message to be sent; ``evaluation``: of a plan that ended;
``schedule``: an event that comes at a time, once or again and again."""

WorkStatus: TypeAlias = Literal["open", "answered", "done", "dead", "dropped"]
"""``answered``: an event whose end is stored, but not yet reported, or an evaluation that was learned from.
``dead``: given up after its tries."""

LearningsChange: TypeAlias = Literal["stored", "stale", "lost"]
"""Whether learnings were stored: not if others have changed them, or the work on them was lost."""

MessageKind: TypeAlias = Literal["answer", "fallback", "notice"]
"""``fallback``: in place of an answer that could not be given; ``notice``: a message without a question."""

CRON = "cron/"
"""What the keys of schedules in the notation of cron begin with."""

OPEN_STATUSES: tuple[WorkStatus, ...] = ("open", "answered")
"""Statuses of work that is still to be done."""


@frozen(eq=False, repr=False)
class WorkItem(Value):
    """One item of the queue.

    Attributes:
        number: the order of arrival; items of one kind and room are done in this order.
        key: unique within the kind and the room; of an event its id.
        event: the event; of a delivery or an evaluation the one that it belongs to.
        attempts: how often it was begun since it last made progress.
        holder: the process that does it at the moment; empty for none.
        due: not before this time; ``None`` for at once.
        reason: why it ended or is tried again, in a sentence.
        message: the text of a delivery.
        message_kind: the kind of a delivery.
        plan_id: the plan of an event, once there is one, and of an evaluation.
        task_id: the task of an event, under which its journal is.
        outcome: of an event that ended, without its plan.
        message_id: of a delivery, as the platform names the message; empty when it does not say.
        cost_usd: US dollars of an event or evaluation, without those of the steps of other items.
    """

    number: int
    kind: WorkKind
    room: Room
    key: str
    event: DomainEvent
    status: WorkStatus
    attempts: int
    created_at: datetime
    updated_at: datetime
    holder: str = ""
    due: datetime | None = None
    reason: str = ""
    message: str = ""
    message_kind: MessageKind = "answer"
    plan_id: PlanId | None = None
    task_id: TaskId | None = None
    outcome: PersonaOutcome | None = None
    message_id: str = ""
    cost_usd: float = 0.0

    @property
    def delivery_key(self) -> str:
        """Return the key by which a platform recognises a message that is sent again."""
        return delivery_key(self.room, self.key)

    @property
    def is_open(self) -> bool:
        """Return whether it is still to be done."""
        return self.status in OPEN_STATUSES


def delivery_key(room: Room, key: str) -> str:
    """Return the key of a message for its platform, from the one in its room."""
    return digest_of(room.persona_id, room.tenant, room.domain, room.context_id, key)[:32]


def digest_of(*texts: str) -> str:
    """Return a name of 64 signs for several texts, which hardly any others have."""
    return sha256("\x1f".join(texts).encode(errors="surrogatepass")).hexdigest()


@frozen(eq=False, repr=False)
class Submission(Value):
    """The result of adding an event to the queue.

    Attributes:
        item: the event's item; ``None`` when the queue is full.
        is_new: whether it was added now.
        dropped: the waiting event that was dropped for it.
        waiting: number of events of the tenant that wait.
    """

    item: WorkItem | None
    is_new: bool
    dropped: WorkItem | None = None
    waiting: int = 0


@frozen(eq=False, repr=False)
class NewMessage(Value):
    """A message to be delivered, or only kept for the transcript if ``is_delivered``."""

    key: str
    content: str
    kind: MessageKind = "answer"
    is_delivered: bool = False


@frozen(eq=False, repr=False)
class EventEnd(Value):
    """The end of an event, stored in one transaction.

    Attributes:
        outcome: of the event.
        plan: in its final state; ``None`` when there is none.
        messages: to be delivered, in this order.
        evaluate: whether the plan is to be evaluated.
        cost_usd: US dollars since its plan was stored, for the limits of a day.
        journal: what could not be added to the journal before.
    """

    outcome: PersonaOutcome
    plan: PersonaPlan | None = None
    messages: tuple[NewMessage, ...] = ()
    evaluate: bool = False
    cost_usd: float = 0.0
    journal: tuple[PersonaEvent, ...] = ()


@frozen(eq=False, repr=False)
class WorkFilter(Value):
    """Chooses items of the queue; ``None`` for any.

    Attributes:
        message_id: as the platform names a message.
        since: created at this time or later.
        until: created before this time.
        limit: maximum number of items, the newest.
        number: of the one item that is wanted.
    """

    persona_id: PersonaId | None = None
    kinds: tuple[WorkKind, ...] = ()
    statuses: tuple[WorkStatus, ...] = ()
    tenant: str | None = None
    domain: Domain | None = None
    context_id: ContextId | None = None
    user: str | None = None
    event_id: EventId | None = None
    message_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 50
    number: int | None = None

    @classmethod
    def of_event(cls, room: Room, event_id: EventId, kind: WorkKind) -> WorkFilter:
        """Choose what belongs to an event."""
        return cls(room.persona_id, (kind,), (), room.tenant, room.domain, room.context_id, event_id=event_id)


@frozen(eq=False, repr=False)
class Utterance(Value):
    """One message of a room's transcript.

    Attributes:
        author: who said it; empty for the persona.
        content: untrusted text, also of the persona, which may quote.
        event_id: the event, or the one that is answered.
        is_reaction: whether it is a reaction to an answer, without words.
    """

    author: str
    content: str
    at: datetime
    event_id: EventId
    is_reaction: bool = False


def utterance_of(event: DomainEvent) -> Utterance:
    """Return an event as a message of its room."""
    is_reaction = event.feedback is not None
    return Utterance(event.author, event.content, event.at, event.id, is_reaction)


@frozen(eq=False, repr=False)
class Spending(Value):
    """The number of events that a persona engaged with, and their US dollars."""

    events: int = 0
    cost_usd: float = 0.0


WorkOrder: TypeAlias = Literal["retry", "drop"]
"""Of a person: do it again from the first try, or never."""
