"""Which calls of a turn are run: the others are answered here, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reactive_agents.core.messages import ToolCall
from reactive_agents.core.requirements import BudgetConfig, ToolNeeds
from reactive_agents.core.tools import ToolResult
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.ledger import changes_the_world
from reactive_agents.kernel.policies.needs import how_to_deliver, is_output, standing
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.toolset import FINAL_ANSWER

RETRY_BUFFER = 2
"""Calls beyond the required ones that a tool gets in parallel mode."""

ONE_AT_A_TIME = "Not run: only one call a turn is run here. Make this call in the next turn if it is needed."


def call_limits(needs: ToolNeeds, budget: BudgetConfig, *, parallel: bool) -> Mapping[str, int]:
    """How often each tool may be called: explicit limits, else the required calls and a buffer of two.

    In sequential mode only explicit limits apply.
    """
    derived: dict[str, int] = {}
    for each in needs.required if parallel else ():
        derived[each.name] = max(derived.get(each.name, 0), each.min_calls + RETRY_BUFFER)
    return {**derived, **{limit.name: limit.max_calls for limit in budget.calls}}


def screen_calls(
    state: KernelState, context: KernelContext, calls: tuple[ToolCall, ...]
) -> tuple[ToolResult | None, ...]:
    """For each call its answer, or ``None`` when it is to be run.

    A call that was made before gets the result that is stored, as long as nothing has happened that could
    have changed it; a call over its tool's budget is refused, unless the tool delivers the output.
    """
    made = {**state.ledger.attempts}
    running: list[ToolCall] = []
    screened: list[ToolResult | None] = []
    for call in calls:
        answer = None
        if call.name != FINAL_ANSWER:
            times = made.get(call.name, 0)
            answer = _answer(state, context, call, times, running)
            if answer is None:
                made[call.name] = times + 1
                running.append(call)
        screened.append(answer)
    return tuple(screened)


def _answer(
    state: KernelState, context: KernelContext, call: ToolCall, made: int, running: Sequence[ToolCall]
) -> ToolResult | None:
    """Why a call is not run. ``made``: how often its tool was; ``running``: the calls before it that are."""
    stored = _stored_text(state, context, call, running)
    if stored is not None:
        return ToolResult(call.id, call.name, stored, origin="stored")
    limit = context.call_limits.get(call.name)
    if limit is not None and made >= limit and not is_output(context, call.name):
        calls = "1 call" if limit == 1 else f"{limit} calls"
        deliver = how_to_deliver(state, context, standing(state, context))
        return refused(call, f"Not run: the budget of {calls} for {call.name} is used up. {deliver}")
    if running and not context.input.parallel_tool_calls:
        return refused(call, ONE_AT_A_TIME)
    return None


def _stored_text(
    state: KernelState, context: KernelContext, call: ToolCall, running: Sequence[ToolCall]
) -> str | None:
    """The result of the same call, if it still holds."""
    key = state.ledger.answers.get(call.fingerprint)
    if key is None or any(changes_the_world(context.toolset.definition(each.name)) for each in running):
        return None
    if not call.arguments and any(
        requirement.name == call.name for requirement, _ in standing(state, context).open
    ):
        return None  # more calls are required, and without arguments there are no others to make
    return state.scratchpad.get(key)


def refused(call: ToolCall, error: str) -> ToolResult:
    """The result of a call that is not run, with what the model is told."""
    return ToolResult(call.id, call.name, error=error, origin="refused")
