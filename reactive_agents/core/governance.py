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
class GuardrailReport:
    """The judgement of a text.

    Attributes:
        allowed: false blocks the run.
        violation: category of what was found; empty when allowed.
        detail: what was found, in a sentence.
    """

    allowed: bool
    violation: str = ""
    detail: str = ""


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
class VerificationReport:
    """How well an answer is supported by what the run saw.

    Attributes:
        confidence: 0 to 1.
        verified: whether the confidence reaches the verifier's threshold.
        findings: what is not supported, one sentence each.
    """

    confidence: float
    verified: bool
    findings: tuple[str, ...] = ()


@frozen
class AuditEntry:
    """One line of the audit log: who did what with which outcome."""

    run_id: RunId
    task_id: TaskId
    agent_id: AgentId
    action: str
    status: ReasoningStatus
    detail: str
    at: datetime
