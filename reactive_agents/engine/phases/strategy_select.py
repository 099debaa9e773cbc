"""Phase 4: how to reason about the task."""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import RuntimeErrors
from reactive_agents.core.events import StrategySelected
from reactive_agents.effects import effect
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices
from reactive_agents.reasoning.strategies import direct


@effect
async def strategy_select(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context with a strategy selected; ``direct`` when reasoning is off.

    Fails with ``ExecutionError`` when the configured strategy does not exist.
    """
    reasoning = services.ports.reasoning.value_or(None)
    if reasoning is None:
        strategy, reason = direct.NAME, "reasoning is off"
    else:
        selected = reasoning.select_strategy().alt(context.failure_of("strategy-select"))
        if isinstance(selected, Failure):
            return selected
        strategy, reason = selected.unwrap(), "the configured default"
    events = services.events
    events.publish(StrategySelected(*events.stamp(), strategy=strategy, reason=reason))
    return Success(evolve(context, selected_strategy=strategy))
