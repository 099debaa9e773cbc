"""Policies for required tools, and abstention where a task is impossible.

Abstention is neither a success nor a failure. The model states it with ``could_not`` of ``final-answer``, or
by an answer that repeats why the tools failed that the task requires, or by saying twice that it cannot. It
is held to two things before: a required tool that was never called has to be tried, and a call that failed,
to be made once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from reactive_agents.core.ids import CallId
from reactive_agents.core.languages import alternatives
from reactive_agents.core.results import ReasoningStep, failures_in
from reactive_agents.core.values import lazy_pattern
from reactive_agents.kernel import answer_check, clauses, evidence
from reactive_agents.kernel.announcements import denies
from reactive_agents.kernel.context import (
    KernelContext,
    Redirect,
    Stop,
    Verdict,
    about_answers,
    applies_where,
    between_turns,
    optional_check,
)
from reactive_agents.kernel.open_requirements import (
    REQUIRED_TOOLS,
    OpenRequirements,
    describe_all,
    describe_lost,
    describe_missing,
    describe_open,
    first_calls,
    how_to_deliver,
    requirements_of,
    still_to_gather,
)
from reactive_agents.kernel.policies.limits import IDLE_TURNS, turns_left
from reactive_agents.kernel.policies.unfinished_work import texts_given
from reactive_agents.kernel.state import KernelState, Proposal
from reactive_agents.kernel.termination import last_words
from reactive_agents.kernel.toolset import FINAL_ANSWER

ABSTENTION = "abstention"
REFUSAL: Final = "refusal"
_PART = lazy_pattern(r"[,;.!?]\s*")
_NO_PROBLEM = lazy_pattern(
    rf"\b{alternatives('without_problem')}(?: \w+)? {alternatives('problem')}", re.IGNORECASE
)
"""In a part of a reason that says that all went well: "No issues were encountered"."""
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


@optional_check(REFUSAL)
def refusal(state: KernelState, context: KernelContext) -> Verdict | None:
    """Question an answer that only says that the model cannot, once; then abstain.

    An answer that repeats a tool's error is not questioned, nor one about something that no tool does.
    """
    proposal = state.proposal
    if proposal is None or proposal.could_not or not proposal.text.strip():
        return None
    if context.max_iterations < 2 or not context.toolset.permits(FINAL_ANSWER):
        return None
    if not answer_check.denies_in_part(proposal.text):
        return None
    if not state.ledger.counted.attempts:
        offered = context.toolset.available(recall=state.transcript.shown_in_part)
        if answer_check.has_no_tool(
            proposal.text, context.input.to_do, {each.name: each.description for each in offered}
        ):
            return Stop(ABSTENTION, "abstained", proposal.text, describe_abstention(proposal.text))
    errors = failures_in(state.steps)
    seen = evidence.Seen(context.input.asked, (*evidence.results_of(state), *errors))
    if not answer_check.is_refusal(proposal.text, seen):
        return None
    results = evidence.results_of(state)
    is_none_found = all(denies(each) or answer_check.is_empty(each) for each in results)
    says_why = _tells_failure(proposal.text, [*errors, *results] if is_none_found else errors)
    says_why = says_why or (bool(results) and all(map(answer_check.is_empty, results)))
    if not says_why and turns_left(state, context) and not state.ledger.told.get(REFUSAL):
        advice = "If the task cannot be done, say why with could_not; otherwise call the tools."
        return Redirect(REFUSAL, f"That is no answer. {advice}")
    return Stop(ABSTENTION, "abstained", proposal.text, describe_abstention(proposal.text))


def abstains(proposal: Proposal, state: KernelState, context: KernelContext) -> bool:
    """Return whether a proposed answer says that the task cannot be done.

    What it wrote into ``could_not`` does not count beside an answer with evidence where neither denies
    anything: "Not applicable, everything was done".
    """
    if not proposal.could_not:
        return False
    parts = [
        part
        for part in _PART.split(proposal.could_not)
        if len(part.split()) > _PLACEHOLDER_WORDS and not _NO_PROBLEM.search(part)
    ]
    if proposal.text == proposal.could_not or any(map(denies, (proposal.text, *parts))):
        return True
    seen = evidence.Seen(context.input.asked, evidence.results_of(state))
    return not evidence.ends_with_evidence(proposal.text, seen)


def explained_by_failure(state: KernelState, context: KernelContext, now: OpenRequirements) -> str:
    """Return why the unmet requirements cannot be met, if the proposed answer says it.

    That is when the last call of each of their tools has failed, and the answer says what a tool said of its
    failure, and claims nothing else. Empty otherwise.
    """
    failed = state.ledger.counted.failed_in_a_row
    names = _names_of(now)
    if state.proposal is None or not names or not all(failed.get(name) for name in names):
        return ""
    errors = failures_in(state.steps, names)
    task = "\n".join(message.content for message in context.prefix)
    if not errors or not answer_check.explains(state.proposal.text, task, errors):
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


def _tells_failure(text: str, errors: Iterable[str]) -> bool:
    return any(answer_check.tells_failure(text, error) for error in errors)


# --- Policies for required tools: no answer before they succeed, no endless wait ---


OUT_OF_REACH = "out_of_reach"
SYNTHESIS = "synthesis"
PROGRESS = "progress"
TOOL_CHOICE = "tool_choice"
MOST_TOLD_TO_CALL = 2
"""Answers of a run that are rejected since the call that has to come first was not made."""
PATIENCE = 3
"""Turns that the model gets to end by itself once it was told that a requirement cannot be met."""

INSISTENCE = 1
"""Answers that are rejected for derived requirements, besides one for each call that was made."""

_where_required = applies_where(lambda context: bool(context.input.needs.required))


@applies_where(lambda context: bool(context.input.settings.model_settings.first_call))
@about_answers
def tool_choice(state: KernelState, context: KernelContext) -> Verdict | None:
    """Reject an answer before the call of ``tool_choice``, twice; then it is partial.

    That is for models and servers that answer although they are to call: others cannot.
    """
    proposal, names = state.proposal, sorted(first_calls(state, context))
    if proposal is None or not proposal.text.strip() or not names:
        return None
    call = f"a call of {' or '.join(names)}"
    if turns_left(state, context) and state.ledger.told.get(TOOL_CHOICE, 0) < MOST_TOLD_TO_CALL:
        return Redirect(TOOL_CHOICE, f"Not finished: {call} has to come first. Make it now.")
    reason = f"The model did not make the call that tool_choice requires. Missing: {call}."
    return Stop(TOOL_CHOICE, "partial", proposal.text, reason)


@_where_required
@between_turns
def required_tools(state: KernelState, context: KernelContext) -> Verdict | None:
    """Reject an answer while required tools can be called; partial when they cannot.

    A run without an answer after a requirement became impossible is ended. An answer that explains, by what
    the tools said of their failures, why the requirements cannot be met, is ``abstained``; where another try
    may help it is asked to, once. Where what is open was derived from the task, a model that insists
    is taken at its word, if each of the tools has worked at least once.
    """
    proposal, impatient = state.proposal, _patience_is_over(state)
    if proposal is not None and abstains(proposal, state, context):
        return None  # the policy for abstention judges it
    if proposal is not None and proposal.text.strip():
        now = requirements_of(state, context)
        why = explained_by_failure(state, context, now)
        is_final = _tells_failure(proposal.text, failures_in(state.steps, _names_of(now)))
        if why and (now.lost or is_final or state.ledger.told.get(REQUIRED_TOOLS)):
            return Stop(ABSTENTION, "abstained", proposal.text, why)
        if _is_insisted(state, context, now):
            return None
        if _denies_again(state, context, now):
            return Stop(ABSTENTION, "abstained", proposal.text, describe_abstention(proposal.text))
        if now.open and not (now.lost and impatient) and turns_left(state, context):
            return Redirect(REQUIRED_TOOLS, f"Not finished: {describe_open(now)}. Call these tools first.")
        if now.open or now.lost:
            return Stop(REQUIRED_TOOLS, "partial", proposal.text, describe_missing(now))
    elif impatient and state.status == "thinking":
        now = requirements_of(state, context)
        if now.lost:
            return Stop(REQUIRED_TOOLS, "partial", last_words(state), describe_missing(now, "a final answer"))
    return None


@_where_required
@between_turns
def out_of_reach(state: KernelState, context: KernelContext) -> Verdict | None:
    """Tell the model to end without a required tool that cannot succeed."""
    if not _may_hint(state, OUT_OF_REACH):
        return None
    now = requirements_of(state, context)
    if not now.lost:
        return None
    return Redirect(
        OUT_OF_REACH, f"Not to be had: {describe_lost(now)}. Do without, and say so in the answer."
    )


@_where_required
@between_turns
def synthesis(state: KernelState, context: KernelContext) -> Verdict | None:
    """Tell the model when only the output is left to be produced."""
    if state.iteration == 0 or not _may_hint(state, SYNTHESIS, PROGRESS):
        return None
    now = requirements_of(state, context)
    if not now.open or still_to_gather(now, context):
        return None
    gathered = "What can be had is gathered." if now.lost else "What was required is gathered."
    return Redirect(SYNTHESIS, f"{gathered} {how_to_deliver(state, context, now)}")


@_where_required
@between_turns
def progress(state: KernelState, context: KernelContext) -> Verdict | None:
    """Tell the model which required tools are open, unless only the output is left.

    The first turn states them all.
    """
    if not _may_hint(state, SYNTHESIS, PROGRESS, REQUIRED_TOOLS):
        return None
    now = requirements_of(state, context)
    if state.iteration == 0:
        return Redirect(PROGRESS, f"Required before the answer: {describe_all(now)}.") if now.open else None
    if not still_to_gather(now, context):
        return None
    relevant = sorted(filter(context.toolset.permits, context.input.needs.relevant))
    besides = f" These may help: {', '.join(relevant)}." if relevant else ""
    return Redirect(PROGRESS, f"Still required: {describe_open(now)}.{besides}")


def _is_insisted(state: KernelState, context: KernelContext, now: OpenRequirements) -> bool:
    """Return whether an answer stands against requirements that were derived."""
    if not _are_derived(now):
        return False
    text = "" if state.proposal is None else state.proposal.text
    tools = [context.toolset.definition(each.name) for each, _ in now.open]
    if (state.ledger.told.get(REQUIRED_TOOLS) or state.ledger.idle_turns) and clauses.asks_back(
        text, context.input.to_do, filter(None, tools)
    ):
        return True  # it needs to know something, and asks again
    if state.ledger.idle_turns and text:
        from reactive_agents.kernel.ordered_acts import only_looks, was_done_before  # its tables are large

        required = {each.name for each in context.input.needs.required}
        called = {each for each in state.ledger.counted.succeeded if each not in required}
        if any(each.name in called and not only_looks(each) for each in context.toolset.offered):
            return True  # another tool did it, such as an agent or a shell
        if all(
            each is not None and was_done_before(text, each, evidence.results_of(state)) for each in tools
        ):
            return True  # "It was cancelled on 2 May"
    if not all(done for _, done in now.open):
        return False
    told, attempts = state.ledger.told.get(REQUIRED_TOOLS, 0), state.ledger.counted.attempts
    as_often = all(attempts.get(each.name, 0) >= each.min_calls for each, _ in now.open)
    if told and as_often and _tells_each_failure(text, state.steps, _names_of(now)):
        return True  # "Oslo has 21 degrees; the station of Lima is down"
    return told >= INSISTENCE + sum(done for _, done in now.open)


def _tells_each_failure(text: str, steps: Iterable[ReasoningStep], names: set[str]) -> bool:
    """Return whether a text says of each failed call of these tools that it failed.

    It does so in words of the error or of the call's arguments.
    """
    given: dict[CallId | None, str] = {}
    failures: list[str] = []
    for step in steps:
        if step.metadata is None or step.metadata.tool_used not in names:
            continue
        if step.type == "action":
            given[step.metadata.call_id] = " ".join(texts_given(step.content))
        elif step.is_failed_call:
            failures.append(f"{step.content} {given.get(step.metadata.call_id, '')}")
    return all(answer_check.tells_failure(text, each, is_repeated=True) for each in failures)


def _are_derived(now: OpenRequirements) -> bool:
    return bool(now.open) and not now.lost and all(each.derived for each, _ in now.open)


def _denies_again(state: KernelState, context: KernelContext, now: OpenRequirements) -> bool:
    """Return whether an answer says once more why derived calls are not made.

    It denies something, and rests on a result, on what a tool said of its failure, or on finding nothing.
    """
    if state.proposal is None or not state.ledger.idle_turns or not _are_derived(now):
        return False
    if not answer_check.denies_or_lacks(state.proposal.text):
        return False
    text, seen = state.proposal.text, evidence.Seen(context.input.asked, evidence.results_of(state))
    told = _tells_failure(text, failures_in(state.steps))
    told = told or (bool(seen.results) and all(map(answer_check.is_empty, seen.results)))
    return told or any(evidence.ends_with_evidence(each, seen) for each in _PART.split(text))


def _may_hint(state: KernelState, *policies: str) -> bool:
    """Return whether a hint may be given: once, and not when there is an answer."""
    if state.status != "thinking" or state.proposal is not None:
        return False
    return not state.guidance or all(piece.policy not in policies for piece in state.guidance)


def _patience_is_over(state: KernelState) -> bool:
    """Return whether the model had its turns after the guidance was shown."""
    ledger = state.ledger
    if ledger.idle_turns < IDLE_TURNS and ledger.told.get(OUT_OF_REACH, 0) < PATIENCE:
        return False
    return not any(piece.policy == OUT_OF_REACH for piece in state.guidance)
