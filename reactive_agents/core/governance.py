"""Requests to people, and to the safety, cost, verification and audit services."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, cast

from attrs import evolve, field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.config import GuardrailAction as GuardrailAction
from reactive_agents.core.config import GuardrailStage as GuardrailStage
from reactive_agents.core.ids import AgentId, ApprovalId, CallId, RequestId, RunId, TaskId
from reactive_agents.core.json import (
    JSON_DATA,
    Json,
    JsonFields,
    JsonObject,
    abbreviated,
    copied_json,
    json_object_of,
)
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.results import ClaimEvidence as ClaimEvidence
from reactive_agents.core.results import ClaimKind as ClaimKind
from reactive_agents.core.results import ModelRetry as ModelRetry
from reactive_agents.core.results import ReasoningStatus
from reactive_agents.core.results import Receipt as Receipt
from reactive_agents.core.results import Verdict as Verdict
from reactive_agents.core.results import VerificationReport as VerificationReport
from reactive_agents.core.secret_patterns import markers_in
from reactive_agents.core.texts import escaped
from reactive_agents.core.tools import Risk, ToolResult
from reactive_agents.core.usage import RunUsage, Usage, total_usage
from reactive_agents.core.values import LIVE, OMITTED, Value

START: Final[Literal["start"]] = "start"
"""The action of the entry of a run that begins; its end is the entry ``run``."""
AuditAction: TypeAlias = Literal[
    "start",
    "run",
    "request",
    "approval",
    "denial",
    "answer",
    "handoff",
    "guardrail-block",
    "cancel",
    "stop",
    "pause",
    "resume",
]


MOST_REASON: Final = 10_000
"""Characters of the reason of an approval or a denial, and of the name of who decided."""
DecisionErrors: TypeAlias = errors.InvalidConfig | errors.InvalidToolArguments
"""Why a decision on a call cannot be taken."""
ArgumentsCheck: TypeAlias = Callable[[JsonObject], Result[JsonObject | None, errors.InvalidToolArguments]]
"""Return the arguments as the tool would be called with them; ``None`` for just as they are."""


def _own_copy(arguments: JsonObject) -> JsonObject:
    return copied_json(arguments)


def _as_given(arguments: Mapping[str, Any] | None) -> JsonObject | None:
    return cast("JsonObject | None", arguments)  # ``ApprovalRequest.taken`` checks and copies them


def _in_one_order(arguments: JsonObject) -> str:
    return json.dumps(arguments, sort_keys=True)


def described_request(
    tool_name: str, arguments: Json, risk: str, copied: Iterable[str], notice: str, *, also: str = ""
) -> str:
    """Return a call in one line, in full, for the person who decides.

    Characters that are invisible, or that turn the direction of a text, are written as escapes.

    Args:
        also: further text after the call itself.
    """
    call = f"{tool_name} {json.dumps(arguments, ensure_ascii=False)} ({risk} risk){also}"
    return escaped(" ".join((call, *copied, notice)).strip())


@frozen(eq=False, repr=False)
class ApprovalRequest(Value):
    """A tool call that runs only after approval.

    Attributes:
        approval_id: the id by which the call is approved or denied, unique within the run.
        call_id: as in the other events of the call; steps of a plan that run side by side may share one.
        arguments: the arguments that the tool would be called with, converted and with defaults; for tools of
            MCP servers and other programs, those that are sent. A copy that nothing else holds.
        copied: which arguments were copied from a tool result or a recalled note, one sentence each.
        notice: a warning about the tool, for example that its definition changed; empty for none.
        user: of the run; ``None`` for none.
        parent_run_id: the run that began the run, by a tool or a handoff.
        parameters: JSON Schema of the arguments; empty if unknown.
        check: returns whether other arguments fit the tool; ``None`` where the tool is not at hand.
    """

    run_id: RunId
    task_id: TaskId
    agent_id: AgentId
    approval_id: ApprovalId
    call_id: CallId
    tool_name: str
    arguments: JsonFields = field(converter=_own_copy)
    risk: Risk
    copied: tuple[str, ...] = ()
    notice: str = ""
    user: str | None = None
    parent_run_id: RunId | None = None
    parameters: JsonFields = field(factory=dict, repr=False, eq=False, metadata=OMITTED)
    check: ArgumentsCheck | None = field(default=None, repr=False, eq=False, metadata=LIVE)

    @property
    def described(self) -> str:
        """Return the call in one line, as :func:`described_request` does."""
        return described_request(self.tool_name, self.arguments, self.risk, self.copied, self.notice)

    def taken(self, decision: ApprovalDecision) -> Result[ApprovalDecision, DecisionErrors]:
        """Return a decision as it holds, with a copy of its arguments.

        It has arguments only if they are others than the request has. Fails when it cannot be taken: a text
        is too long, or the arguments do not fit the tool or have ``[redacted:…]`` in place of a secret.
        """
        for name, text in {"reason": decision.reason, "by": decision.by}.items():
            if not isinstance(text, str):
                return Failure(errors.InvalidConfig(name, abbreviated(text), "a text"))
            if len(text) > MOST_REASON:
                got, most = f"{len(text):,} characters", f"at most {MOST_REASON:,} characters"
                return Failure(errors.InvalidConfig(name, got, most))
        if decision.arguments is None:
            return Success(decision)
        if decision.approved is not True:
            return Failure(errors.InvalidConfig("arguments", "some", "none, since the call is denied"))
        arguments = json_object_of(decision.arguments)
        if arguments is None:
            return Failure(errors.InvalidConfig("arguments", abbreviated(decision.arguments), JSON_DATA))
        given, asked = _in_one_order(arguments), _in_one_order(self.arguments)
        if given == asked:
            return Success(evolve(decision, arguments=None))
        if shown := markers_in(given) - markers_in(asked):  # of events, which a form is filled with
            expected = "the value itself, which is never shown and has to be given again"
            return Failure(errors.InvalidConfig("arguments", ", ".join(sorted(shown)), expected))
        fits = Success(None) if self.check is None else self.check(copied_json(arguments))
        if isinstance(fits, Failure):
            return fits
        runs = fits.unwrap()
        is_same = runs is not None and _in_one_order(runs) == asked
        return Success(evolve(decision, arguments=None if is_same else arguments))


@frozen(eq=False, repr=False)
class ApprovalDecision(Value):
    """Whether a call may run.

    Attributes:
        reason: for the audit log, at most 10,000 characters; the model is shown it when the call may not run.
        arguments: all arguments of the call, in place of those of the request; ``None`` for the latter.
        by: who decided, for the audit log; never shown to the model.
    """

    approved: bool
    reason: str = ""
    arguments: JsonObject | None = field(default=None, converter=_as_given, metadata=OMITTED)
    by: str = field(default="", metadata=OMITTED)

    @property
    def signed(self) -> str:
        """The reason, after the name of who decided."""
        return signed(self.reason, self.by)


def signed(reason: str, by: str) -> str:
    """Return the reason of a decision after the name of who decided."""
    return ": ".join(filter(None, (f"by {by}" if by else "", reason)))


def made_with(
    arguments: JsonObject | None, call: ToolCall, outcome: Result[ToolResult, errors.ToolErrors]
) -> Result[ToolResult, errors.ToolErrors]:
    """Return the outcome of a call with the arguments that an approver gave, if any.

    An error becomes a result, since it cannot tell them, except that of a call that was not made.
    """
    if isinstance(outcome, Success):
        return outcome if arguments is None else Success(evolve(outcome.unwrap(), arguments=arguments))
    error = outcome.failure()
    if arguments is None or isinstance(error, errors.ToolNotApproved):
        return outcome
    return Success(ToolResult(call.id, call.name, error=error.message, arguments=arguments))


@frozen
class HandoffInfo:
    """A handoff that a model asked for.

    Attributes:
        agent: name of the agent that has the conversation.
        to_agent: name of the agent that takes it over.
        reason: the reason in the words of the model; may be empty.
        task: the task in the user's words.
        input: the data that the model handed over, of the handoff's ``input_type``; ``None`` without.
    """

    agent: str
    to_agent: str
    reason: str
    task: str
    user: str | None
    session: str | None
    deps: Any = field(default=None, repr=False)
    input: Any = None


# --- Questions, and calls that another program executes ---


@frozen(eq=False, repr=False)
class QuestionRequest(Value):
    """A question of the model to a person.

    Attributes:
        question_id: the id of the question, unique within the run.
        call_id: as in the other events of the call.
        text: the question, in the model's words.
        options: answers that the model suggests; any other is an answer too.
        timeout_s: seconds to wait for the answer.
    """

    run_id: RunId
    task_id: TaskId
    agent_id: AgentId
    question_id: RequestId
    call_id: CallId
    text: str
    options: tuple[str, ...] = ()
    timeout_s: float = 300.0

    @property
    def request_id(self) -> RequestId:
        """The id by which the request is replied to."""
        return self.question_id


@frozen(eq=False, repr=False)
class ExternalCallRequest(Value):
    """A tool call that another program executes.

    Attributes:
        tool_call_id: the id of the call, unique within the run; it is the same when the run is replayed, so
            usable as an idempotency key.
        call_id: as in the other events of the call; steps of a plan that run side by side may share one.
        arguments: the arguments, checked against the tool's schema; a copy that nothing else holds.
        timeout_s: seconds to wait for the result.
    """

    run_id: RunId
    task_id: TaskId
    agent_id: AgentId
    tool_call_id: RequestId
    call_id: CallId
    tool_name: str
    arguments: JsonFields = field(converter=_own_copy)
    timeout_s: float = 300.0

    @property
    def request_id(self) -> RequestId:
        """The id by which the request is replied to."""
        return self.tool_call_id


PersonRequest: TypeAlias = QuestionRequest | ExternalCallRequest


@frozen(eq=False, repr=False)
class Reply(Value):
    """The reply to a question or an external call.

    Attributes:
        value: the answer as text, or the result of the call.
        error: why the call failed, in the words of the program that executed it.
        missing: why there is no reply, as the rest of a sentence; empty if there is one.
    """

    value: Json = None
    error: str = ""
    missing: str = ""


@frozen(eq=False, repr=False)
class GuardrailFinding(Value):
    """One finding of a check in a text.

    Attributes:
        category: the category, such as ``prompt-injection`` or ``email``.
        start: index of its first character in the text.
        end: index after its last character.
        score: 0 to 1, how sure the check is, or for toxicity how severe it is.
        action: the reaction to it: ``block`` stops the text, ``redact`` only removes the span,
            ``warn`` only reports it.
        detail: a sentence that does not repeat the finding, since that may be secret.
    """

    category: str
    start: int
    end: int
    score: float
    action: GuardrailAction
    detail: str = ""


@frozen(eq=False, repr=False)
class GuardrailReport(Value):
    """The result of checking a text.

    Attributes:
        allowed: whether the run may continue.
        violation: the category of the finding that blocks the run; empty if it is allowed.
        detail: the finding, in a sentence.
        findings: all findings, in the order of their places in the text.
        redacted: the text to continue with; ``None`` if nothing is redacted.
    """

    allowed: bool
    violation: str = ""
    detail: str = ""
    findings: tuple[GuardrailFinding, ...] = ()
    redacted: str | None = None


@frozen(eq=False, repr=False)
class ModelRoute(Value):
    """The model that a router chose, with the reason."""

    model: str
    reason: str


@frozen(eq=False, repr=False)
class RouteNeeds(Value):
    """Requirements of a run on its model, as known before the first call.

    Attributes:
        request_bytes: size of the first request in UTF-8: instructions, recalled memory, task and tools.
        capabilities: capabilities that the run needs, such as ``tools``; the task may need more.
    """

    request_bytes: int
    capabilities: frozenset[str] = frozenset()


@frozen(eq=False, repr=False)
class SpendingRecord(Value):
    """The usage of one run, by model; empty for a run that called no model."""

    run_id: RunId
    task_id: TaskId
    agent_id: AgentId
    models: tuple[RunUsage, ...]
    at: datetime
    user: str | None = None

    @property
    def total(self) -> RunUsage:
        """The sum of all models."""
        return total_usage(self.models)

    @property
    def usage(self) -> Usage:
        """The tokens of all models."""
        return self.total.usage

    @property
    def cost_usd(self) -> float:
        """US dollars, of the calls whose price is known."""
        return self.total.cost_usd


@frozen(eq=False, repr=False)
class Reservation(Value):
    """An amount of US dollars that is reserved in a budget until it is settled."""

    id: int
    run_id: RunId
    amount_usd: float


@frozen(eq=False, repr=False)
class BudgetUse(Value):
    """The used part of a limit, in US dollars that are spent or reserved.

    ``reached``: the greatest of the shares to warn at that is reached; 0 for none.
    """

    period: errors.BudgetPeriod
    limit_usd: float
    spent_usd: float
    reached: float = 0.0

    @property
    def share(self) -> float:
        """The used part of the limit; 1 for a limit of zero."""
        return self.spent_usd / self.limit_usd if self.limit_usd else 1.0


@frozen(eq=False, repr=False)
class AuditEntry(Value):
    """One entry of the audit log: agent, action and outcome.

    Attributes:
        action: an ``AuditAction`` of the engine (a run that began or ended, a request to people and its
            approval, denial or answer, a text that a guardrail blocked, that somebody cancelled, stopped,
            paused or resumed it), or one of the user's own.
        status: how the run ended; ``None`` for an action in its course.
        detail: a sentence.
        subject: the tool of a request, approval, denial or answer; the category of what a guardrail blocked.
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


@frozen(eq=False, repr=False)
class JudgedAnswer(Value):
    """The judgement of the output validators on an answer.

    ``text``: as it is delivered; ``objection``: why it is not accepted, for the model, or empty.
    """

    text: str
    objection: str = ""
