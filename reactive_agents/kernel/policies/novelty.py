"""Diminishing returns: when results bring little that is new, the model is told to deliver."""

from __future__ import annotations

from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.policies.needs import how_to_deliver, is_output, standing
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.verdict import Redirect, Verdict

LEAST_NOVELTY = 0.2
"""Share of a turn's words that must be new for gathering to be worth going on with."""

LEAST_GATHERED = 30
"""Distinct words that must have been gathered before; in less, repetition says nothing."""


def diminishing_returns(state: KernelState, context: KernelContext) -> Verdict | None:
    """Little new in the last results, and nothing left to gather that is required: deliver."""
    ledger = state.ledger
    if state.status != "thinking" or state.proposal is not None or ledger.novelty is None:
        return None
    if ledger.novelty >= LEAST_NOVELTY or ledger.gathered < LEAST_GATHERED:
        return None
    now = standing(state, context)
    if any(not is_output(context, requirement.name) for requirement, _ in now.open):
        return None
    return Redirect(
        "diminishing_returns",
        f"What has been gathered is sufficient (the last results: {ledger.novelty:.0%} new information). "
        f"Do not gather more. {how_to_deliver(context, now)}",
    )
