"""Tools that a task requires: no answer before they have worked, and no endless wait for what cannot work."""

from __future__ import annotations

from reactive_agents.core.requirements import ToolRequirement
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.ending import last_words
from reactive_agents.kernel.policies.needs import GIVE_UP_AFTER, how_to_deliver, is_output, standing
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.verdict import Redirect, Stop, Verdict

NAME = "required_tools"


def required_tools(state: KernelState, context: KernelContext) -> Verdict | None:
    """An answer is turned down while required tools can still be called, and partial when they cannot.

    A required tool that goes on failing ends the run before its limit.
    """
    if not context.input.needs.required:
        return None
    now = standing(state, context)
    proposal = state.proposal
    if proposal is not None and proposal.text.strip():
        if now.open and state.iteration < context.max_iterations:
            return Redirect(NAME, f"Not finished: {_still_required(now.open)}. Call these tools first.")
        if now.open or now.lost:
            return Stop(NAME, "partial", proposal.text, f"Missing: {_missing(now.open, now.lost)}.")
        return None
    if state.status == "thinking" and now.lost and _hopeless(state, now.lost):
        return Stop(
            NAME, "partial", last_words(state), f"Missing: {_missing(now.open, now.lost)}; an answer."
        )
    return None


def synthesis(state: KernelState, context: KernelContext) -> Verdict | None:
    """Once all is gathered and only the output is to be produced, the model is told so."""
    if not _may_hint(state, context):
        return None
    now = standing(state, context)
    gathering = [requirement for requirement, _ in now.open if not is_output(context, requirement.name)]
    if gathering or not now.open:
        return None
    return Redirect("synthesis", f"What was required is gathered. {how_to_deliver(context, now)}")


def progress(state: KernelState, context: KernelContext) -> Verdict | None:
    """While required tools are open, the model is told which."""
    if not _may_hint(state, context) or any(piece.policy == "synthesis" for piece in state.guidance):
        return None
    now = standing(state, context)
    parts = []
    if now.open:
        parts.append(f"Still required: {_still_required(now.open)}.")
        relevant = sorted(context.input.needs.relevant & {tool.name for tool in context.toolset.offered})
        if relevant:
            parts.append(f"These may help: {', '.join(relevant)}.")
    if now.lost:
        parts.append(f"Not to be had: {_missing((), now.lost)}. Say so in the answer.")
    return Redirect("progress", " ".join(parts)) if parts else None


def _may_hint(state: KernelState, context: KernelContext) -> bool:
    """A hint is for a turn after the first, when the model has not answered yet."""
    asked = bool(context.input.needs.required)
    return asked and state.status == "thinking" and state.iteration > 0 and state.proposal is None


def _hopeless(state: KernelState, lost: tuple[tuple[ToolRequirement, str], ...]) -> bool:
    """Whether the model goes on calling what has long failed for good."""
    failures = state.ledger.failed_in_a_row
    return any(failures.get(requirement.name, 0) >= 2 * GIVE_UP_AFTER for requirement, _ in lost)


def _still_required(open_: tuple[tuple[ToolRequirement, int], ...]) -> str:
    return "; ".join(
        f"{requirement.name} ({done} of {requirement.min_calls} calls done)" for requirement, done in open_
    )


def _missing(
    open_: tuple[tuple[ToolRequirement, int], ...], lost: tuple[tuple[ToolRequirement, str], ...]
) -> str:
    parts = [f"the required tool {requirement.name} ({reason})" for requirement, reason in lost]
    if open_:
        parts.append(f"required calls: {_still_required(open_)}")
    return "; ".join(parts)
