"""Policies for required tools: no answer before they succeed, no endless wait."""

from __future__ import annotations

from reactive_agents.kernel.context import (
    KernelContext,
    Redirect,
    Stop,
    Verdict,
    applies_where,
    between_turns,
)
from reactive_agents.kernel.open_requirements import (
    OpenRequirements,
    describe_all,
    describe_lost,
    describe_missing,
    describe_open,
    how_to_deliver,
    requirements_of,
    still_to_gather,
)
from reactive_agents.kernel.policies.abstentions import ABSTENTION, abstains, explained_by_failure
from reactive_agents.kernel.policies.limits import IDLE_TURNS, turns_left
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.termination import last_words

REQUIRED_TOOLS = "required_tools"
OUT_OF_REACH = "out_of_reach"
SYNTHESIS = "synthesis"
PROGRESS = "progress"
PATIENCE = 3
"""Turns that the model gets to end by itself once it was told that a requirement cannot be met."""

INSISTENCE = 1
"""Answers that are rejected for derived requirements, besides one for each call that was made."""

_where_required = applies_where(lambda context: bool(context.input.needs.required))


@_where_required
@between_turns
def required_tools(state: KernelState, context: KernelContext) -> Verdict | None:
    """Reject an answer while required tools can be called; partial when they cannot.

    A run without an answer after a requirement became impossible is ended. An answer that explains, by what
    the tools said of their failures, why the requirements cannot be met, is ``abstained``; while a tool may
    be called again it is asked to, once. Where what is open was derived from the task, a model that insists
    is taken at its word, if each of the tools has worked at least once.
    """
    if not context.input.needs.required:
        return None
    proposal, impatient = state.proposal, _patience_is_over(state)
    if proposal is not None and abstains(proposal, state, context):
        return None  # the policy for abstention judges it
    if proposal is not None and proposal.text.strip():
        now = requirements_of(state, context)
        why = explained_by_failure(state, context, now)
        if why and (now.lost or state.ledger.told.get(REQUIRED_TOOLS)):
            return Stop(ABSTENTION, "abstained", proposal.text, why)
        if _is_insisted(state, now):
            return None
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
    if not _may_hint(state, context, OUT_OF_REACH):
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
    if state.iteration == 0 or not _may_hint(state, context, SYNTHESIS, PROGRESS):
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
    if not _may_hint(state, context, SYNTHESIS, PROGRESS, REQUIRED_TOOLS):
        return None
    now = requirements_of(state, context)
    if state.iteration == 0:
        return Redirect(PROGRESS, f"Required before the answer: {describe_all(now)}.") if now.open else None
    if not still_to_gather(now, context):
        return None
    relevant = sorted(filter(context.toolset.permits, context.input.needs.relevant))
    besides = f" These may help: {', '.join(relevant)}." if relevant else ""
    return Redirect(PROGRESS, f"Still required: {describe_open(now)}.{besides}")


def _is_insisted(state: KernelState, now: OpenRequirements) -> bool:
    """Return whether an answer stands against requirements that were derived."""
    if now.lost or not now.open or not all(each.derived for each, _ in now.open):
        return False
    done = sum(done for _, done in now.open)
    return all(done for _, done in now.open) and state.ledger.told.get(REQUIRED_TOOLS, 0) >= INSISTENCE + done


def _may_hint(state: KernelState, context: KernelContext, *policies: str) -> bool:
    """Return whether a hint may be given: once, and not when there is an answer."""
    if not context.input.needs.required or state.status != "thinking" or state.proposal is not None:
        return False
    return not state.guidance or all(piece.policy not in policies for piece in state.guidance)


def _patience_is_over(state: KernelState) -> bool:
    """Return whether the model had its turns after the guidance was shown."""
    ledger = state.ledger
    if ledger.idle_turns < IDLE_TURNS and ledger.told.get(OUT_OF_REACH, 0) < PATIENCE:
        return False
    return not any(piece.policy == OUT_OF_REACH for piece in state.guidance)
