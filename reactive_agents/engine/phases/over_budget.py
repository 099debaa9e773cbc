"""What is left of a run when a budget keeps a strategy from going on."""

from __future__ import annotations

from attrs import evolve

from reactive_agents.core.errors import BudgetExceeded, BudgetUnavailable
from reactive_agents.core.reasoning import ReasoningMetadata, ReasoningResult
from reactive_agents.engine.accounts import run_metadata, steps_taken
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices
from reactive_agents.kernel.ending import last_words
from reactive_agents.kernel.tool_results import tool_results
from reactive_agents.reasoning.strategy import CONFIDENCE


def stopped_by_budget(
    refusal: BudgetExceeded | BudgetUnavailable, context: ExecutionContext, services: EngineServices
) -> ReasoningResult:
    """A partial outcome with what the kernel had that ran last; for calls that no kernel made itself."""
    context = evolve(context, reasoning=None)
    state = services.handle.kernel_state
    figures = run_metadata(context, services)
    steps = steps_taken(context, services)
    return ReasoningResult(
        strategy=figures.strategy_used,
        steps=steps,
        output=last_words(state) if state is not None else None,
        metadata=ReasoningMetadata(
            duration=figures.duration_ms,
            cost=figures.cost_usd,
            tokens_used=figures.tokens_used,
            steps_count=len(steps),
            confidence=CONFIDENCE["partial"],
            iterations=figures.iterations,
            terminated_by="budget",
            reason=f"{refusal.message} Missing: a final answer.",
        ),
        status="partial",
        tool_results=tool_results(state.scratchpad) if state is not None else {},
    )
