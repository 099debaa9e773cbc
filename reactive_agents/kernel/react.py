"""The ReAct kernel: think, act, observe (Yao et al., 2022, arXiv:2210.03629), with native function calling.

Each call makes one of the three steps, by the state's status. An answer is only proposed here; whether it
stands is decided by the policies.
"""

from __future__ import annotations

from typing import assert_never

from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import KernelErrors
from reactive_agents.core.values import replaced
from reactive_agents.effects import Effect, attempt, effect
from reactive_agents.kernel.acting import run_calls
from reactive_agents.kernel.asking import ask
from reactive_agents.kernel.calls.reading import read_calls
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.ledger import enter_answer
from reactive_agents.kernel.proposals import proposed_answer
from reactive_agents.kernel.state import KernelState, successor, transition_state
from reactive_agents.kernel.turn import (
    absorb_response,
    absorb_results,
    record_actions,
    spoken,
)

REACT_INSTRUCTIONS = (
    "Work in turns. In each turn say briefly what you need to find out next, and call the tools that find "
    "it; calls that do not depend on each other belong in one turn. When the results answer the task, "
    "deliver the answer with the final-answer tool, or as plain text when there is no such tool."
)


def react_kernel(state: KernelState, context: KernelContext) -> Effect[KernelState, KernelErrors]:
    """One step: the model's turn, the calls it asked for, or what they came to."""
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
    asked = await ask(state, context)
    if not isinstance(asked, Success):
        return Failure(asked.failure())
    state, request, response, extent = asked.unwrap()
    response = read_calls(response, request.tools)
    following = absorb_response(state, response, context.clock.now(), extent)
    thought = spoken(response)
    if thought:
        await attempt(context.hooks.on_thought(following.value_or(state), thought))
    return following


@effect
async def act(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
    """Run the pending calls concurrently; the lone call of ``final-answer`` is a proposal instead."""
    steps = record_actions(state, context.clock.now())
    for call in state.pending:
        await attempt(context.hooks.on_action(state, call))
    proposal = proposed_answer(state.pending)
    if proposal is not None and context.toolset.permits(state.pending[0].name):
        return transition_state(
            state,
            status="observing",
            steps=steps,
            pending=(),
            proposal=proposal,
            ledger=enter_answer(state.ledger, proposal.text),
        )
    results = await run_calls(state, context, state.pending)
    following = replaced(state, status="observing", steps=steps, pending=(), results=results)
    return successor(state, following)


@effect
async def observe(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
    """Take in the results, and think again."""
    following, shown = absorb_results(state, context, context.clock.now())
    for result, text in zip(state.results, shown, strict=True):
        await attempt(context.hooks.on_observation(following.value_or(state), result, text))
    return following
