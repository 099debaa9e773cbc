"""Phase 10: draw up the result."""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ExecutionError, RuntimeErrors
from reactive_agents.core.tasks import TaskResult
from reactive_agents.core.values import replaced
from reactive_agents.effects import effect
from reactive_agents.engine.accounts import run_metadata
from reactive_agents.engine.agent_state import next_agent_state
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices


@effect
async def complete(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context with the result, the agent completed. Fails with ``ExecutionError`` without an outcome."""
    reasoning = context.reasoning
    if reasoning is None:
        return Failure(ExecutionError("The agent loop left no outcome.", context.task_id, "complete"))
    state = next_agent_state(context.agent_state, "completed")
    if not isinstance(state, Success):
        return Failure(state.failure())
    result = TaskResult(
        task_id=context.task_id,
        run_id=context.run_id,
        agent_id=context.agent_id,
        output=reasoning.output,
        success=reasoning.status == "completed",
        status=reasoning.status,
        reason=reasoning.metadata.reason,
        steps=reasoning.steps,
        metadata=run_metadata(context, services),
        completed_at=services.ports.clock.now(),
        tool_results=reasoning.tool_results,
        verification=context.verification,
        tree=reasoning.tree,
    )
    return Success(replaced(context, agent_state=state.unwrap(), result=result))
