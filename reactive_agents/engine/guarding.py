"""The one way in which a run shows a text to the guardrail, and tells what it found."""

from __future__ import annotations

from returns.result import Result, Success

from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.events import GuardrailTriggered
from reactive_agents.core.governance import GuardrailReport, GuardrailStage
from reactive_agents.core.ids import CallId
from reactive_agents.effects import attempt
from reactive_agents.engine.auditing import enter_or_tell
from reactive_agents.engine.services import EngineServices


async def check_text(
    text: str, stage: GuardrailStage, services: EngineServices, *, call_id: CallId | None = None
) -> Result[GuardrailReport, ServiceFailed]:
    """What the guardrail says of the text; a pass when there is none.

    Every finding is an event; a text that is blocked is entered into the audit log besides. Model calls of
    the guardrail count as the run's own.

    Args:
        call_id: the call whose result the text is.
    """
    guardrail = services.ports.guardrail.value_or(None)
    if guardrail is None:
        return Success(GuardrailReport(allowed=True))
    checked = await attempt(guardrail.check(text, stage, services.llm))
    if not isinstance(checked, Success):
        return checked
    report = checked.unwrap()
    events = services.events
    for finding in report.findings:
        events.publish(
            GuardrailTriggered(
                *events.stamp(),
                stage=stage,
                category=finding.category,
                action=finding.action,
                score=finding.score,
                start=finding.start,
                end=finding.end,
                detail=finding.detail,
                call_id=call_id,
            )
        )
    if not report.allowed:
        detail = f"A guardrail blocked the {stage.replace('-', ' ')}."
        await enter_or_tell(
            "guardrail-block",
            services,
            subject=report.violation,
            detail=detail,
            stage=stage,
            call_id=call_id,
        )
    return checked
