"""Abstention: a run that finds its task impossible ends with the reason.

That is neither a success nor a failure. The model says so with ``could_not`` of ``final-answer``, or by an
answer that repeats why the tools failed that the task requires. It is held to two things before: a required
tool that was never called has to be tried, and a call that failed, to be made once more.
"""

from __future__ import annotations

from collections.abc import Iterable

from reactive_agents.kernel.answer_check import Seen, ends_with_evidence
from reactive_agents.kernel.context import KernelContext, Redirect, Stop, Verdict, about_answers
from reactive_agents.kernel.open_requirements import OpenRequirements, describe_open, requirements_of
from reactive_agents.kernel.policies.budgets import turns_left
from reactive_agents.kernel.state import KernelState

ABSTENTION = "abstention"
_SHOWN_OF_ERROR = 300


@about_answers
def abstention(state: KernelState, context: KernelContext) -> Verdict | None:
    """End the run as ``abstained`` where the model says why the task cannot be done.

    While a required tool was never called it is asked to try that first, once.
    """
    proposal = state.proposal
    if proposal is None or not proposal.could_not:
        return None
    now = requirements_of(state, context)
    attempts = state.ledger.counted.attempts
    untried = tuple(each for each in now.open if not attempts.get(each[0].name))
    if untried and turns_left(state, context) and not state.ledger.told.get(ABSTENTION):
        tools = describe_open(OpenRequirements(untried))
        return Redirect(ABSTENTION, f"Not tried: {tools}. Call these tools first; then say what is missing.")
    needed = _needed(name for name in _names_of(now) if attempts.get(name))
    return Stop(ABSTENTION, "abstained", proposal.text, describe_abstention(proposal.could_not, needed))


def explained_by_failure(state: KernelState, context: KernelContext, now: OpenRequirements) -> str:
    """Return why the unmet requirements cannot be met, if the proposed answer says it.

    That is when the last call of each of their tools has failed, and the answer ends with what a tool said of
    its failure. Empty otherwise.
    """
    failed = state.ledger.counted.failed_in_a_row
    names = _names_of(now)
    if state.proposal is None or not names or not all(failed.get(name) for name in names):
        return ""
    errors = _errors_of(state, names)
    task = "\n".join(message.content for message in context.prefix)
    if not errors or not ends_with_evidence(state.proposal.text, Seen(task, errors)):
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


def _errors_of(state: KernelState, names: set[str]) -> tuple[str, ...]:
    """Return what the tools of these names said of their failures."""
    return tuple(
        step.content
        for step in state.steps
        if step.type == "observation"
        and step.metadata is not None
        and step.metadata.success is False
        and step.metadata.origin == "executed"
        and step.metadata.tool_used in names
    )
