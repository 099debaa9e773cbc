"""The tool calls that a strategy has made, whatever came of it: those that follow it go on from there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from attrs import define, evolve, field
from returns.result import Result, Success

from reactive_agents.core.errors import KernelErrors
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel import KernelContext, KernelServices, KernelState, ThoughtKernel
from reactive_agents.kernel.ledger import CallLedger


@define(eq=False)
class CallAccount:
    """Counts the calls of all kernel runs whose kernel it wraps, also of a strategy that fails in the end."""

    attempts: Counter[str] = field(factory=Counter)
    succeeded: Counter[str] = field(factory=Counter)

    def wrap(self, kernel: ThoughtKernel) -> ThoughtKernel:
        """The same kernel, its calls counted."""

        @effect
        async def step(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
            outcome = await attempt(kernel(state, context))
            if isinstance(outcome, Success) and outcome.unwrap().ledger is not state.ledger:
                before, after = state.ledger, outcome.unwrap().ledger
                self.attempts += Counter(after.attempts) - Counter(before.attempts)
                self.succeeded += Counter(after.succeeded) - Counter(before.succeeded)
            return outcome

        return step

    def ledger(self, earlier: CallLedger) -> CallLedger:
        """A ledger with these calls, and with those that were made even earlier."""
        return CallLedger(
            attempts=dict(self.attempts + Counter(earlier.attempts)),
            succeeded=dict(self.succeeded + Counter(earlier.succeeded)),
        )


def with_kernels_wrapped(
    services: KernelServices, inner: Callable[[ThoughtKernel], ThoughtKernel]
) -> KernelServices:
    """The services with something more around each kernel, inside of what is around it already."""
    outer = services.wrap
    return evolve(services, wrap=inner if outer is None else lambda kernel: outer(inner(kernel)))
