"""Phase 10: draw up the result."""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ExecutionError, RuntimeErrors
from reactive_agents.core.frozen import maker
from reactive_agents.core.replacing import replacer
from reactive_agents.core.tasks import TaskResult
from reactive_agents.effects import effect, success
from reactive_agents.engine.accounts import run_metadata
from reactive_agents.engine.agent_state import next_agent_state
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.services import EngineServices

_result = maker(TaskResult)
_completed = replacer(ExecutionContext, "agent_state", "result")


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
    result = _result(
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
    return success(_completed(context, state.unwrap(), result))
