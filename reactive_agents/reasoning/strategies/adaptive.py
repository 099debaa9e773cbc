"""The adaptive strategy: hands the task to the strategy that suits it."""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ReasoningErrors
from reactive_agents.core.results import ReasoningResult, StepMetadata
from reactive_agents.effects import attempt, effect
from reactive_agents.reasoning.fallback import run_with_fallback
from reactive_agents.reasoning.passes import begin_progress, note_step
from reactive_agents.reasoning.selection.selector import StrategySelector, selection_context
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices, begin_measure

NAME = "adaptive"


@effect
async def adaptive(
    strategy_input: StrategyInput, services: StrategyServices
) -> Result[ReasoningResult, ReasoningErrors]:
    """Run the selected strategy, and return its result with the choice as first step.

    When that strategy fails, one other is tried. Fails as the last of them does, or as the choice does.
    """
    measure = begin_measure(services)
    selector = StrategySelector(services.strategies)
    context = selection_context(strategy_input, services)
    selected = await attempt(selector.select(context, strategy_input, services))
    if isinstance(selected, Failure):
        return Failure(selected.failure())
    selection = selected.unwrap()
    progress = note_step(
        begin_progress(strategy_input, services),
        "plan",
        f"Strategy: {selection.strategy}. Reason: {selection.reason}.",
        services,
        label="adaptive:select",
        metadata=StepMetadata(confidence=selection.confidence),
    )
    outcome = await run_with_fallback(selection.strategy, strategy_input, services, falls_back=True)
    if isinstance(outcome, Failure):
        return outcome
    result = outcome.unwrap()
    spent = services.meter.usage.since(measure.spent)
    metadata = evolve(
        result.metadata,
        selected_strategy=result.strategy,
        steps_count=len(result.steps) + len(progress.steps),
        cost=spent.cost_usd,
        tokens_used=spent.usage.total_tokens,
        duration=(services.kernel.clock.monotonic() - measure.started) * 1000,
    )
    return Success(evolve(result, steps=progress.steps + result.steps, metadata=metadata))
