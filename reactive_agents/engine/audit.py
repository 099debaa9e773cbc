"""Audit entries of runs, approvals, denials and blocked texts."""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Required, Unpack

import anyio
from attrs import evolve
from returns.result import Failure, Result, Success
from typing_extensions import TypedDict

from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.events import ExecutionPhaseFailed
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.results import ReasoningStatus
from reactive_agents.core.texts import shortened
from reactive_agents.effects import attempt_foreign
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.lifecycle import DONE, publish_failure
from reactive_agents.engine.services import EngineServices
from reactive_agents.event_loop import spawn_on_this_loop, to_the_end
from reactive_agents.kernel.service_calls import call_outside_record, once
from reactive_agents.ports import AuditLog

if TYPE_CHECKING:
    from reactive_agents.core.errors import RuntimeErrors, ToolNotApproved
    from reactive_agents.core.governance import AuditAction, AuditEntry, GuardrailStage

_log = logging.getLogger("reactive_agents")
_SHOWN_ARGUMENTS = 2_000


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
    context, required = services.handle.context, services.settings.requires("audit")
    user = context.task.user
    started = _entry("start", services, detail="" if user is None else f"For the user {user}.")
    done = services.handle.start_entered = anyio.Event()
    if required or services.journal is not None:
        try:
            entered = await _append(started, services)
        except anyio.get_cancelled_exc_class():
            cut_off = "The entry of the run's start was cut off: whether it was recorded is not known."
            error = context.failure_of("audit")(ServiceFailed(cut_off, "audit", "append"))
            publish_failure("audit", error, services, fatal=False)
            raise
        finally:
            done.set()
        if isinstance(entered, Success):
            return DONE
        error = context.failure_of("audit")(entered.failure())
        publish_failure("audit", error, services, fatal=required)
        return Failure(error) if required else DONE

    scope = services.handle.start_scope = anyio.CancelScope()

    async def enter() -> None:
        try:
            with scope:
                entered = await _append(started, services)
                if isinstance(entered, Failure):
                    error = context.failure_of("audit")(entered.failure())
                    publish_failure("audit", error, services, fatal=False)
        finally:
            done.set()

    spawn_on_this_loop(partial(to_the_end, enter))
    return DONE


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
