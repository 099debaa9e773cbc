"""Phase 9: enter the run into the audit log."""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import RuntimeErrors
from reactive_agents.core.governance import AuditEntry
from reactive_agents.core.reasoning import ReasoningStatus
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices


@effect
async def audit(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context unchanged, one entry for the run in the log. Fails with ``ExecutionError``."""
    log = services.ports.audit.value_or(None)
    if log is None:
        return Success(context)
    status, detail = _outcome(context)
    entry = AuditEntry(
        run_id=context.run_id,
        task_id=context.task_id,
        agent_id=context.agent_id,
        action="run",
        status=status,
        detail=detail,
        at=services.ports.clock.now(),
    )
    appended = await attempt(log.append(entry))
    if not isinstance(appended, Success):
        return Failure(context.failure_of("audit")(appended.failure()))
    return Success(context)


def _outcome(context: ExecutionContext) -> tuple[ReasoningStatus, str]:
    if context.error is not None:
        return "failed", context.error.message
    if context.reasoning is None:
        return "failed", ""
    return context.reasoning.status, context.reasoning.metadata.reason
