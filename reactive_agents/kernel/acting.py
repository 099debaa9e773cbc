"""Running the tool calls of a turn."""

from __future__ import annotations

from typing import Never

from returns.result import Result, Success

from reactive_agents.core.errors import InvalidToolArguments, ToolErrors, ToolNotFound, ToolTimedOut
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolResult, ToolScope
from reactive_agents.effects import effect, gather
from reactive_agents.kernel.calls import explain_schema
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.deadline import WIND_UP_S, in_time, seconds_left
from reactive_agents.kernel.gate import refused, screen_calls
from reactive_agents.kernel.proposals import refused_answer
from reactive_agents.kernel.recall import recall
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.toolset import FINAL_ANSWER, RECALL

NO_TOOL_SERVICE = (
    "Not run: this agent has no tools. Answer from what is known, and say what could not be found out."
)
NO_TIME = "Not run: the time limit of the run was reached."
CUT_OFF = "Cut off at the time limit of the run; it may have taken effect."


async def run_calls(
    state: KernelState, context: KernelContext, calls: tuple[ToolCall, ...]
) -> tuple[ToolResult, ...]:
    """Run the calls; one result each, in their order. A failed call is a result too.

    Those that the gate lets through run concurrently.
    """
    screened = screen_calls(state, context, calls)
    ran = await gather(
        [run_call(state, context, calls, i) for i, answer in enumerate(screened) if answer is None]
    )
    results = iter(ran)
    return tuple([next(results).unwrap() if answer is None else answer for answer in screened])


@effect
async def run_call(
    state: KernelState, context: KernelContext, calls: tuple[ToolCall, ...], index: int
) -> Result[ToolResult, Never]:
    """Run one call of a turn, no longer than the run may take.

    The tool service ends it at the deadline, since it knows whether the tool ran; it is cut off when the
    service does not. Without a tool service it is refused with a message that says so.
    """
    call = calls[index]
    if call.name == FINAL_ANSWER and context.toolset.permits(FINAL_ANSWER):
        return Success(refused_answer(call, calls))
    if call.name == RECALL and state.shown_in_part:
        return Success(recall(call, state.scratchpad, context.profile, context.compression))
    service = context.tools.value_or(None)
    if service is None:
        return Success(refused(call, NO_TOOL_SERVICE))
    if not context.toolset.permits(call.name):
        offered = context.toolset.available(recall=state.shown_in_part)
        known = tuple(definition.name for definition in offered)
        return Success(refused(call, ToolNotFound(call.name, known).message))
    seconds = seconds_left(context)
    if seconds <= 0:
        return Success(refused(call, NO_TIME))
    started = context.clock.monotonic()
    running = service.execute(call, _scope(state, context, index), context.approver.value_or(None))
    result = await in_time(running, seconds + WIND_UP_S / 2)
    if isinstance(result, Success):
        return result
    elapsed_ms = (context.clock.monotonic() - started) * 1000
    error = CUT_OFF if result is None else _explained(call, context, result.failure())
    return Success(_failed(call, error, elapsed_ms))


def _explained(call: ToolCall, context: KernelContext, error: ToolErrors) -> str:
    """What the model is told; of arguments that do not fit also how the tool is called."""
    if isinstance(error, ToolTimedOut) and seconds_left(context) <= 0:
        return CUT_OFF if error.timeout_s > 0 else NO_TIME
    definition = context.toolset.definition(call.name)
    if definition is None or not isinstance(error, InvalidToolArguments):
        return error.message
    return explain_schema(definition, error.message)


def _failed(call: ToolCall, error: str, duration_ms: float) -> ToolResult:
    return ToolResult(call.id, call.name, error=error, duration_ms=duration_ms)


def call_key(state: KernelState, index: int) -> str:
    """What tells a pending call from all others of its run; kernels side by side may share call ids."""
    return f"{state.id}-{state.iteration}.{index}"


def _scope(state: KernelState, context: KernelContext, index: int) -> ToolScope:
    run = context.input
    return ToolScope(
        run.run_id, run.task_id, run.agent_id, run.session_id, call_key(state, index), run.deadline
    )
