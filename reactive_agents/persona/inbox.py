"""A worker for the queue of a persona: in order within a room, rooms in parallel.

The queue is in the persona's store, so that accepted events survive the process; any number of processes may
work on one queue. A worker accepts events, claims due items, and reports outcomes.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

import anyio
import anyio.abc
from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import InboxFull, InvalidEvent, MemoryErrors, UnknownDomain
from reactive_agents.core.ids import RunId, TaskId
from reactive_agents.core.persona_events import PersonaEventDropped
from reactive_agents.core.persona_queue import Submission, WorkItem, WorkKind
from reactive_agents.core.personas import Domain, DomainEvent, PersonaOutcome
from reactive_agents.effects import attempt, awaited, effect, task_group
from reactive_agents.event_loop import to_the_end
from reactive_agents.kernel import RunEvents
from reactive_agents.persona.persona import Persona

OnOutcome: TypeAlias = Callable[[PersonaOutcome], Awaitable[None] | None]
"""Called with each outcome; again, in this or a later process, if it raises or its process ends."""

_POLL_S = 0.5
_PUT_BACK_S = 1.0
ALONE_S = 120.0
"""How long other events wait for one that is tried alone; it may wait for a person for longer."""
_CLOCK_TOLERANCE = timedelta(seconds=1)
_KINDS: tuple[WorkKind, ...] = ("event", "delivery", "evaluation")

_log = logging.getLogger("reactive_agents")


class PersonaInbox(anyio.AsyncContextManagerMixin):
    """A worker that is active while it is entered as a context manager.

    Leaving it waits until all work is done; after :meth:`drain`, only for work in progress. Cancelling it
    interrupts that too. The rest stays in the queue for the next worker.

    Args:
        on_outcome: called with the outcome of each processed event. After the last of its tries, the event is
            a dead letter.
    """

    def __init__(self, persona: Persona, on_outcome: OnOutcome | None = None) -> None:
        self.persona = persona
        self._config = persona.settings.inbox
        self._on_outcome = on_outcome
        self._group: anyio.abc.TaskGroup | None = None
        self._changed = anyio.Event()
        self._busy: dict[WorkKind, int] = dict.fromkeys((*_KINDS, "schedule"), 0)
        self._is_closing = self._is_draining = False
        self._armed_at: datetime | None = None
        self._looking: anyio.Lock  # these two are created on the event loop on which it is entered
        self._alone: anyio.Semaphore

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[PersonaInbox, None]:
        self._is_closing = self._is_draining = False
        self._armed_at = None
        await self._arm_schedules()
        self._looking, self._alone = anyio.Lock(), anyio.Semaphore(1)
        async with task_group() as self._group:
            every = tuple(self.persona.domains)
            for kind in ("event", "evaluation", "schedule"):
                self._group.start_soon(self._serve, kind, every)
            for domain in every:  # a channel that hangs delays its own messages alone
                self._group.start_soon(self._serve, "delivery", (domain,))
            try:
                yield self
            finally:
                self._group = None
                self._is_closing = True
                self._wake_waiters()

    def drain(self) -> None:
        """Begin no further event or evaluation; due messages are still sent."""
        self._is_draining = True
        self._wake_waiters()

    @effect
    async def waiting(self) -> Result[int, MemoryErrors]:
        """Return how many events wait, in any process; fails with ``MemoryUnavailable``."""
        return await self._waiting("event")

    @effect
    async def submit(
        self, domain: Domain, event: DomainEvent, *, wait: bool = False
    ) -> Result[Submission, InboxFull | InvalidEvent | UnknownDomain | MemoryErrors]:
        """Add an event to the queue; it is on disk when this returns.

        A known event is not added again. If the inbox is full, its policy decides: the oldest event is
        dropped, or this one is rejected.

        Args:
            wait: wait for space instead of a rejection, unless the inbox is being drained.

        Fails with ``UnknownDomain``, ``InvalidEvent``, ``InboxFull``, or ``MemoryUnavailable``.

        Raises:
            RuntimeError: the inbox is not entered.
        """
        if self._group is None:
            raise RuntimeError("PersonaInbox: submit: the inbox is not entered as a context manager.")
        persona = self.persona
        problem = persona.problem_of(domain, event)
        if problem is not None:
            return Failure(problem)
        room, config = persona.room_of(domain, event), self._config
        drop_oldest = config.overflow == "drop_oldest"
        while True:
            changed = self._changed
            added = await attempt(
                persona.services.store.add_event(
                    room, event, capacity=config.capacity, drop_oldest=drop_oldest
                )
            )
            if isinstance(added, Failure):
                return Failure(added.failure())
            submission = added.unwrap()
            if submission.item is not None:
                break
            if not wait or self._is_draining:  # no space will become free
                return Failure(InboxFull(config.capacity, event.id))
            await self._change(changed)
        if submission.dropped is not None:
            self._publish_drop(submission.dropped)
        self._wake_waiters()
        return Success(submission)

    async def _serve(self, kind: WorkKind, domains: Sequence[Domain]) -> None:
        places = anyio.Semaphore(self._config.max_contexts)
        async with anyio.create_task_group() as group:
            while True:
                await places.acquire()
                item = await self._next(kind, domains)
                if item is None:
                    return
                if kind == "schedule":  # one that cannot be added pauses the others
                    await self._work(item, places)
                elif _is_suspect(item):
                    await self._begin_alone(item, places, group)
                else:
                    group.start_soon(self._work, item, places)

    async def _begin_alone(self, item: WorkItem, places: anyio.Semaphore, group: anyio.abc.TaskGroup) -> None:
        """Begin what may have ended a process, apart from other such work.

        An event is begun apart from all others. Others of its kind begin when it ends, or after a while. A
        message or evaluation is put back rather than to wait, since it counts as tried when it is claimed.
        """
        if item.kind != "event" and not self._alone.value:
            due = self.persona.services.clock.now() + timedelta(seconds=_PUT_BACK_S)
            await self._put_back(item, places, due)
            return
        ended, is_begun = anyio.Event(), False

        async def work() -> None:
            try:
                await self._work(item, places)
            finally:
                ended.set()

        try:
            async with self._alone:
                with anyio.move_on_after(ALONE_S):
                    while item.kind == "event" and self._busy["event"] > 1 and not self._is_draining:
                        await self._change()
                if item.kind != "event" or not self._is_draining:
                    group.start_soon(work)
                    is_begun = True
                    with anyio.move_on_after(ALONE_S):
                        await ended.wait()
        finally:
            if not is_begun:  # its worker was cancelled, or is to begin nothing more
                await self._put_back(item, places)

    async def _put_back(self, item: WorkItem, places: anyio.Semaphore, due: datetime | None = None) -> None:
        """Release an item that was not begun."""
        await to_the_end(partial(attempt, self.persona.services.store.release(item, due=due)))
        self._leave(item, places)

    async def _arm_schedules(self) -> None:
        """Arm the schedules, until that is done; again if the clock was set back."""
        now = self.persona.services.clock.now()
        if self._armed_at is None or now < self._armed_at - _CLOCK_TOLERANCE:
            armed = await self.persona.arm_schedules()
            if isinstance(armed, Failure):
                if self._group is None:
                    _log.warning("The schedules are stored later: %s", armed.failure().message)
                return
        self._armed_at = now

    async def _next(self, kind: WorkKind, domains: Sequence[Domain]) -> WorkItem | None:
        """Claim and return the next item; ``None`` when there will be no more."""
        in_turn = kind == "evaluation" and self.persona.settings.evaluation == "after"
        while True:
            changed = self._changed
            async with self._looking:  # an item that is being claimed neither waits nor is in progress
                if (self._is_draining and kind != "delivery") or (self._is_closing and kind == "schedule"):
                    return None
                if kind == "schedule":
                    await self._arm_schedules()
                if not (in_turn and self._busy["event"]):  # events evaluate their plans themselves
                    item = (await self.persona.claim(kind, domains=domains)).value_or(None)
                    if item is not None:
                        self._busy[kind] += 1
                        return item
                if self._is_draining and not self._busy["event"]:
                    return None
                if self._is_closing and not self._is_draining and await self._is_done():
                    return None
            await self._change(changed)

    async def _change(self, changed: anyio.Event | None = None) -> None:
        """Wait for a change in this process, or until it is time to look elsewhere."""
        with anyio.move_on_after(_POLL_S):
            await (changed or self._changed).wait()

    async def _is_done(self) -> bool:
        """Return whether nothing waits or is in progress in this process."""
        if any(self._busy.values()):
            return False
        waiting = [(await self._waiting(kind)).value_or(0) for kind in _KINDS]
        return not any(waiting)

    async def _waiting(self, kind: WorkKind) -> Result[int, MemoryErrors]:
        persona = self.persona
        stored = persona.services.store.waiting(persona.settings.id, kind, domains=tuple(persona.domains))
        return await attempt(stored)

    async def _work(self, item: WorkItem, places: anyio.Semaphore) -> None:
        try:
            if item.kind != "event":
                await self.persona.work_item(item)
                return
            outcome = await self.persona.work_event(item)
            self._wake_waiters()  # its message can be sent
            if outcome is None:
                return
            if self.persona.settings.evaluation == "after":
                outcome = await self.persona.evaluated(item, outcome)
            await self._report(item, outcome)
        finally:
            self._leave(item, places)

    def _leave(self, item: WorkItem, places: anyio.Semaphore) -> None:
        self._busy[item.kind] -= 1
        places.release()
        self._wake_waiters()

    async def _report(self, item: WorkItem, outcome: PersonaOutcome) -> None:
        persona = self.persona
        if self._on_outcome is not None:
            if item.status == "open":  # its end was stored, and its tries are counted from the start
                item = evolve(item, status="answered", attempts=1)
            if await persona.gave_up(item):
                return
            try:
                with anyio.fail_after(persona.settings.timeouts.step_s):
                    await awaited(self._on_outcome(outcome))
            except Exception as error:  # noqa: BLE001 - a function of the program
                _log.warning("The outcome of event %s was not taken.", item.key, exc_info=error)
                reason = f"The outcome was not taken: {type(error).__name__}: {error}"
                await persona.try_later(item, reason)
                return
            except BaseException:  # a worker that is cancelled has not tried it
                await to_the_end(partial(attempt, persona.services.store.release(item)))
                raise
        await persona.end_event(item, outcome)

    def _wake_waiters(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _publish_drop(self, dropped: WorkItem) -> None:
        services = self.persona.services
        run_id, task_id = RunId(services.ids.new()), TaskId(services.ids.new())
        events = RunEvents(services.events, services.clock, run_id, task_id)
        events.publish(
            PersonaEventDropped,
            persona_id=self.persona.settings.id,
            domain=dropped.room.domain,
            event_id=dropped.event.id,
        )


def _is_suspect(item: WorkItem) -> bool:
    """Return whether a process ended at an item, which may be the reason."""
    return item.attempts > 1 and (item.kind == "event" or not item.reason)
