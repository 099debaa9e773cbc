"""Runs that go in circles: told once, then ended."""

from __future__ import annotations

from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.ending import last_words
from reactive_agents.kernel.policies.needs import standing
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.verdict import Redirect, Stop, Verdict

NAME = "going_in_circles"
IDLE_TURNS = 3
"""Turns in a row without anything new that end a run."""


def going_in_circles(state: KernelState, context: KernelContext) -> Verdict | None:
    """Turns that repeat calls or answers bring nothing new: guidance first, then the end."""
    idle = state.ledger.idle_turns
    if not idle or state.status != "thinking":
        return None
    if idle >= IDLE_TURNS:
        missing = "; ".join(requirement.name for requirement, _ in standing(state, context).open)
        reason = f"{idle} turns in a row repeated calls or answers without anything new."
        return Stop(NAME, "partial", last_words(state), f"{reason} Missing: {missing or 'a final answer'}.")
    if state.proposal is not None or not (state.ledger.repeated or idle > 1):
        return None
    return Redirect(
        NAME,
        "The last turn brought nothing new: its calls were made before, or could not be run. Use other "
        "arguments or another tool, or answer with what there is and say what is missing.",
    )
