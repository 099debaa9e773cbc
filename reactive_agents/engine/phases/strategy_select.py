"""Phase 4: how to reason about the task."""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ReasoningErrors, RuntimeErrors
from reactive_agents.core.events import StrategySelected
from reactive_agents.core.values import replaced
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.phases.agent_loop import strategy_input, strategy_services
from reactive_agents.engine.services import EngineServices
from reactive_agents.reasoning import Selection
from reactive_agents.reasoning.strategies import direct


@effect
async def strategy_select(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context with a strategy selected; ``direct`` when reasoning is off.

    Fails with ``ExecutionError`` when the configured strategy does not exist, or none could be chosen.
    """
    reasoning = services.ports.reasoning.value_or(None)
    if reasoning is None:
        strategy, reason = direct.NAME, "reasoning is off"
    else:
        chosen: Result[Selection, ReasoningErrors] | None = reasoning.configured()
        if chosen is None:
            given, ready = strategy_input(context, services), strategy_services(services)
            chosen = await attempt(reasoning.select_strategy(given, ready))
        if not isinstance(chosen, Success):
            return Failure(context.failure_of("strategy-select")(chosen.failure()))
        strategy, reason = chosen.unwrap().strategy, chosen.unwrap().reason
    events = services.events
    events.publish(StrategySelected(*events.stamp(), strategy, reason))
    return Success(replaced(context, selected_strategy=strategy))
