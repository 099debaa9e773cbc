"""Kernels: ReAct (Yao et al., 2022, arXiv:2210.03629), one-shot and a fixed call.

A kernel takes one step each time it is called; the status of the state says which. It only proposes an
answer: the policies decide whether that stands.

A request to the model is measured before it is sent, and compacted until it fits. Where a provider still
refuses it, or a server has read only a part of it, it is compacted further and sent once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TypeAlias, assert_never

from attrs import evolve
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.messages import AssistantMessage, ToolCall
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import lazy_pattern, replaced
from reactive_agents.effects import Effect, attempt, effect
from reactive_agents.kernel.call_parsing.response_calls import calls_of
from reactive_agents.kernel.context import KernelContext, ThoughtKernel
from reactive_agents.kernel.context_window import token_estimate
from reactive_agents.kernel.context_window.compaction import SizedRequest, compacted_request, with_summary
from reactive_agents.kernel.context_window.tool_results import result_text
from reactive_agents.kernel.context_window.window import Window, budget_of, window_of
from reactive_agents.kernel.embedded_calls import authorship
from reactive_agents.kernel.ledger import enter_answer, enter_calls
from reactive_agents.kernel.prompt import assemble, turn_guidance, without_tools
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

_REPETITION = lazy_pattern(r"([\W_])\1{2,}")

_Asked: TypeAlias = tuple[SizedRequest, ModelResponse]
"""The request that the model answered, and its answer."""


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
    asked = await _ask(state, context, with_tools=with_tools)
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


# --- Calls of the model, with requests that fit its context window ---


async def _ask(
    state: KernelState, context: KernelContext, *, with_tools: bool = True
) -> Result[_Asked, errors.ModelCallFailed]:
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


async def _ask_with_less(sent: SizedRequest, cut: ModelResponse, context: KernelContext) -> _Asked:
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
