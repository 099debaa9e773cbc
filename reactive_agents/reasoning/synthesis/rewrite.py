"""The combinator that puts earlier turns in short between the steps of any kernel."""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import KernelErrors
from reactive_agents.core.events import ContextSynthesized
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolMessage
from reactive_agents.effects import Effect, attempt, effect
from reactive_agents.kernel import KernelContext, KernelServices, KernelState, ThoughtKernel, transition_state
from reactive_agents.kernel.context_window.token_estimate import TranscriptAccount, characters_of, uncounted
from reactive_agents.kernel.reducers import with_spending
from reactive_agents.kernel.termination import last_words
from reactive_agents.reasoning.synthesis.methods import Composed, compose
from reactive_agents.reasoning.synthesis.notes import (
    Division,
    SynthesisMaterial,
    divide,
    shortened,
    write_notes,
)
from reactive_agents.reasoning.synthesis.settings import (
    LEAST_SHARE,
    Choice,
    SynthesisSettings,
    SynthesisSignals,
    choose,
    filling_of,
    is_surely_below,
    signals_of,
)

KEPT_SHARE = 0.05
"""Of the window, the whole turns at the end that stay as they are; the last one always does."""
NOTES_SHARE = 0.05
"""Of the window, what earlier turns are put in short to at most."""
LONGEST_NOTES = 16_000
"""Characters of that at most, however large the window is."""
WORTH_IT = 0.8
"""What the transcript must shrink to at least, as a multiple; a smaller gain is not worth a new prefix."""
_MOST_FAILING = 5
_LONGEST_FAILURE = 200


def with_synthesis(
    kernel: ThoughtKernel, settings: SynthesisSettings, services: KernelServices
) -> ThoughtKernel:
    """The same kernel, which finds earlier turns put in short before the model's turn when they are long.

    The last turn stays as it is, each call stays or goes together with its result, and what goes is named by
    the key of its stored result.

    Args:
        services: whose model ``deep`` asks, and whose events are told.
    """
    if settings.mode == "off":
        return kernel

    def step(state: KernelState, context: KernelContext) -> Effect[KernelState, KernelErrors]:
        if state.status != "thinking" or not state.messages or is_surely_below(state, context, LEAST_SHARE):
            return kernel(state, context)
        filling = filling_of(state, context)
        if filling.transcript_tokens < LEAST_SHARE * filling.window_tokens:
            return kernel(state, context)
        choice = choose(settings.mode, signals_of(state, context))
        if choice is None:
            return kernel(state, context)
        return _shortened_step(kernel, state, context, choice, settings, services)

    return step


@effect
async def _shortened_step(
    kernel: ThoughtKernel,
    state: KernelState,
    context: KernelContext,
    choice: Choice,
    settings: SynthesisSettings,
    services: KernelServices,
) -> Result[KernelState, KernelErrors]:
    shorter = await synthesize(state, context, choice, settings, services)
    if isinstance(shorter, Failure):
        return shorter
    return await attempt(kernel(shorter.unwrap(), context))


async def synthesize(
    state: KernelState,
    context: KernelContext,
    choice: Choice,
    settings: SynthesisSettings,
    services: KernelServices,
) -> Result[KernelState, KernelErrors]:
    """The state with earlier turns in short.

    The messages stay the same where that would save too little, and where they have not grown since they were
    last put in short: the window in characters is taken from what they consist of, and so it moves with them.
    """
    signals = signals_of(state, context)
    if signals.characters <= signals.shortened_to:
        return Success(state)
    before, window = signals.characters, signals.window_characters
    division = divide(state.messages, int(KEPT_SHARE * window))
    staying = characters_of(division.foreign + division.kept)
    if not division.dropped or staying > WORTH_IT * before:
        return Success(state)
    keys = keys_of(state)
    material = SynthesisMaterial(
        task=context.input.task,
        records=division.records,
        dropped=division.dropped,
        kept=division.kept,
        keys=keys,
        failing=failing_calls(state),
        budget=min(int(NOTES_SHARE * window), LONGEST_NOTES, (before - staying) // 2),
    )
    composed = await compose(
        material, choice.method, settings, context, services.llm, window_tokens=signals.window_tokens
    )
    kept = {message.call_id for message in division.kept if isinstance(message, ToolMessage)}
    gone = [key for call_id, key in keys.items() if call_id not in kept]
    notes = write_notes(composed.records, material.failing, gone)
    messages = (*division.foreign, notes, *division.kept)
    after = characters_of(messages)
    paid = with_spending(state, composed.spent)
    if after > WORTH_IT * before:
        return transition_state(paid, transcript=evolve(state.transcript, shortened_to=before))
    _tell(signals, choice, settings, services, composed, division, after)
    saved = state.transcript.taken_out + before - after
    return transition_state(
        paid,
        messages=messages,
        transcript=TranscriptAccount(after, saved, last_words(state)),
        extent=uncounted(state.extent),
        shown_in_part=state.shown_in_part or bool(gone),
    )


def keys_of(state: KernelState) -> dict[CallId, str]:
    """For each call of the run that has a stored result, its key."""
    return {
        step.metadata.call_id: step.metadata.result_key
        for step in state.steps
        if step.metadata and step.metadata.call_id is not None and step.metadata.result_key is not None
    }


def failing_calls(state: KernelState) -> tuple[str, ...]:
    """The last calls that were run, failed, and have not worked since, each with its error."""
    asked: dict[CallId, str] = {}
    errors: dict[str, str] = {}
    for step in state.steps:
        told = step.metadata
        if told is None or told.call_id is None:
            continue
        if step.type == "action":
            asked[told.call_id] = step.content
        elif told.origin == "executed":
            call = asked.get(told.call_id, told.tool_used or "")
            errors.pop(call, None)
            if told.success is False:
                errors[call] = step.content
    last = list(errors.items())[-_MOST_FAILING:]
    return tuple(shortened(f"{call}: {error}", _LONGEST_FAILURE) for call, error in last)


def _tell(
    signals: SynthesisSignals,
    choice: Choice,
    settings: SynthesisSettings,
    services: KernelServices,
    composed: Composed,
    division: Division,
    after: int,
) -> None:
    events = services.events.value_or(None)
    if events is None:
        return
    saved = int((signals.characters - after) / signals.characters_per_token)
    problem = f" {choice.method} failed: {composed.problem}" if composed.problem else ""
    events.publish(
        ContextSynthesized,
        mode=composed.method,
        asked=settings.mode,
        fell_back=bool(composed.problem),
        reason=choice.reason + problem,
        iteration=signals.iteration,
        turns=division.turns,
        characters_before=signals.characters,
        characters_after=after,
        tokens_before=signals.tokens,
        tokens_after=signals.tokens - saved,
        window_share=signals.window_share,
        idle_turns=signals.idle_turns,
        novelty=signals.novelty,
    )
