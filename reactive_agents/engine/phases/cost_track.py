"""Phase 8: enter what the run spent into the account."""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import RuntimeErrors
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.accounts import spending_record
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices


@effect
async def cost_track(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context unchanged, the spending recorded. Fails with ``ExecutionError``."""
    tracker = services.ports.cost_tracker.value_or(None)
    if tracker is None:
        return Success(context)
    pending = tracker.record(spending_record(context, services))
    recorded = await attempt(pending)
    if not isinstance(recorded, Success):
        return Failure(context.failure_of("cost-track")(recorded.failure()))
    return Success(context)
