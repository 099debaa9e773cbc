"""Kernels: ReAct (Yao et al., 2022, arXiv:2210.03629), one-shot and a fixed call.

A kernel takes one step each time it is called; the status of the state says which. It only proposes an
answer: the policies decide whether that stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import assert_never

from attrs import evolve
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.messages import AssistantMessage, ToolCall
from reactive_agents.core.models import ModelResponse
from reactive_agents.core.values import replaced
from reactive_agents.effects import Effect, attempt, effect
from reactive_agents.kernel.call_parsing.response_calls import calls_of
from reactive_agents.kernel.context import KernelContext, ThoughtKernel
from reactive_agents.kernel.context_window.tool_results import result_text
from reactive_agents.kernel.embedded_calls import authorship
from reactive_agents.kernel.ledger import enter_answer, enter_calls
from reactive_agents.kernel.model_call import ask
from reactive_agents.kernel.reducers import (
    absorb_response,
    absorb_results,
    record_actions,
    thought_of,
    with_calls_as_made,
)
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.termination import proposed_answer
from reactive_agents.kernel.tool_execution import mark_copied, run_calls


def react_kernel(state: KernelState, context: KernelContext) -> Effect[KernelState, errors.KernelErrors]:
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
async def think(
    state: KernelState, context: KernelContext, *, with_tools: bool = True
) -> Result[KernelState, errors.KernelErrors]:
    """Ask the model. Fails with ``ModelCallFailed``."""
    started = context.clock.monotonic()
    asked = await ask(state, context, with_tools=with_tools)
    if not isinstance(asked, Success):
        return Failure(asked.failure())
    took_ms = (context.clock.monotonic() - started) * 1000
    sent, response = asked.unwrap()
    state, estimate, unmade = sent.state, sent.estimate_after(response.usage), ""
    if with_tools:
        response, unmade = await calls_of(response, sent.request.tools, partial(authorship, state, context))
    else:
        response = evolve(response, tool_calls=())
    following = absorb_response(
        state, response, context.clock.now(), estimate, unmade=unmade, took_ms=took_ms
    )
    _publish_turn(following, response, context)
    return Success(following)


def _publish_turn(state: KernelState, response: ModelResponse, context: KernelContext) -> None:
    """Publish the thought of a turn and, if it is streamed, the proposed answer."""
    thought = thought_of(response)
    if thought:
        context.hooks.on_thought(state, thought)
    publish_answer = context.hooks.on_turn
    if publish_answer is not None:
        proposal = state.proposal or proposed_answer(state.pending, context.input.answer_form)
        publish_answer("" if proposal is None else proposal.text)


@effect
async def act(state: KernelState, context: KernelContext) -> Result[KernelState, errors.KernelErrors]:
    """Run the pending calls concurrently; a lone ``final-answer`` is a proposal."""
    begun = context.clock.now()
    calls = mark_copied(state, context, state.pending)
    for call in calls:
        context.hooks.on_action(state, call)
    proposal = proposed_answer(state.pending, context.input.answer_form)
    if proposal is not None and context.toolset.permits(state.pending[0].name):
        ledger = enter_answer(state.ledger, proposal.text)
        steps = record_actions(state, begun)
        return Success(
            replaced(state, status="observing", steps=steps, pending=(), proposal=proposal, ledger=ledger)
        )
    results = await run_calls(state, context, calls)
    state = with_calls_as_made(state, results)
    steps = record_actions(state, begun)
    return Success(replaced(state, status="observing", steps=steps, pending=(), results=results))


@effect
async def observe(state: KernelState, context: KernelContext) -> Result[KernelState, errors.KernelErrors]:
    """Take in the results, and think again."""
    following, shown = absorb_results(state, context, context.clock.now())
    await context.hooks.on_observations(following, state.results, shown)
    return Success(following)


direct_kernel = react_kernel


def one_shot_kernel(state: KernelState, context: KernelContext) -> Effect[KernelState, errors.KernelErrors]:
    """Call the model once without tools, and propose its text as the answer."""
    return think(state, context, with_tools=False)


ENDED_BY = "tool_call"
"""Ends the run of a given call."""


def given_call_kernel(call: ToolCall) -> ThoughtKernel:
    """Return the kernel of a fixed call, run as if a model had made it.

    The run is done with the full result as its output, or failed with ``KernelFailed``, whose message is that
    of the tool or its refusal.
    """

    @effect
    async def step(state: KernelState, context: KernelContext) -> Result[KernelState, errors.KernelErrors]:
        match state.status:
            case "thinking":
                made = AssistantMessage(tool_calls=(call,))
                ledger = enter_calls(state.ledger, (call,))
                messages = (*state.messages, made)
                return Success(
                    replaced(state, status="acting", messages=messages, ledger=ledger, pending=(call,))
                )
            case "acting":
                return await attempt(act(state, context))
            case "observing":
                return await _end(state, context)
            case "done" | "failed":
                return Success(state)

    return step


async def _end(state: KernelState, context: KernelContext) -> Result[KernelState, errors.KernelErrors]:
    observed = await attempt(observe(state, context))
    if isinstance(observed, Failure):
        return observed
    result, told = state.results[0], replaced(observed.unwrap(), terminated_by=ENDED_BY)
    if result.success:
        reason, output = f"The call of {result.tool_name} worked.", result_text(result.result)
        return Success(replaced(told, status="done", outcome="completed", output=output, reason=reason))
    error = errors.KernelFailed(result.error, state.kernel_type)
    return Success(replaced(told, status="failed", outcome="failed", error=error, reason=result.error))


BUILT_IN_KERNELS: Mapping[str, ThoughtKernel] = MappingProxyType(
    {"react": react_kernel, "direct": direct_kernel, "one-shot": one_shot_kernel}
)
"""The kernels that strategies run, by the names that custom ones can take their place under."""
