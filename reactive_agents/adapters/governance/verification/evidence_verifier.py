"""A verifier that looks for each claim of an answer in what the run saw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.verification.claims import Claim, claims_of
from reactive_agents.adapters.governance.verification.deliverables import (
    WORKSPACE_KEY,
    declared_deliverables,
    look_for_file,
)
from reactive_agents.adapters.governance.verification.evidence_judge import Opinion, ask_for_opinion
from reactive_agents.adapters.governance.verification.observations import (
    TASK_KEY,
    Observation,
    observations_of,
    tools_that_worked,
)
from reactive_agents.adapters.governance.verification.self_consistency import agreement_with, further_answers
from reactive_agents.adapters.governance.verification.support import evidence_for
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.governance import ClaimEvidence, Receipt, Verdict, VerificationReport
from reactive_agents.core.reasoning import ReasoningResult
from reactive_agents.core.tasks import Task
from reactive_agents.effects import attempt, effect
from reactive_agents.ports.llm import LLM

DEFAULT_THRESHOLD = 0.7
NEUTRAL_CONFIDENCE = 0.7
"""Of an answer without claims that can be checked, such as a poem: nothing speaks for or against it."""
CONFIDENCE_WITH_A_FILE_MISSING = 0.3
"""The most that an answer can have which names a file as written that is not there."""

_WEIGHTS = {"number": 1.0, "quote": 1.5, "file": 2.0, "name": 0.5, "statement": 1.0}
_MISSING = {
    "number": "The number {} was not observed.",
    "quote": "The quotation {} is in nothing that was observed.",
    "name": "The name {} was not observed.",
    "file": "The file {} is said to be written and is not there.",
    "statement": "A model found no support for: {}",
}
_NOT_DELIVERED = "The deliverable {} is not there."
_SHOWN_CHARS = 120


@frozen
class EvidenceVerifier:
    """Implements ``Verifier``: the confidence is the weighted share of the claims that have evidence.

    Numbers count when they are observed in any notation, or are the sum, difference or ratio of two observed
    numbers; quotations when they are verbatim up to case, whitespace and punctuation; names word by word.
    Where a model judges as well, or further answers are compared, the confidence is the mean of those
    figures that there are.

    Args:
        threshold: 0 to 1; the answer is verified from there on.
        workspace: where files must be that are to be delivered or that the answer says were written;
            without one, a tool result that names them is enough.
        judge_model: asked for its opinion on the whole answer; ``None`` for no judge.
        self_consistency: further answers to compare with, 0 for none.
        deliverables: paths of files that every run is to leave in the workspace; a task may list more.
    """

    threshold: float = DEFAULT_THRESHOLD
    workspace: Path | None = None
    judge_model: str | None = None
    self_consistency: int = 0
    deliverables: tuple[str, ...] = ()

    @effect
    async def verify(
        self, task: Task, result: ReasoningResult, *, llm: LLM, model: str | None = None
    ) -> Result[VerificationReport, ServiceFailed]:
        """The report. When a model fails to judge or to answer, a finding says so and the rest decides."""
        observations = observations_of(task, result)
        wanted = declared_deliverables(task, self.deliverables)
        delivered = [await self._file(path, observations) for path in wanted]
        findings = [_NOT_DELIVERED.format(repr(each.claim)) for each in delivered if not each.supported]
        answer = result.output
        if answer is None or not answer.strip():
            receipt = receipt_of(result, delivered, "unverified")
            findings = ["There is no answer.", *findings]
            return Success(
                VerificationReport(0.0, self.threshold <= 0, tuple(findings), tuple(delivered), receipt)
            )
        made = [claim for claim in claims_of(answer) if not (claim.kind == "file" and claim.text in wanted)]
        claims = [await self._evidence(claim, observations) for claim in made]
        findings += [_finding(claim) for claim in claims if not claim.supported]
        claims = delivered + claims
        figures = [confidence_of(claims)] if claims else []
        if self.judge_model is not None:
            asked = await attempt(ask_for_opinion(llm, self.judge_model, answer, observations))
            if isinstance(asked, Failure):
                findings.append(f"The model judge failed ({asked.failure()}); it had no part in this.")
            else:
                doubted = _doubted(asked.unwrap())
                figures.append(asked.unwrap().score)
                claims += doubted
                findings += map(_finding, doubted)
        agreement = None
        if self.self_consistency:
            samples = await further_answers(llm, model, observations, self.self_consistency)
            if samples.failed:
                findings.append(f"{samples.failed} of {self.self_consistency} further answers failed.")
            if samples.answers:
                agreement = agreement_with(answer, samples.answers)
                figures.append(agreement)
                if agreement < self.threshold:
                    findings.append(f"Further answers agree with this one by {agreement:.0%} only.")
        return Success(self._report(result, claims, findings, figures, agreement))

    def _report(
        self,
        result: ReasoningResult,
        claims: Sequence[ClaimEvidence],
        findings: Sequence[str],
        figures: Sequence[float],
        agreement: float | None,
    ) -> VerificationReport:
        confidence = sum(figures) / len(figures) if figures else NEUTRAL_CONFIDENCE
        if any(claim.kind == "file" and not claim.supported for claim in claims):
            confidence = min(confidence, CONFIDENCE_WITH_A_FILE_MISSING)
        verified = confidence >= self.threshold
        verdict: Verdict = ("verified" if verified else "unverified") if figures else "unchecked"
        receipt = receipt_of(result, claims, verdict)
        return VerificationReport(confidence, verified, tuple(findings), tuple(claims), receipt, agreement)

    async def _evidence(self, claim: Claim, observations: Sequence[Observation]) -> ClaimEvidence:
        if claim.kind == "file" and self.workspace is not None:
            return await self._file(claim.text, observations)
        return evidence_for(claim, observations)

    async def _file(self, path: str, observations: Sequence[Observation]) -> ClaimEvidence:
        if self.workspace is None:
            return evidence_for(Claim("file", path, 0), observations)
        return await anyio.to_thread.run_sync(look_for_file, path, self.workspace)


def confidence_of(claims: Sequence[ClaimEvidence]) -> float:
    """The weighted share of the claims that have evidence; :data:`NEUTRAL_CONFIDENCE` without any."""
    total = sum(_WEIGHTS[claim.kind] for claim in claims)
    if not total:
        return NEUTRAL_CONFIDENCE
    return sum(_WEIGHTS[claim.kind] for claim in claims if claim.supported) / total


def receipt_of(result: ReasoningResult, claims: Sequence[ClaimEvidence], verdict: Verdict) -> Receipt:
    """What the run did to come to its answer."""
    keys = dict.fromkeys(claim.key for claim in claims if claim.key not in (None, TASK_KEY, WORKSPACE_KEY))
    files = [claim for claim in claims if claim.kind == "file"]
    return Receipt(
        tools=tools_that_worked(result),
        evidence=tuple(key for key in keys if key is not None),
        delivered=tuple(claim.claim for claim in files if claim.supported),
        missing=tuple(claim.claim for claim in files if not claim.supported),
        verdict=verdict,
    )


def _doubted(opinion: Opinion) -> list[ClaimEvidence]:
    return [ClaimEvidence("statement", sentence, supported=False) for sentence in opinion.unsupported]


def _finding(claim: ClaimEvidence) -> str:
    text = claim.claim if len(claim.claim) <= _SHOWN_CHARS else claim.claim[: _SHOWN_CHARS - 1] + "…"
    return _MISSING[claim.kind].format(repr(text))
