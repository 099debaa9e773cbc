"""Abstention: a run that finds its task impossible ends with the reason.

That is neither a success nor a failure. The model states it with ``could_not`` of ``final-answer``, or by an
answer that repeats why the tools failed that the task requires, or by saying twice that it cannot. It is held
to two things before: a required tool that was never called has to be tried, and a call that failed, to be
made once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from reactive_agents.kernel.announcements import denies
from reactive_agents.kernel.answer_check import Seen, ends_with_evidence, explains, is_refusal
from reactive_agents.kernel.context import KernelContext, Redirect, Stop, Verdict, about_answers
from reactive_agents.kernel.open_requirements import (
    OpenRequirements,
    describe_missing,
    describe_open,
    requirements_of,
)
from reactive_agents.kernel.policies.limits import turns_left
from reactive_agents.kernel.state import KernelState, Proposal
from reactive_agents.kernel.toolset import FINAL_ANSWER

ABSTENTION = "abstention"
REFUSAL = "refusal"
_PART = re.compile(r"[,;.!?]\s*")
_SHOWN_OF_ERROR = 300
_PLACEHOLDER_WORDS = 2
"""Words of a part of a reason that says nothing, such as "not applicable"."""


@about_answers
def abstention(state: KernelState, context: KernelContext) -> Verdict | None:
    """End the run as ``abstained`` where the model says why the task cannot be done.

    While a required tool was never called it is asked to try that first, once; after that the run is partial.
    """
    proposal = state.proposal
    if proposal is None or not abstains(proposal, state, context):
        return None
    now = requirements_of(state, context)
    attempts = state.ledger.counted.attempts
    tried = {step.metadata.tool_used for step in state.steps if step.type == "observation" and step.metadata}
    untried = OpenRequirements(
        tuple(each for each in now.open if not attempts.get(each[0].name) and each[0].name not in tried)
    )
    if untried.open and turns_left(state, context) and not state.ledger.told.get(ABSTENTION):
        tools = describe_open(untried)
        return Redirect(ABSTENTION, f"Not tried: {tools}. Call these tools first; then say what is missing.")
    if untried.open:
        return Stop(ABSTENTION, "partial", proposal.text, describe_missing(untried))
    needed = _needed(name for name in _names_of(now) if attempts.get(name))
    return Stop(ABSTENTION, "abstained", proposal.text, describe_abstention(proposal.could_not, needed))


@about_answers
def refusal(state: KernelState, context: KernelContext) -> Verdict | None:
    """Ask an answer that only says that the model cannot, once; then abstain."""
    proposal = state.proposal
    if proposal is None or proposal.could_not or not proposal.text.strip():
        return None
    if context.max_iterations < 2 or not context.toolset.permits(FINAL_ANSWER):
        return None
    found = (*_results(state), *_errors_of(state))
    if not is_refusal(proposal.text, Seen(context.input.asked, found)):
        return None
    if turns_left(state, context) and not state.ledger.told.get(REFUSAL):
        advice = "If the task cannot be done, say why with could_not; otherwise call the tools."
        return Redirect(REFUSAL, f"That is no answer. {advice}")
    return Stop(ABSTENTION, "abstained", proposal.text, describe_abstention(proposal.text))


def abstains(proposal: Proposal, state: KernelState, context: KernelContext) -> bool:
    """Return whether a proposed answer says that the task cannot be done.

    What it wrote into ``could_not`` does not count beside an answer with evidence where neither denies
    anything: "Not applicable, everything was done".
    """
    parts = [part for part in _PART.split(proposal.could_not) if len(part.split()) > _PLACEHOLDER_WORDS]
    if not proposal.could_not or any(map(denies, (proposal.text, *parts))):
        return bool(proposal.could_not)
    results = tuple(_results(state))
    return not ends_with_evidence(proposal.text, Seen(context.input.asked, results))


def explained_by_failure(state: KernelState, context: KernelContext, now: OpenRequirements) -> str:
    """Return why the unmet requirements cannot be met, if the proposed answer says it.

    That is when the last call of each of their tools has failed, and the answer says what a tool said of its
    failure, and claims nothing else. Empty otherwise.
    """
    failed = state.ledger.counted.failed_in_a_row
    names = _names_of(now)
    if state.proposal is None or not names or not all(failed.get(name) for name in names):
        return ""
    errors = _errors_of(state, names)
    task = "\n".join(message.content for message in context.prefix)
    if not errors or not explains(state.proposal.text, task, errors):
        return ""
    return describe_abstention(" ".join(errors[-1].split())[:_SHOWN_OF_ERROR], _needed(names))


def describe_abstention(why: str, needed: str = "") -> str:
    """Return the reason of a run that ends as ``abstained``.

    Args:
        needed: the required calls that would be needed besides what the model says.
    """
    reason = f"It could not be done: {why.strip()}"
    if not needed:
        return reason
    return f"{reason if reason[-1] in '.!?' else f'{reason}.'} Needed: {needed}."


def _needed(tools: Iterable[str]) -> str:
    names = sorted(tools)
    return f"a call of {' and of '.join(names)} that works" if names else ""


def _names_of(now: OpenRequirements) -> set[str]:
    return {each.name for each, _ in (*now.open, *now.lost)}


def _results(state: KernelState) -> list[str]:
    return [text for key, text in state.scratchpad.items() if ":" not in key]


def _errors_of(state: KernelState, names: set[str] | None = None) -> tuple[str, ...]:
    """Return what the tools of these names, or all, said of their failures."""
    return tuple(
        step.content
        for step in state.steps
        if step.type == "observation"
        and step.metadata is not None
        and step.metadata.success is False
        and step.metadata.origin == "executed"
        and (names is None or step.metadata.tool_used in names)
    )
