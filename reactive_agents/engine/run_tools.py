"""The tools and the approver of one run: usage, checks, events, audit entries."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Never

from attrs import evolve
from returns.maybe import Maybe, Nothing
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ServiceFailed, ToolErrors, ToolFailed, ToolNotApproved
from reactive_agents.core.events import ApprovalDecided, ApprovalRequested
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest, GuardrailReport
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.redaction import joined_texts, redact_texts
from reactive_agents.core.tools import ToolDefinition, ToolResult, ToolScope
from reactive_agents.effects import BrokenContract, attempt_foreign, effect
from reactive_agents.engine.audit import append_denial, append_entry, redacted_arguments
from reactive_agents.engine.guardrail import check_text
from reactive_agents.engine.services import CALLER, EnginePorts, EngineServices
from reactive_agents.kernel.service_calls import broken_service, definitions_of
from reactive_agents.ports import Approver, ToolService


class RunTools:
    """Implements ``ToolService`` for one run, with usage, checks and audit entries.

    A result, or the error message of a failed tool, is checked by the guardrail before the model sees it. If
    it is blocked, or could not be checked, the call fails with the error that it was withheld.
    """

    def __init__(self, tools: ToolService, services: EngineServices) -> None:
        self._tools = tools
        self._services = services
        self._guarded = bool(services.ports.guardrail)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions of the other service."""
        return definitions_of(self._tools)

    @effect
    async def execute(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None = None
    ) -> Result[ToolResult, ToolErrors]:
        """Run a call with the other service.

        Its result may be redacted, or withheld as an error.
        """
        handle = self._services.handle
        await handle.control.hold(f"call of {call.name}")
        failed = handle.failed_calls.get(call.name, 0)
        making = partial(self._services.run_context, tool_call_id=call.id, retry=failed)
        scope = evolve(scope, run_context=making)
        try:
            executed = await self._execute(call, scope, approver)
        except BaseException:
            handle.interrupted_calls.add(scope.call_key)
            raise
        error = _error_of(call, executed)
        if error is not None:
            handle.call_errors[scope.call_key] = error
            handle.failed_calls[call.name] = handle.failed_calls.get(call.name, 0) + 1
        elif failed:
            handle.failed_calls.pop(call.name, None)
        return executed

    async def _execute(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None
    ) -> Result[ToolResult, ToolErrors]:
        executed, recorded = await self._recorded(call, scope, approver)
        if isinstance(executed, Success):
            given = executed.unwrap()
            if recorded:
                self._services.llm.account.add(given.usage)
            elif given.usage and not given.counted:  # at once: the calls beside it may be cancelled
                await self._services.llm.add(given.usage)
        else:
            error = executed.failure()
            if isinstance(error, ToolNotApproved):
                await append_denial(call, error, self._services)
            if not self._guarded or not isinstance(
                error, ToolFailed
            ):  # no other error holds text of the tool
                return executed
            detail, withheld = await self._checked(call, error.detail)
            return Failure(evolve(error, detail=withheld or joined_texts(detail)))
        if not self._guarded:
            return executed
        result = executed.unwrap()
        if not result.success:
            detail, withheld = await self._checked(call, result.error)
            return Success(evolve(result, error=withheld or joined_texts(detail)))
        value, withheld = await self._checked(call, result.result)
        if withheld:
            return Success(evolve(result, result=None, error=withheld))
        return executed if value is result.result else Success(evolve(result, result=value))

    async def _recorded(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None
    ) -> tuple[Result[ToolResult, ToolErrors], bool]:
        """Return the outcome of a call, and whether it was recorded before."""
        journal = self._services.journal
        if journal is None:
            return await self._executed(call, scope, approver), False
        from reactive_agents.engine.durability import RecordedCall

        known = [each for each in definitions_of(self._tools) if each.name == call.name]
        probe = getattr(self._tools, "was_done", None)
        return await journal.call_tool(
            RecordedCall(
                call,
                scope,
                approver,
                partial(self._executed, call),
                needs_approval=scope.needs_approval or any(each.requires_approval for each in known),
                repeatable=any(each.idempotent for each in known),
                resumable=any(each.resumable for each in known),
                probe=None if probe is None else partial(probe, call.name),
            )
        )

    async def _executed(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None
    ) -> Result[ToolResult, ToolErrors]:
        outcome = await attempt_foreign(self._tools.execute, ToolResult, call, scope, approver)
        if isinstance(outcome, BrokenContract):
            service = type(self._tools).__name__
            return Failure(ToolFailed(call.name, f"The tool service {service} {outcome.problem}"))
        return outcome

    async def _checked(self, call: ToolCall, value: Json) -> tuple[Json, str]:
        """Return the redacted value, or ``None`` and the reason why it is withheld."""
        text = joined_texts(value)
        if not text.strip():
            return value, ""
        checked = await check_text(text, "tool-result", self._services, call_id=call.id)
        if not isinstance(checked, Success):
            return None, "The result was withheld: it could not be checked by the guardrail."
        report = checked.unwrap()
        if not report.allowed:
            return None, f"The result was withheld: a guardrail blocked it ({report.violation})."
        return _redacted(value, report), ""


