"""Phase 4: how to reason about the task."""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ReasoningErrors, RuntimeErrors
from reactive_agents.core.events import StrategySelected, event_maker
from reactive_agents.core.replacing import replacer
from reactive_agents.effects import attempt, effect, success
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.phases.agent_loop import strategy_input, strategy_services
from reactive_agents.engine.services import EngineServices
from reactive_agents.reasoning import Selection
from reactive_agents.reasoning.strategies import direct

_selected = event_maker(StrategySelected)
_with_strategy = replacer(ExecutionContext, "selected_strategy")


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
    events.publish(_selected(events.stamp(), strategy, reason))
    return success(_with_strategy(context, strategy))
