"""Compaction of transcripts: when it happens, by which method, and its event.

A run must not end because its own conversation has outgrown the model's window, and must not lose what it
found out. So a transcript is shortened in two situations. As it grows, before the window is full, earlier
turns are replaced by a summary, made by templates, by a model or by a custom function. When a request still
does not fit, or the provider refuses it as too long, old results and texts are dropped until it fits; that
needs no configured method and cannot fail.

What must stay true: the prefix of every request does not change; a call and its result stay or go together;
everything that is removed can be read again under its key; and the last turn stays word for word, unless it
is too large by itself.
"""

from __future__ import annotations

from attrs import evolve, frozen
from returns.result import Result

from reactive_agents.core import errors
from reactive_agents.core.config import CompactionMethod
from reactive_agents.core.events import CompactionReason
from reactive_agents.core.messages import AssistantMessage, ToolMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.usage import Usage
from reactive_agents.core.values import Value, replaced
from reactive_agents.kernel.context import CompactionMaterial, KernelContext
from reactive_agents.kernel.context_window import token_estimate
from reactive_agents.kernel.context_window.window import (
    FittedRequest,
    RequestFrame,
    Window,
    budget_of,
    fit_request,
    result_keys,
    usual_window,
)
from reactive_agents.kernel.reducers import with_usage
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.termination import last_words

LEAST_SHARE = 0.25
"""The share of the window below which no method summarizes the transcript."""
AUTO_SHARE = 0.5
"""The share of the window from which on ``auto`` summarizes, when the request takes it."""
MODEL_SHARE = 0.75
"""The share of the window from which on ``auto`` asks a large model, when the run's history takes it."""
GROWTH = 1.5
"""How many times its size after the last summary the transcript must have before the next one."""
LATE_SHARE = 0.75
"""The share of the window from which on less growth is enough, since compaction is due soon anyway."""
LATE_GROWTH = 1.1
KEPT_SHARE = 0.05
"""The share of the window for whole turns at the end that are kept; the last turn always is."""
SUMMARY_SHARE = 0.05
"""The share of the window that a summary may take."""
LONGEST_SUMMARY = 16_000
"""The most characters of a summary, however large the window is."""
WORTH_IT = 0.8
"""How far the transcript must shrink, as a multiple; a smaller gain is not worth a new prefix."""


@frozen(slots=False, eq=False, repr=False)
class SizedRequest(Value):
    """A request to the model, with what is known of its size.

    Attributes:
        state: the state whose transcript the request has.
        estimate: the estimate of the transcript before the model answered.
        size: bytes of the transcript.
        added: bytes of the request that the tokens of the estimate do not cover.
        guidance: bytes of the guidance in the request.
    """

    state: KernelState
    request: ModelRequest
    estimate: token_estimate.TokenEstimate
    size: int
    added: int = 0
    guidance: int = 0

    def estimate_after(self, usage: Usage) -> token_estimate.TokenEstimate:
        """Return the estimate after an answer, by the usage that the provider reports."""
        messages = len(self.state.messages)
        return token_estimate.answered(
            self.estimate, messages, self.size, self.added, usage, guidance=self.guidance
        )


@frozen(eq=False, repr=False)
class Filling(Value):
    """The most that the next request takes of the model's window.

    Attributes:
        size: bytes of the transcript.
        tokens: tokens of the request.
        transcript_tokens: tokens of the transcript in it.
        window_tokens: tokens of the window; a request that takes seven eighths of it has to be compacted.
    """

    size: int
    tokens: int
    transcript_tokens: int
    window_tokens: int

    @property
    def share(self) -> float:
        """The request as a part of the window; may exceed 1."""
        return self.tokens / self.window_tokens

    @property
    def bytes_per_token(self) -> float:
        """Bytes of the transcript for each token; about 1 if the provider has not counted."""
        return max(1, self.size) / max(1, self.transcript_tokens)

    @property
    def window_size(self) -> float:
        """The bytes of such a transcript that fill the window."""
        return self.window_tokens * self.bytes_per_token


def filling_of(state: KernelState, context: KernelContext, window: Window, size: int, added: int) -> Filling:
    """Return the filling before the model's next turn.

    Args:
        window: the model's window.
        size: bytes of the transcript, as :func:`sized` returns them, with those that are not counted.
    """
    estimate = state.transcript.estimate
    tokens = token_estimate.at_most(estimate, size, added)
    counted = max(0, tokens - estimate.fixed_tokens)
    return Filling(size, tokens, min(size, counted), usual_window(context, window))


def method_for(state: KernelState, context: KernelContext, filling: Filling) -> CompactionMethod | None:
    """Return how the transcript is summarized before the next turn, if it is."""
    method = context.input.compaction.method
    if method == "drop" or filling.transcript_tokens < LEAST_SHARE * filling.window_tokens:
        return None
    growth = LATE_GROWTH if filling.share >= LATE_SHARE else GROWTH
    if filling.size < growth * state.transcript.shortened_to:
        return None
    if method != "auto":
        return method
    if filling.share < AUTO_SHARE:
        return None
    history = filling.size + state.transcript.taken_out
    is_large = context.profile.tier in ("large", "frontier")
    return "model" if is_large and history >= MODEL_SHARE * filling.window_size else "template"


