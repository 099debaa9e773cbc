"""The records of a run: its cost (phase 8) and its audit entries (phase 9).

Every run that began is recorded once, however it ends, or an event reports that it was not. A successful run
passes the two phases in the pipeline; any other run passes them here, shielded from its cancellation.

When thousands of runs are cancelled at once, they all wait for the same two files. With a fixed number of
seconds for each, most records would be dropped. So the time is counted from the last run of the engine that
was recorded: as long as the services make progress, all runs wait. A service that hangs delays a run by
``grace_s``, or by twelve times that while other runs are being recorded. An audit entry that was interrupted
is not written again, since it may exist.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Required, TypeVar, Unpack

import anyio
from attrs import evolve
from returns.result import Failure, Result, Success
from typing_extensions import TypedDict

from reactive_agents.core import errors
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.events import ExecutionPhaseFailed
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.results import ReasoningStatus
from reactive_agents.core.texts import shortened
from reactive_agents.effects import attempt_foreign
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.lifecycle import DONE, Phase, publish_failure, run_phase
from reactive_agents.engine.run_result import place_of_records, spending_record
from reactive_agents.engine.services import EngineServices
from reactive_agents.event_loop import call_later_on_this_loop, spawn_on_this_loop, to_the_end
from reactive_agents.kernel.service_calls import call_outside_record, call_service, once
from reactive_agents.ports import AuditLog, CostTracker

if TYPE_CHECKING:
    from reactive_agents.core.errors import RuntimeErrors, ToolNotApproved
    from reactive_agents.core.governance import AuditAction, AuditEntry, GuardrailStage

_A = TypeVar("_A")

_log = logging.getLogger("reactive_agents")
_SHOWN_ARGUMENTS = 2_000


# --- Phase 8: cost tracking ---


async def cost_track(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """Record the usage of the run. Fails with ``ExecutionError``."""
    tracker, record = services.ports.cost_tracker.unwrap(), spending_record(context, services)
    recorded = await call_service("cost tracking", tracker, CostTracker.record, None, record)
    if not isinstance(recorded, Success):
        if services.journal is not None:
            await services.journal.owe("cost", spending=record)
        return Failure(context.failure_of("cost-track")(recorded.failure()))
    services.progress.recorded += 1
    return Success(context)


# --- Audit entries: of the run, of approvals, denials and blocked texts ---


class EntryFields(TypedDict, total=False):
    """Fields of an audit entry, besides those of its run."""

    subject: Required[str]
    detail: Required[str]
    stage: GuardrailStage | None
    call_id: CallId | None


async def append_entry(
    action: AuditAction, services: EngineServices, **fields: Unpack[EntryFields]
) -> Result[None, ServiceFailed]:
    """Append an entry if there is an audit log; fail when it cannot be written."""
    if not services.ports.audit:
        return Success(None)
    await _after_start(services)
    return await _append(_entry(action, services, **fields), services)


def _entry(action: AuditAction, services: EngineServices, **fields: Any) -> AuditEntry:
    context, status = services.handle.context, fields.pop("status", None)
    ids = context.run_id, context.task_id, context.agent_id
    from reactive_agents.core.governance import AuditEntry  # of agents with an audit log

    at = fields.pop("at", None) or services.ports.clock.now()
    return AuditEntry(*ids, action, status, fields.pop("detail", ""), at, **fields)


async def _append(
    entry: AuditEntry, services: EngineServices, name: str = "audit.append"
) -> Result[None, ServiceFailed]:
    journal = services.journal
    again = journal is not None and journal.run.attempt > 1
    appended = await once(name, partial(append_to, services.ports.audit.unwrap(), entry, again=again))
    if isinstance(appended, Failure) and journal is not None:
        await journal.owe("audit", entry=entry)
    return appended


async def append_to(log: AuditLog, entry: AuditEntry, *, again: bool) -> Result[None, ServiceFailed]:
    """Append an entry, but not a second time after a crash, if the log can tell.

    Args:
        again: whether it may have been appended before.
    """
    holds = getattr(log, "holds", None) if again else None
    known = None if holds is None else await attempt_foreign(holds, bool, entry)
    if isinstance(known, Success) and known.unwrap():
        return Success(None)
    return await call_outside_record("audit", log, AuditLog.append, None, entry)


async def _after_start(services: EngineServices) -> None:
    """Wait until the start of the run is entered, so that the entries are in order."""
    entered = services.handle.start_entered
    if entered is not None and not entered.is_set():
        await entered.wait()


async def append_or_report(
    action: AuditAction, services: EngineServices, **fields: Unpack[EntryFields]
) -> None:
    """Append an entry; a failure is published, and ends a run that has to be audited."""
    await _report_gap(action, await append_entry(action, services, **fields), services)


async def _report_gap(
    action: AuditAction, entered: Result[None, ServiceFailed], services: EngineServices
) -> None:
    if isinstance(entered, Failure):
        handle, fatal = services.handle, "audit" in services.settings.required_records
        error = handle.context.failure_of("audit")(entered.failure())
        _log.warning("The entry %s cannot be added to the audit log: %s", action, error.message)
        if fatal and handle.failure is None:
            handle.failure = error
        services.events.publish(ExecutionPhaseFailed, phase="audit", error=error, fatal=fatal)


def redacted_arguments(arguments: JsonObject, services: EngineServices) -> str:
    """Return the arguments of a call as redacted JSON, shortened to 2000 characters."""
    redactor = services.ports.redactor
    text = json.dumps(arguments if redactor is None else redactor.redact_json(arguments), ensure_ascii=False)
    return shortened(text, _SHOWN_ARGUMENTS)


async def append_denial(call: ToolCall, error: ToolNotApproved, services: EngineServices) -> None:
    """Append an entry for a call that was not approved."""
    from reactive_agents.core.governance import signed  # of agents whose calls need approval

    arguments = redacted_arguments(call.arguments, services)
    await append_or_report(
        "denial",
        services,
        subject=call.name,
        detail=f"Denied: {signed(error.reason, error.by)} The arguments: {arguments}",
        call_id=call.id,
    )


async def audit_start(services: EngineServices) -> Result[None, RuntimeErrors]:
    """Append the entry of a run that begins, so that a run without an end shows.

    If auditing is required, nothing happens before the entry is written: a run that cannot be recorded does
    not begin and fails with ``ExecutionError``. Otherwise it is written beside the run, before the run's
    other entries. In a durable run it is always written first, like everything that is recorded.
    """
    if not services.ports.audit:
        return DONE
    required, user = services.settings.requires("audit"), services.handle.context.task.user
    started = _entry("start", services, detail="" if user is None else f"For the user {user}.")
    done = services.handle.start_entered = anyio.Event()
    if required or services.journal is not None:
        try:
            entered = await _append(started, services)
        except anyio.get_cancelled_exc_class():
            cut_off = "The entry of the run's start was cut off: whether it was recorded is not known."
            _lacks_start(ServiceFailed(cut_off, "audit", "append"), services)
            raise
        finally:
            done.set()
        if isinstance(entered, Success):
            return DONE
        error = _lacks_start(entered.failure(), services, fatal=required)
        return Failure(error) if required else DONE

    scope = services.handle.start_scope = anyio.CancelScope()

    async def enter() -> None:
        try:
            with scope:
                entered = await _append(started, services)
                if isinstance(entered, Failure):
                    _lacks_start(entered.failure(), services)
        finally:
            done.set()

    spawn_on_this_loop(partial(to_the_end, enter))
    return DONE


def _lacks_start(problem: ServiceFailed, services: EngineServices, *, fatal: bool = False) -> RuntimeErrors:
    """Publish that the start of a run may not be in the audit log; return the error."""
    error = services.handle.context.failure_of("audit")(problem)
    publish_failure("audit", error, services, fatal=fatal)
    return error


_DONE = {"cancel": "Cancelled", "stop": "Stopped", "pause": "Paused", "resume": "Resumed"}


async def audit_requests(services: EngineServices) -> None:
    """Append an entry for each accepted request to control the run.

    They come at any time, so that a durable run does not record that they were appended.
    """
    requests, journal = services.handle.control.requests, services.journal
    while requests:
        request = requests.pop(0)
        again = request.at is not None or (journal is not None and journal.run.attempt > 1)
        request = made = evolve(request, at=request.at or services.ports.clock.now())
        try:
            if journal is not None:
                request = await journal.with_note(request)
            from reactive_agents.core.governance import signed  # of agents with an audit log

            detail = f"{_DONE[request.kind]} {signed(request.reason, request.by or 'the program')}"
            await _after_start(services)
            entry = _entry(request.kind, services, detail=f"{detail.rstrip('.')}.", at=request.at)
            appended = await append_to(services.ports.audit.unwrap(), entry, again=again)
            if isinstance(appended, Failure) and journal is not None:
                await journal.owe("audit", f"{request.kind} {entry.at.isoformat()}", entry=entry)
        except BaseException:  # such as a cancellation of the run, at whose end it is entered
            requests.insert(0, made)
            raise
        await _report_gap(request.kind, appended, services)


# --- Phase 9: one entry for the run ---


async def audit(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """Append one entry for the run. Fails with ``ExecutionError``."""
    status, detail = _outcome(context)
    services.handle.reached["audit"] = "entered"  # nothing was written, should the run be cancelled meanwhile
    if services.handle.start_entered is None:  # it ended while its services were opened, or was refused
        await audit_start(services)
    await _after_start(services)
    await audit_requests(services)
    services.handle.reached["audit"] = "begun"
    entry = _entry("run", services, status=status, detail=detail)
    appended = await _append(entry, services, "audit.end")  # the others may not be reached again before it
    if not isinstance(appended, Success):
        return Failure(context.failure_of("audit")(appended.failure()))
    services.progress.recorded += 1
    return Success(context)


def _outcome(context: ExecutionContext) -> tuple[ReasoningStatus, str]:
    if context.error is not None:
        return "failed", context.error.message
    if context.reasoning is None:
        return "failed", ""
    return context.reasoning.status, context.reasoning.metadata.reason


# --- Records of failed and cancelled runs ---


MOST_WAITS = 12
"""How often ``grace_s`` may pass, while other runs are recorded, before a run gives up."""


async def count_left_out(services: EngineServices) -> Result[None, RuntimeErrors]:
    """Count the recorded calls that an ending run leaves out, if it may.

    It may where its changes were accepted, where a call was in doubt, and after its cancellation, which
    leaves calls in doubt.
    """
    journal, handle = services.journal, services.handle
    if journal is None:
        return DONE
    is_cancelled = isinstance(handle.context.error, errors.RunCancelled)
    if journal.leaves_calls_out or is_cancelled:
        await journal.count_rest(place_of_records(services.ports))
        handle.left_in_doubt = journal.steps_in_doubt(services.events) if is_cancelled else ()
    return DONE


CLOSING: tuple[Phase, ...] = (
    Phase("cost-track", cost_track, attrgetter("cost_tracker"), degrades=True, repeatable=True),
    Phase("audit", audit, attrgetter("audit"), degrades=True),
)
"""The phases that a failed run passes as well."""


async def close_failed_run(context: ExecutionContext, services: EngineServices) -> None:
    """Record a run that ended with an error, even while it is being cancelled.

    A phase whose hook failed or took too long is run again without hooks. An event reports a record that
    could not be written.
    """
    reached = services.handle.reached
    begun_before = {phase.name for phase in CLOSING if reached.get(phase.name) == "begun"}
    try:
        await with_patience(_run_phases(services), services)
    finally:  # also when a hook exits
        try:
            again = [
                phase
                for phase in _provided(services)
                if reached.get(phase.name, "entered") == "entered"
                or (phase.repeatable and phase.name in begun_before)
            ]
            if again:
                await with_patience(_record(again, context, services), services)
        finally:
            publish_gaps(context, services)


async def _run_phases(services: EngineServices) -> None:
    for phase in CLOSING:  # a failure is published, and the next phase runs nevertheless
        if phase.name not in services.handle.reached:
            outcome = await run_phase(phase, services)
            if not isinstance(outcome, Success):
                publish_failure(phase.name, outcome.failure(), services, fatal=False)


async def _record(phases: Iterable[Phase], context: ExecutionContext, services: EngineServices) -> None:
    for phase in phases:
        services.handle.reached[phase.name] = "begun"
        recorded = await phase.body(context, services)
        services.handle.reached[phase.name] = "done"
        if not isinstance(recorded, Success):
            publish_failure(phase.name, recorded.failure(), services, fatal=False)


def _provided(services: EngineServices) -> tuple[Phase, ...]:
    """Return the phases whose service there is."""
    return tuple(each for each in CLOSING if each.service is not None and each.service(services.ports))


async def with_patience(work: Awaitable[_A], services: EngineServices) -> _A | None:
    """Await shielded work while runs are being recorded; ``None`` if it is cut off."""
    progress, grace_s = services.progress, services.settings.timeouts.grace_s
    value: _A | None = None
    forget: Callable[[], object]

    def wait(waits: int) -> Callable[[], object]:
        return call_later_on_this_loop(grace_s, partial(look, waits, progress.recorded))

    def look(waits: int, seen: int) -> None:
        nonlocal forget
        if waits == 1 or progress.recorded == seen:
            scope.cancel()
        else:
            forget = wait(waits - 1)

    with anyio.CancelScope(shield=True) as scope:
        forget = wait(MOST_WAITS)  # no task, which the end of the event loop would cancel
        try:
            value = await work
        finally:
            forget()
    return value


def publish_gaps(context: ExecutionContext, services: EngineServices) -> None:
    """Publish an event for each record of the run that may be missing."""
    for phase in _provided(services):
        stage = services.handle.reached.get(phase.name)
        if stage != "done":
            known = "whether it was recorded is not known" if stage == "begun" else "it was not recorded"
            message = f"The phase {phase.name} of the run was cut off: {known}."
            error = errors.ExecutionError(message, context.task_id, phase.name)
            publish_failure(phase.name, error, services, fatal=False)
