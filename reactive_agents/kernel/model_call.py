"""Asking the model: a request that fits its window, and a smaller one when the provider says it does not."""

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
from reactive_agents.core.events import CompactionReason
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.core.usage import ModelSpending
from reactive_agents.core.values import replaced
from reactive_agents.effects import attempt
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.context_window.token_estimate import (
    Extent,
    TranscriptAccount,
    answered,
    at_most,
    characters_of,
    message_size,
    sized,
    with_fixed,
)
from reactive_agents.kernel.context_window.window import (
    Fitted,
    Frame,
    Window,
    budget_of,
    fit_request,
    nothing_counted,
    window_of,
)
from reactive_agents.kernel.events import Compaction
from reactive_agents.kernel.prompt import assemble
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.termination import last_words

Ready: TypeAlias = tuple[KernelState, ModelRequest, Extent, int]
"""What is sent: the state that has its transcript, the request, its extent, and the transcript's bytes."""
Asked: TypeAlias = tuple[KernelState, ModelRequest, ModelResponse, Extent]
"""The state with the transcript as it was sent, the request, the answer, and the extent of both."""


async def ask(
    state: KernelState, context: KernelContext, *, with_tools: bool = True
) -> Result[Asked, ModelCallFailed]:
    """Ask for the model's next turn.

    A request that does not fit is compacted before it is sent; one that the provider refuses as too long is
    compacted to half and sent once more. Fails with ``ModelCallFailed``: because of the model's failure, or
    with ``ContextOverflow`` before any call when nothing that could be left out would make it fit.
    """
    request = _request(state, context, with_tools=with_tools)
    size, added = sized(state.extent, state.messages)
    extent, more = with_fixed(state.extent, context.prefix, request.tools)
    guidance = message_size(request.messages[-1]) if state.guidance else 0
    window = window_of(context, extent)
    budget = budget_of(window.tokens, request.max_tokens)
    added += more + guidance
    if at_most(extent, size + guidance, added) > budget:
        fitted = await _fit(state, context, request, window, "window")
        if not isinstance(fitted, Success):
            return Failure(ModelCallFailed(request.purpose, state.iteration, fitted.failure()))
        state, request, extent, size = fitted.unwrap()
        added = 0
    answer = await attempt(context.llm.complete(request))
    error = None if isinstance(answer, Success) else answer.failure()
    if isinstance(error, ContextOverflow):
        state = replaced(state, extent=evolve(extent, limit=error.limit or extent.limit))
        halved = await _fit(state, context, request, window_of(context, state.extent), "refused")
        smaller = halved.value_or(None)
        if smaller is not None and smaller[0] is not state:
            state, request, extent, size = smaller
            added = 0
            answer = await attempt(context.llm.complete(request))
            if error.refused:
                answer = answer.map(partial(_after, error.refused)).alt(partial(_failed_after, error.refused))
    if not isinstance(answer, Success):
        return Failure(ModelCallFailed(request.purpose, state.iteration, answer.failure()))
    response = answer.unwrap()
    extent = answered(extent, len(state.messages), size, added, response.usage)
    return Success((state, request, response, extent))


def _after(refused: tuple[ModelSpending, ...], response: ModelResponse) -> ModelResponse:
    return evolve(response, refused=(*refused, *response.refused))


def _failed_after(refused: tuple[ModelSpending, ...], error: LLMErrors) -> LLMErrors:
    if isinstance(error, BudgetExceeded | BudgetUnavailable):
        return error
    return evolve(error, refused=(*refused, *error.refused))


def _request(state: KernelState, context: KernelContext, *, with_tools: bool) -> ModelRequest:
    request = assemble(state, context)
    return request if with_tools else evolve(request, tools=(), parallel_tool_calls=None)


async def _fit(
    state: KernelState,
    context: KernelContext,
    request: ModelRequest,
    window: Window,
    reason: CompactionReason,
) -> Result[Ready, ContextOverflow]:
    """What to send in place of the request; the request itself when nothing has to be taken out of it."""
    readable = request
    if request.tools:  # what is taken out has to be readable
        readable = evolve(request, tools=context.toolset.available(recall=True))
    extent, _ = with_fixed(state.extent, context.prefix, readable.tools)
    frame = Frame(len(context.prefix), len(state.guidance) > 0, extent.fixed_tokens, window.known)
    counter = context.counter.value_or(None)
    fitting = fit_request(
        readable,
        budget_of(window.tokens, request.max_tokens),
        nothing_counted if counter is None else counter.count,
        frame=frame,
        state=state,
        halve=reason == "refused",
    )
    if not isinstance(fitting, Success):
        return Failure(fitting.failure())
    fitted = fitting.unwrap()
    size = sum(map(message_size, fitted.messages))
    if fitted.messages == state.messages:
        extent, _ = with_fixed(state.extent, context.prefix, request.tools)
        return Success((state, request, _with_count(extent, fitted), size))
    after = replaced(
        state,
        messages=fitted.messages,
        scratchpad={**state.scratchpad, **fitted.stored},
        shown_in_part=True,
        transcript=_after_compaction(state, fitted),
        extent=_with_count(evolve(extent, sized=len(fitted.messages), bytes=size), fitted),
    )
    compaction = Compaction(reason, state.messages, fitted.messages, window.tokens)
    context.hooks.on_compacted(after, compaction)
    return Success((after, fitted.request, after.extent, size))


def _after_compaction(state: KernelState, fitted: Fitted) -> TranscriptAccount:
    saved = characters_of(state.messages) - characters_of(fitted.messages)
    return TranscriptAccount(taken_out=state.transcript.taken_out + saved, last_words=last_words(state))


def _with_count(extent: Extent, fitted: Fitted) -> Extent:
    return evolve(extent, counted=len(fitted.messages) if fitted.tokens else 0, tokens=fitted.tokens)
