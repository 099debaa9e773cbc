"""A verifier that looks for each claim of an answer in what the run saw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.verification.claims import Claim, claims_of
from reactive_agents.adapters.governance.verification.deliverables import WORKSPACE_KEY, look_for_file
from reactive_agents.adapters.governance.verification.evidence_judge import Opinion, ask_for_opinion
from reactive_agents.adapters.governance.verification.observations import (
    TASK_KEY,
    Observation,
    observations_of,
    tools_that_worked,
)
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
_SHOWN_CHARS = 120


@frozen
class EvidenceVerifier:
    """Implements ``Verifier``: the confidence is the weighted share of the claims that have evidence.

    Numbers count when they are observed in any notation, or are the sum, difference or ratio of two observed
    numbers; quotations when they are verbatim up to case, whitespace and punctuation; names word by word.

    Args:
        threshold: 0 to 1; the answer is verified from there on.
        workspace: where files that the answer says were written must be; without one, a tool result that
            names them is enough.
        llm: asked for its opinion on the whole answer, which is half of the confidence then.
    """

    threshold: float = DEFAULT_THRESHOLD
    workspace: Path | None = None
    llm: LLM | None = None

    @effect
    async def verify(self, task: Task, result: ReasoningResult) -> Result[VerificationReport, ServiceFailed]:
        """The report. When the model fails as a judge, a finding says so and the rules alone decide."""
        answer = result.output
        if answer is None or not answer.strip():
            receipt = Receipt(tools_that_worked(result), (), (), (), "unverified")
            return Success(
                VerificationReport(0.0, self.threshold <= 0, ("There is no answer.",), (), receipt)
            )
        observations = observations_of(task, result)
        claims = [await self._evidence(claim, observations) for claim in claims_of(answer)]
        findings = [_finding(claim) for claim in claims if not claim.supported]
        confidence = confidence_of(claims)
        checked = bool(claims)
        if self.llm is not None:
            asked = await attempt(ask_for_opinion(self.llm, answer, observations))
            if isinstance(asked, Failure):
                findings.append(f"The model judge failed ({asked.failure()}); the rules alone decided.")
            else:
                opinion = asked.unwrap()
                confidence = (confidence + opinion.score) / 2 if checked else opinion.score
                checked = True
                doubted = _doubted(opinion)
                claims += doubted
                findings += map(_finding, doubted)
        verified = confidence >= self.threshold
        verdict: Verdict = ("verified" if verified else "unverified") if checked else "unchecked"
        receipt = receipt_of(result, claims, verdict)
        if receipt.missing:
            confidence = min(confidence, CONFIDENCE_WITH_A_FILE_MISSING)
            verified = confidence >= self.threshold
            receipt = receipt_of(result, claims, "verified" if verified else "unverified")
        return Success(VerificationReport(confidence, verified, tuple(findings), tuple(claims), receipt))

    async def _evidence(self, claim: Claim, observations: Sequence[Observation]) -> ClaimEvidence:
        if claim.kind == "file" and self.workspace is not None:
            return await anyio.to_thread.run_sync(look_for_file, claim, self.workspace)
        return evidence_for(claim, observations)


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
