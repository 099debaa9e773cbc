"""Model calls of a kernel, with requests that fit the context window.

A request is measured before it is sent, and compacted until it fits. Where a provider still refuses it, or a
server has read only a part of it, it is compacted further and sent once more.
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import lazy_pattern, replaced
from reactive_agents.effects import attempt
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.context_window import token_estimate
from reactive_agents.kernel.context_window.compaction import SizedRequest, compacted_request, with_summary
from reactive_agents.kernel.context_window.window import Window, budget_of, window_of
from reactive_agents.kernel.prompt import assemble, turn_guidance, without_tools
from reactive_agents.kernel.state import KernelState

_REPETITION = lazy_pattern(r"([\W_])\1{2,}")

Asked: TypeAlias = tuple[SizedRequest, ModelResponse]
"""The request that the model answered, and its answer."""


async def ask(
    state: KernelState, context: KernelContext, *, with_tools: bool = True
) -> Result[Asked, errors.ModelCallFailed]:
    """Call the model for its next turn.

    Earlier turns are summarized first where that is configured, and a request that still does not fit is
    compacted before it is sent. When the provider refuses a request as too long, or has read only a part of
    it, the request is compacted further and sent once more.

    Fails with ``ModelCallFailed``: because of the model's failure, or with ``ContextOverflow`` before any
    call when nothing that may be left out would make the request fit.
    """
    sent = await _fitting_request(state, context, with_tools=with_tools)
    if not isinstance(sent, SizedRequest):
        return Failure(sent)
    answer = await attempt(context.llm.complete(sent.request))
    if not isinstance(answer, Success):
        error = answer.failure()
        if isinstance(error, errors.ContextOverflow):
            sent, answer = await _ask_with_half(sent, error, context)
    if not isinstance(answer, Success):
        return Failure(errors.ModelCallFailed(sent.request.purpose, sent.state.iteration, answer.failure()))
    response = answer.unwrap()
    characters = partial(_characters, sent.request)
    if token_estimate.unread(sent.estimate, sent.size, characters, response.usage, guidance=sent.guidance):
        return Success(await _ask_with_less(sent, response, context))
    return Success((sent, response))


async def _fitting_request(
    state: KernelState, context: KernelContext, *, with_tools: bool
) -> SizedRequest | errors.ModelCallFailed:
    """Return the request of the next turn, summarized and compacted as far as needed."""
    whole, (size, added) = state, token_estimate.sized(state.transcript.estimate, state.messages)
    window = window_of(context, whole.transcript.estimate)
    state = await with_summary(state, context, window, size, added)
    if state is not whole:
        size, added = token_estimate.sized(state.transcript.estimate, state.messages)
    pieces = turn_guidance(state, context)
    request = assemble(state, context, pieces)
    if not with_tools:
        request = without_tools(request, context)
    estimate, more = token_estimate.with_fixed_parts(state.transcript.estimate, context.prefix, request.tools)
    for piece in pieces[len(state.guidance) :]:  # the runner has announced the others
        context.hooks.on_guidance(piece)
    guidance = token_estimate.message_size(request.messages[-1]) if pieces else 0
    budget = budget_of(window.tokens, request.max_tokens)
    added += more + guidance
    if token_estimate.at_most(estimate, size + guidance, added) <= budget:
        return SizedRequest(state, request, estimate, size, added, guidance)
    compacted = await compacted_request(state, context, request, window, "window")
    if not isinstance(compacted, Success):
        return errors.ModelCallFailed(request.purpose, state.iteration, compacted.failure())
    fitting: SizedRequest = compacted.unwrap()
    return replaced(fitting, guidance=guidance)


async def _ask_with_half(
    sent: SizedRequest, error: errors.ContextOverflow, context: KernelContext
) -> tuple[SizedRequest, Result[ModelResponse, errors.LLMErrors]]:
    """Ask again with half of a request that was refused, or return the refusal."""
    limited = evolve(sent.estimate, limit=error.limit or sent.estimate.limit)
    state = replaced(sent.state, transcript=evolve(sent.state.transcript, estimate=limited))
    window = window_of(context, limited)
    halved = (await compacted_request(state, context, sent.request, window, "refused")).value_or(None)
    if halved is None or halved.state is state:
        return sent, Failure(error)
    halved = replaced(halved, guidance=sent.guidance)
    answer = await attempt(context.llm.complete(halved.request))
    if error.refused:
        answer = answer.map(partial(_with_refused, error.refused)).alt(
            partial(_failed_with_refused, error.refused)
        )
    return halved, answer


async def _ask_with_less(sent: SizedRequest, cut: ModelResponse, context: KernelContext) -> Asked:
    """Ask again with less, after the model has read only a part of the request.

    Its answer to that part is dropped, since the beginning, with the task, may be what it did not read. It
    counts where there is nothing to leave out, or the model does not answer again.
    """
    estimate, transcript, tokens = sent.estimate, sent.state.transcript, cut.usage.input_tokens
    limited = evolve(estimate, limit=tokens, read=0)
    read = f"{cut.model} read only {tokens} tokens of a longer prompt"
    reason = f"{read}, so its server's window is smaller than presumed."
    state = replaced(sent.state, transcript=evolve(transcript, estimate=limited, lost=reason))
    context.hooks.on_context_lost(state, estimate.fixed + sent.size, tokens)
    # a request is fitted in bytes, of which this model takes several for a token
    bytes_per_token = max(1.0, estimate.fixed / estimate.fixed_tokens) if estimate.fixed_tokens else 1.0
    readable = Window(int(tokens * bytes_per_token), known=False)
    less = (await compacted_request(state, context, sent.request, readable, "window")).value_or(None)
    answer = None
    if less is not None and less.state is not state:
        answer = await attempt(context.llm.complete(less.request))
    if less is None or not isinstance(answer, Success):
        return replaced(sent, state=state, estimate=limited), cut
    return less, _with_refused(cut.spent, answer.unwrap())


def _characters(request: ModelRequest) -> int:
    """Return the characters of a request; a repetition, as of blanks, is one."""
    messages = sum(len(_REPETITION.sub(r"\1", message.content)) for message in request.messages)
    return messages + sum(len(tool.description) + len(tool.schema_text) for tool in request.tools)


def _with_refused(refused: tuple[RunUsage, ...], response: ModelResponse) -> ModelResponse:
    return evolve(response, refused=(*refused, *response.refused))


def _failed_with_refused(refused: tuple[RunUsage, ...], error: errors.LLMErrors) -> errors.LLMErrors:
    if isinstance(error, errors.BudgetExceeded | errors.BudgetUnavailable):
        return error
    return evolve(error, refused=(*refused, *error.refused))
