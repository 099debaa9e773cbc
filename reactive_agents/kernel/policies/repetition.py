"""Runs that go in circles: told once, then ended."""

from __future__ import annotations

from reactive_agents.kernel.context import KernelContext, Redirect, Stop, Verdict, between_turns
from reactive_agents.kernel.open_requirements import (
    describe_missing,
    describe_open,
    how_to_deliver,
    requirements_of,
    still_to_gather,
)
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.termination import last_words

LOOP_DETECTION = "loop_detection"
IDLE_TURNS = 3
"""Turns in a row without anything new that end a run."""

REPEATED_CALLS = (
    "Calls of the last turn were made before: their results are those that were stored then. Use other "
    "arguments or another tool, or answer with what there is and say what is missing."
)
NOTHING_NEW = (
    "The last turns brought nothing new: they repeated calls or answers, or asked for what cannot be run. "
    "Use other arguments or another tool, or answer with what there is and say what is missing."
)


@between_turns
def loop_detection(state: KernelState, context: KernelContext) -> Verdict | None:
    """Give guidance after repeated calls or answers, then end the run.

    A run that loops because a required tool is missing is ended by the policy for requirements.
    """
    ledger, proposal = state.ledger, state.proposal
    if state.status != "thinking" and proposal is None:
        return None
    if ledger.idle_turns >= IDLE_TURNS:
        now = requirements_of(state, context)
        if now.lost:
            return None
        reason = f"{ledger.idle_turns} turns in a row repeated calls or answers without anything new."
        missing = describe_missing(now, "" if now.open else "a final answer")
        return Stop(LOOP_DETECTION, "partial", last_words(state), f"{reason} {missing}")
    if proposal is not None:
        return None
    if ledger.idle_turns > 1:
        return Redirect(LOOP_DETECTION, NOTHING_NEW)
    return Redirect(LOOP_DETECTION, REPEATED_CALLS) if ledger.repeated else None


# --- Diminishing returns: when results bring little that is new, the model is told to deliver ---


DIMINISHING_RETURNS = "diminishing_returns"
LEAST_NOVELTY = 0.2
"""Share of a turn's words that must be new for gathering to be worth going on with."""

LEAST_GATHERED = 30
"""Distinct words that must have been gathered before; in less, repetition says nothing."""


@between_turns
def diminishing_returns(state: KernelState, context: KernelContext) -> Verdict | None:
    """Give guidance when the last results had little new: answer, or search elsewhere."""
    ledger = state.ledger
    if state.status != "thinking" or state.proposal is not None or ledger.novelty is None:
        return None
    if ledger.novelty >= LEAST_NOVELTY or ledger.gathered < LEAST_GATHERED:
        return None
    now = requirements_of(state, context)
    figure = f"the last results: {ledger.novelty:.0%} new information"
    deliver = how_to_deliver(state, context, now)
    if still_to_gather(now, context):
        advice = f"Ask for something else in the calls still required: {describe_open(now)}. After that:"
        return Redirect(
            DIMINISHING_RETURNS, f"Little of what came last was new ({figure}). {advice} {deliver}"
        )
    return Redirect(
        DIMINISHING_RETURNS, f"What has been gathered is sufficient ({figure}). Do not gather more. {deliver}"
    )
