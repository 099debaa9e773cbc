"""What a verdict or an error makes of a kernel state."""

from __future__ import annotations

from returns.result import Result

from reactive_agents.core.errors import IllegalTransition, KernelErrors
from reactive_agents.core.messages import AssistantMessage, ToolMessage
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.values import replaced
from reactive_agents.kernel.ledger import enter_guidance
from reactive_agents.kernel.proposals import proposed_answer
from reactive_agents.kernel.state import Guidance, KernelState, successor, transition_state
from reactive_agents.kernel.toolset import FINAL_ANSWER
from reactive_agents.kernel.verdict import Redirect, Stop

ACCEPTED = "Accepted."


def last_words(state: KernelState) -> str | None:
    """The last text that the model gave: what there is of an answer when a run stops early.

    An answer that came by a call of the ``final-answer`` tool, and was turned down, is such a text too.
    """
    if state.proposal is not None and state.proposal.text.strip():
        return state.proposal.text
    for message in reversed(state.messages):
        if not isinstance(message, AssistantMessage):
            continue
        delivered = proposed_answer(message.tool_calls)
        if delivered is not None:
            return delivered.text
        if message.content.strip():
            return message.content
    return state.transcript.last_words


def stop_run(state: KernelState, stop: Stop) -> Result[KernelState, IllegalTransition]:
    """The terminal state that a verdict asks for. A call that delivered the answer gets its result."""
    messages = state.messages
    if state.proposal is not None and state.proposal.call_id is not None:
        messages = (*messages, ToolMessage(state.proposal.call_id, FINAL_ANSWER, ACCEPTED))
    return transition_state(
        state,
        messages=messages,
        status="failed" if stop.outcome == "failed" else "done",
        outcome=stop.outcome,
        output=stop.output,
        terminated_by=stop.policy,
        reason=stop.reason,
        proposal=None,
        guidance=(),
    )


def fail_run(state: KernelState, error: KernelErrors) -> Result[KernelState, IllegalTransition]:
    """The failed state that a kernel's error leads to; everything done until then is kept."""
    return transition_state(
        state,
        status="failed",
        outcome="failed",
        error=error,
        terminated_by="kernel_error",
        reason=error.message,
    )


def redirect_run(state: KernelState, redirect: Redirect) -> Result[KernelState, IllegalTransition]:
    """The state with the guidance for the next request; a proposed answer is turned down.

    What the run is at goes on: calls that are pending still run, and results still have to be observed. An
    answer that came by a call of the ``final-answer`` tool is such a call, and its refusal the result.
    """
    results = state.results
    if state.proposal is not None and state.proposal.call_id is not None:
        refusal = f"Not accepted: {redirect.guidance}"
        results = (
            *results,
            ToolResult(state.proposal.call_id, FINAL_ANSWER, error=refusal, origin="refused"),
        )
    following = replaced(
        state,
        results=results,
        proposal=None,
        guidance=(*state.guidance, Guidance(redirect.policy, redirect.guidance)),
        ledger=enter_guidance(state.ledger, redirect.policy),
    )
    return successor(state, following)
