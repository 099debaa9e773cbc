"""Workers of queues, which begin the due runs of their queue and of its schedules.

The record is the queue: a run that is due is reserved there in the transaction that checks the limits of the
queue, and its holder calls ``run`` with its id. So a run is begun by one worker, wherever workers are,
and one that dies gives its runs back with its leases. A schedule is a row with the time of its next run; the
transaction that adds the run moves the time on, so that each time has one run.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias
from zoneinfo import ZoneInfo

import anyio
from attrs import define, evolve, field
from returns.maybe import Some
from returns.result import Failure, Result

from reactive_agents.agent.errors import AgentError, value_of
from reactive_agents.core import errors
from reactive_agents.core.events import TaskFailed
from reactive_agents.core.ids import RunId, TaskId
from reactive_agents.core.run_record import (
    QueueLimits,
    RecordedRun,
    RunFilter,
    RunState,
    latest_time,
    may_end_process,
    next_time,
    pause_after,
)
from reactive_agents.core.tasks import Task, TaskResult
from reactive_agents.effects import attempt
from reactive_agents.engine import ExecutionEngine
from reactive_agents.event_loop import spawn_on_this_loop, to_the_end
from reactive_agents.ports import QueueEngine, RunRecord

_POLL_S = 0.25
_LONGEST_PAUSE_S = 15.0
_AGAIN_S = 60.0
"""Seconds after which a run that could not be continued is tried again; later, after many tries."""
_AGAIN = timedelta(seconds=_AGAIN_S)
_SETTLED = timedelta(seconds=5)
"""The time that a worker has to tell the engine how a run has ended."""
_log = logging.getLogger("reactive_agents")


Resume: TypeAlias = Callable[[RecordedRun, str], Awaitable[Result[TaskResult, TaskFailed]]]
"""Continues a run of the record, which is reserved for the holder of that name."""


@define(eq=False)
class _Begun:
    """A run that this worker has begun."""

    run_id: RunId
    task_id: TaskId | None = None
    attempt: int = 0
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    done: anyio.Event = field(factory=anyio.Event)


@define(eq=False, repr=False)
class QueueWorker:
    """Runs what is in a queue: in the record, unless ``queues`` are given."""

    _engine: ExecutionEngine
    _record: RunRecord
    _queue: str
    _limits: QueueLimits
    _resume: Resume
    _queues: QueueEngine | None = None
    _swept: float = field(init=False, default=-_AGAIN_S)
    _begun: dict[RunId, _Begun] = field(init=False, factory=dict)
    _stopped: dict[RunId, tuple[int, float]] = field(init=False, factory=dict)
    _unknown: set[str] = field(init=False, factory=set)
    _changed: anyio.Event = field(init=False, factory=anyio.Event)
    _is_stopping: bool = field(init=False, default=False)

    async def work(self, *, finish_s: float = 0.0, until_idle: bool = False) -> tuple[RunId, ...]:
        """Run what is due until cancelled; return the runs that could not be continued.

        Args:
            finish_s: seconds in which runs finish their step after the cancellation.
            until_idle: end when nothing is due.
        """
        failures, told, is_listening = 0, "", False
        try:
            while True:
                self._changed = anyio.Event()
                try:
                    if not is_listening:
                        await self._listen()
                        is_listening = True
                    new = await self._begin_due()
                    failures, told = 0, ""
                except AgentError as error:  # such as a database that is being restarted
                    if until_idle or isinstance(error.error, errors.InvalidConfig):
                        raise
                    level = logging.DEBUG if str(error) == told else logging.WARNING
                    new, failures, told = 0, failures + 1, str(error)
                    _log.log(level, "The queue %s cannot be read: %s", self._queue, error)
                if until_idle and not new and await self._is_idle():
                    return await self._left()
                with anyio.move_on_after(min(_POLL_S * 2**failures, _LONGEST_PAUSE_S)):
                    await self._changed.wait()
        finally:
            self._is_stopping = True
            await to_the_end(partial(self._leave, finish_s))

    async def _leave(self, finish_s: float) -> None:
        """Give up what is under way and what waits in the queue engine."""
        self._pause(finish_s)
        if self._queues is not None:
            await attempt(self._queues.stop())
        await self._hand_over(finish_s)
        if self._queues is not None:
            await attempt(self._queues.leave())

    async def _listen(self) -> None:
        """Let another engine than the record begin runs here."""
        if self._queues is not None:
            agent_id = self._engine.settings.agent_id
            await value_of(self._queues.listen(agent_id, self._queue, self._limits, self._begin))

    async def _begin_due(self) -> int:
        """Begin what is due, within the limits; return how many runs that were."""
        agent_id = self._engine.settings.agent_id
        await self._add_scheduled()
        if self._queues is not None:
            return await self._take_over(self._queues)
        room = self._limits.concurrency - sum(not self._is_held(each) for each in self._begun.values())
        if room < 1:
            return 0
        now = anyio.current_time()
        recent = now - 3_600  # those that others have ended are not kept for ever
        self._stopped = {each: stop for each, stop in self._stopped.items() if stop[1] > recent}
        without = self._begun.keys() | {each for each in self._stopped if self._is_stopped(each)}
        due = await value_of(
            self._record.dequeue(agent_id, self._queue, self._limits, at_most=room, without=without)
        )
        for run_id, holder in due:
            begun = self._begun[run_id] = _Begun(run_id)
            self._start(begun, holder)
        return len(due)

    # --- another engine than the record -------------------------------------------------------------------

    async def _begin(self, run_id: RunId) -> bool:
        """Return when a run ends or leaves its slot; ``False`` where it is handed over.

        A run that waits for a person, or is paused, leaves its slot. It goes on in this process; if that ends
        before, it is added to the queue again like one that is in the record alone.
        """
        if run_id not in self._begun:
            known = await attempt(self._record.find(run_id))
            run = known.value_or(None)
            if run is not None and run.status == "queued" and run.order == "pause":
                return True
        begun = self._begun.get(run_id)  # perhaps since it was looked for
        if begun is None:
            if self._is_stopping:
                return False
            begun = self._begun[run_id] = _Begun(run_id)
            self._start(begun, "")
        while not begun.done.is_set() and (self._is_stopping or not self._is_held(begun)):
            with anyio.move_on_after(_POLL_S):
                await begun.done.wait()
        return not begun.scope.cancel_called

    async def _take_over(self, queues: QueueEngine) -> int:
        """Put runs whose workers are gone into the queue again; return their number."""
        agent_id, now = self._engine.settings.agent_id, anyio.current_time()
        known = await value_of(queues.begun(agent_id, self._queue))
        found = [None if each in self._begun else await value_of(self._record.find(each)) for each in known]
        lost = [run for run in found if run is not None and not run.is_held and self._is_due(run)]
        ended = sorted(
            (run for run in lost if may_end_process(run.attempt, run.order)), key=lambda run: run.attempt
        )
        lost = [run for run in lost if run not in ended[1:]]  # each may end the process of its worker
        if now >= self._swept + _AGAIN_S:  # what was added to the record alone, or could not be continued
            self._swept = now
            unfinished, seen = await self._unfinished(), {*self._begun, *known}
            lost += [run for run in unfinished if run.run_id not in seen]
        for run in lost:
            await value_of(queues.submit_again(run))
        return len(lost)

    def _is_due(self, run: RecordedRun) -> bool:
        """Return whether a run whose worker is gone goes on now."""
        since, now = run.updated_at, self._engine.ports.clock.now()
        pause = pause_after(run.attempt) if may_end_process(run.attempt, run.order) else _SETTLED
        return since is None or abs(now - since) >= max(_SETTLED, pause)

    async def _unfinished(self) -> list[RecordedRun]:
        """Return runs that no process holds and that should have begun a while ago."""
        now = self._engine.ports.clock.now()

        def is_late(run: RecordedRun) -> bool:
            if run.due is not None:
                return run.due <= now - _AGAIN
            since = run.updated_at  # the clock may have been set back
            return since is None or abs(now - since) >= _AGAIN

        return [run for run in await self._open_runs() if is_late(run)]

    async def _open_runs(self) -> list[RecordedRun]:
        """Return runs of the queue that wait or were interrupted, and that may go on.

        Interrupted runs of no queue are runs of this one.
        """
        found: list[RecordedRun] = []
        places: tuple[tuple[RunState, str], ...] = (
            ("queued", self._queue),
            ("interrupted", self._queue),
            ("interrupted", ""),
        )
        for state, queue in places:
            chosen = RunFilter(self._engine.settings.agent_id, state, queue=queue, limit=1_000)
            found += await value_of(self._record.runs(chosen))
        found = [
            run if run.queue else evolve(run, queue=self._queue) for run in found if run.attempt or run.queue
        ]
        return [run for run in found if run.order != "pause"]

    async def _is_idle(self) -> bool:
        """Return whether nothing is under way or due, also where limits keep it back."""
        if self._begun:
            return False
        now = self._engine.ports.clock.now()
        due = [
            run
            for run in await self._open_runs()
            if not self._is_stopped(run.run_id) and (run.due is None or run.due <= now)
        ]
        return not due and not self._begun  # a run may begin as this looks

    async def _left(self) -> tuple[RunId, ...]:
        """Return the runs that failed to continue here, and that need no settlement."""
        left: list[RunId] = []
        for run_id in self._stopped:
            known = await attempt(self._record.find(run_id))
            run = known.value_or(None)
            if isinstance(known, Failure) or (run is not None and run.state in ("queued", "interrupted")):
                left.append(run_id)
        return tuple(left)

    def _is_stopped(self, run_id: RunId) -> bool:
        """Return whether a run that failed to continue here is not to be tried yet."""
        return run_id in self._stopped and self._stopped[run_id][1] > anyio.current_time()

    def _start(self, begun: _Begun, holder: str) -> None:
        async def run() -> None:
            ended = False
            try:
                with begun.scope:
                    ended = await self._run(begun, holder)
            except AgentError as error:  # such as one that is encrypted with another key
                _log.warning("The run %s cannot be continued: %s", begun.run_id, error)
            except Exception:  # noqa: BLE001 - nobody waits for it
                _log.warning("The run %s cannot be continued.", begun.run_id, exc_info=True)
            finally:
                tries, _ = self._stopped.pop(begun.run_id, (0, 0.0))
                if not ended:
                    pause_s = max(_AGAIN_S, pause_after(max(begun.attempt, tries + 1)).total_seconds())
                    self._stopped[begun.run_id] = tries + 1, anyio.current_time() + pause_s
                self._begun.pop(begun.run_id, None)
                begun.done.set()
                self._changed.set()

        spawn_on_this_loop(run)

    async def _run(self, begun: _Begun, holder: str) -> bool:
        """Return whether the run has ended."""
        run_id = begun.run_id
        try:
            run = await value_of(self._record.find(run_id))
            if run is None:
                return True
            begun.task_id, begun.attempt = run.task.id, run.attempt
            outcome = await self._resume(run, holder)
        finally:
            if holder:  # a reservation, where the run was not begun
                await to_the_end(lambda: attempt(self._record.release(run_id, holder)))
        if run.owes:  # nothing else is left of it; what cannot be written yet is tried again later
            found = await attempt(self._record.find(run_id))
            return not found.map(lambda known: known is not None and known.owes).value_or(True)
        if not isinstance(outcome, Failure):
            return True
        error = outcome.failure().error
        is_left = isinstance(error, errors.RunRefused | errors.RunInterrupted)
        _log.warning("The run %s %s: %s", run_id, "cannot go on here" if is_left else "failed", error.message)
        return not is_left

    async def _hand_over(self, finish_s: float) -> None:
        """Interrupt what is under way, between two steps where they end in time."""
        self._pause(finish_s)
        with anyio.move_on_after(finish_s):
            while any(not self._is_held(each) for each in self._begun.values()):
                self._changed = anyio.Event()
                with anyio.move_on_after(_POLL_S / 5):
                    await self._changed.wait()
        begun = list(self._begun.values())
        for each in begun:
            each.scope.cancel()
        for each in begun:
            await each.done.wait()

    def _pause(self, finish_s: float) -> None:
        """Hold what is under way before its next step, where there is time."""
        for each in self._begun.values():
            if finish_s and each.task_id is not None:
                self._engine.pause(each.task_id, by="the worker, which ends")

    def _is_held(self, begun: _Begun) -> bool:
        """Return whether a run waits, for a person or since it is paused."""
        return begun.task_id is not None and waits_for_person(self._engine, begun.task_id)

    async def _add_scheduled(self) -> None:
        """Add the runs of schedules that are due to the queue."""
        agent_id, now = self._engine.settings.agent_id, self._engine.ports.clock.now()
        for schedule in await value_of(self._record.schedules(agent_id, due=now)):
            if schedule.queue != self._queue:
                continue
            try:
                due = latest_time(schedule.cron, schedule.timezone, schedule.next_at, now)
                following = next_time(schedule.cron, schedule.timezone, now)
            except ValueError as error:  # such as a time zone that this machine does not know
                if schedule.name not in self._unknown:
                    self._unknown.add(schedule.name)
                    _log.warning("The schedule %s has no next time here: %s", schedule.name, error)
                continue
            local = due.astimezone(ZoneInfo(schedule.timezone))  # an hour that comes twice has one run
            run_id = RunId(f"{schedule.name}@{local:%Y-%m-%dT%H:%M:%S}")
            task = evolve(schedule.task, id=TaskId(run_id), created_at=due)
            run = queued_run(task, run_id, queue=schedule.queue, priority=schedule.priority, due=due)
            is_new = await value_of(self._record.add_scheduled(schedule, run, following))
            if is_new and self._queues is not None:
                await value_of(self._queues.submit(run))


def queued_run(task: Task, run_id: RunId, *, queue: str, priority: int, due: datetime | None) -> RecordedRun:
    """Return a run that waits in a queue."""
    return RecordedRun(run_id, task.agent_id, task, status="queued", queue=queue, priority=priority, due=due)


def waits_for_person(engine: ExecutionEngine, task_id: TaskId) -> bool:
    """Return whether a run of this process waits, for a person or since it is paused."""
    context = engine.get_context(task_id)
    return isinstance(context, Some) and context.unwrap().agent_state == "paused"
