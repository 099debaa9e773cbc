"""The recorded runs of an agent: list, continue, control, settle and delete them.

Everything here works from any process that has the record. A run reads its orders and answers there, so that
they reach it within a second in whatever process it is under way.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import EllipsisType
from typing import Any, Generic, TypeVar, cast, get_args

import anyio
import anyio.to_thread
from attrs import define, evolve, field
from returns.result import Failure, Result, Success

from reactive_agents.adapters.llm.providers import NO_MODEL
from reactive_agents.adapters.system import write_for_owner
from reactive_agents.agent.errors import AgentError, result_or_raise, time_before, value_of, value_or_raise
from reactive_agents.agent.queue_worker import QueueWorker, waits_for_person
from reactive_agents.agent.validation import is_count, wrong_text, wrong_value
from reactive_agents.core import errors
from reactive_agents.core.codec import abbreviated, decode, encode, to_json
from reactive_agents.core.conversation import wrong_name
from reactive_agents.core.events import TaskFailed
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest, DecisionErrors
from reactive_agents.core.ids import RunId, TaskId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.run_context import DepsFunction, deps_function, wrong_deps
from reactive_agents.core.run_record import (
    OpenQuestion,
    QueueLimits,
    RecordedRun,
    RunEntry,
    RunFilter,
    RunOrder,
    RunSchedule,
    RunState,
)
from reactive_agents.core.tasks import TaskResult
from reactive_agents.effects import attempt
from reactive_agents.engine import ExecutionEngine
from reactive_agents.engine.durability import (
    cancel_left,
    engine_definition,
    outcome_of_record,
    task_difference,
)
from reactive_agents.engine.replay import RecordedStep, Replay, fork_run, recorded_steps, replay_run
from reactive_agents.engine.run_journal import FIRST_WAIT_S, arguments_in_doubt, order_note
from reactive_agents.engine.services import RunOverrides
from reactive_agents.event_loop import schedule_on_this_loop, spawn_on_this_loop
from reactive_agents.kernel.service_calls import BrokenServiceError, call_outside_record
from reactive_agents.ports import Clock, QueueEngine, RunRecord

R = TypeVar("R")

RECOVERED_AT_ONCE = 8
MOST = 1_000_000_000
"""The highest priority, and the most seconds of a delay."""
_POLL_S = 0.25
_STEP = "the number of a step, from 1"
PROGRAM = "the program"
"""Who gives an order, where no name is given."""
_log = logging.getLogger("reactive_agents")


@define(eq=False)
class _Beside:
    """A worker that runs beside the program until the agent is closed.

    ``queue``: the queue of the worker; ``None`` for the interrupted runs.
    """

    queue: str | None
    schedule: Callable[[Callable[[], object]], object] = field(factory=schedule_on_this_loop)
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    done: anyio.Event = field(factory=anyio.Event)


@define(eq=False, repr=False, slots=False)
class Runs(Generic[R]):
    """The recorded runs of an agent.

    Every method raises ``AgentError`` with the typed error, which is ``RunRefused`` for an unknown run.

    Attributes:
        engine: runs what is recorded, unless an override came too late.
    """

    engine: ExecutionEngine
    _record: RunRecord
    _present: Callable[[TaskResult], R]
    _current_engine: Callable[[], ExecutionEngine]
    _queues: QueueEngine | None = None
    _deps_type: Any = None
    _deps_function: DepsFunction | None = None
    _workers: list[_Beside] = field(init=False, factory=list)
    _left_to_others: set[str] = field(init=False, factory=set)

    # --- what there is ------------------------------------------------------------------------------------

    async def list(
        self,
        *,
        state: RunState | None = None,
        user: str | None = None,
        limit: int = 100,
        brief: bool = False,
    ) -> tuple[RecordedRun, ...]:
        """Return runs of the agent, the latest first.

        Args:
            state: such as ``interrupted`` or ``waiting``; all by default.
            limit: the most that are returned, 1 or more.
            brief: whether results come without what led to them: steps, messages, tool results, sub-runs.
        """
        _refuse(wrong_value("limit", limit, int, "a whole number, 1 or more", is_count))
        _refuse(wrong_value("state", state, RunState | None, f"one of {', '.join(get_args(RunState))}"))
        chosen = RunFilter(self.engine.settings.agent_id, state, user, limit=limit, brief=brief)
        return await value_of(self._record.runs(chosen))

    async def count_queued(self, user: str | None = None, *, at_most: int = MOST) -> int:
        """Return how many runs of the agent wait in queues, paused ones too.

        Args:
            user: only those of this user.
            at_most: the number up to which they are counted.
        """
        count = getattr(self._record, "count_queued", None)
        if count is not None:
            return cast(int, await value_of(count(self.engine.settings.agent_id, user, at_most)))
        listed = [*await self.list(state="queued", user=user, limit=at_most)]  # a custom record lists them
        listed += await self.list(state="paused", user=user, limit=at_most)
        return sum(each.status == "queued" for each in listed)

    async def find(self, run_id: str) -> RecordedRun:
        """Return a run."""
        run = await value_of(self._record.find(RunId(run_id)))
        if run is None:
            raise AgentError(errors.RunRefused(run_id, "is not in the record"))
        return run

    async def questions(self, run_id: str | None = None, *, below: bool = False) -> tuple[OpenQuestion, ...]:
        """Return all that waits for a person: approvals, questions, calls in doubt.

        Args:
            run_id: only those of this run.
            below: also those of the runs that its tools began, each of which is settled under its own run.
        """
        if run_id is None or not below:
            return await value_of(self._record.questions(None if run_id is None else RunId(run_id)))
        ask: Any = RunRecord.questions
        asked = await call_outside_record("record", self._record, ask, tuple, RunId(run_id), below=True)
        return value_or_raise(asked)

    async def check(self) -> None:
        """Fail when runs cannot be recorded now, for example on a full disk."""
        await value_of(self._record.check())

    # --- going on -----------------------------------------------------------------------------------------

    async def resume(self, run_id: str, *, deps: Any = None, accept_changes: bool = False) -> R:
        """Continue a run and return its result.

        A run that has ended returns its recorded result; a run that is under way elsewhere is waited for.

        Args:
            deps: the dependencies, as in ``run``, since they are not part of the record; or a function, as
                for ``work``.
            accept_changes: whether a run that another version of the agent began is continued.
        """
        run, engine = await self.find(run_id), self._current_engine()
        is_others = run.agent_id != engine.settings.agent_id
        if is_others and not run.has_ended and not accept_changes:
            problem = f"belongs to the agent {run.agent_id!r}; accept_changes=True continues it with this one"
            raise AgentError(errors.RunRefused(run_id, problem))
        goes_on = not run.has_ended and run.order != "cancel"
        given = self._checked_deps(deps) if goes_on else None
        overrides = RunOverrides(given, accept_changes=accept_changes, named=True)
        outcome = await engine.conduct(run.task, run_id=run.run_id, overrides=overrides)
        return self._present(result_or_raise(outcome))

    async def recover(
        self, *, deps: Any = None, concurrency: int = RECOVERED_AT_ONCE
    ) -> dict[RunId, Result[R, errors.RuntimeErrors | errors.RecordErrors]]:
        """Continue all interrupted runs, the oldest first; return how each ended.

        A run that cannot be continued does not stop the others.

        Args:
            deps: the dependencies of the runs, or a function that makes those of each run, as for ``work``.
            concurrency: the most runs at the same time, 1 or more. Runs that wait for a person, or that
                another process continues, do not count.
        """
        _checked_limits(concurrency, None, None, 0)
        deps = self._checked_deps(deps)
        engine = self._current_engine()
        found = await value_of(self._record.interrupted(engine.settings.agent_id))
        outcomes: dict[RunId, Result[R, errors.RuntimeErrors | errors.RecordErrors]] = {}
        here: dict[RunId, TaskId] = {}
        ended = anyio.Event()

        def leave_out(run_id: RunId, error: AgentError) -> None:
            _log.warning("The run %s cannot be continued: %s", run_id, error)
            outcomes[run_id] = Failure(cast(errors.RecordErrors, error.error))

        async def resume(run: RecordedRun) -> None:
            try:
                outcome = await self._continued(deps, run, "")
                outcomes[run.run_id] = outcome.map(self._present).alt(lambda failed: failed.error)
            except AgentError as error:
                leave_out(run.run_id, error)
            here.pop(run.run_id, None)
            ended.set()

        async with anyio.create_task_group() as group:
            for run_id in found:
                while sum(not waits_for_person(engine, each) for each in here.values()) >= concurrency:
                    ended = anyio.Event()
                    with anyio.move_on_after(_POLL_S):
                        await ended.wait()
                try:
                    run = await self.find(run_id)
                except AgentError as error:
                    leave_out(run_id, error)
                    continue
                if not run.is_held:
                    here[run_id] = run.task.id
                group.start_soon(resume, run)
        return {run_id: outcomes[run_id] for run_id in found}

    async def wait(self, run_id: str) -> R:
        """Wait until a run has ended, in whatever process, and return its result.

        A warning is logged when no process works on it. One that was to be cancelled by a process that is
        gone is cancelled here.
        """
        before: RunState = "running"
        pause_s = FIRST_WAIT_S
        while True:
            run = await self.find(run_id)
            if run.has_ended:
                break
            if run.order == "cancel" and not run.is_held:
                with suppress(AgentError):  # another process may have cancelled it meanwhile
                    await self.cancel(run_id)
            elif run.state == "interrupted" != before:
                _log.warning(
                    "The run %s is interrupted: no process works on it. wait() returns when run, resume,"
                    " recover or a worker has continued it.",
                    run_id,
                )
            before = run.state
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _POLL_S)
        outcome = await outcome_of_record(self._record, run, self.engine.ports.output_shape)
        if isinstance(outcome, errors.RunRefused):
            raise AgentError(outcome)
        return self._present(result_or_raise(outcome))

    # --- a queue ------------------------------------------------------------------------------------------

    async def submit(self, run: RecordedRun) -> RunId:
        """Add a run to its queue; the workers of the agent run it, in any process."""
        self._current_engine()  # refuses a late override, as of the queues
        if not await value_of(self._record.add(run)):
            known = await self.find(run.run_id)
            difference = task_difference(known.task, run.task)
            if difference:
                raise AgentError(errors.RunRefused(run.run_id, difference))
        if self._queues is not None:
            await value_of(self._queues.submit(run))
        return run.run_id

    async def work(
        self,
        queue: str = "default",
        *,
        concurrency: int = 4,
        total: int | None = None,
        rate: tuple[int, float] | None = None,
        finish_s: float = 0.0,
        until_idle: bool = False,
        deps: Any = None,
    ) -> tuple[RunId, ...]:
        """Run the runs in a queue and the interrupted runs, until this is cancelled.

        Returns, if ``until_idle``, the due runs that could not be begun or continued.

        The cancellation interrupts the runs under way, and another worker continues them at once. Runs that
        wait for a person do not count for ``concurrency``.

        Args:
            deps: the dependencies of the runs, which are not recorded; or a function, plain or ``async``,
                that returns those of each run. It may take a ``RunContext`` with the user, session, id,
                metadata and tags of the run.
            concurrency: the most runs at the same time here, 1 or more.
            total: the most runs at the same time in all workers of the queue, 1 or more; give the same number
                to each worker.
            rate: the most runs that all workers begin within a time, such as ``(100, 60)`` for 100 in 60
                seconds; give the same to each worker.
            finish_s: seconds, 0 or more, in which runs finish their step after the cancellation, so that no
                call is in doubt; they are then interrupted between two steps.
            until_idle: whether to return when nothing is due.
        """
        check_queued(queue, 0)
        limits, deps = _checked_limits(concurrency, total, rate, finish_s), self._checked_deps(deps)
        return await self._worker(queue, limits, deps).work(finish_s=finish_s, until_idle=until_idle)

    def ensure_worker(self, queue: str, deps: Any = None) -> None:
        """Run a queue beside the program, unless a worker of this object already does.

        With a queue engine other than the record, workers are separate processes. Without the dependencies
        that its runs need, the queue is left to other workers.

        Args:
            queue: its name; empty for the interrupted runs of no queue, as soon as their process is gone.
            deps: as for :meth:`work`.
        """
        if self._queues is not None or any(each.queue == queue for each in self._workers):
            return
        try:
            self.start_worker(queue, self._checked_deps(deps))
        except AgentError as error:
            level = logging.DEBUG if queue in self._left_to_others else logging.WARNING
            self._left_to_others.add(queue)
            told = "The queue %s is left to workers that have the dependencies, as by work(deps=…): %s"
            _log.log(level, told, queue, error)

    def start_worker(self, queue: str | None, deps: Any = None) -> None:
        """Run a queue, or the interrupted runs, beside the program until it is closed.

        Where a tool starts it, its runs are none of the run that called the tool.
        """
        worker = _Beside(queue)
        self._workers.append(worker)

        async def work() -> None:
            try:
                with worker.scope:
                    if queue is None:
                        await self.recover()
                    else:
                        await self._worker(queue, QueueLimits(), deps).work()
            except Exception:  # noqa: BLE001 - nobody waits for it; each run has its outcome
                _log.warning("Runs could not be continued.", exc_info=True)
            finally:
                worker.done.set()
                self._forget(worker)  # it needs a successor

        Context().run(spawn_on_this_loop, work)

    async def stop_workers(self, *, leaving: bool = False) -> None:
        """Interrupt the runs of this object's workers, so that others can continue them.

        ``leaving``: stop only the workers of this event loop.
        """
        here = schedule_on_this_loop()
        workers = [each for each in [*self._workers] if each.schedule == here or not leaving]
        for worker in workers:
            self._forget(worker)
            with suppress(RuntimeError):  # its event loop has ended
                worker.schedule(worker.scope.cancel)
        with anyio.CancelScope(shield=True):
            for worker in workers:
                if worker.schedule == here:  # another event loop may run no more
                    await worker.done.wait()

    def _forget(self, worker: _Beside) -> None:
        with suppress(ValueError):  # alone, since other threads begin and stop workers meanwhile
            self._workers.remove(worker)

    async def schedule(self, schedule: RunSchedule) -> None:
        """Add or replace a schedule, whose runs the workers of its queue begin."""
        await value_of(self._record.schedule(schedule))

    async def schedules(self) -> tuple[RunSchedule, ...]:
        """Return the schedules of the agent, by name."""
        return await value_of(self._record.schedules(self.engine.settings.agent_id))

    async def unschedule(self, name: str) -> None:
        """Delete a schedule; runs that it has begun or queued stay."""
        agent = self.engine.settings.agent_id
        if not await value_of(self._record.unschedule(agent, name)):
            raise AgentError(errors.RunRefused(name, f"is not the name of a schedule of {agent!r}"))

    # --- orders and answers -------------------------------------------------------------------------------

    async def cancel(self, run_id: str, *, by: str = "") -> None:
        """Cancel a run, in whatever process it is; it ends as ``cancelled``.

        What a run whose process is gone had spent is counted and audited by this agent, if it is its own.

        Args:
            by: who asks for it, for the audit log; also in the methods below.
        """
        run, engine = await self.find(run_id), self._current_engine()
        is_left = run.status == "open" and not run.is_held and run.parent is None and run.attempt > 0
        if is_left and run.agent_id == engine.settings.agent_id:
            overrides = RunOverrides(accept_changes=True, cancels=True, named=True)
            note = order_note("cancel", by or PROGRAM, "", engine.ports.clock.now())
            await value_of(self._record.answer(run.run_id, note))
            await engine.conduct(run.task, run_id=run.run_id, overrides=overrides)
            if (await self.find(run_id)).status != "open":
                return
        await self._order(run_id, "cancel", by)

    async def stop(self, run_id: str, reason: str = "", *, by: str = "") -> None:
        """End a run as ``partial`` with the results so far, in any process.

        The model call or tool under way is cut off. A run that no process has ends so when it is continued,
        before its first new call.

        Args:
            reason: a sentence that becomes part of the result's ``reason``.
        """
        _refuse(wrong_value("reason", reason, str, "a sentence as a text"))
        await self._order(run_id, "stop", by, reason)

    async def pause(self, run_id: str, *, by: str = "") -> None:
        """Pause a run, in whatever process it is, before its next model or tool call."""
        await self._order(run_id, "pause", by)

    async def unpause(self, run_id: str, *, by: str = "") -> None:
        """Continue a paused run."""
        await self._order(run_id, "", by)
        run = await self.find(run_id)
        if self._queues is not None and run.status == "queued":  # it left the queue while it was paused
            await value_of(self._queues.submit_again(run))

    async def approve(
        self,
        run_id: str,
        key: str | None = None,
        reason: str = "",
        *,
        arguments: Mapping[str, Any] | None = None,
        by: str = "",
    ) -> None:
        """Approve a call that waits, or that a call in doubt is made again.

        Args:
            key: the key of the question; not needed when only one waits.
            reason: for the audit log.
            arguments: all arguments with which the call is made, in place of those of the model; none for a
                call in doubt.
            by: who approves it, for the audit log.
        """
        await self._settle(run_id, key, ApprovalDecision(True, reason, arguments, by))

    async def deny(self, run_id: str, key: str | None = None, reason: str = "", *, by: str = "") -> None:
        """Deny a call that waits, or that a call in doubt is made again.

        Args:
            reason: for the model.
            by: who denies it, for the audit log.
        """
        await self._settle(run_id, key, ApprovalDecision(False, reason, by=by))

    async def answer(self, run_id: str, value: Json, key: str | None = None, *, error: str = "") -> None:
        """Answer a question, or give the result of an external call or a call in doubt.

        Args:
            error: the reason why an external call failed; there is then no result.
        """
        await self._settle(run_id, key, {"value": value, "error": error, "missing": ""})

    # --- replay and forks ---------------------------------------------------------------------------------

    async def steps(self, run_id: str) -> tuple[RecordedStep, ...]:
        """Return the recorded steps of a run: answers of models, and results of tools."""
        entries = await self._entries(run_id)
        if not entries:
            await self.find(run_id)  # refuses an id that no run has
        return recorded_steps(entries)

    async def replay(self, run_id: str, *, until: int | None = None, deps: Any = None) -> Replay:
        """Replay a run from its record alone; no model is asked and no tool is run.

        Args:
            until: number of the last step to replay, from 1; all by default.
            deps: the dependencies, as in ``run``, for functions that choose the tools of a run by them, and
                for that of a workflow; none are made by a function of ``with_deps``.
        """
        _refuse(wrong_value("until", until, int | None, _STEP, is_count))
        run = await self.find(run_id)
        entries = await self._entries(run_id)
        if until is not None and until > (steps := len(recorded_steps(entries))):
            known = f"the number of a step of the run, which has {steps}"
            raise AgentError(errors.InvalidConfig("until", f"{until}", known))
        made = await replay_run(self.engine, run, entries, until=until, reader=self._record, deps=deps)
        if not made.difference or deps is not None or self._deps_type is None:
            return made
        told = "The replay was given no dependencies: replay(run_id, deps=…)."
        return evolve(made, difference=f"{made.difference} {told}")

    async def fork(
        self,
        run_id: str,
        *,
        at: int,
        into: str | None = None,
        model: str | None = None,
        instructions: str | None = None,
        message: str | None = None,
        tool_result: Json | EllipsisType = ...,
    ) -> RunId:
        """Add a run that shares the record of another up to a step, and return its id.

        ``resume`` then runs it. Everything from that step on is done again, with the effects of its tools.

        Args:
            at: number of the step that is done again, from 1; ``steps`` lists them.
            into: the id of the new run; a new one by default.
            model: the model that is asked from that step on.
            instructions: the agent's instructions from that step on.
            message: a message of the user, which the model is shown from that step on; the function of a
                workflow is not. Like the two above, it is refused for an agent without a model.
            tool_result: the result of the step, also ``None``; the step has to be a tool call, which is then
                not made. By default the call is made.
        """
        unfit = wrong_name("into", into)
        if unfit is not None:
            raise AgentError(errors.RunRefused(run_id, f"cannot be forked: {unfit}"))
        texts = {"model": model, "instructions": instructions, "message": message}
        changes: JsonObject = {name: text for name, text in texts.items() if text is not None}
        _refuse(wrong_value("at", at, int, _STEP, is_count))
        if tool_result is not ...:
            _refuse(wrong_value("tool_result", tool_result, Json, "JSON data"))
        for name, text in changes.items():
            _refuse(wrong_text(name, text, "a text that is not blank"))
            if self.engine.ports.llm.model == NO_MODEL:
                unread = "nothing, since this agent has no model; tool_result changes what a workflow does"
                raise AgentError(errors.InvalidConfig(name, abbreviated(text), unread))
        try:
            definition = await engine_definition(self.engine)
        except BrokenServiceError as broken:
            raise AgentError(broken.failure) from None
        forked = await fork_run(
            self._record,
            await self.find(run_id),
            await self._entries(run_id),
            RunId(into or self.engine.ports.ids.new()),
            at=at,
            definition=definition,
            changes=changes,
            tool_result=tool_result,
        )
        made: RecordedRun = value_or_raise(forked)
        return made.run_id

    async def export(self, run_id: str, path: str | Path) -> None:
        """Write a run for ``testing.RecordedRunPlayer``, as JSON for its owner only."""
        text = json.dumps(await self.recording(run_id), ensure_ascii=False, indent=1)
        await anyio.to_thread.run_sync(write_for_owner, path, text)

    async def recording(self, run_id: str) -> JsonObject:
        """Return a run as the JSON data that :meth:`export` writes."""
        run, entries = await self.find(run_id), await self._entries(run_id)
        return {"run_id": run.run_id, "task": run.task.input, "entries": exported(entries)}

    async def prune(self, older_than: timedelta) -> int:
        """Delete runs that ended longer ago; return how many there were."""
        before = time_before(self.engine.ports.clock.now(), older_than)
        return await value_of(self._record.delete(before=before))

    async def delete(self, run_id: str) -> None:
        """Delete a run with its record and what it stores of content, in whatever state."""
        missing = AgentError(errors.RunRefused(run_id, "is not in the record"))
        if await attempt(self._record.find(RunId(run_id))) == Success(None):
            raise missing
        content: Any = self.engine.ports.content_store().value_or(None)
        if hasattr(content, "delete"):
            for each in await self._with_sub_runs(RunId(run_id)):
                await value_of(content.delete(each))
        if not await value_of(self._record.delete(run_id=RunId(run_id))):
            raise missing

    # --- inside -------------------------------------------------------------------------------------------

    async def _with_sub_runs(self, run_id: RunId) -> Sequence[RunId]:
        below = await value_of(self._record.runs(RunFilter(parent=run_id, children=True, limit=MOST)))
        return [run_id, *[each for sub in below for each in await self._with_sub_runs(sub.run_id)]]

    async def _continued(self, deps: Any, run: RecordedRun, reserved: str) -> Result[TaskResult, TaskFailed]:
        known = run if reserved else None
        overrides = RunOverrides(deps, reserved=reserved, reserved_run=known, named=True)
        return await self._current_engine().conduct(run.task, run_id=run.run_id, overrides=overrides)

    def _checked_deps(self, deps: Any) -> Any:
        """Return dependencies of the declared type, or the function that makes them.

        Without any, returns the function of the agent, if it has one.

        Raises:
            AgentError: they have another type, or the function cannot be called.
        """
        if deps is None and self._deps_function is not None:
            return self._deps_function
        if not inspect.isroutine(deps):
            _refuse(wrong_deps(self._deps_type, deps))
            return deps
        function = deps_function(deps, self._deps_type)
        if not isinstance(function, DepsFunction):
            raise AgentError(function)
        return function

    def _worker(self, queue: str, limits: QueueLimits, deps: Any = None) -> QueueWorker:
        resume = partial(self._continued, deps)
        return QueueWorker(self._current_engine(), self._record, queue, limits, resume, self._queues)

    async def _entries(self, run_id: str) -> tuple[RunEntry, ...]:
        return await value_of(self._record.entries(RunId(run_id)))

    async def _order(self, run_id: str, order: RunOrder, by: str, reason: str = "") -> None:
        clock = self.engine.ports.clock
        value_or_raise(await give_order(self._record, RunId(run_id), order, clock, by or PROGRAM, reason))

    async def _settle(self, run_id: str, key: str | None, given: JsonObject | ApprovalDecision) -> None:
        await self.find(run_id)
        now = self.engine.ports.clock.now()
        value_or_raise(await settle_question(self._record, RunId(run_id), key, given, now))


async def give_order(
    record: RunRecord, run_id: RunId, order: RunOrder, clock: Clock, by: str = PROGRAM, reason: str = ""
) -> Result[None, errors.RunRefused | errors.RecordErrors]:
    """Order a run to pause, stop, cancel or continue.

    Fails with the reason why it cannot.

    Args:
        by: who asks for it, for the audit log.
        reason: of a stop, for the result.
    """
    known = await attempt(record.find(run_id))
    if known.value_or(None) is not None:  # else it has another key, with which it could not read the note
        noted = await attempt(record.answer(run_id, order_note(order, by, reason, clock.now())))
        if isinstance(noted, Failure):
            return Failure(noted.failure())
    if order == "cancel" and await cancel_left(record, run_id, clock):
        return Success(None)
    taken = await attempt(record.order(run_id, order))
    if isinstance(taken, Failure) or taken.unwrap():
        return taken.map(lambda _: None)
    found = await attempt(record.find(run_id))
    if isinstance(found, Failure):
        return Failure(found.failure())
    run = found.unwrap()
    being = "stopped" if run is not None and run.order == "stop" else "cancelled"
    return Failure(errors.RunRefused(run_id, _over(run) or f"is being {being}"))


def _over(run: RecordedRun | None) -> str:
    """Return that a run is unknown or has ended; empty for one that goes on."""
    if run is None:
        return "is not in the record"
    return f"has ended: it is {run.status}" if run.has_ended else ""


async def settle_question(
    record: RunRecord, run_id: RunId, key: str | None, given: JsonObject | ApprovalDecision, now: datetime
) -> Result[OpenQuestion, errors.RunRefused | errors.RecordErrors | DecisionErrors]:
    """Answer a question of a run.

    Fails with ``RunRefused`` when none, or more than one, fits. A decision that cannot be taken fails as in
    ``ApprovalRequest.taken``, and the question stays open.

    Args:
        key: the key of the question; ``None`` for the only one that takes such an answer.
        given: the answer, or a decision.
    """
    asked = await attempt(record.questions(run_id))
    if not isinstance(asked, Success):
        return Failure(asked.failure())
    decides = isinstance(given, ApprovalDecision)
    kinds = ("approval", "doubt") if decides else ("question", "call", "doubt")
    fitting = [each for each in asked.unwrap() if each.kind in kinds and key in (None, each.key)]
    if len(fitting) != 1:
        known = await attempt(record.find(run_id))
        problem = _over(known.unwrap()) if isinstance(known, Success) else ""
        problem = problem or "waits for no such answer"
        if fitting:
            listed = ", ".join(each.key for each in fitting)
            problem = f"waits for several answers, expected the key of one: {listed}"
        elif any(each.kind == "unreadable" for each in asked.unwrap()):
            problem = "has a question that cannot be read, since it is encrypted with another key"
        else:
            below = [
                each for each in (await attempt(record.questions())).value_or(()) if each.parent == run_id
            ]
            if below:
                waiting = ", ".join(dict.fromkeys(each.run_id for each in below))
                problem = f"{problem}, but a run that it began does: {waiting}"
        return Failure(errors.RunRefused(run_id, problem))
    (question,) = fitting
    if isinstance(given, ApprovalDecision):
        taken = _taken(question, given)
        if isinstance(taken, Failure):
            return taken
        body = cast(JsonObject, encode(taken.unwrap()))
    else:
        body, value = given, given.get("value")
        if question.kind == "question" and not (isinstance(value, str) and value.strip()):
            return Failure(errors.RunRefused(run_id, "expects a text that is not blank as its answer"))
        if not isinstance(body.get("error", ""), str):  # the run could never read it
            return Failure(errors.RunRefused(run_id, "expects a text as its error"))
        if question.kind == "doubt":
            body = {"value": body["value"]}
    try:
        text = to_json(body)
    except (TypeError, ValueError) as error:
        return Failure(errors.RunRefused(run_id, f"expects JSON data as its result ({error})"))
    added = await attempt(record.answer(run_id, RunEntry(f"{question.key}=", "answer", now, text)))
    if not isinstance(added, Success):
        return Failure(added.failure())
    if not added.unwrap():
        return Failure(errors.RunRefused(run_id, "has its answer already"))
    return Success(question)


def _taken(
    question: OpenQuestion, decision: ApprovalDecision
) -> Result[ApprovalDecision, errors.RunRefused | DecisionErrors]:
    """Return a decision as it holds for a recorded question, by its recorded schema."""
    read = decode(question.request, ApprovalRequest)
    if isinstance(read, Failure):
        problem = f"has a question that cannot be read: {read.failure().message}"
        return Failure(errors.RunRefused(question.run_id, problem))
    request: ApprovalRequest = read.unwrap()
    if decision.arguments is None:
        return request.taken(decision)
    if question.kind == "doubt":
        return evolve(request, check=partial(arguments_in_doubt, request.tool_name)).taken(decision)
    from reactive_agents.adapters.tools.mcp.listed_tools import ArgumentCheck  # seldom needed

    with suppress(ValueError):  # a schema that only its tool can check, which it does before the call
        request = evolve(request, check=partial(ArgumentCheck(request.parameters), request.tool_name))
    return request.taken(decision)


def exported(entries: Iterable[RunEntry]) -> list[Json]:
    """Return answers of models and outcomes of tools as JSON data, in their order."""
    kept = [each for each in entries if each.kind in ("model", "intent", "result")]
    return [{"kind": each.kind, "key": each.key, **json.loads(each.body)} for each in kept]


def check_queued(
    queue: object,
    priority: object,
    delay_s: object = 0.0,
    *,
    name: object = "schedule",
    live: Iterable[str] = (),
) -> None:
    """Refuse a run that no worker could begin, or that would keep it from others.

    Args:
        name: the name of the schedule.
        live: names of options of the run that are not recorded, so that no worker has them.

    Raises:
        AgentError: a value has a wrong type or is out of bounds, or there is a live option.
    """
    known = {
        "queue": (queue, queue is not None and wrong_name("queue", queue) is None, "the name of a queue"),
        "name": (name, name is not None and wrong_name("name", name) is None, "the name of a schedule"),
        "priority": (priority, isinstance(priority, int) and abs(priority) <= MOST, f"-{MOST} to {MOST}"),
        "delay_s": (delay_s, isinstance(delay_s, int | float) and 0 <= delay_s <= MOST, f"0 to {MOST}"),
    }
    for option, (value, fits, expected) in known.items():
        if not fits:
            raise AgentError(errors.InvalidConfig(option, abbreviated(value), expected))
    for option in live:
        expected = "no value, since it is not recorded, and workers use that of their agent"
        raise AgentError(errors.InvalidConfig(option, "a value", expected))


def _refuse(wrong: errors.InvalidConfig | None) -> None:
    if wrong is not None:
        raise AgentError(wrong)


def _checked_limits(
    concurrency: int, total: int | None, rate: tuple[int, float] | None, finish_s: float
) -> QueueLimits:
    """Return the limits of a worker.

    Raises:
        AgentError: a limit has a wrong type or is too small.
    """
    few, often = "a whole number, 1 or more", "a whole number of runs, 1 or more, and seconds above 0"
    wrong = (
        wrong_value("concurrency", concurrency, int, few, is_count)
        or wrong_value("total", total, int | None, few, is_count)
        or (
            wrong_value("rate", rate, tuple[int, float] | None, often, lambda given: min(given) > 0)
            and errors.InvalidConfig("rate", f"{rate!r:.80}", often)
        )
        or wrong_value("finish_s", finish_s, float, "0 seconds or more", lambda given: given >= 0)
    )
    _refuse(wrong)
    return QueueLimits(concurrency, total) if rate is None else QueueLimits(concurrency, total, *rate)
