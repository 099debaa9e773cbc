"""What a run may spend on its model."""

from __future__ import annotations

from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.ending import last_words
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.verdict import Stop, Verdict


def budget(state: KernelState, context: KernelContext) -> Verdict | None:
    """A spent budget ends the run before the next model call, with what it has."""
    limits = context.input.budget
    if state.status != "thinking" or state.proposal is not None:
        return None
    if limits.tokens is not None and state.tokens >= limits.tokens:
        return _over(state, f"{state.tokens} tokens were used, the budget was {limits.tokens}.")
    if limits.cost_usd is not None and state.cost >= limits.cost_usd:
        return _over(state, f"${state.cost:.4f} was spent, the budget was ${limits.cost_usd:.4f}.")
    return None


def _over(state: KernelState, reason: str) -> Stop:
    return Stop("budget", "partial", last_words(state), f"{reason} Missing: a final answer.")
