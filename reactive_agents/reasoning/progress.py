"""What a strategy of several kernel runs has come to: pure, and added up in one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from attrs import evolve, field, frozen

from reactive_agents.core.requirements import BudgetConfig, CallLimit, ToolNeeds, ToolRequirement
from reactive_agents.core.steps import ReasoningStep
from reactive_agents.kernel import KernelState
from reactive_agents.kernel.ledger import CallLedger
from reactive_agents.kernel.tool_results import tool_results


@frozen
class Progress:
    """All that the passes of a strategy have done until now.

    Attributes:
        id: begins the ids of the strategy's own steps.
        steps: of all passes and of the strategy itself, in order.
        tool_results: the full text of each result, by the key that its observation names.
        iterations: turns that the model has taken in all passes.
        attempts: how often each tool was run.
        succeeded: how often each tool worked.
    """

    id: str
    steps: tuple[ReasoningStep, ...] = ()
    tool_results: Mapping[str, str] = field(factory=dict)
    iterations: int = 0
    attempts: Mapping[str, int] = field(factory=dict)
    succeeded: Mapping[str, int] = field(factory=dict)

    def after(self, state: KernelState) -> Progress:
        """With what a kernel run did, however it ended."""
        return evolve(
            self.with_calls(state.ledger),
            steps=self.steps + state.steps,
            tool_results={**self.tool_results, **tool_results(state.scratchpad)},
            iterations=self.iterations + state.iteration,
        )

    def with_calls(self, ledger: CallLedger) -> Progress:
        """With calls that count, wherever they were made."""
        return evolve(
            self,
            attempts=_sum(self.attempts, ledger.attempts),
            succeeded=_sum(self.succeeded, ledger.succeeded),
        )

    def with_steps(self, *steps: ReasoningStep) -> Progress:
        """With steps of the strategy's own."""
        return evolve(self, steps=self.steps + steps)

    def with_tool_result(self, tool_name: str, key: str, text: str) -> Progress:
        """With a call that the strategy itself made, and that worked."""
        once = {tool_name: 1}
        return evolve(
            self,
            tool_results={**self.tool_results, key: text},
            attempts=_sum(self.attempts, once),
            succeeded=_sum(self.succeeded, once),
        )

    def with_failed_call(self, tool_name: str) -> Progress:
        """With a call that the strategy itself made, and that failed."""
        return evolve(self, attempts=_sum(self.attempts, {tool_name: 1}))


def needs_left(needs: ToolNeeds, progress: Progress) -> ToolNeeds:
    """What of the needs is still open after the calls that have worked."""
    left = ((each.name, each.min_calls - progress.succeeded.get(each.name, 0)) for each in needs.required)
    return evolve(needs, required=tuple(ToolRequirement(name, calls) for name, calls in left if calls > 0))


def what_needs_lack(needs: ToolNeeds, progress: Progress) -> str:
    """The required calls that were not made, in a clause; empty when nothing is missing."""
    return "; ".join(
        f"{each.name} ({progress.succeeded.get(each.name, 0)} of {each.min_calls} calls done)"
        for each in needs.required
        if progress.succeeded.get(each.name, 0) < each.min_calls
    )


def calls_left(budget: BudgetConfig, progress: Progress) -> tuple[tuple[CallLimit, ...], frozenset[str]]:
    """The limits that still allow calls, with how many, and the tools whose calls are used up."""
    left = [(each.name, each.max_calls - progress.attempts.get(each.name, 0)) for each in budget.calls]
    limits = tuple(CallLimit(name, calls) for name, calls in left if calls > 0)
    return limits, frozenset(name for name, calls in left if calls <= 0)


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    return dict(Counter(one) + Counter(other))
