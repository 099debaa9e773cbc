"""A kernel that runs one call that is given beforehand, without asking a model."""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import KernelErrors, KernelFailed
from reactive_agents.core.messages import AssistantMessage, ToolCall
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel.context import KernelContext, ThoughtKernel
from reactive_agents.kernel.react import act, observe
from reactive_agents.kernel.state import KernelState, transition_state
from reactive_agents.kernel.tool_results import result_text

ENDED_BY = "tool_call"


def given_call_kernel(call: ToolCall) -> ThoughtKernel:
    """The kernel for the call: it is screened, run and recorded as if a model had made it.

    The run is done with the full result as its output, or failed with ``KernelFailed``, whose message is what
    the tool or its refusal said.
    """

    @effect
    async def step(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
        match state.status:
            case "thinking":
                return transition_state(
                    state,
                    status="acting",
                    messages=(*state.messages, AssistantMessage(tool_calls=(call,))),
                    call_ids=state.call_ids | {call.id},
                    pending=(call,),
                )
            case "acting":
                return await attempt(act(state, context))
            case "observing":
                return await _end(state, context)
            case "done" | "failed":
                return Success(state)

    return step


async def _end(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
    observed = await attempt(observe(state, context))
    if isinstance(observed, Failure):
        return observed
    result = state.results[0]
    if result.success:
        return transition_state(
            observed.unwrap(),
            status="done",
            outcome="completed",
            output=result_text(result.result),
            terminated_by=ENDED_BY,
            reason=f"The call of {result.tool_name} worked.",
        )
    return transition_state(
        observed.unwrap(),
        status="failed",
        outcome="failed",
        error=KernelFailed(result.error, state.kernel_type),
        terminated_by=ENDED_BY,
        reason=result.error,
    )