async def with_summary(
    state: KernelState, context: KernelContext, window: Window, size: int, added: int
) -> KernelState:
    """Return the state with earlier turns summarized, when that saves enough."""
    if not state.messages or context.input.compaction.method == "drop":
        return state
    if size < LEAST_SHARE * usual_window(context, window):  # nor has it as many tokens
        return state
    filling = filling_of(state, context, window, size, added)
    method = method_for(state, context, filling)
    if method is None:
        return state
    from reactive_agents.kernel.context_window.summary import (  # by runs that outgrow the window
        divide,
        failing_calls,
        failing_lines,
        stored_keys,
        summarize,
        write_summary,
    )

    division = divide(state.messages, int(KEPT_SHARE * filling.window_size))
    staying = token_estimate.transcript_size(division.foreign + division.kept)
    if not division.dropped or staying > WORTH_IT * filling.size:
        return state
    seen = state.transcript
    failing = failing_calls(state.steps[seen.failing_at :], seen.failing)
    longest = min(int(SUMMARY_SHARE * filling.window_size), LONGEST_SUMMARY)
    material = CompactionMaterial(
        task=context.input.task,
        records=division.records,
        dropped=division.dropped,
        kept=division.kept,
        keys=result_keys(state, state.messages),
        failing=failing_lines(failing),
        budget=min(longest, (filling.size - staying) // 2),
    )
    summary = await summarize(material, method, context, window_tokens=filling.window_tokens)
    kept = {message.call_id for message in division.kept if isinstance(message, ToolMessage)}
    written = write_summary(summary.records, material.failing, stored_keys(state.steps, kept))
    messages = (*division.foreign, written, *division.kept)
    size = token_estimate.transcript_size(messages)
    paid = with_usage(state, summary.spent)
    if size > WORTH_IT * filling.size:
        return replaced(paid, transcript=evolve(seen, shortened_to=filling.size))
    after = replaced(
        paid,
        messages=messages,
        transcript=token_estimate.Transcript(
            token_estimate.without_counts(seen.estimate),
            shown_in_part=seen.shown_in_part or any(stored_keys(state.steps, kept)),
            shortened_to=size,
            taken_out=seen.taken_out + filling.size - size,
            last_words=last_words(state),
            lost=seen.lost,
            failing=failing,
            failing_at=len(state.steps),
        ),
    )
    _report("growth", summary.method, summary.problem, state, after, filling, context)
    return after


async def compacted_request(
    state: KernelState,
    context: KernelContext,
    request: ModelRequest,
    window: Window,
    reason: CompactionReason,
) -> Result[SizedRequest, errors.ContextOverflow]:
    """Return a smaller request in place of one that does not fit.

    Fails with ``ContextOverflow`` when nothing that may be left out would make it fit.

    Args:
        reason: with ``refused`` the transcript is shortened to half of its size.
    """
    readable = request
    if request.tools:  # what is taken out has to be readable
        readable = evolve(request, tools=context.toolset.available(recall=True))
    estimate, _ = token_estimate.with_fixed_parts(state.transcript.estimate, context.prefix, readable.tools)
    counter = context.counter.value_or(None)
    guided = len(request.messages) > len(context.prefix) + len(state.messages)
    fitting = fit_request(
        readable,
        budget_of(window.tokens, request.max_tokens),
        (lambda _: None) if counter is None else counter.count,
        frame=RequestFrame(len(context.prefix), guided, estimate.fixed_tokens, window.known),
        state=state,
        halve=reason == "refused",
    )
    return fitting.map(lambda found: _sent(state, context, request, estimate, found, reason, window))


def _sent(
    state: KernelState,
    context: KernelContext,
    request: ModelRequest,
    estimate: token_estimate.TokenEstimate,
    found: FittedRequest,
    reason: CompactionReason,
    window: Window,
) -> SizedRequest:
    size = token_estimate.transcript_size(found.messages)
    if found.messages == state.messages:
        estimate, _ = token_estimate.with_fixed_parts(
            state.transcript.estimate, context.prefix, request.tools
        )
        return SizedRequest(state, request, _with_count(estimate, found), size)
    before = token_estimate.sized(state.transcript.estimate, state.messages)
    filling = filling_of(state, context, window, *before)
    after = replaced(
        state,
        messages=found.messages,
        scratchpad=state.scratchpad | found.stored,
        transcript=evolve(
            state.transcript,
            estimate=_with_count(evolve(estimate, sized=len(found.messages), bytes=size, read=0), found),
            shown_in_part=True,
            shortened_to=0,
            taken_out=state.transcript.taken_out + filling.size - size,
            last_words=last_words(state),
        ),
    )
    _report(reason, "drop", "", state, after, filling, context)
    return SizedRequest(after, found.request, after.transcript.estimate, size)


def _with_count(estimate: token_estimate.TokenEstimate, found: FittedRequest) -> token_estimate.TokenEstimate:
    return evolve(estimate, counted=len(found.messages) if found.tokens else 0, tokens=found.tokens)


def _report(
    reason: CompactionReason,
    method: CompactionMethod,
    problem: str,
    before: KernelState,
    after: KernelState,
    filling: Filling,
    context: KernelContext,
) -> None:
    size, _ = token_estimate.sized(after.transcript.estimate, after.messages)
    context.hooks.on_compacted(
        after,
        reason=reason,
        method=method,
        configured=context.input.compaction.method,
        turns=_turns(before) - _turns(after),
        size_before=filling.size,
        size_after=size,
        tokens_before=filling.tokens,
        tokens_after=filling.tokens - int((filling.size - size) / filling.bytes_per_token),
        window_tokens=filling.window_tokens,
        problem=problem,
    )


def _turns(state: KernelState) -> int:
    return sum(isinstance(message, AssistantMessage) for message in state.messages)
