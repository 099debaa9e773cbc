"""A bounded inbox of a persona: in order within a context, contexts in parallel."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias

import anyio
import anyio.abc
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import InboxFull, UnknownDomain
from reactive_agents.core.ids import ContextId, RunId, TaskId
from reactive_agents.core.persona_events import PersonaEventDropped
from reactive_agents.core.personas import Domain, DomainEvent, PersonaOutcome
from reactive_agents.effects import attempt
from reactive_agents.kernel import RunEvents
from reactive_agents.persona.persona import Persona, close_group, open_group

OnOutcome: TypeAlias = Callable[[PersonaOutcome], None]
_Place: TypeAlias = tuple[Domain, ContextId]


@frozen
class _Waiting:
    number: int
    event: DomainEvent


class PersonaInbox:
    """A bounded queue of events, processed while it is entered as a context manager.

    Leaving it waits until every event was processed; cancelling it stops them where they are.

    Args:
        on_outcome: called with the outcome of each processed event.
    """

    def __init__(self, persona: Persona, on_outcome: OnOutcome | None = None) -> None:
        self.persona = persona
        self._config = persona.settings.inbox
        self._on_outcome = on_outcome
        self._queues: dict[_Place, deque[_Waiting]] = {}
        self._count = 0
        self._limiter = anyio.Semaphore(self._config.max_contexts)
        self._group: anyio.abc.TaskGroup | None = None

    async def __aenter__(self) -> PersonaInbox:
        self._group = await open_group()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        group, self._group = self._group, None
        if group is not None:
            await close_group(group, kind, error, trace)

    @property
    def waiting(self) -> int:
        """Number of waiting events, without those that are being processed."""
        return sum(map(len, self._queues.values()))

    def submit(
        self, domain: Domain, event: DomainEvent
    ) -> Result[DomainEvent | None, InboxFull | UnknownDomain]:
        """Add an event; return the event that was dropped for it, if any was.

        Fails with ``UnknownDomain``; with ``InboxFull`` when the inbox is full and its policy is ``reject``.

        Raises:
            RuntimeError: the inbox is not entered.
        """
        if self._group is None:
            raise RuntimeError("PersonaInbox: submit: the inbox is not entered as a context manager.")
        if domain not in self.persona.domains:
            return Failure(UnknownDomain(domain, tuple(self.persona.domains)))
        dropped: DomainEvent | None = None
        if self.waiting >= self._config.capacity:
            if self._config.overflow == "reject":
                return Failure(InboxFull(self._config.capacity, event.id))
            dropped = self._drop_oldest()
        place = (domain, event.context_id)
        self._count += 1
        if place in self._queues:
            self._queues[place].append(_Waiting(self._count, event))
        else:
            self._queues[place] = deque([_Waiting(self._count, event)])
            self._group.start_soon(self._process_context, place)
        self.persona.waiting = self.waiting
        return Success(dropped)

    async def _process_context(self, place: _Place) -> None:
        """Process the events of one context, in order.

        Other contexts get their turn in between.
        """
        queue = self._queues[place]
        while queue:
            async with self._limiter:
                if not queue:  # the last of them was dropped meanwhile
                    break
                event = queue.popleft().event
                self.persona.waiting = self.waiting
                outcome = await attempt(self.persona.process_event(place[0], event))
                if self._on_outcome is not None and isinstance(outcome, Success):
                    self._on_outcome(outcome.unwrap())
        del self._queues[place]

    def _drop_oldest(self) -> DomainEvent:
        place = min((each for each in self._queues if self._queues[each]), key=self._first_number)
        event = self._queues[place].popleft().event
        services = self.persona.services
        run_id, task_id = RunId(services.ids.new()), TaskId(services.ids.new())
        events = RunEvents(services.events, services.clock, run_id, task_id)
        events.publish(
            PersonaEventDropped, persona_id=self.persona.settings.id, domain=place[0], event_id=event.id
        )
        return event

    def _first_number(self, place: _Place) -> int:
        return self._queues[place][0].number
