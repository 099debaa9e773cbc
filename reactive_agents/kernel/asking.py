"""Asking the model: a request that fits its window, and a smaller one when the provider says it does not."""

from __future__ import annotations

from typing import TypeAlias

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ContextOverflow, ModelCallFailed
from reactive_agents.core.events import CompactionReason
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.core.replacing import replaced
from reactive_agents.effects import attempt
from reactive_agents.kernel.assemble import assemble
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.extent import Extent, message_size
from reactive_agents.kernel.hooks import Compaction
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.window import (
    Fitted,
    Frame,
    Window,
    budget_of,
    fit_request,
    nothing_counted,
    sized,
    surely_fits,
    window_of,
)

Ready: TypeAlias = tuple[KernelState, ModelRequest, Extent]
"""What is sent, with the state that has its transcript."""


async def ask(
    state: KernelState, context: KernelContext, *, with_tools: bool = True
) -> Result[tuple[KernelState, ModelRequest, ModelResponse, Extent], ModelCallFailed]:
    """Ask for the model's next turn.

    Gives the state with the transcript as it was sent, the request, the answer, and the request's extent. A
    request that does not fit is compacted before it is sent; one that the provider refuses as too long is
    compacted to half and sent once more. Fails with ``ModelCallFailed``: because of the model's failure, or
    with ``ContextOverflow`` before any call when nothing that could be left out would make it fit.
    """
    request = _request(state, context, with_tools=with_tools)
    extent, added = sized(state, context, request)
    window = window_of(context, extent)
    budget = budget_of(window.tokens, request.max_tokens)
    if not surely_fits(extent, added, _guidance_size(state, request), budget):
        fitted = await _fit(state, context, request, window, "window")
        if isinstance(fitted, Failure):
            return Failure(ModelCallFailed(request.purpose, state.iteration, fitted.failure()))
        state, request, extent = fitted.unwrap()
    answer = await attempt(context.llm.complete(request))
    if isinstance(answer, Success):
        return Success((state, request, answer.unwrap(), extent))
    error = answer.failure()
    if isinstance(error, ContextOverflow):
        state = replaced(state, extent=evolve(extent, limit=error.limit or extent.limit))
        halved = await _fit(state, context, request, window_of(context, state.extent), "refused")
        smaller = halved.value_or((state, request, extent))
        if smaller[0] is not state:
            state, request, extent = smaller
            answer = await attempt(context.llm.complete(request))
            if isinstance(answer, Success):
                return Success((state, request, answer.unwrap(), extent))
            error = answer.failure()
    return Failure(ModelCallFailed(request.purpose, state.iteration, error))


def _request(state: KernelState, context: KernelContext, *, with_tools: bool) -> ModelRequest:
    request = assemble(state, context)
    return request if with_tools else evolve(request, tools=(), parallel_tool_calls=None)


def _guidance_size(state: KernelState, request: ModelRequest) -> int:
    return message_size(request.messages[-1]) if state.guidance else 0


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
    extent, _ = sized(state, context, readable)
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
    if isinstance(fitting, Failure):
        return fitting
    fitted = fitting.unwrap()
    if fitted.messages == state.messages:
        extent, _ = sized(state, context, request)
        return Success((state, request, _with_count(extent, fitted)))
    after = replaced(
        state,
        messages=fitted.messages,
        scratchpad={**state.scratchpad, **fitted.stored},
        shown_in_part=True,
        extent=_resized(extent, fitted),
    )
    compaction = Compaction(reason, state.messages, fitted.messages, window.tokens)
    await context.hooks.on_compacted(after, compaction)
    return Success((after, fitted.request, after.extent))


def _with_count(extent: Extent, fitted: Fitted) -> Extent:
    if not fitted.tokens:
        return extent
    return evolve(extent, counted=len(fitted.messages), tokens=fitted.tokens)


def _resized(extent: Extent, fitted: Fitted) -> Extent:
    size = sum(map(message_size, fitted.messages))
    return _with_count(evolve(extent, sized=len(fitted.messages), bytes=size, counted=0, tokens=0), fitted)
