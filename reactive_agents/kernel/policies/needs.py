"""How far the tools that a task requires have come."""

from __future__ import annotations

from attrs import frozen

from reactive_agents.core.requirements import ToolRequirement
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.toolset import FINAL_ANSWER

GIVE_UP_AFTER = 3
"""Failures in a row after which a tool that has never worked counts as failing for good."""


@frozen
class Standing:
    """What is still open of a task's requirements.

    Attributes:
        open: requirements that can still be met, each with how often its tool has worked.
        lost: requirements that cannot be met, each with why.
    """

    open: tuple[tuple[ToolRequirement, int], ...] = ()
    lost: tuple[tuple[ToolRequirement, str], ...] = ()


def standing(state: KernelState, context: KernelContext) -> Standing:
    """What of the requirements is open, and what is lost. A requirement that was met stays met."""
    required = context.input.needs.required
    if not required:
        return _NOTHING
    ledger, open_, lost = state.ledger, [], []
    for requirement in required:
        name = requirement.name
        done = ledger.succeeded.get(name, 0)
        if done >= requirement.min_calls:
            continue
        if not context.toolset.permits(name):
            lost.append((requirement, "there is no such tool here"))
        elif ledger.failed_in_a_row.get(name, 0) >= GIVE_UP_AFTER:
            failures = ledger.failed_in_a_row[name]
            lost.append((requirement, f"it failed {failures} times in a row"))
        elif _limit(context, name) <= ledger.attempts.get(name, 0):
            lost.append((requirement, "its budget of calls is used up"))
        else:
            open_.append((requirement, done))
    return Standing(tuple(open_), tuple(lost))


def is_output(context: KernelContext, name: str) -> bool:
    """Whether a tool delivers the result of the task."""
    definition = context.toolset.definition(name)
    return definition is not None and definition.output


def how_to_deliver(context: KernelContext, still_open: Standing) -> str:
    """What the model is to do once it has gathered enough."""
    required = [
        requirement.name for requirement, _ in still_open.open if is_output(context, requirement.name)
    ]
    if required:
        return f"Call {' and '.join(required)} now to produce the output."
    if context.toolset.permits(FINAL_ANSWER):
        return f"Call {FINAL_ANSWER} now with the answer."
    return "Give the answer now."


def _limit(context: KernelContext, name: str) -> float:
    limit = context.call_limits.get(name)
    return float("inf") if limit is None or is_output(context, name) else limit


_NOTHING = Standing()
