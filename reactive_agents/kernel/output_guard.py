"""The guard against answers that are tool calls in disguise: they are run, and their result is the answer."""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import KernelErrors
from reactive_agents.core.messages import AssistantMessage
from reactive_agents.core.reasoning import ReasoningStatus
from reactive_agents.core.tools import ToolResult
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel.acting import run_calls
from reactive_agents.kernel.call_text import embedded_call
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.state import KernelState, check_successor
from reactive_agents.kernel.tool_results import result_text
from reactive_agents.kernel.toolset import FINAL_ANSWER
from reactive_agents.kernel.turn import absorb_results, proposed_answer, record_actions


@effect
async def guard_output(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
    """Run a tool call that the answer holds as bare text, and put its result in the answer's place.

    A call of the ``final-answer`` tool is not run: the answer that it delivers is taken out of it.
    """
    if state.status != "done" or not state.output:
        return Success(state)
    offered = context.toolset.available(recall=state.shown_in_part)
    names = {definition.name for definition in offered} | {FINAL_ANSWER}
    call = embedded_call(state.output, names)
    if call is None:
        return Success(state)
    if call.name == FINAL_ANSWER:
        delivered = proposed_answer((call,))
        return Success(state if delivered is None else evolve(state, output=delivered.text))
    now = context.clock.now()
    made = AssistantMessage("", (call,))
    acting = evolve(state, pending=(call,), messages=(*state.messages, made))
    acting = evolve(acting, steps=record_actions(acting, now))
    await context.hooks.on_action(state, call)
    results = await attempt(run_calls(acting, context, (call,)))
    observing = evolve(acting, status="observing", results=results.unwrap())
    absorbed, shown = absorb_results(observing, context, now)
    if isinstance(absorbed, Failure):
        return absorbed
    following = absorbed.unwrap()
    (result,) = observing.results
    await context.hooks.on_observation(state, result, shown[0])
    return check_successor(state, _replaced(state, following, result))


def _replaced(before: KernelState, after: KernelState, result: ToolResult) -> KernelState:
    """The finished state whose output was a bare call: done as before, with the call's result as output."""
    call = f"The answer was a call of {result.tool_name} written as text"
    if result.success:
        reason = f"{before.reason} {call}; it was run, and its result is the answer."
        return _ended_like(before, after, result_text(result.result), before.outcome, reason)
    reason = f"{call}, and it failed: {result.error} Missing: an answer."
    return _ended_like(before, after, None, "partial", reason)


def _ended_like(
    before: KernelState, after: KernelState, output: str | None, outcome: ReasoningStatus | None, reason: str
) -> KernelState:
    return evolve(
        after,
        status=before.status,
        output=output,
        outcome=outcome,
        terminated_by=before.terminated_by,
        reason=reason,
    )
