"""Budget policies: limits of tokens and dollars of a run."""

from __future__ import annotations

from reactive_agents.core import errors
from reactive_agents.core.requirements import BudgetConfig
from reactive_agents.kernel.context import KernelContext, Stop, Verdict, applies_where, between_turns
from reactive_agents.kernel.open_requirements import describe_missing, requirements_of
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.termination import last_words
from reactive_agents.kernel.usage import UsageAccount


@applies_where(lambda context: context.input.settings.budget.limits_spending)
@between_turns
def budget(state: KernelState, context: KernelContext) -> Verdict | None:
    """A spent budget ends the run before the next model call, with what it has."""
    answered = state.proposal is not None and bool(state.proposal.text.strip())
    spent = None if answered or state.status != "thinking" else budget_reached_by_kernel(state, context)
    if spent is None:
        return None
    missing = describe_missing(requirements_of(state, context), "a final answer")
    return Stop("budget", "partial", last_words(state), f"{spent} {missing}")


def turns_left(state: KernelState, context: KernelContext) -> bool:
    """Whether the model may be asked once more."""
    return state.iteration < context.max_iterations and budget_reached_by_kernel(state, context) is None


def budget_reached_by_kernel(state: KernelState, context: KernelContext) -> str | None:
    """Return which budget is used up, in a sentence; ``None`` while none is.

    The run's usage includes that of this kernel; without it the kernel's own is used.
    """
    used = state.usage if state.run_usage is None else state.run_usage
    return budget_reached(context.input.settings.budget, used.tokens, used.cost_usd)


def budget_reached(limits: BudgetConfig, tokens: int, cost_usd: float) -> str | None:
    """Which of the limits has been reached, in a sentence; ``None`` while none has."""
    if limits.tokens is not None and tokens >= limits.tokens:
        return f"{tokens} tokens were used, the budget was {limits.tokens}."
    if limits.cost_usd is not None and cost_usd >= limits.cost_usd:
        return f"${cost_usd:.4g} was spent, the budget was ${limits.cost_usd:.4g}."
    return None


def budget_reached_by_run(limits: BudgetConfig, account: UsageAccount) -> str | None:
    """The same of all that a run has spent by now."""
    return budget_reached(limits, account.total.tokens, account.total.cost_usd)


def budget_refusal(
    error: errors.RuntimeErrors | errors.PhaseCause,
) -> errors.BudgetExceeded | errors.BudgetUnavailable | None:
    """Return the budget error below an error, if there is one."""
    cause = errors.root_cause(error)
    return cause if isinstance(cause, errors.BudgetExceeded | errors.BudgetUnavailable) else None
