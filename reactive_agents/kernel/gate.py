"""Which calls of a turn are run: the others are answered here, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from reactive_agents.core.messages import ToolCall
from reactive_agents.core.requirements import BudgetConfig, ToolNeeds
from reactive_agents.core.tools import ToolResult
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.ledger import fingerprint
from reactive_agents.kernel.policies.needs import how_to_deliver, is_output, standing
from reactive_agents.kernel.state import KernelState

RETRY_BUFFER = 2
"""Calls beyond the required ones that a tool gets in parallel mode."""

ONE_AT_A_TIME = "Not run: only one call a turn is run here. Make this call in the next turn if it is needed."


def call_limits(needs: ToolNeeds, budget: BudgetConfig, *, parallel: bool) -> Mapping[str, int]:
    """How often each tool may be called: explicit limits, else the required calls and a buffer of two.

    In sequential mode only explicit limits apply.
    """
    derived = {each.name: each.min_calls + RETRY_BUFFER for each in needs.required} if parallel else {}
    return {**derived, **{limit.name: limit.max_calls for limit in budget.calls}}


def screen_calls(
    state: KernelState, context: KernelContext, calls: tuple[ToolCall, ...]
) -> tuple[ToolResult | None, ...]:
    """For each call its answer, or ``None`` when it is to be run.

    A call that was made before gets the result that is stored, as long as nothing has happened that could
    have changed it; a call over its tool's budget is refused, unless the tool delivers the output.
    """
    ledger = state.ledger
    made: Counter[str] = Counter(ledger.attempts)
    screened: list[ToolResult | None] = []
    for index, call in enumerate(calls):
        key = ledger.answers.get(fingerprint(call))
        limit = context.call_limits.get(call.name)
        if index and not context.input.parallel_tool_calls:
            screened.append(_refused(call, ONE_AT_A_TIME))
        elif key is not None and key in state.scratchpad:
            screened.append(_stored(call, state.scratchpad[key]))
        elif limit is not None and made[call.name] >= limit and not is_output(context, call.name):
            deliver = how_to_deliver(context, standing(state, context))
            text = f"Not run: {call.name} may be called {limit} times, and has been. {deliver}"
            screened.append(_refused(call, text))
        else:
            made[call.name] += 1
            screened.append(None)
    return tuple(screened)


def _refused(call: ToolCall, error: str) -> ToolResult:
    return ToolResult(call.id, call.name, error=error, origin="refused")


def _stored(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call.id, call.name, text, origin="stored")
