"""How far the tools that a task requires have come."""

from __future__ import annotations

from math import inf

from attrs import frozen

from reactive_agents.core.requirements import ToolRequirement
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.toolset import FINAL_ANSWER

GIVE_UP_AFTER = 3
"""Failures in a row after which a tool counts as failing for good."""


@frozen
class Standing:
    """What is still open of a task's requirements.

    Attributes:
        open: requirements that can still be met, each with how often its tool has worked.
        lost: requirements that cannot be met, each with why.
    """

    open: tuple[tuple[ToolRequirement, int], ...] = ()
    lost: tuple[tuple[ToolRequirement, str], ...] = ()


_NOTHING = Standing()


def standing(state: KernelState, context: KernelContext) -> Standing:
    """What of the requirements is open, and what is lost. A requirement that was met stays met.

    The ``final-answer`` tool counts as met by any answer, where it is offered.
    """
    required = context.input.needs.required
    if not required:
        return _NOTHING
    ledger, open_, lost = state.ledger, [], []
    for requirement in required:
        name, wanted = requirement.name, requirement.min_calls
        done = ledger.succeeded.get(name, 0)
        if done >= wanted or (name == FINAL_ANSWER and context.toolset.permits(name)):
            continue
        failures, limit = ledger.failed_in_a_row.get(name, 0), context.call_limits.get(name)
        left = inf if limit is None else limit - ledger.attempts.get(name, 0)
        if not context.toolset.permits(name):
            lost.append((requirement, "there is no such tool here"))
        elif failures >= GIVE_UP_AFTER:
            lost.append((requirement, f"it failed {failures} times in a row"))
        elif left < wanted - done and not is_output(context, name):
            lost.append((requirement, f"{done} of {wanted} calls done, {left} left in its budget"))
        else:
            open_.append((requirement, done))
    return Standing(tuple(open_), tuple(lost)) if open_ or lost else _NOTHING


def still_to_gather(now: Standing, context: KernelContext) -> bool:
    """Whether a required tool is open that does not deliver the output."""
    return any(not is_output(context, requirement.name) for requirement, _ in now.open)


def what_is_open(now: Standing) -> str:
    """The open requirements, with how far each has come."""
    return "; ".join(
        f"{requirement.name} ({done} of {requirement.min_calls} calls done)" for requirement, done in now.open
    )


def what_is_lost(now: Standing) -> str:
    """The requirements that cannot be met, each with why."""
    return "; ".join(f"the required tool {requirement.name} ({why})" for requirement, why in now.lost)


def what_is_missing(now: Standing, *others: str) -> str:
    """The end of a reason: what of the requirements was not met, and the other things."""
    required = f"required calls: {what_is_open(now)}" if now.open else ""
    return f"Missing: {'; '.join(part for part in (what_is_lost(now), required, *others) if part)}."


def is_output(context: KernelContext, name: str) -> bool:
    """Whether a tool delivers the result of the task."""
    definition = context.toolset.definition(name)
    return name == FINAL_ANSWER or (definition is not None and definition.output)


def how_to_deliver(state: KernelState, context: KernelContext, now: Standing) -> str:
    """What the model is to do once it has gathered enough: the tools that deliver are named."""
    required = [requirement.name for requirement, _ in now.open if is_output(context, requirement.name)]
    if required:
        return f"Call {' and '.join(required)} to produce the output."
    unused = [
        tool.name
        for tool in context.toolset.offered
        if tool.output and tool.name not in state.ledger.succeeded
    ]
    wanted = (
        f" If the task asks for an output, produce it with {' or '.join(unused)} first." if unused else ""
    )
    if context.toolset.permits(FINAL_ANSWER):
        return f"Call {FINAL_ANSWER} with the answer.{wanted}"
    return f"Give the answer.{wanted}"
