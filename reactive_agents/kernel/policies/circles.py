"""Runs that go in circles: told once, then ended."""

from __future__ import annotations

from reactive_agents.kernel.context import KernelContext, between_turns
from reactive_agents.kernel.ending import last_words
from reactive_agents.kernel.policies.needs import standing, what_is_missing
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.verdict import Redirect, Stop, Verdict

NAME = "going_in_circles"
IDLE_TURNS = 3
"""Turns in a row without anything new that end a run."""

MADE_BEFORE = (
    "Calls of the last turn were made before: their results are those that were stored then. Use other "
    "arguments or another tool, or answer with what there is and say what is missing."
)
NOTHING_NEW = (
    "The last turns brought nothing new: they repeated calls or answers, or asked for what cannot be run. "
    "Use other arguments or another tool, or answer with what there is and say what is missing."
)


@between_turns
def going_in_circles(state: KernelState, context: KernelContext) -> Verdict | None:
    """Turns that repeat calls or answers bring nothing new: guidance first, then the end.

    A run that goes in circles for want of a required tool is ended by the policy for these.
    """
    ledger, proposal = state.ledger, state.proposal
    if state.status != "thinking" and proposal is None:
        return None
    if ledger.idle_turns >= IDLE_TURNS:
        now = standing(state, context)
        if now.lost:
            return None
        reason = f"{ledger.idle_turns} turns in a row repeated calls or answers without anything new."
        missing = what_is_missing(now, "" if now.open else "a final answer")
        return Stop(NAME, "partial", last_words(state), f"{reason} {missing}")
    if proposal is not None:
        return None
    if ledger.idle_turns > 1:
        return Redirect(NAME, NOTHING_NEW)
    return Redirect(NAME, MADE_BEFORE) if ledger.repeated else None
