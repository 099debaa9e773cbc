"""A guardrail that is made of checks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Final, get_args

from attrs import field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.guardrails.checks import Check
from reactive_agents.adapters.governance.guardrails.model_judge import ModelJudge
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.findings import redact, within
from reactive_agents.core.governance import (
    GuardrailAction,
    GuardrailFinding,
    GuardrailReport,
    GuardrailStage,
)
from reactive_agents.effects import effect
from reactive_agents.ports import LLM

_ACTIONS: Final = get_args(GuardrailAction)


@frozen
class RuleGuardrail:
    """Implements ``Guardrail``: every check looks at the text, and one finding to block is enough.

    Args:
        checks: run at every stage, in order.
        by_stage: checks that are run at one stage only, after the others.
    """

    checks: Sequence[Check]
    by_stage: Mapping[GuardrailStage, Sequence[Check]] = field(factory=dict)

    @effect
    async def check(
        self, text: str, stage: GuardrailStage, llm: LLM | None = None
    ) -> Result[GuardrailReport, ServiceFailed]:
        """The report.

        Fails with ``ServiceFailed`` when a check raises, since it did not look, or finds something to be
        dealt with in a way that there is not.
        """
        found: list[GuardrailFinding] = []
        for check in (*self.checks, *self.by_stage.get(stage, ())):
            try:
                findings = check(text, llm) if isinstance(check, ModelJudge) else check(text)
                if inspect.isawaitable(findings):
                    findings = await findings
                found += (within(_known(each), text) for each in findings)
            except Exception as error:  # noqa: BLE001 - a check may be arbitrary user code
                message = f"A check failed ({type(error).__name__}), so the text counts as unchecked."
                return Failure(ServiceFailed(message, "guardrail", "check"))
        return Success(report(text, found))


def _known(finding: GuardrailFinding) -> GuardrailFinding:
    if finding.action not in _ACTIONS:
        raise ValueError(finding.action)
    return finding


def report(text: str, found: Sequence[GuardrailFinding]) -> GuardrailReport:
    """The judgement that follows from what was found."""
    findings = tuple(sorted(found, key=lambda each: (each.start, each.end, each.category)))
    blocking = [each for each in findings if each.action == "block"]
    redacting = [each for each in findings if each.action == "redact"]
    redacted = redact(text, redacting) if redacting else None
    if not blocking:
        return GuardrailReport(True, findings=findings, redacted=redacted)
    worst = max(blocking, key=lambda each: each.score)
    return GuardrailReport(False, worst.category, worst.detail or worst.category, findings, redacted)
