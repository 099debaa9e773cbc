"""What the safety, cost, verification and audit services are asked and answer."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.ids import AgentId, CallId, RunId, TaskId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.models import Usage
from reactive_agents.core.reasoning import ReasoningStatus
from reactive_agents.core.tools import Risk

GuardrailStage: TypeAlias = Literal["input", "output", "tool-result"]
GuardrailAction: TypeAlias = Literal["block", "redact", "warn"]
ClaimKind: TypeAlias = Literal["number", "name", "quote", "file", "statement"]
AuditAction: TypeAlias = Literal["run", "approval", "denial", "guardrail-block"]
Verdict: TypeAlias = Literal["verified", "unverified", "unchecked"]


@frozen
class ApprovalRequest:
    """A call that runs only if someone approves it.

    Attributes:
        call_id: names the call within its run, to whoever approves or denies it.
        arguments: what the tool would be called with.
    """

    run_id: RunId
    task_id: TaskId
    agent_id: AgentId
    call_id: CallId
    tool_name: str
    arguments: JsonObject
    risk: Risk


@frozen
class ApprovalDecision:
    """Whether a call may run. ``reason``: told to the model when it may not."""

    approved: bool
    reason: str = ""


@frozen
class GuardrailFinding:
    """One thing that a check found in a text.

    Attributes:
        category: such as ``prompt-injection`` or ``email``.
        start: index of its first character in the text.
        end: index after its last character.
        score: 0 to 1, how sure the check is, or for toxicity how severe it is.
        action: what is to be done about it; ``block`` stops the text, ``redact`` only the span.
        detail: a sentence that does not repeat what was found, since that may be secret.
    """

    category: str
    start: int
    end: int
    score: float
    action: GuardrailAction
    detail: str = ""


@frozen
class GuardrailReport:
    """The judgement of a text.

    Attributes:
        allowed: false blocks the run.
        violation: category of what was found; empty when allowed.
        detail: what was found, in a sentence.
        findings: everything that was found, by its place in the text.
        redacted: the text to go on with instead; ``None`` when nothing is to be redacted.
    """

    allowed: bool
    violation: str = ""
    detail: str = ""
    findings: tuple[GuardrailFinding, ...] = ()
    redacted: str | None = None


@frozen
class ModelRoute:
    """The model that a cost router chose, and why."""

    model: str
    reason: str


@frozen
class SpendingRecord:
    """What one run spent.

    Attributes:
        cost_usd: US dollars, of the calls whose price is known.
        unpriced_calls: calls whose price is unknown.
    """

    run_id: RunId
    task_id: TaskId
    agent_id: AgentId
    model: str
    usage: Usage
    cost_usd: float
    unpriced_calls: int
    at: datetime


@frozen
class ClaimEvidence:
    """One claim of an answer, and what supports it.

    Attributes:
        claim: the words of the answer.
        key: the tool result that supports it, ``task`` for the task's own text, ``workspace`` for a file that
            is there, ``judge`` for a model's opinion; ``None`` without support.
        excerpt: the place that supports it; for a number that was worked out, how.
    """

    kind: ClaimKind
    claim: str
    supported: bool
    key: str | None = None
    excerpt: str = ""


@frozen
class Receipt:
    """What a run did to come to its answer.

    Attributes:
        tools: names of the tools that worked, each once, in the order of their first use.
        evidence: keys of the tool results that support a claim.
        delivered: files that the answer names as written and that are there.
        missing: files that the answer names as written and that are not there.
        verdict: ``unchecked`` when the answer makes no claim that can be checked.
    """

    tools: tuple[str, ...]
    evidence: tuple[str, ...]
    delivered: tuple[str, ...]
    missing: tuple[str, ...]
    verdict: Verdict


@frozen
class VerificationReport:
    """How well an answer is supported by what the run saw.

    Attributes:
        confidence: 0 to 1.
        verified: whether the confidence reaches the verifier's threshold.
        findings: what is not supported, one sentence each.
        claims: each claim of the answer, with its evidence or the lack of it.
        receipt: what the run did, where the verifier accounts for it.
    """

    confidence: float
    verified: bool
    findings: tuple[str, ...] = ()
    claims: tuple[ClaimEvidence, ...] = ()
    receipt: Receipt | None = None


@frozen
class AuditEntry:
    """One line of the audit log: who did what with which outcome.

    Attributes:
        action: an ``AuditAction`` of the engine (a run that ended, a tool call that was approved or not, a
            text that a guardrail blocked), or one of the user's own.
        status: how the run ended; ``None`` for what happened in its course.
        detail: a sentence.
        subject: the tool of an approval or denial; the category of what a guardrail blocked.
        stage: where a guardrail blocked it; ``None`` for the other actions.
        call_id: the tool call that was approved, denied, or whose result was blocked.
    """

    run_id: RunId
    task_id: TaskId
    agent_id: AgentId
    action: str
    status: ReasoningStatus | None
    detail: str
    at: datetime
    subject: str = ""
    stage: GuardrailStage | None = None
    call_id: CallId | None = None
