"""Diminishing returns: when results bring little that is new, the model is told to deliver."""

from __future__ import annotations

from reactive_agents.kernel.context import KernelContext, between_turns
from reactive_agents.kernel.policies.needs import how_to_deliver, standing, still_to_gather, what_is_open
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.verdict import Redirect, Verdict

NAME = "diminishing_returns"
LEAST_NOVELTY = 0.2
"""Share of a turn's words that must be new for gathering to be worth going on with."""

LEAST_GATHERED = 30
"""Distinct words that must have been gathered before; in less, repetition says nothing."""


@between_turns
def diminishing_returns(state: KernelState, context: KernelContext) -> Verdict | None:
    """Little new in the last results: deliver, or look elsewhere while more calls are required."""
    ledger = state.ledger
    if state.status != "thinking" or state.proposal is not None or ledger.novelty is None:
        return None
    if ledger.novelty >= LEAST_NOVELTY or ledger.gathered < LEAST_GATHERED:
        return None
    now = standing(state, context)
    figure = f"the last results: {ledger.novelty:.0%} new information"
    deliver = how_to_deliver(state, context, now)
    if still_to_gather(now, context):
        advice = f"Ask for something else in the calls still required: {what_is_open(now)}. After that:"
        return Redirect(NAME, f"Little of what came last was new ({figure}). {advice} {deliver}")
    return Redirect(NAME, f"What has been gathered is sufficient ({figure}). Do not gather more. {deliver}")
