"""The conduct of a durable run, from its claim to its end.

A run is claimed by one process, which holds it by a lease, continues it from its record, and ends it once.
Whatever stops the process, the run is given up, so that another one can claim it. A run that another agent or
another version began is refused; it is cancelled by anyone who has the record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Any, cast

import anyio
from attrs import define, evolve, fields_dict, frozen
from returns.maybe import Maybe, Nothing
from returns.result import Failure, Result, Success

from reactive_agents.core import VERSION, errors
from reactive_agents.core.codec import decode, encode, to_json
from reactive_agents.core.config import InDoubt
from reactive_agents.core.event_redaction import ValueRedactor
from reactive_agents.core.events import TaskCompleted, TaskFailed
from reactive_agents.core.ids import RunId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.model_settings import NO_SETTINGS
from reactive_agents.core.run_record import (
    AUDITED,
    END_AUDITED,
    OwedStore,
    RecordedRun,
    RunClaim,
    RunEntry,
    RunOrder,
    RunStatus,
)
from reactive_agents.core.tasks import AgentResult, Task, TaskResult, TaskResultMetadata
from reactive_agents.effects import BRANCH, attempt
from reactive_agents.engine.context import CALLER, RunStopped
from reactive_agents.engine.memory import store_owed
from reactive_agents.engine.pipeline import open_services
from reactive_agents.engine.recorded_answers import (
    ACCEPTED,
    BEGUN,
    OWED,
    OWED_VALUES,
    PLACE,
    RecordedEntries,
    ReplayEnded,
    cancelled_run,
    data_of,
    ended_runs,
    lacks_history,
    recorded_outcome,
    store_of,
    stored_outcome,
    with_history,
)
from reactive_agents.engine.run_content import references_to, with_lasting_content
from reactive_agents.engine.run_journal import (
    ORDER,
    RunBranch,
    RunJournal,
    ask_record,
    pauses,
    recorded,
)
from reactive_agents.engine.run_records import append_to
from reactive_agents.engine.run_result import figures_in, place_of_records
from reactive_agents.engine.services import NO_OVERRIDES, RunOverrides, events_of, publish_start
from reactive_agents.event_loop import to_the_end
from reactive_agents.kernel import RunEvents
from reactive_agents.kernel.context import UsageAccount
from reactive_agents.kernel.service_calls import (
    BrokenServiceError,
    ServiceFaults,
    call_outside_record,
    definitions_of,
    model_of,
)
from reactive_agents.ports import Clock, CostTracker, EventHandler, RunRecord, SessionStore

if TYPE_CHECKING:
    from reactive_agents.core.conversation import SessionTurn
    from reactive_agents.core.events import AgentEvent
    from reactive_agents.core.governance import AuditEntry
    from reactive_agents.core.settings import RunSettings
    from reactive_agents.engine.services import AgentEngine, EnginePorts
    from reactive_agents.kernel.events import EventReader
    from reactive_agents.reasoning.structured_output.schema import Shape


_log = logging.getLogger("reactive_agents")
_CANCEL_AUDITED = "audit.cancel1"
"""The key of the entry that a cancellation without the agent is in its audit log."""


async def conduct_durably(
    engine: AgentEngine, task: Task, run_id: RunId | None, overrides: RunOverrides, *, streaming: bool
) -> Result[TaskResult, TaskFailed]:
    """Run a task once under its run id, even if processes fail.

    Returns the recorded result of a run that has ended, waits for one in another process, and continues one
    that was interrupted.
    """
    caller = BRANCH.get()
    parent = caller.journal if isinstance(caller, RunBranch) else None
    record = engine.ports.record.value_or(None)
    is_named, place = run_id is not None, ""
    if parent is not None:
        if run_id is None:
            run_id, place = await parent.begin_sub_run()
        if parent.record is None:
            return await _replayed(engine, run_id, overrides, parent)
        if record is None or not is_named:
            chosen = await _record_of_sub_run(record, parent, parent.record, run_id)
            if isinstance(chosen, Failure):
                return _not_begun(engine, task, run_id, chosen.failure(), parent)
            if is_encrypted(record) and not is_encrypted(chosen.unwrap()):
                raise RunStopped(_in_clear(parent.run_id, engine.settings.name))
            record = chosen.unwrap()
    if record is None:
        raise RuntimeError("A durable run has no record.")
    run_id = run_id or RunId(engine.ports.ids.new())
    if task.parts:
        store = engine.ports.content_store().value_or(None)
        task = await with_lasting_content(task, run_id, store, engine.settings.content)
    run = _DurableRun(engine, record, run_id, task, overrides, parent, is_named, place, streaming=streaming)
    return await run.conduct()


@define(eq=False)
class _DurableRun:
    """One call of :func:`conduct_durably`, whose record and id are chosen.

    Attributes:
        parent: the run whose tool began this one; ``None`` for none.
        is_named: whether the id was given by the program.
        place: its name among the calls of its parent; empty without, or with an id of the program.
        journal: the record in use, once the run is claimed.
    """

    engine: AgentEngine
    record: RunRecord
    run_id: RunId
    task: Task
    overrides: RunOverrides
    parent: RunJournal | None
    is_named: bool
    place: str
    streaming: bool
    journal: RunJournal | None = None

    @property
    def accept_changes(self) -> bool:
        """Whether the run is continued although another version of the agent began it."""
        return self.overrides.accept_changes or (self.parent is not None and self.parent.entries.lenient)

    async def conduct(self) -> Result[TaskResult, TaskFailed]:
        """Claim the run, continue it from its record, and end it."""
        claimed = await self._claimed()
        if not isinstance(claimed, Success):
            return _not_begun(self.engine, self.task, self.run_id, claimed.failure(), self.parent)
        claim, described = claimed.unwrap()
        if self.overrides.cancels:
            claim = evolve(claim, run=evolve(claim.run, order="cancel"))
        if claim.state == "ended":
            return await self._outcome_of_ended(claim)
        read = await self._read(claim, described)
        if isinstance(read, Failure):
            return await self._refused(claim, read.failure())
        journal = self.journal = self._journal_of(claim, described, read.unwrap())
        if self.parent is None:
            outcome = await self._run(journal)
        else:
            outcome = await self._run_within(self.parent, journal)
        if not journal.entries.owes:  # its stores can be used
            for before in await _runs_in(self.record, claim.owing):
                await settle_owed(self.engine, self.record, before)
        return outcome

    async def _claimed(
        self,
    ) -> Result[tuple[RunClaim, RecordedRun], errors.RecordErrors | errors.ServiceFailed]:
        """Claim the run when it has ended or no other process holds it.

        Returns the claim, and the run as this agent describes it, which opens services, so it is not done for
        a run that has ended.

        A run that would be refused is not claimed, since that is no attempt: its claim names no holder. One
        that has ended, or has another task, stays as it is, also in its queue.
        """
        record, run_id, reserved = self.record, self.run_id, self.overrides.reserved
        known = self.overrides.reserved_run
        if (self.is_named or self.parent is not None) and not reserved:
            found = await ask_record(record, RunRecord.find, None, run_id)
            if not isinstance(found, Success):
                return Failure(found.failure())
            known = found.unwrap()
            if known is not None and (known.has_ended or task_difference(known.task, self.task)):
                return Success((RunClaim(known, "ended"), known))
        try:
            run = await self._described()
        except BrokenServiceError as broken:
            return Failure(broken.failure)
        if known is not None and known.status == "open" and known.order != "cancel" and known.definition:
            refused = RunClaim(known, "taken")
            is_free = bool(reserved) or not known.is_held
            if is_free and _refusal(refused, run, accept_changes=self.accept_changes):
                return Success((refused, run))
        waiting = pauses()
        while True:
            claimed = await self._claim(run)
            if isinstance(claimed, Failure) or claimed.unwrap().state != "held":
                return claimed.map(lambda taken: (taken, run))
            if self.overrides.cancels:
                await ask_record(record, RunRecord.order, bool, run_id, "cancel")
            for pause_s in waiting:
                await anyio.sleep(pause_s)
                found = await ask_record(record, RunRecord.find, None, run_id)
                if not isinstance(found, Success):
                    return Failure(found.failure())
                known = found.unwrap()
                if known is None or known.state != "running":
                    break  # the claim checks whether its process is alive

    async def _claim(self, run: RecordedRun) -> Result[RunClaim, errors.RecordErrors]:
        """Claim the run in one piece: a cancellation meanwhile gives it up again."""
        claimed: list[Result[RunClaim, errors.RecordErrors]] = []

        async def claim() -> None:
            reserved = self.overrides.reserved
            claimed.append(
                await ask_record(self.record, RunRecord.claim, RunClaim, run, self._follow, reserved)
            )

        try:
            await to_the_end(claim)
        except BaseException:
            for held in (each.unwrap().holder for each in claimed if isinstance(each, Success)):
                if held:
                    await to_the_end(partial(_release, self.record, self.run_id, held))
            raise
        return claimed[0]

    def _follow(self, order: RunOrder) -> None:
        """Carry out an order of another process, which may come before there is a journal."""
        if self.journal is not None:
            self.journal.follow(order)

    async def _described(self) -> RecordedRun:
        """Return the run as it is added to the record.

        Raises:
            BrokenServiceError: a service cannot be opened, or the tool service breaks its port.
        """
        definition, now = await engine_definition(self.engine), self.engine.ports.clock.now()
        if self.parent is None:
            definition |= _given_options(self.overrides)
        elif self.place:
            definition |= {PLACE: self.place}
        above = None if self.parent is None else self.parent.run_id
        return RecordedRun(
            self.run_id, self.task.agent_id, self.task, definition, parent=above, created_at=now
        )

    async def _outcome_of_ended(self, claim: RunClaim) -> Result[TaskResult, TaskFailed]:
        """Return and publish the outcome of a run that has ended, or refuse another task."""
        engine, parent, run = self.engine, self.parent, claim.run
        difference = task_difference(run.task, self.task)
        if difference and parent is not None and not self.is_named and not self.accept_changes:
            # its caller would see a failed run, and end with it
            raise ReplayEnded(parent.run_id, self.run_id, f"its sub-run {self.run_id} {difference}.")
        if run.owes and not difference:
            await settle_owed(engine, self.record, run, claim.holder or self.overrides.reserved)
        if parent is not None:
            parent.reached[self.run_id] = None
            _count_ended_run(engine, run)
        shape = self.overrides.services.get("output_shape", engine.ports.output_shape)
        refusal = errors.RunRefused(run.run_id, difference) if difference else None
        outcome = refusal or await outcome_of_record(self.record, run, shape)
        if isinstance(outcome, errors.RunRefused):
            return refused_run(engine, self.task, run.run_id, outcome, self.overrides.readers)
        events = _started(engine.settings, engine.ports, run.task, run.run_id)
        if isinstance(outcome, Success):
            events.publish(TaskCompleted, cast(AgentResult, outcome.unwrap()))
        else:
            _, _, sequence, at = events.stamp()
            events.deliver(evolve(outcome.failure(), sequence=sequence, at=at))
        return outcome

    async def _read(
        self, claim: RunClaim, described: RecordedRun
    ) -> Result[tuple[RunEntry, ...], errors.RunRefused]:
        """Return the entries of a claimed run, or why it is not continued."""
        record, run_id = self.record, self.run_id
        try:
            for before in await _runs_in(record, claim.owing):
                if before.task.session is not None and before.task.session == claim.run.task.session:
                    await settle_owed(self.engine, record, before)  # which this turn is shown
            refusal = _refusal(claim, described, accept_changes=self.accept_changes)
            if refusal is not None:
                return Failure(refusal)
            if claim.state == "new" and not claim.run.origin_entries:
                return Success(())
            read = await ask_record(record, RunRecord.entries, tuple, run_id)
        except GeneratorExit:  # no await is allowed from here on
            record.abandon(claim.holder)
            raise
        except BaseException:
            await to_the_end(partial(_release, record, run_id, claim.holder))
            raise
        return read.alt(lambda failed: errors.RunRefused(run_id, f"cannot be read: {failed.message}"))

    async def _refused(self, claim: RunClaim, refusal: errors.RunRefused) -> Failure[TaskFailed]:
        """Give up a claimed run that is not continued, and return why."""
        if claim.holder:
            await _release(self.record, self.run_id, claim.holder)
        if self.parent is not None:  # its caller would see a failed call, and try another way
            problem = f"has a run of {self.engine.settings.name!r} that {refusal.problem}"
            raise RunStopped(evolve(refusal, run_id=self.parent.run_id, problem=problem))
        return refused_run(self.engine, self.task, self.run_id, refusal, self.overrides.readers)

    def _journal_of(self, claim: RunClaim, described: RecordedRun, entries: Sequence[RunEntry]) -> RunJournal:
        ports, durability = self.engine.ports, self.engine.settings.durability
        run = _with_settings(claim.run, self.task)
        journal = RunJournal(
            run,
            RecordedEntries(run, entries, lenient=self.accept_changes or run.origin is not None),
            ports.clock,
            record=self.record,
            holder=claim.holder,
            in_doubt=_stricter(None if durability is None else durability.in_doubt, self.parent),
        )
        if claim.state != "new":
            journal.accepts = definition_changes(claim.run.definition, described.definition)
        return journal

    async def _run_within(self, parent: RunJournal, journal: RunJournal) -> Result[TaskResult, TaskFailed]:
        """Conduct a sub-run, which its caller counts and cancels until it has ended."""
        run_id, elsewhere = self.run_id, parent.elsewhere
        parent.reached[run_id] = journal
        if self.record is not parent.record:
            elsewhere[run_id] = self.record
        try:
            outcome = await self._run(journal)
        except BaseException:
            elsewhere.update(journal.elsewhere)
            raise
        elsewhere.pop(run_id, None)
        parent.reached[run_id] = None
        return outcome

    async def _run(self, journal: RunJournal) -> Result[TaskResult, TaskFailed]:
        """Run the phases and end the run, or give it up to other processes."""
        engine, record, run_id, task = self.engine, self.record, self.run_id, journal.run.task
        token = BRANCH.set(RunBranch(journal))
        ended = False

        async def end(status: RunStatus, text: str) -> None:
            nonlocal ended
            await journal.flush()  # a run that has ended is not run again, so its log must be complete
            recorded(run_id, await _ended(record, journal, status, text))
            ended = True
            for sub_run, other in [*journal.elsewhere.items()]:  # the record has ended its own
                found = await ask_record(other, RunRecord.find, None, sub_run)
                known = found.value_or(None)
                if known is not None and not known.is_held:
                    await ask_record(other, RunRecord.order, bool, sub_run, "cancel")

        try:
            if journal.accepts:
                differences: JsonObject = {"differences": [*journal.accepts]}
                await journal.keep(f"{ACCEPTED}{journal.run.attempt}", "service", differences, later=True)
                BRANCH.set(RunBranch(journal))  # whose time is that of the recorded answers
            overrides = evolve(self.overrides, settings={**journal.settings, **self.overrides.settings})
            outcome = await engine.conduct_phases(
                task, run_id, overrides, streaming=self.streaming, journal=journal
            )
            await to_the_end(partial(end, *stored_outcome(outcome, journal.entries.get(BEGUN))))
            return outcome
        except RunStopped as stopped:
            if not stopped.error.run_id:  # what reads the entries does not know it
                stopped.error = evolve(stopped.error, run_id=run_id)
            if self.parent is not None:
                raise
            error = await self._error_of(stopped, journal)
            if journal.fail is None:
                return refused_run(engine, task, run_id, error)
            return Failure(journal.fail(error))
        except GeneratorExit:  # no await is allowed from here on
            record.abandon(journal.holder)
            ended = True
            raise
        finally:
            BRANCH.reset(token)
            if not ended:
                await to_the_end(partial(_release, record, run_id, journal.holder))

    async def _error_of(self, stopped: RunStopped, journal: RunJournal) -> errors.RuntimeErrors:
        """Return the error of a run that cannot go on in this process."""
        error = stopped.error
        if stopped.is_lost and await journal.is_deleted():
            return journal.deleted_error
        if isinstance(error, errors.RunInterrupted) and error.run_id != self.run_id:  # its caller goes on
            reason = f"its sub-run {error.run_id!r} cannot go on: {error.reason}"
            return evolve(error, run_id=self.run_id, reason=reason)
        return error


async def _record_of_sub_run(
    own: RunRecord | None, parent: RunJournal, callers: RunRecord, run_id: RunId
) -> Result[RunRecord, errors.RecordErrors]:
    """Return the record of a sub-run to which no id was given: that of its caller.

    So its requests are shown there, and what it spent is counted, even if its process is gone. One that an
    earlier version has begun in its agent's own record goes on there.
    """
    if own is not None and own is not callers and parent.run.attempt > 1:
        for record in (callers, own):
            found = await ask_record(record, RunRecord.find, None, run_id)
            if isinstance(found, Failure):
                return found
            if found.unwrap() is not None:
                return Success(record)
    return Success(callers)


_STRICTEST: tuple[InDoubt, ...] = ("fail", "ask", "tell")


def _stricter(own: InDoubt | None, parent: RunJournal | None) -> InDoubt:
    """Return how calls in doubt are settled: as the agent or its caller says.

    The stricter of the two holds: who has to settle calls of a run has to settle those of its sub-runs too.
    """
    given = own, None if parent is None else parent.in_doubt
    holding: list[InDoubt] = [each for each in _STRICTEST if each in given]
    return holding[0] if holding else "tell"


def is_encrypted(record: RunRecord | None) -> bool:
    """Return whether a record is encrypted; a custom one tells by ``is_encrypted``."""
    return bool(getattr(record, "is_encrypted", False))


def _in_clear(run_id: RunId, agent: str) -> errors.RunRefused:
    problem = f"has a run of {agent!r}, which encrypts its runs, and would record it in clear: give it a key"
    return errors.RunRefused(run_id, f"{problem} too, or {agent!r} none")


def _with_settings(run: RecordedRun, task: Task) -> RecordedRun:
    """Return the run with the given settings, whose secrets the record lacks.

    A budget that is given holds in place of the recorded one.
    """
    given = task.model_settings
    if task.budget is not None:
        run = evolve(run, task=evolve(run.task, budget=task.budget))
    if given is None:
        return run
    merged = given.over(run.task.model_settings or NO_SETTINGS)
    return evolve(run, task=evolve(run.task, model_settings=merged))


async def _replayed(
    engine: AgentEngine, run_id: RunId, overrides: RunOverrides, parent: RunJournal
) -> Result[TaskResult, TaskFailed]:
    """Replay a sub-run, such as a run of another agent."""
    reader = parent.reader
    found = None if reader is None else await attempt(reader.find(run_id))
    run = found.unwrap() if isinstance(found, Success) else None
    if reader is None or run is None:
        raise ReplayEnded(parent.run_id, f"the run {run_id} of another agent")
    read = await attempt(reader.entries(run.run_id))
    if not isinstance(read, Success):
        raise ReplayEnded(parent.run_id, f"the run {run_id}", read.failure().message)
    entries = RecordedEntries(run, read.unwrap(), lenient=parent.entries.lenient)
    journal = RunJournal(run, entries, engine.ports.clock, reader=reader)
    token = BRANCH.set(RunBranch(journal))
    try:
        return await engine.replaying(EventSink(bool)).conduct_phases(
            run.task, run.run_id, overrides, streaming=False, journal=journal
        )
    finally:
        BRANCH.reset(token)


async def _ended(
    record: RunRecord, journal: RunJournal, status: RunStatus, text: str, *owes: OwedStore
) -> Result[None, errors.RecordErrors]:
    """Store the outcome of a run, with the stores that it is still to be written to."""
    owes = tuple(dict.fromkeys((*journal.entries.owes, *owes)))
    run_id, holder = journal.run_id, journal.holder
    if not owes:  # a custom record need not know of it
        return await ask_record(record, RunRecord.end, None, run_id, holder, status, text)
    ended = await ask_record(record, RunRecord.end, None, run_id, holder, status, text, owes=owes)
    if isinstance(ended, Success):
        _log.warning(
            "The run %s has ended, but could not be written to: %s. It is written there when run, resume,"
            " recover or a worker can do so.",
            run_id,
            ", ".join(owes),
        )
    return ended


async def _release(record: RunRecord, run_id: RunId, holder: str) -> None:
    await ask_record(record, RunRecord.release, None, run_id, holder)


def _refusal(claim: RunClaim, run: RecordedRun, *, accept_changes: bool) -> errors.RunRefused | None:
    if claim.state == "new":
        return None
    difference = task_difference(claim.run.task, run.task)
    if difference:
        return errors.RunRefused(run.run_id, difference)
    if accept_changes or claim.run.order == "cancel":
        return None
    differences = definition_changes(claim.run.definition, run.definition)
    if not differences:
        return None
    problem = "was begun by another version of the agent; accept_changes=True continues it with this one"
    return errors.RunRefused(run.run_id, problem, differences)


def task_difference(known: Task, given: Task) -> str:
    """Return how a task differs, apart from id, time and budget; empty if it does not."""
    if known.agent_id != given.agent_id:
        return f"belongs to the agent {known.agent_id!r}"
    compared = evolve(known, id=given.id, created_at=given.created_at, budget=given.budget)
    if compared.parts != given.parts:
        compared = evolve(compared, parts=references_to(compared.parts))
        given = evolve(given, parts=references_to(given.parts))
    others = [name for name in fields_dict(Task) if getattr(compared, name) != getattr(given, name)]
    if not others:
        return ""
    return f"has another task: {' and '.join(others)} {'differ' if others[1:] else 'differs'}"


def refused_run(
    engine: AgentEngine,
    task: Task,
    run_id: RunId,
    error: errors.RuntimeErrors,
    readers: Sequence[EventReader] = (),
) -> Failure[TaskFailed]:
    """Publish and return the failure of a run that is refused or could not begin.

    A refusal is no event of the run of that id, which may be under way: it is published to the readers alone.

    Args:
        readers: those of the stream of the call that is refused.
    """
    ports = engine.ports
    if isinstance(error, errors.RunRefused):
        redactor = ports.redactor

        def show(event: AgentEvent) -> None:
            shown = event if redactor is None else ValueRedactor(redactor).redacted(event)
            for each in readers:
                each.show(shown)

        ports = evolve(ports, events=EventSink(show))
    events = _started(engine.settings, ports, task, run_id)
    metadata = TaskResultMetadata(0.0, 0.0, 0, 0, "", engine.ports.llm.model, "error")
    failed = TaskFailed(*events.stamp(), error=error, steps=(), metadata=metadata, **events.origin)
    events.deliver(failed)
    return Failure(failed)


@frozen(eq=False)
class EventSink:
    """An event bus without subscribers: one function takes every event."""

    take: Callable[[AgentEvent], object]

    def publish(self, event: AgentEvent) -> None:
        """Pass the event on."""
        self.take(event)

    def subscribe(self, handler: EventHandler, *, run_id: RunId | None = None) -> Callable[[], None]:
        """Subscribe no one: what is published is not news to others."""
        return lambda: None


def _started(settings: RunSettings, ports: EnginePorts, task: Task, run_id: RunId) -> RunEvents:
    """Publish the start of a run of which nothing is done here; return its events."""
    events = events_of(task, run_id, settings, ports, NO_OVERRIDES)
    publish_start(events, task, task.user)
    return events


def _not_begun(
    engine: AgentEngine,
    task: Task,
    run_id: RunId,
    error: errors.RecordErrors | errors.ServiceFailed,
    parent: RunJournal | None,
) -> Failure[TaskFailed]:
    """Publish and return the failure of a run that may be run again under its id.

    Raises:
        RunStopped: it is a sub-run without a record; its caller would see a failed call, and try another way.
    """
    if parent is not None and isinstance(error, errors.ServiceFailed):
        failed = errors.ExecutionError(error.message, task.id, "bootstrap", error)
        return refused_run(engine, task, run_id, failed)
    of = run_id if parent is None else parent.run_id
    interrupted = errors.RunInterrupted(of, f"nothing was begun. {error.message}", error)
    if parent is not None:
        raise RunStopped(interrupted)
    return refused_run(engine, task, run_id, interrupted)


async def outcome_of_record(
    record: RunRecord, run: RecordedRun, shape: Maybe[Shape[Any]]
) -> Result[TaskResult, TaskFailed] | errors.RunRefused:
    """Return the outcome of an ended run as it was, with its history.

    Args:
        shape: the current output type.
    """
    outcome = recorded_outcome(run, shape)
    if not isinstance(outcome, Success) or not lacks_history(run):
        return outcome
    read = await ask_record(record, RunRecord.entries, tuple, run.run_id)
    if isinstance(read, Failure):
        return errors.RunRefused(run.run_id, f"cannot be read: {read.failure().message}")
    return Success(with_history(outcome.unwrap(), run, read.unwrap()))


def _count_ended_run(engine: AgentEngine, run: RecordedRun) -> None:
    """Count a sub-run that ended before its caller was interrupted."""
    caller = CALLER.get()
    sub_runs = () if caller is None else ended_runs(run, caller.run_id, engine.settings.name)
    if caller is None or not sub_runs:
        return
    figures = sub_runs[-1].metadata
    caller.account.add(figures.models)
    caller.account.count_calls(figures.tool_calls)
    caller.take_in(
        sub_runs, {place_of_records(engine.ports): figures.models} if engine.ports.cost_tracker else {}
    )


async def cancel_left(record: RunRecord, run_id: RunId, clock: Clock) -> bool:
    """Cancel a run that no process holds, without its agent.

    Its outcome has what the record holds of calls, tokens and cost. It owes its entries to the audit log, if
    its agent has one.

    Returns ``False`` if it is no such run, or its record cannot be read: it is as it was then.
    """
    found: Result[RecordedRun | None, Any] = await ask_record(record, RunRecord.find, None, run_id)
    run = found.value_or(None)
    if run is None or run.status != "open" or run.is_held or not run.attempt:
        return False
    claimed = await ask_record(record, RunRecord.claim, RunClaim, run, bool)
    claim = claimed.value_or(None)
    if claim is None or not claim.holder:
        return False
    is_ended, holder = False, claim.holder
    try:
        read = await ask_record(record, RunRecord.entries, tuple, run_id)
        if isinstance(read, Success):
            entries = RecordedEntries(run, read.unwrap())
            journal = RunJournal(run, entries, clock, record=record, holder=holder)
            journal.account = UsageAccount()
            await journal.count_rest()
            steps = tuple(journal.steps_in_doubt())
            metadata = evolve(
                figures_in(journal.account, steps_count=len(steps)),
                terminated_by="cancelled",
                tags=run.task.tags,
                given=run.task.metadata,
            )
            status, text = stored_outcome(Failure(cancelled_run(run, clock.now(), metadata, steps)))
            own = [each.key for each in read.unwrap() if not journal.entries.is_shared(each)]
            is_audited = AUDITED in own and hasattr(record, "owe")  # a custom record need not know of it
            ended = await _ended(record, journal, status, text, *(("audit",) if is_audited else ()))
            is_ended = isinstance(ended, Success)
    except RunStopped:  # an entry cannot be read
        return False
    finally:
        if not is_ended:
            await to_the_end(partial(_release, record, run_id, holder))
    return is_ended


# --- what an ended run owes to the other stores of its agent --------------------------------------------


async def settle_owed(engine: AgentEngine, record: RunRecord, run: RecordedRun, holder: str = "") -> None:
    """Write what an ended run could not write to the stores of its agent.

    One process does it at a time, and notes each write, so that nothing is there twice. What cannot be
    written now either is still owed, and a warning is logged.

    Args:
        holder: the holder of the run, if it is claimed or reserved.
    """
    if run.agent_id != engine.settings.agent_id:  # as in resume() of another agent, which has other stores
        return
    claimed = await ask_record(record, RunRecord.claim, RunClaim, run, bool, holder)
    claim = claimed.value_or(None)
    if claim is None or not claim.holder:  # another process does it
        return
    left: Sequence[OwedStore] = claim.run.owes

    async def note() -> None:
        await ask_record(record, RunRecord.owe, None, run.run_id, claim.holder, left)

    try:
        left = await _written(engine.ports, record, claim)
    except GeneratorExit:  # no await is allowed from here on
        record.abandon(claim.holder)
        raise
    except BaseException:
        await to_the_end(note)
        raise
    await to_the_end(note)


async def _runs_in(record: RunRecord, run_ids: Iterable[RunId]) -> list[RecordedRun]:
    """Return the runs that a record has and that can be read."""
    runs: list[RecordedRun] = []
    for run_id in run_ids:
        found: Result[Any, Any] = await ask_record(record, RunRecord.find, None, run_id)
        runs += filter(None, (found.value_or(None),))
    return runs


async def _written(ports: EnginePorts, record: RunRecord, claim: RunClaim) -> tuple[OwedStore, ...]:
    """Write what a run owes; return the stores that it still owes to."""
    run = claim.run
    read = await ask_record(record, RunRecord.entries, tuple, run.run_id)
    if isinstance(read, Failure):
        _log.warning("The run %s is still not in: %s. %s", run.run_id, ", ".join(run.owes), read.failure())
        return run.owes
    own = {each.key: each for each in read.unwrap() if each.number > run.origin_entries}
    owed: list[tuple[str, OwedStore, JsonObject]] = [
        (f"{key}=", store_of(entry), data_of(entry))
        for key, entry in own.items()
        if key.startswith(OWED) and not key.endswith("=") and f"{key}=" not in own
    ]
    for key, each in _cancellation_entries(run, own).items():
        owed.append((key, "audit", {"entry": encode(each)}))
    left: dict[OwedStore, None] = {}
    for key, store, body in owed:
        done = await _write_owed(store, body, ports, is_fork=run.origin is not None)
        if isinstance(done, Failure):
            problem: Any = done.failure()
            _log.warning("The run %s is still not in %s: %s", run.run_id, store, problem.message)
            if not isinstance(problem, errors.SessionRefused):  # the session was deleted meanwhile
                left[store] = None
                continue
        noted = RunEntry(key, "service", ports.clock.now(), "{}")
        await ask_record(record, RunRecord.append, None, run.run_id, claim.holder, noted)
    return tuple(left)


def _cancellation_entries(run: RecordedRun, entries: Mapping[str, RunEntry]) -> dict[str, AuditEntry]:
    """Return the audit entries of a run that was cancelled without its agent.

    Each has the key under which the record notes that it is entered. Returns none if the end of the run is
    entered, or was noted by the run itself.

    Args:
        entries: those of the run by their keys.
    """
    outcome = recorded_outcome(run)
    noted = (data_of(each).get("entry") for key, each in entries.items() if key.startswith(f"{OWED}audit:"))
    has_end = any(isinstance(each, dict) and each.get("action") == "run" for each in noted)
    if run.status != "cancelled" or not isinstance(outcome, Failure) or has_end or AUDITED not in entries:
        return {}
    from reactive_agents.core.governance import AuditEntry, signed  # of agents with an audit log

    failed: TaskFailed = outcome.failure()
    ids = run.run_id, run.task.id, run.agent_id
    orders = [each for key, each in entries.items() if key.startswith(f"{ORDER}cancel ")]
    given = data_of(orders[0]) if orders else {"by": "the end of its caller"}
    detail = f"Cancelled {signed('', str(given.get('by', '')))}."
    cancelled = AuditEntry(*ids, "cancel", None, detail, orders[0].at if orders else failed.at)
    ended = AuditEntry(*ids, "run", "failed", failed.error.message, failed.at)
    found = {_CANCEL_AUDITED: cancelled, END_AUDITED: ended}
    return {key: each for key, each in found.items() if key not in entries}


async def _write_owed(
    store: OwedStore, body: JsonObject, ports: EnginePorts, *, is_fork: bool
) -> Result[Any, Any]:
    """Write an entry of what is owed to a store."""
    services: dict[OwedStore, Maybe[Any]] = {
        "sessions": ports.sessions() if store == "sessions" else Nothing,
        "cost": ports.cost_tracker,
        "memory": ports.memory,
        "audit": ports.audit,
    }
    service = services[store].value_or(None)
    if service is None:
        return Failure(errors.ServiceFailed(f"The agent has no store for {store} now.", store, "write"))
    given: dict[str, Any] = {}
    for name, kind in OWED_VALUES[store].items():
        read = decode(body.get(name), kind)
        if isinstance(read, Failure):
            return read
        given[name] = read.unwrap()
    if store == "sessions":
        turn: SessionTurn = given["turn"]
        return await call_outside_record(
            store, service, SessionStore.end, None, given["key"], turn.run_id, turn
        )
    if store == "cost":
        return await call_outside_record(store, service, CostTracker.record, None, given["spending"])
    if store == "audit":
        return await append_to(service, **given, again=True)
    return await store_owed(service, **given, is_fork=is_fork)


# --- the definition of an agent -------------------------------------------------------------------------


async def engine_definition(engine: AgentEngine) -> dict[str, str]:
    """Return digests of the parts of an agent's definition, by their names.

    Raises:
        BrokenServiceError: a service cannot be opened, or the tool service breaks its port.
    """
    limit = engine.settings.timeouts.run_s
    opened = await open_services(engine.ports, inf if limit is None else limit)  # which lists their tools
    if isinstance(opened, Failure):
        raise BrokenServiceError(opened.failure())
    settings, reasoning = engine.settings, engine.settings.reasoning
    public = settings.model_settings.without_secrets
    options = evolve(settings, durability=None, system_prompt="", model_settings=public)
    tools = engine.ports.tools.value_or(None)
    definitions = () if tools is None else definitions_of(tools)
    return {
        "version": VERSION,
        "model": model_of(engine.ports.llm, ServiceFaults()),
        "instructions": _digest(settings.system_prompt),
        "strategy": "none" if reasoning is None else reasoning.default_strategy,
        "options": _digest(to_json(options)),
        **{f"tool {each.name}": _digest(to_json(each)) for each in definitions},
    }


_OPTION = "option "


def _given_options(overrides: RunOverrides) -> dict[str, str]:
    """Return a run's options that are not recorded, and must be given again."""
    services = overrides.services
    shape = services.get("output_shape", Nothing).value_or(None)
    given = {
        "approver": "one" if "approver" in services else "",
        "model": overrides.model or ("an object" if "llm" in services else ""),
        "output": "" if shape is None else shape.name,
        "tools": ", ".join(sorted(each.name for each in overrides.tools)),
    }
    return {f"{_OPTION}{name}": value for name, value in given.items() if value}


def names_of_given_tools(definition: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the tools that were given to a run, not to its agent."""
    return frozenset(filter(None, definition.get(f"{_OPTION}tools", "").split(", ")))


def definition_changes(known: Mapping[str, str], present: Mapping[str, str]) -> tuple[str, ...]:
    """Return the differences between two definitions, a sentence each."""
    changes: list[str] = []
    for name in sorted(known.keys() | present.keys()):
        before, now = known.get(name), present.get(name)
        if before == now or name == PLACE:
            continue
        if before is None:
            changes += [] if name.startswith(_OPTION) else [f"New: {name}."]
        elif now is None:
            changes.append(f"Gone: {name}.")
        elif name in ("version", "model", "strategy"):
            changes.append(f"Changed: {name}, from {before} to {now}.")
        else:
            changes.append(f"Changed: {name}.")
    return tuple(changes)


def _digest(text: str) -> str:
    return sha256(text.encode(errors="backslashreplace")).hexdigest()[:16]
