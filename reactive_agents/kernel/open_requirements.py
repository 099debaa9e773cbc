"""Open requirements of a task, and remaining calls of limited tools.

Kernels and strategies must agree about them, or a strategy would continue for requirements that its kernels
have given up. So there is one function over the counts of calls. A kernel asks it about the calls in its
ledger, which include those made before it in the run; a strategy asks about the calls of all its passes.
Limits and requirements are always those of the whole run, never the remaining ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf

from attrs import evolve, frozen

from reactive_agents.core.model_settings import REQUIRED
from reactive_agents.core.results import ReasoningStep, replaced_in
from reactive_agents.core.settings import BudgetConfig, ToolNeeds, ToolRequirement
from reactive_agents.core.texts import counted
from reactive_agents.core.tools import RESERVED_NAMES
from reactive_agents.core.values import Value
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.ledger import CallCounts
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.toolset import FINAL_ANSWER, Toolset

REQUIRED_TOOLS = "required_tools"
"""The policy that rejects an answer before the required calls."""

GIVE_UP_AFTER = 3
"""Failures in a row after which a tool counts as failing for good."""

RETRY_BUFFER = 2
"""Calls beyond the required ones that a tool gets in parallel mode."""


@frozen(eq=False, repr=False)
class OpenRequirements(Value):
    """The requirements of a task that are not met.

    Attributes:
        open: the requirements that can still be met, each with how often its tool has worked.
        lost: the requirements that cannot be met, each with the reason.
    """

    open: tuple[tuple[ToolRequirement, int], ...] = ()
    lost: tuple[tuple[ToolRequirement, str], ...] = ()


_NOTHING = OpenRequirements()


def open_requirements(
    required: Sequence[ToolRequirement], calls: CallCounts, limits: Mapping[str, int], toolset: Toolset
) -> OpenRequirements:
    """Return the open and the lost requirements; one that was met stays met.

    A requirement of the ``final-answer`` tool is met by any answer. A call that was declined or is in
    doubt is not asked for again: it makes the run partial by itself, unless a later call stands for it.

    Args:
        calls: the calls of the whole run.
        limits: maximum calls of each tool in the run.
    """
    if not required:
        return _NOTHING
    open_: list[tuple[ToolRequirement, int]] = []
    lost: list[tuple[ToolRequirement, str]] = []
    for requirement in required:
        name, wanted = requirement.name, requirement.min_calls
        done = calls.succeeded.get(name, 0)
        if done + calls.declined.get(name, 0) >= wanted or name == FINAL_ANSWER:
            continue
        failures = calls.failed_in_a_row.get(name, 0)
        left = max(0, allowance(name, limits, toolset) - calls.attempts.get(name, 0))
        if failures >= min(GIVE_UP_AFTER, failures_allowed(name, toolset)):
            lost.append((requirement, f"it failed {counted(failures, 'time')} in a row"))
        elif requirement.derived and (left < wanted - done or not toolset.permits(name)):
            continue  # the user's limits and choice of tools go before what was derived
        elif left < wanted - done:
            lost.append((requirement, f"{done} of {wanted} calls done, {left} left in its budget"))
        elif not toolset.permits(name):
            lost.append((requirement, "there is no such tool here"))
        else:
            open_.append((requirement, done))
    return OpenRequirements(tuple(open_), tuple(lost)) if open_ or lost else _NOTHING


def requirements_of(state: KernelState, context: KernelContext) -> OpenRequirements:
    """Return the open and lost requirements of a kernel run."""
    required = context.input.needs.required
    if not required:
        return _NOTHING
    calls = without_replaced(state.ledger.counted, state.steps)
    return open_requirements(required, calls, context.call_limits, context.toolset)


def first_calls(state: KernelState, context: KernelContext) -> frozenset[str]:
    """Return the tools of which the model has to call one before anything else.

    They are those of ``tool_choice`` until the run has made a call. One of them that failed or was declined
    counts as well, so that the model can answer in the end; one of an unknown tool does not.
    """
    choice = context.input.settings.model_settings.first_call
    if not choice or state.ledger.counted.attempts:
        return frozenset()
    names = frozenset(context.toolset.descriptions) - RESERVED_NAMES
    first = names if choice == REQUIRED else names & {choice}
    called = {step.tool for step in state.steps if step.type == "action"}
    return first if first.isdisjoint(called) else frozenset()


def without_replaced(calls: CallCounts, steps: Sequence[ReasoningStep]) -> CallCounts:
    """Return the counts without declined calls and doubts that later calls stand for."""
    replaced = Counter(replaced_in(steps)) if calls.declined else None
    return evolve(calls, declined=Counter(calls.declined) - replaced) if replaced else calls


def allowance(name: str, limits: Mapping[str, int], toolset: Toolset) -> float:
    """Return the maximum calls of a tool; infinite without limit or if it delivers."""
    limit = limits.get(name)
    return inf if limit is None or toolset.delivers(name) else limit


def failures_allowed(name: str, toolset: Toolset) -> float:
    """Return after how many failures in a row a tool is not called again."""
    definition = toolset.definition(name)
    return inf if definition is None or definition.retries is None else definition.retries + 1


def calls_left(limits: Mapping[str, int], calls: CallCounts, toolset: Toolset) -> Mapping[str, int]:
    """Return how often each tool with a limit may still be called, 0 or more."""
    return {
        name: max(0, limit - calls.attempts.get(name, 0))
        for name, limit in limits.items()
        if not toolset.delivers(name)
    }


def call_limits(needs: ToolNeeds, budget: BudgetConfig, *, parallel: bool) -> Mapping[str, int]:
    """Return the maximum calls of each tool in a run, in all its passes and steps.

    Explicit limits, else the calls that the user requires and a buffer of two. In sequential mode only
    explicit limits apply.

    Args:
        needs: the needs of the whole run.
    """
    limits: dict[str, int] = {}
    for each in needs.required if parallel else ():
        if not each.derived:
            limits[each.name] = max(limits.get(each.name, 0), each.min_calls + RETRY_BUFFER)
    return {**limits, **{limit.name: limit.max_calls for limit in budget.calls}}


# --- in words -------------------------------------------------------------------------------------------


def still_to_gather(now: OpenRequirements, context: KernelContext) -> bool:
    """Return whether a required tool is open that does not deliver the output."""
    return any(not context.toolset.delivers(requirement.name) for requirement, _ in now.open)


def describe_open(now: OpenRequirements) -> str:
    """Return the open requirements as text, each with its calls so far."""
    return "; ".join(
        f"{requirement.name} ({done} of {requirement.min_calls} calls done)" for requirement, done in now.open
    )


def describe_all(now: OpenRequirements) -> str:
    """Return the open requirements as a short text, with the calls that are left."""
    calls = [(requirement.name, requirement.min_calls - done) for requirement, done in now.open]
    return ", ".join(name if left == 1 else f"{name} ({left} calls)" for name, left in calls)


def describe_lost(now: OpenRequirements) -> str:
    """Return the lost requirements as text, each with the reason."""
    return "; ".join(f"the required tool {requirement.name} ({why})" for requirement, why in now.lost)


def describe_unmet(now: OpenRequirements) -> str:
    """Return the requirements that were not met as text; empty when all were."""
    required = f"required calls: {describe_open(now)}" if now.open else ""
    return "; ".join(part for part in (describe_lost(now), required) if part)


def describe_missing(now: OpenRequirements, *others: str) -> str:
    """Return the end of a reason: unmet requirements and other missing things."""
    return f"Missing: {'; '.join(part for part in (describe_unmet(now), *others) if part)}."


def how_to_deliver(state: KernelState, context: KernelContext, now: OpenRequirements) -> str:
    """Return the guidance to deliver the answer, with the delivering tools."""
    required = [requirement.name for requirement, _ in now.open if context.toolset.delivers(requirement.name)]
    if required:
        return f"Call {' and '.join(required)} to produce the output."
    delivered = state.ledger.counted.succeeded
    unused = [tool.name for tool in context.toolset.offered if tool.output and tool.name not in delivered]
    wanted = (
        f" If the task asks for an output, produce it with {' or '.join(unused)} first." if unused else ""
    )
    if context.toolset.permits(FINAL_ANSWER):
        return f"Call {FINAL_ANSWER} with the answer.{wanted}"
    return f"Give the answer.{wanted}"