def _error_of(call: ToolCall, executed: Result[ToolResult, ToolErrors]) -> ToolErrors | None:
    if not isinstance(executed, Success):
        return executed.failure()
    result = executed.unwrap()
    return ToolFailed(call.name, result.error) if result.error else None


def _redacted(value: Json, report: GuardrailReport) -> Json:
    if report.redacted is None:
        return value
    spans = [finding for finding in report.findings if finding.action == "redact"]
    if isinstance(value, str) or not spans:  # without spans: the guardrail's whole text
        return report.redacted
    return redact_texts(value, spans)


# --- Approvals ---


def approver_of(ports: EnginePorts) -> Maybe[Approver]:
    """Return the engine's approver, or that of the run whose tool this run is."""
    caller = CALLER.get()
    return ports.approver if caller is None or ports.approver is not Nothing else caller.approver


class RunApprover:
    """Implements ``Approver`` for one run, with events and audit entries."""

    def __init__(self, approver: Approver, services: EngineServices) -> None:
        self._approver = approver
        self._services = services

    @effect
    async def decide(self, request: ApprovalRequest) -> Result[ApprovalDecision, ServiceFailed]:
        """Return the decision of the engine's approver.

        The agent is paused while it is awaited.

        An approval that cannot be entered into the audit log is a failure, and so the call does not run.
        """
        journal = self._services.journal
        if journal is None:
            return await self._decide(request)
        return await journal.decide(request, partial(self._decide, request))

    async def _decide(self, request: ApprovalRequest) -> Result[ApprovalDecision, ServiceFailed]:
        events, handle = self._services.events, self._services.handle
        approval_id, call_id, tool_name = request.approval_id, request.call_id, request.tool_name
        own = evolve(request)  # a copy: the handler keeps the other one
        approved, reason = False, "the run was interrupted before the call could be approved."
        handle.waiting += 1
        deciding = _called(self._approver, request)  # pending before it is published
        events.publish(
            ApprovalRequested,
            approval_id=approval_id,
            call_id=call_id,
            tool_name=tool_name,
            arguments=deepcopy(own.arguments),
            risk=request.risk,
            copied=request.copied,
            notice=request.notice,
        )
        try:
            decided = await self._decided(deciding)
            if isinstance(decided, Success) and decided.unwrap().approved is True:
                decided = (await self._audited(own)).bind(lambda _: decided)
            if isinstance(decided, Failure):
                reason = decided.failure().message
            else:
                approved, reason = decided.unwrap().approved, decided.unwrap().reason
        finally:  # also when the wait is cancelled: every request has a decision
            handle.waiting -= 1
            events.publish(
                ApprovalDecided,
                approval_id=approval_id,
                call_id=call_id,
                tool_name=tool_name,
                approved=approved,
                reason=reason,
            )
        return decided

    async def _decided(self, deciding: Callable[[], object]) -> Result[ApprovalDecision, ServiceFailed]:
        outcome = await attempt_foreign(deciding, ApprovalDecision)
        if isinstance(outcome, BrokenContract):
            return Failure(broken_service("approval.decide", self._approver.decide, outcome.problem))
        return outcome

    async def _audited(self, request: ApprovalRequest) -> Result[None, ServiceFailed]:
        arguments = redacted_arguments(request.arguments, self._services)
        entered = await append_entry(
            "approval",
            self._services,
            subject=request.tool_name,
            detail=f"Approved. The arguments: {arguments}",
            call_id=request.call_id,
        )
        return entered.alt(
            lambda failed: evolve(failed, message=f"The approval cannot be audited. {failed.message}")
        )


def _called(approver: Approver, request: ApprovalRequest) -> Callable[[], object]:
    """Call the approver now; return a function that returns or raises its outcome."""
    try:
        pending: object = approver.decide(request)
    except Exception as error:  # noqa: BLE001 - an approver is arbitrary user code
        return partial(_raise, error)
    return lambda: pending


def _raise(error: Exception) -> Never:
    raise error
