"""Results of reasoning: the trace of steps, figures and the answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

from attrs import field, frozen

from reactive_agents.core.ids import CallId, StepId
from reactive_agents.core.messages import Message
from reactive_agents.core.tools import TRIED, CallOrigin
from reactive_agents.core.values import SHARE, Value

StepType: TypeAlias = Literal["thought", "action", "observation", "plan", "reflection", "critique"]


@frozen(eq=False, repr=False)
class StepMetadata(Value):
    """Metadata of a step.

    Attributes:
        tool_used: name of the tool of an action or observation.
        call_id: pairs an action with its observation.
        repairs: repairs of the call that the model sent, one sentence each.
        success: whether the tool of an observation succeeded, or a critique accepts the answer.
        origin: whether the tool of an observation was run for this call, or its result was reused.
        result_key: the key of the full text of an observation; its content may be a preview.
        duration: milliseconds; for a thought, of its model call.
        cost: US dollars, as far as prices are known; for a thought, of its model call.
        confidence: 0 to 1; for a thought, by repairs of its calls and whether it was cut off.
        has_effect: whether the tool of an observation succeeded and delivers or changes something.
    """

    tool_used: str | None = None
    call_id: CallId | None = None
    repairs: tuple[str, ...] = ()
    success: bool | None = None
    origin: CallOrigin | None = None
    result_key: str | None = None
    duration: float | None = None
    cost: float | None = None
    confidence: float | None = None
    has_effect: bool = False


@frozen(eq=False, repr=False)
class ReasoningStep(Value):
    """One entry of the trace. The content of an action is JSON: tool and arguments."""

    id: StepId
    type: StepType
    content: str
    timestamp: datetime
    metadata: StepMetadata | None = None

    @property
    def tool(self) -> str:
        """The tool of an action or observation; empty for other steps."""
        return "" if self.metadata is None else self.metadata.tool_used or ""

    @property
    def call_id(self) -> str:
        """The id of its call; empty for none."""
        return "" if self.metadata is None else self.metadata.call_id or ""

    @property
    def result_key(self) -> str:
        """The key of the full text of an observation; empty for none."""
        return "" if self.metadata is None else self.metadata.result_key or ""

    @property
    def is_failed_call(self) -> bool:
        """Whether it observes a tool that failed, or a call that was declined."""
        known = self.metadata
        return known is not None and known.success is False and known.origin in TRIED

    @property
    def is_declined_or_in_doubt(self) -> bool:
        """Whether it observes a call that was declined, or that may have taken effect."""
        return self.metadata is not None and self.metadata.origin in ("declined", "in_doubt")


def failures_in(
    steps: Iterable[ReasoningStep], tools: Container[str | None] | None = None
) -> tuple[str, ...]:
    """Return the errors of calls that failed or were declined, of these tools or all."""
    return tuple(
        step.content for step in steps if step.is_failed_call and (tools is None or step.tool in tools)
    )


# --- Deliverables ---


@frozen(eq=False, repr=False)
class Deliverable(Value):
    """A product of a run: a file written, a message sent, an order placed.

    Attributes:
        tool: name of the tool that was called.
        call_id: the id of the call in the steps.
        arguments_digest: SHA-256 of the action's content, which is the call as JSON, in hexadecimal.
        path: the file, if the arguments name one.
        result_key: the key of the tool's result in ``tool_results``.
    """

    tool: str
    call_id: CallId
    arguments_digest: str
    path: str | None = None
    result_key: str | None = None


_PATH_ENDS = ("path", "file", "filename")


def deliverables_of(steps: Iterable[ReasoningStep]) -> tuple[Deliverable, ...]:
    """Return the deliverables of a run, in the order of their results.

    These are the successful calls of tools that deliver (``output=True``) or have a risk that is not low. A
    call whose action is not among the steps is left out.
    """
    found: list[Deliverable] = []
    for known, call_id, content in observed_calls(steps):
        if known.has_effect:
            digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
            found.append(
                Deliverable(known.tool_used or "", call_id, digest, _path_in(content), known.result_key)
            )
    return tuple(found)


def observed_calls(steps: Iterable[ReasoningStep]) -> Iterator[tuple[StepMetadata, CallId, str]]:
    """Yield metadata, call and action of each observation whose action is known."""
    actions: dict[CallId, str] = {}
    for step in steps:
        known = step.metadata
        if known is None or known.call_id is None:
            continue
        if step.type == "action":
            actions[known.call_id] = step.content
        elif known.call_id in actions:
            yield known, known.call_id, actions[known.call_id]


DEADLINE = "deadline"
"""``terminated_by`` of a run that reached its time limit."""
WORKFLOW = "workflow"
"""``terminated_by`` of a workflow whose function has returned."""
NOT_APPROVED = "not_approved"
"""``terminated_by`` of a run that would be completed, had no call been declined."""
IN_DOUBT = "in_doubt"
"""``terminated_by`` of a run that would be completed, were no call in doubt."""


def declined_in(steps: Iterable[ReasoningStep]) -> tuple[str, ...]:
    """Return the tools whose calls were declined, and that no later call stands for.

    That is a call which the model made after the refusal, and which worked: of the same tool, or with an
    effect, and with an argument in common. So a person can decline a message and approve a better one.
    """
    return _tools_of("declined", _declines(steps)[0])


def doubt_in(steps: Iterable[ReasoningStep]) -> str:
    """Return which calls are in doubt, and no later call stands for; empty for none."""
    return _doubt_of(_declines(steps)[0])


def done_in(steps: Iterable[ReasoningStep]) -> str:
    """Return what a run did before it ended early; empty for nothing."""
    known = (step.metadata for step in steps)
    tools = dict.fromkeys(each.tool_used or "" for each in known if each and each.has_effect)
    return f"Done before it ended, and not to be repeated: {', '.join(tools)}." if tools else ""


def replaced_in(steps: Iterable[ReasoningStep]) -> tuple[str, ...]:
    """Return the tools of calls, declined or in doubt, that later ones stand for."""
    return _declines(steps)[1]


def _tools_of(origin: str, left: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tool for tool, each in left if each == origin))


def _doubt_of(left: Iterable[tuple[str, str]]) -> str:
    tools = " and of ".join(_tools_of("in_doubt", left))
    return (
        f"The call of {tools} is in doubt: its result is not known, and it may have taken effect."
        if tools
        else ""
    )


def _declines(steps: Iterable[ReasoningStep]) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """Return tool and origin of the calls that were declined or are in doubt.

    The second part has the tools of those that later calls stand for.
    """
    made: dict[CallId, tuple[str, tuple[StepId, ...]]] = {}
    # by steps, since the calls of other passes and steps may have the same ids
    declined: dict[StepId, tuple[str, str, str]] = {}
    replaced: list[str] = []
    for step in steps:
        known = step.metadata
        if known is None or known.call_id is None:
            continue
        if step.type == "action":
            made[known.call_id] = step.content, tuple(declined)
        elif known.origin in ("declined", "in_doubt"):
            declined[step.id] = known.tool_used or "", made.get(known.call_id, ("",))[0], known.origin
        elif declined and known.success and known.call_id in made:
            content, before = made[known.call_id]
            for earlier in declined.keys() & before:
                tool, call, _ = declined[earlier]
                is_alike = known.has_effect or tool == known.tool_used
                if is_alike and (content == call or not _values(content).isdisjoint(_values(call))):
                    del declined[earlier]
                    replaced.append(tool)
    return [(tool, origin) for tool, _, origin in declined.values()], tuple(replaced)


def declined_end(status: ReasoningStatus, steps: Iterable[ReasoningStep]) -> tuple[str, str] | None:
    """Return what makes a completed outcome ``partial``, and why; or ``None``."""
    if status != "completed":
        return None
    left = _declines(steps)[0]
    if not left:
        return None
    declined, doubt = " and of ".join(_tools_of("declined", left)), _doubt_of(left)
    refused = declined and f"The call of {declined} was not approved, and no later one stands for it."
    reasons = [each for each in (refused, doubt) if each]
    ended_by = NOT_APPROVED if declined else IN_DOUBT
    return ended_by, " ".join((*reasons, "Missing: what it was called for."))


def _values(content: str) -> set[str]:
    """Return the arguments of a call, but truth values and what is empty."""
    values = _arguments(content).values()
    return {json.dumps(each) for each in values if each and not isinstance(each, bool)}


def _arguments(content: str) -> Mapping[str, Any]:
    try:
        arguments = json.loads(content)["arguments"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _path_in(content: str) -> str | None:
    """Return the argument of a call that names a file."""
    return next(
        (
            value
            for name, value in _arguments(content).items()
            if name.endswith(_PATH_ENDS) and isinstance(value, str)
        ),
        None,
    )


# --- Results of reasoning, and what the choice of a strategy is based on ---


ReasoningStrategy: TypeAlias = str
"""The name that a strategy is registered under, such as ``reactive``."""

ReasoningStatus: TypeAlias = Literal["completed", "failed", "partial", "abstained"]
"""``abstained``: the task was found to be impossible or unsupported; neither a success nor a failure."""


@frozen(eq=False, repr=False)
class ReasoningMetadata(Value):
    """Figures of a reasoning run.

    Attributes:
        duration: milliseconds.
        cost: US dollars, of the calls whose price is known.
        confidence: 0 to 1, worked out from the course of the run.
        effectiveness: 0 to 1, the share of successes of the strategy in earlier runs on such tasks; ``None``
            where there are none.
        earlier_runs: number of those runs; ``None`` if outcomes are not recorded.
        selected_strategy: the strategy that did the work when another one chose it.
        terminated_by: the policy or event that ended the run.
        reason: why it ended, in a sentence; says what is missing when the status is not ``completed``.
    """

    duration: float
    cost: float
    tokens_used: int
    steps_count: int
    confidence: float = field(metadata=SHARE)
    effectiveness: float | None = field(default=None, metadata=SHARE)
    selected_strategy: ReasoningStrategy | None = None
    iterations: int = 0
    terminated_by: str = ""
    reason: str = ""
    earlier_runs: int | None = None

    def effectiveness_with(self, success: bool | None) -> float | None:
        """Return the share of successes with this run, which ``None`` leaves out."""
        if self.earlier_runs is None or success is None:
            return self.effectiveness
        return ((self.effectiveness or 0.0) * self.earlier_runs + success) / (self.earlier_runs + 1)


@frozen(eq=False, repr=False)
class ThoughtNode(Value):
    """One thought of a search tree.

    Attributes:
        id: unique within the tree, such as ``2.1.3``: the third thought after the first after the second.
        parent: the thought that it continues; ``None`` on the first level.
        depth: its level, from 1.
        score: 0 to 1; ``None`` when it could not be judged.
        pruned_because: why the search did not continue it; empty for thoughts that were kept.
        finished: whether nothing is left to think out after it.
    """

    id: str
    parent: str | None
    depth: int
    thought: str
    score: float | None = None
    pruned_because: str = ""
    finished: bool = False


@frozen(eq=False, repr=False)
class ThoughtTree(Value):
    """The thoughts of a search, level by level.

    Attributes:
        chosen: ids of the thoughts on the path that the answer followed, from the first level down; empty
            when it followed none.
    """

    nodes: tuple[ThoughtNode, ...] = ()
    chosen: tuple[str, ...] = ()


@frozen(eq=False, repr=False)
class ReasoningResult(Value):
    """The result of a strategy.

    Attributes:
        output: the answer; possibly incomplete or ``None`` when the status is not ``completed``.
        tool_results: the full text of every tool result, by the key in its observation step.
        tree: the thoughts of a tree search.
        messages: the transcript of a strategy that is one kernel run; empty for the others.
    """

    strategy: ReasoningStrategy
    steps: tuple[ReasoningStep, ...]
    output: str | None
    metadata: ReasoningMetadata
    status: ReasoningStatus
    tool_results: Mapping[str, str] = field(factory=dict)
    tree: ThoughtTree | None = None
    messages: tuple[Message, ...] = ()


@frozen(eq=False, repr=False)
class SelectionContext(Value):
    """The inputs of strategy selection.

    Attributes:
        complexity: 0 to 1.
        urgency: 0 to 1.
        cost_budget: US dollars.
        time_constraint: milliseconds.
    """

    task_description: str
    task_type: str
    complexity: float
    urgency: float
    cost_budget: float | None = None
    time_constraint: float | None = None
    preferred_strategy: ReasoningStrategy | None = None


@frozen(eq=False, repr=False)
class StrategyEffectiveness(Value):
    """The record of a strategy on one type of task.

    Attributes:
        success_rate: 0 to 1.
        avg_cost: US dollars.
        avg_duration: milliseconds.
        avg_confidence: 0 to 1.
    """

    strategy: ReasoningStrategy
    task_type: str
    success_rate: float
    avg_cost: float
    avg_duration: float
    avg_confidence: float
    executions: int
    last_used: datetime


# --- the judgement on an answer ----------------------------------------------------------------------------

ClaimKind: TypeAlias = Literal["number", "name", "quote", "file", "statement"]
Verdict: TypeAlias = Literal["verified", "unverified", "unchecked"]


@frozen(eq=False, repr=False)
class ClaimEvidence(Value):
    """One claim of an answer, with its evidence.

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


