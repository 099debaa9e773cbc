"""Model calls of a kernel, with requests that fit the context window.

A request is measured before it is sent, and compacted until it fits. Where a provider still refuses it, or a
server has read only a part of it, it is compacted further and sent once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import TypeAlias

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.messages import AssistantMessage
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import lazy_pattern, replaced
from reactive_agents.effects import attempt
from reactive_agents.kernel.announcements import begins_words, speaks_to_reader
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.context_window import token_estimate
from reactive_agents.kernel.context_window.compaction import SizedRequest, compacted_request, with_summary
from reactive_agents.kernel.context_window.window import Window, budget_of, window_of
from reactive_agents.kernel.prompt import assemble, turn_guidance, without_tools
from reactive_agents.kernel.state import KernelState

_FIGURE, _QUESTION = re.compile(r"\d"), re.compile(r"[?？]")
_LEAST_FORGOTTEN = 8_000
"""Bytes of a prompt that a server may have cut; no window is smaller than 1,024 tokens."""
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
        read = response.usage.input_tokens
        lost = (
            f"{response.model} read only {read} tokens of a longer prompt, so its server's window is smaller"
        )
        return Success(await _ask_with_less(sent, response, context, lost, read, is_sure=True))
    is_long = sent.size > 0 and sent.estimate.fixed + sent.size >= _LEAST_FORGOTTEN
    if not response.usage.reported and is_long and _asks_for_task(sent.request, response, context):
        shown = [each.content for each in sent.request.messages[1:] if not isinstance(each, AssistantMessage)]
        text = response.content
        is_sure = _FIGURE.search(text) is None and _has_nothing_of(text, shown, sent.request)
        lost = f"A reply of {response.model} has nothing of its task, so its server's window may be smaller"
        half = (sent.estimate.fixed + sent.size) // 2
        return Success(await _ask_with_less(sent, response, context, lost, half, is_sure=is_sure))
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
    request = assemble(state, context)
    if not with_tools:
        request = without_tools(request, context)
    estimate, more = token_estimate.with_fixed_parts(state.transcript.estimate, context.prefix, request.tools)
    pieces = turn_guidance(state, context)
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


async def _ask_with_less(
    sent: SizedRequest, cut: ModelResponse, context: KernelContext, lost: str, tokens: int, *, is_sure: bool
) -> Asked:
    """Ask again with less, after the model has read only a part of the request.

    Its answer to that part is dropped, since the beginning, with the task, may be what it did not read. It
    counts where there is nothing to leave out, or the model does not answer again.

    Args:
        lost: the sentence that reports the loss, without its last words.
        tokens: tokens that the server has read, as far as is known.
        is_sure: whether the context is lost whatever the model answers to less. If not, an answer to less
            that asks for the task again shows that nothing was lost, since the model means to ask.
    """
    estimate, transcript = sent.estimate, sent.state.transcript
    limited = evolve(estimate, limit=tokens, read=0)
    reason = f"{lost} than presumed."
    state = replaced(sent.state, transcript=evolve(transcript, estimate=limited, lost=reason))
    if is_sure:
        context.hooks.on_context_lost(state, estimate.fixed + sent.size, tokens)
    # a request is fitted in bytes, of which this model takes several for a token
    bytes_per_token = max(1.0, estimate.fixed / estimate.fixed_tokens) if estimate.fixed_tokens else 1.0
    readable = Window(int(tokens * bytes_per_token), known=False)
    less = (await compacted_request(state, context, sent.request, readable, "window")).value_or(None)
    answer = None
    if less is not None and less.state is not state:
        answer = await attempt(context.llm.complete(less.request))
    if less is None or not isinstance(answer, Success):
        kept = state if is_sure else sent.state
        unread = evolve(estimate, limit=kept.transcript.estimate.limit, read=0)
        return replaced(sent, state=kept, estimate=unread), cut
    response = answer.unwrap()
    if not is_sure:
        if _asks_for_task(less.request, response, context):
            return replaced(sent, added=0, guidance=0), _with_refused(response.spent, cut)
        context.hooks.on_context_lost(state, estimate.fixed + sent.size, tokens)
    return less, _with_refused(cut.spent, response)


def _asks_for_task(request: ModelRequest, response: ModelResponse, context: KernelContext) -> bool:
    """Return whether a reply asks the user what the task states.

    It has no word of the task, and names no tool. That is all that shows a lost beginning where the server
    counts no tokens.
    """
    text = response.content
    asks = _QUESTION.search(text) is not None and speaks_to_reader(text)
    return (
        asks
        and not response.tool_calls
        and bool(request.tools)
        and _has_nothing_of(text, [context.input.asked], request)
    )


def _has_nothing_of(text: str, shown: Iterable[str], request: ModelRequest) -> bool:
    """Return whether a text has no word of what was shown, or of the names of tools."""
    known = begins_words("\n".join((*shown, *(tool.name.replace("-", " ") for tool in request.tools))))
    return bool(known) and "{" not in text and begins_words(text).isdisjoint(known)


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
