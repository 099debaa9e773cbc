"""Phase 2: may this task run at all?"""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import GuardrailViolationError, RuntimeErrors
from reactive_agents.core.values import replaced
from reactive_agents.effects import effect
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.guarding import check_text
from reactive_agents.engine.services import EngineServices


@effect
async def guardrail(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context when the input may pass, with the input redacted where the guardrail did so.

    Fails with ``GuardrailViolationError`` when it may not, and with ``ExecutionError`` when the guardrail
    itself fails: what could not be checked does not run.
    """
    checked = await check_text(context.task.input, "input", services)
    if not isinstance(checked, Success):
        return Failure(context.failure_of("guardrail")(checked.failure()))
    report = checked.unwrap()
    if report.allowed:
        if report.redacted is None:
            return Success(context)
        return Success(replaced(context, task=evolve(context.task, input=report.redacted)))
    message = f"The input was blocked: {report.detail or report.violation}"
    return Failure(GuardrailViolationError(message, context.task_id, report.violation))
