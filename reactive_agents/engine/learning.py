"""Learning at the end of a run: what its strategy came to is recorded once the answer has been verified."""

from __future__ import annotations

import anyio
from returns.maybe import Some

from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices


async def learn_from(context: ExecutionContext, services: EngineServices) -> None:
    """Record the outcome of the strategy, however the run ended; without one there is nothing to learn.

    Nor is there of a strategy that a budget, which others may have spent, kept from asking its model.
    That it cannot be recorded is an event, and changes nothing of the run.
    """
    reasoning, result = services.ports.reasoning.value_or(None), context.reasoning
    if reasoning is None or result is None or not reasoning.learns_from(result):
        return
    if services.llm.refusal is not None and result.status == "partial":
        return
    verified = context.verification is None or context.verification.verified
    with anyio.move_on_after(services.config.timeouts.grace_s, shield=True):
        await reasoning.learn(
            context.task.input,
            context.task.type,
            result,
            verified=verified,
            task_id=context.task_id,
            events=Some(services.events),
        )