@frozen(eq=False, repr=False)
class Receipt(Value):
    """Evidence of how a run reached its answer.

    Attributes:
        tools: names of the tools that succeeded, each once, in the order of first use.
        evidence: keys of the tool results that support a claim.
        delivered: deliverables, and files that the answer names as written, that exist.
        missing: the deliverables that do not exist.
        verdict: ``unchecked`` when the answer makes no claim that can be checked.
    """

    tools: tuple[str, ...]
    evidence: tuple[str, ...]
    delivered: tuple[str, ...]
    missing: tuple[str, ...]
    verdict: Verdict


@frozen(eq=False, repr=False)
class VerificationReport(Value):
    """The support of an answer by the evidence of the run.

    Attributes:
        confidence: 0 to 1.
        verified: whether the confidence reaches the verifier's threshold.
        findings: what is not supported, one sentence each.
        claims: each claim of the answer, with its evidence or the lack of it.
        receipt: what the run did, if the verifier reports it.
        agreement: 0 to 1, how far further answers of the model agree with this one, if it gave any.
    """

    confidence: float = field(metadata=SHARE)
    verified: bool
    findings: tuple[str, ...] = ()
    claims: tuple[ClaimEvidence, ...] = ()
    receipt: Receipt | None = None
    agreement: float | None = field(default=None, metadata=SHARE)


class ModelRetry(Exception):
    """Raised by a validator that does not accept an answer, or a tool its call.

    ``str(error)`` is the reason, which the model is shown; it is asked again.
    """
