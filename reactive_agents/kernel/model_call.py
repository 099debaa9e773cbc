"""Model calls with requests that fit the context window."""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import (
    BudgetExceeded,
    BudgetUnavailable,
    ContextOverflow,
    LLMErrors,
    ModelCallFailed,
)
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import replaced
from reactive_agents.effects import attempt
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.context_window.compaction import fitted, with_summary
from reactive_agents.kernel.context_window.token_estimate import (
    TokenEstimate,
    answered,
    at_most,
    message_size,
    sized,
    with_fixed_parts,
)
from reactive_agents.kernel.context_window.window import (
    budget_of,
    window_of,
)
from reactive_agents.kernel.prompt import assemble
from reactive_agents.kernel.state import KernelState

Asked: TypeAlias = tuple[KernelState, ModelRequest, ModelResponse, TokenEstimate]
"""The state with the transcript as it was sent, the request, the answer, and the estimate of both."""


async def ask(
    state: KernelState, context: KernelContext, *, with_tools: bool = True
) -> Result[Asked, ModelCallFailed]:
    """Call the model for its next turn.

    Earlier turns are summarized first where that is configured; a request that still does not fit is
    compacted before it is sent; one that the provider refuses as too long is compacted to half and sent once
    more. Fails with ``ModelCallFailed``: because of the model's failure, or with ``ContextOverflow`` before
    any call when nothing that could be left out would make it fit.
    """
    whole, (size, added) = state, sized(state.transcript.estimate, state.messages)
    state = await with_summary(state, context, size, added)
    if state is not whole:
        size, added = sized(state.transcript.estimate, state.messages)
    request = _request(state, context, with_tools=with_tools)
    estimate, more = with_fixed_parts(state.transcript.estimate, context.prefix, request.tools)
    guidance = message_size(request.messages[-1]) if state.guidance else 0
    window = window_of(context, estimate)
    budget = budget_of(window.tokens, request.max_tokens)
    added += more + guidance
    if at_most(estimate, size + guidance, added) > budget:
        fitting = await fitted(state, context, request, window, "window")
        if not isinstance(fitting, Success):
            return Failure(ModelCallFailed(request.purpose, state.iteration, fitting.failure()))
        state, request, estimate, size = fitting.unwrap()
        added = 0
    answer = await attempt(context.llm.complete(request))
    error = None if isinstance(answer, Success) else answer.failure()
    if isinstance(error, ContextOverflow):
        limited = evolve(estimate, limit=error.limit or estimate.limit)
        state = replaced(state, transcript=evolve(state.transcript, estimate=limited))
        halved = await fitted(
            state, context, request, window_of(context, state.transcript.estimate), "refused"
        )
        smaller = halved.value_or(None)
        if smaller is not None and smaller[0] is not state:
            state, request, estimate, size = smaller
            added = 0
            answer = await attempt(context.llm.complete(request))
            if error.refused:
                answer = answer.map(partial(_after, error.refused)).alt(partial(_failed_after, error.refused))
    if not isinstance(answer, Success):
        return Failure(ModelCallFailed(request.purpose, state.iteration, answer.failure()))
    response = answer.unwrap()
    estimate = answered(estimate, len(state.messages), size, added, response.usage)
    return Success((state, request, response, estimate))


def _after(refused: tuple[RunUsage, ...], response: ModelResponse) -> ModelResponse:
    return evolve(response, refused=(*refused, *response.refused))


def _failed_after(refused: tuple[RunUsage, ...], error: LLMErrors) -> LLMErrors:
    if isinstance(error, BudgetExceeded | BudgetUnavailable):
        return error
    return evolve(error, refused=(*refused, *error.refused))


def _request(state: KernelState, context: KernelContext, *, with_tools: bool) -> ModelRequest:
    request = assemble(state, context)
    return request if with_tools else evolve(request, tools=(), parallel_tool_calls=None)
