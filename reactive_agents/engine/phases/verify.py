"""Phase 6: is the answer supported by what the run saw?"""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import RuntimeErrors
from reactive_agents.core.events import ResultVerified
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices


@effect
async def verify(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context with the verifier's report. Fails with ``ExecutionError``."""
    verifier = services.ports.verifier.value_or(None)
    if verifier is None or context.reasoning is None:
        return Success(context)
    pending = verifier.verify(context.task, context.reasoning)
    verified = (await attempt(pending)).alt(context.failure_of("verify"))
    if isinstance(verified, Failure):
        return verified
    report = verified.unwrap()
    events = services.events
    events.publish(ResultVerified(*events.stamp(), confidence=report.confidence, verified=report.verified))
    return Success(evolve(context, verification=report))
