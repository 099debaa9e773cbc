"""Model calls with requests that fit the context window."""

from __future__ import annotations

import re
from functools import partial
from typing import TypeAlias

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import replaced
from reactive_agents.effects import attempt
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.context_window import token_estimate
from reactive_agents.kernel.context_window.compaction import fitted, with_summary
from reactive_agents.kernel.context_window.window import (
    Window,
    budget_of,
    window_of,
)
from reactive_agents.kernel.prompt import assemble, turn_guidance, without_tools
from reactive_agents.kernel.state import KernelState

_REPETITION = re.compile(r"([\W_])\1{2,}")

Asked: TypeAlias = tuple[KernelState, ModelRequest, ModelResponse, token_estimate.TokenEstimate]
"""The state with the transcript as it was sent, the request, the answer, and the estimate of both."""


async def ask(
    state: KernelState, context: KernelContext, *, with_tools: bool = True
) -> Result[Asked, errors.ModelCallFailed]:
    """Call the model for its next turn.

    Earlier turns are summarized first where that is configured; a request that still does not fit is
    compacted before it is sent; one that the provider refuses as too long, or of which it read only a part,
    is compacted to half and sent once more. Fails with ``ModelCallFailed``: because of the model's failure,
    or with ``ContextOverflow`` before any call when nothing that could be left out would make it fit.
    """
    whole, (size, added) = state, token_estimate.sized(state.transcript.estimate, state.messages)
    state = await with_summary(state, context, size, added)
    if state is not whole:
        size, added = token_estimate.sized(state.transcript.estimate, state.messages)
    request = _request(state, context, with_tools=with_tools)
    estimate, more = token_estimate.with_fixed_parts(state.transcript.estimate, context.prefix, request.tools)
    told = turn_guidance(state, context)
    for piece in told[len(state.guidance) :]:  # the runner has announced the others
        context.hooks.on_guidance(piece)
    guidance = token_estimate.message_size(request.messages[-1]) if told else 0
    window = window_of(context, estimate)
    budget = budget_of(window.tokens, request.max_tokens)
    added += more + guidance
    if token_estimate.at_most(estimate, size + guidance, added) > budget:
        fitting = await fitted(state, context, request, window, "window")
        if not isinstance(fitting, Success):
            return Failure(errors.ModelCallFailed(request.purpose, state.iteration, fitting.failure()))
        state, request, estimate, size = fitting.unwrap()
        added = 0
    answer = await attempt(context.llm.complete(request))
    error = None if isinstance(answer, Success) else answer.failure()
    if isinstance(error, errors.ContextOverflow):
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
        return Failure(errors.ModelCallFailed(request.purpose, state.iteration, answer.failure()))
    response = answer.unwrap()
    if token_estimate.unread(
        estimate, size, partial(_characters, request), response.usage, guidance=guidance
    ):
        state, with_less = await _with_less(state, context, request, estimate, response, size)
        if with_less is not None:
            return Success(with_less)
        estimate = evolve(estimate, limit=state.transcript.estimate.limit, read=0)
    estimate = token_estimate.answered(
        estimate, len(state.messages), size, added, response.usage, guidance=guidance
    )
    return Success((state, request, response, estimate))


async def _with_less(
    state: KernelState,
    context: KernelContext,
    request: ModelRequest,
    estimate: token_estimate.TokenEstimate,
    cut: ModelResponse,
    size: int,
) -> tuple[KernelState, Asked | None]:
    """Ask again with less; ``None`` where there is nothing to leave out.

    The answer to a part of the prompt is dropped, since its beginning, with the task, may be what is missing.
    """
    tokens = cut.usage.input_tokens
    sentence = (
        f"{cut.model} read only {tokens} tokens of a longer prompt, so its server's window is smaller than "
        "presumed."
    )
    limited = evolve(estimate, limit=tokens, read=0)
    state = replaced(state, transcript=evolve(state.transcript, estimate=limited, lost=sentence))
    context.hooks.on_context_lost(state, estimate.fixed + size, tokens)
    # a request is fitted in bytes, of which this model takes several for a token
    bytes_per_token = max(1.0, estimate.fixed / estimate.fixed_tokens) if estimate.fixed_tokens else 1.0
    readable = Window(int(tokens * bytes_per_token), known=False)
    fitting = await fitted(state, context, request, readable, "window")
    found = fitting.value_or(None)
    if found is None or found[0] is state:
        return state, None
    less, shorter, after, size = found
    answer = await attempt(context.llm.complete(shorter))
    if not isinstance(answer, Success):
        return state, None
    response = _after(cut.spent, answer.unwrap())
    after = token_estimate.answered(after, len(less.messages), size, 0, response.usage)
    return less, (less, shorter, response, after)


def _characters(request: ModelRequest) -> int:
    """Return the characters of a request; a repetition, as of blanks, is one."""
    messages = sum(len(_REPETITION.sub(r"\1", message.content)) for message in request.messages)
    return messages + sum(len(tool.description) + len(tool.schema_text) for tool in request.tools)


def _after(refused: tuple[RunUsage, ...], response: ModelResponse) -> ModelResponse:
    return evolve(response, refused=(*refused, *response.refused))


def _failed_after(refused: tuple[RunUsage, ...], error: errors.LLMErrors) -> errors.LLMErrors:
    if isinstance(error, errors.BudgetExceeded | errors.BudgetUnavailable):
        return error
    return evolve(error, refused=(*refused, *error.refused))


def _request(state: KernelState, context: KernelContext, *, with_tools: bool) -> ModelRequest:
    request = assemble(state, context)
    return request if with_tools else without_tools(request, context)
