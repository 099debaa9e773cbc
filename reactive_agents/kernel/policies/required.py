"""Tools that a task requires: no answer before they have worked, and no endless wait for what cannot work."""

from __future__ import annotations

from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.ending import last_words
from reactive_agents.kernel.policies.circles import IDLE_TURNS
from reactive_agents.kernel.policies.needs import (
    how_to_deliver,
    standing,
    still_to_gather,
    what_is_lost,
    what_is_missing,
    what_is_open,
)
from reactive_agents.kernel.policies.spending import turns_left
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.verdict import Redirect, Stop, Verdict

NAME = "required_tools"
OUT_OF_REACH = "out_of_reach"
PATIENCE = 3
"""Turns that the model gets to end by itself once it was told that a requirement cannot be met."""


def required_tools(state: KernelState, context: KernelContext) -> Verdict | None:
    """An answer is turned down while required tools can still be called, and partial when they cannot.

    A run that does not come to an answer once a requirement is out of reach is ended.
    """
    if not context.input.needs.required:
        return None
    now = standing(state, context)
    over = bool(now.lost) and _patience_is_over(state)
    proposal = state.proposal
    if proposal is not None and proposal.text.strip():
        if now.open and not over and turns_left(state, context):
            return Redirect(NAME, f"Not finished: {what_is_open(now)}. Call these tools first.")
        if now.open or now.lost:
            return Stop(NAME, "partial", proposal.text, what_is_missing(now))
        return None
    if over and state.status == "thinking":
        return Stop(NAME, "partial", last_words(state), what_is_missing(now, "a final answer"))
    return None


def out_of_reach(state: KernelState, context: KernelContext) -> Verdict | None:
    """Once a required tool cannot be had, the model is told to end without it."""
    if state.status != "thinking" or state.proposal is not None:
        return None
    now = standing(state, context)
    if not now.lost:
        return None
    return Redirect(
        OUT_OF_REACH, f"Not to be had: {what_is_lost(now)}. Do without, and say so in the answer."
    )


def synthesis(state: KernelState, context: KernelContext) -> Verdict | None:
    """Once all is gathered and only the output is to be produced, the model is told so."""
    if not _may_hint(state, context):
        return None
    now = standing(state, context)
    if not now.open or still_to_gather(now, context):
        return None
    gathered = "What can be had is gathered." if now.lost else "What was required is gathered."
    return Redirect("synthesis", f"{gathered} {how_to_deliver(state, context, now)}")


def progress(state: KernelState, context: KernelContext) -> Verdict | None:
    """While required tools are open, the model is told which."""
    if not _may_hint(state, context):
        return None
    now = standing(state, context)
    if not still_to_gather(now, context):
        return None
    relevant = sorted(context.input.needs.relevant & {tool.name for tool in context.toolset.offered})
    help_ = f" These may help: {', '.join(relevant)}." if relevant else ""
    return Redirect("progress", f"Still required: {what_is_open(now)}.{help_}")


def _may_hint(state: KernelState, context: KernelContext) -> bool:
    """A hint is for a turn after the first, when the model has not answered yet."""
    asked = bool(context.input.needs.required)
    return asked and state.status == "thinking" and state.iteration > 0 and state.proposal is None


def _patience_is_over(state: KernelState) -> bool:
    """Whether the model has had its turns without what is lost. Guidance that was given is seen first."""
    if any(piece.policy == OUT_OF_REACH for piece in state.guidance):
        return False
    ledger = state.ledger
    return ledger.idle_turns >= IDLE_TURNS or ledger.told.get(OUT_OF_REACH, 0) >= PATIENCE
