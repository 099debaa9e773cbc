"""Kernels: ReAct (Yao et al., 2022, arXiv:2210.03629), one-shot and a fixed call.

Each call makes one of the three steps, by the state's status. An answer is only proposed here; whether it
stands is decided by the policies.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import assert_never

from attrs import evolve
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import KernelErrors, KernelFailed
from reactive_agents.core.messages import AssistantMessage, ToolCall
from reactive_agents.core.values import replaced
from reactive_agents.effects import Effect, attempt, effect
from reactive_agents.kernel.call_parsing.response_calls import read_calls
from reactive_agents.kernel.context import KernelContext, ThoughtKernel
from reactive_agents.kernel.context_window.tool_results import result_text
from reactive_agents.kernel.embedded_calls import authorship
from reactive_agents.kernel.ledger import enter_answer, enter_calls
from reactive_agents.kernel.model_call import ask
from reactive_agents.kernel.reducers import absorb_response, absorb_results, record_actions, thought_of
from reactive_agents.kernel.state import KernelState, successor
from reactive_agents.kernel.termination import proposed_answer
from reactive_agents.kernel.tool_execution import run_calls
from reactive_agents.kernel.untrusted_arguments import mark_copied


def react_kernel(state: KernelState, context: KernelContext) -> Effect[KernelState, KernelErrors]:
    """Run one step: the model's turn, its calls, or the observation of their results."""
    match state.status:
        case "thinking":
            return think(state, context)
        case "acting":
            return act(state, context)
        case "observing":
            return observe(state, context)
        case "done" | "failed":
            return FutureResult.from_value(state)
    assert_never(state.status)


@effect
async def think(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
    """Ask the model. Fails with ``ModelCallFailed``."""
    started = context.clock.monotonic()
    asked = await ask(state, context)
    if not isinstance(asked, Success):
        return Failure(asked.failure())
    took_ms = (context.clock.monotonic() - started) * 1000
    state, request, response, estimate = asked.unwrap()
    response, unmade = read_calls(response, request.tools, authorship(state, context))
    following = absorb_response(
        state, response, context.clock.now(), estimate, unmade=unmade, took_ms=took_ms
    )
    thought = thought_of(response)
    if thought:
        context.hooks.on_thought(following, thought)
    _publish_turn(following, context)
    return Success(following)


def _publish_turn(state: KernelState, context: KernelContext) -> None:
    publish = context.hooks.on_turn
    if publish is not None:
        proposal = state.proposal or proposed_answer(state.pending, context.input.answer_form)
        publish("" if proposal is None else proposal.text)


@effect
async def act(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
    """Run the pending calls concurrently; a lone ``final-answer`` is a proposal."""
    steps = record_actions(state, context.clock.now())
    calls = mark_copied(state, context, state.pending)
    for call in calls:
        context.hooks.on_action(state, call)
    proposal = proposed_answer(state.pending, context.input.answer_form)
    if proposal is not None and context.toolset.permits(state.pending[0].name):
        return successor(
            state,
            replaced(
                state,
                status="observing",
                steps=steps,
                pending=(),
                proposal=proposal,
                ledger=enter_answer(state.ledger, proposal.text),
            ),
        )
    results = await run_calls(state, context, calls)
    return Success(replaced(state, status="observing", steps=steps, pending=(), results=results))


@effect
async def observe(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
    """Take in the results, and think again."""
    following, shown = absorb_results(state, context, context.clock.now())
    for result, text in zip(state.results, shown, strict=True):
        context.hooks.on_observation(following, result, text)
    return Success(following)


# --- The kernel without reasoning ---


direct_kernel = react_kernel


# --- The smallest kernel: one call to the model, whose text is the answer ---


@effect
async def one_shot_kernel(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
    """Call the model once without tools, and propose its text as the answer."""
    started = context.clock.monotonic()
    asked = await ask(state, context, with_tools=False)
    if isinstance(asked, Failure):
        return asked
    took_ms = (context.clock.monotonic() - started) * 1000
    state, _, response, estimate = asked.unwrap()
    without_calls = evolve(response, tool_calls=())
    following = absorb_response(state, without_calls, context.clock.now(), estimate, took_ms=took_ms)
    thought = thought_of(response)
    if thought:
        context.hooks.on_thought(following, thought)
    _publish_turn(following, context)
    return Success(following)


# --- A kernel that runs one call that is given beforehand, without asking a model ---


ENDED_BY = "tool_call"


def given_call_kernel(call: ToolCall) -> ThoughtKernel:
    """Return the kernel of a fixed call, run as if a model had made it.

    The run is done with the full result as its output, or failed with ``KernelFailed``, whose message is that
    of the tool or its refusal.
    """

    @effect
    async def step(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
        match state.status:
            case "thinking":
                return successor(
                    state,
                    replaced(
                        state,
                        status="acting",
                        messages=(*state.messages, AssistantMessage(tool_calls=(call,))),
                        ledger=enter_calls(state.ledger, (call,)),
                        pending=(call,),
                    ),
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
        return successor(
            observed.unwrap(),
            replaced(
                observed.unwrap(),
                status="done",
                outcome="completed",
                output=result_text(result.result),
                terminated_by=ENDED_BY,
                reason=f"The call of {result.tool_name} worked.",
            ),
        )
    return successor(
        observed.unwrap(),
        replaced(
            observed.unwrap(),
            status="failed",
            outcome="failed",
            error=KernelFailed(result.error, state.kernel_type),
            terminated_by=ENDED_BY,
            reason=result.error,
        ),
    )


BUILT_IN_KERNELS: Mapping[str, ThoughtKernel] = MappingProxyType(
    {"react": react_kernel, "direct": direct_kernel, "one-shot": one_shot_kernel}
)
"""The kernels that strategies run, by the names that custom ones can take their place under."""
