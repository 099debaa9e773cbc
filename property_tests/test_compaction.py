"""Whatever a transcript holds, its summary is valid, shorter, and loses no key."""

from __future__ import annotations

from typing import Any

import anyio
from attrs import evolve
from hypothesis import event, example, given
from hypothesis import strategies as st

from reactive_agents.core.config import ContextProfileOverrides
from reactive_agents.core.errors import KernelErrors, ModelUnavailable
from reactive_agents.core.events import ContextCompacted
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from reactive_agents.core.models import FinishReason, Usage
from reactive_agents.core.results import ReasoningStep, StepMetadata
from reactive_agents.effects import Effect
from reactive_agents.kernel import (
    CompactionMaterial,
    CompactionSettings,
    KernelContext,
    KernelState,
    deserialize_kernel_state,
    react_kernel,
    serialize_kernel_state,
    transition_state,
)
from reactive_agents.kernel.context_window.compaction import with_summary
from reactive_agents.kernel.context_window.summary import (
    divide,
    is_summary,
    read_records,
    template_records,
    write_summary,
)
from reactive_agents.kernel.context_window.token_estimate import (
    TokenEstimate,
    message_size,
    sized,
    transcript_size,
)
from reactive_agents.kernel.context_window.window import result_keys, window_of
from reactive_agents.testing import Turn, answer, call, fail, say
from reactive_agents.testing.core import START
from tests.support.kernels import KernelBench, assert_valid_transcript, kernel_bench, new_state
from tests.support.profiles import examples
from tests.support.transcripts import keys_for

# --- transcripts ----------------------------------------------------------------------------------------

awkward = st.sampled_from(
    [
        "",
        "- a list",
        "</earlier-turns>",
        "Calls that failed and have not worked since:",
        "Further results that are stored: [look-1]",
        "one\u2028two\x85three\rfour",
        "[look-2] look gave: nothing",
        "word " * 300,
    ]
)
texts = awkward | st.text(max_size=40)
results = texts | st.integers(100, 3_000).map("x".__mul__)
tools = st.sampled_from(["look", "web-search", "a b"])
outcomes = st.lists(st.tuples(tools, results, st.booleans(), texts), max_size=3)


@st.composite
def transcripts(draw: st.DrawFn, max_turns: int = 8) -> tuple[Message, ...]:
    """Turns with their results, and now and then a message of somebody else."""
    messages: list[Message] = []
    for number, (said, made) in enumerate(draw(st.lists(st.tuples(texts, outcomes), max_size=max_turns))):
        calls = tuple(
            ToolCall(CallId(f"call-{number}.{index}"), tool, {"asked": asked})
            for index, (tool, _, _, asked) in enumerate(made)
        )
        messages.append(AssistantMessage(said, calls))
        messages.extend(
            ToolMessage(call.id, call.name, text, is_error)
            for call, (_, text, is_error, _) in zip(calls, made, strict=True)
        )
        if draw(st.integers(0, 9)) == 0:
            messages.append(UserMessage(draw(texts)))
    return tuple(messages)


def state_with(messages: tuple[Message, ...], shortened: KernelState | None = None) -> KernelState:
    """A state in which the kernel has come to that transcript."""
    state = shortened or new_state()
    steps = tuple(
        ReasoningStep(
            id=f"k-{call_id}",  # type: ignore[arg-type]
            type="observation",
            content="",
            timestamp=START,
            metadata=StepMetadata(call_id=call_id, result_key=key),
        )
        for call_id, key in keys_for(messages).items()
    )
    return evolve(state, messages=messages, steps=steps, iteration=3)


def summarized(
    state: KernelState, settings: CompactionSettings, *, window: int, script: tuple[Turn, ...] = ()
) -> tuple[KernelState, KernelBench]:
    """The state that follows, and the bench that saw it."""
    bench = kernel_bench(*script)
    context = bench.context(
        context_profile=ContextProfileOverrides(window_tokens=window), compaction=settings
    )
    size, added = sized(state.transcript.estimate, state.messages)
    room = window_of(context, state.transcript.estimate)
    return anyio.run(with_summary, state, context, room, size, added), bench


TEMPLATE, BY_MODEL = CompactionSettings("template"), CompactionSettings("model")
windows = st.sampled_from([1_024, 4_096, 32_768])

# --- laws -----------------------------------------------------------------------------------------------


def assert_sound(before: KernelState, after: KernelState) -> None:
    """Check the laws of every summary, by whichever method."""
    assert_valid_transcript(after.messages)
    assert deserialize_kernel_state(serialize_kernel_state(after)).unwrap() == after
    assert (after.steps, after.scratchpad, after.status) == (before.steps, before.scratchpad, before.status)
    assert after.tokens >= before.tokens
    if after.messages == before.messages:
        return
    assert sized(after.transcript.estimate, after.messages) == sized(TokenEstimate(), after.messages)
    assert after.transcript.shortened_to == transcript_size(after.messages)
    assert transcript_size(after.messages) <= 0.8 * transcript_size(before.messages)
    last = max(index for index, each in enumerate(before.messages) if isinstance(each, AssistantMessage))
    ending = before.messages[last:]
    assert after.messages[-len(ending) :] == ending
    others = [each for each in before.messages if isinstance(each, UserMessage) and not is_summary(each)]
    assert [each for each in after.messages if each in others] == others
    (notes,) = [each for each in after.messages if is_summary(each)]
    stay = {each.call_id for each in after.messages if isinstance(each, ToolMessage)}
    gone = [key for call_id, key in result_keys(before, before.messages).items() if call_id not in stay]
    assert [key for key in gone if f"[{key}]" not in notes.content] == []
    assert after.transcript.shown_in_part or not gone


# four bytes each: of these alone, a window holds far fewer characters
wide = "\N{LINEAR B SYLLABLE B008 A}" * 400
uneven: tuple[Message, ...] = (
    AssistantMessage("", (ToolCall(CallId("call-0.0"), "look", {}),)),
    ToolMessage(CallId("call-0.0"), "look", "x" * 3_000),
    AssistantMessage(wide + "y" * 500),
    AssistantMessage("last"),
)


@examples(20)
@given(messages=transcripts(), window=windows)
@example(messages=uneven, window=32_768)
def test_templates_are_sound_repeatable_and_idempotent(messages: tuple[Message, ...], window: int) -> None:
    state = state_with(messages)
    after, bench = summarized(state, TEMPLATE, window=window)
    event("changed" if after.messages != messages else "unchanged")
    assert_sound(state, after)
    assert bool(bench.recorder.of(ContextCompacted)) == (after.messages != messages)
    assert summarized(state, TEMPLATE, window=window)[0] == after
    again, _ = summarized(after, TEMPLATE, window=window)
    assert again.messages == after.messages


@examples(15)
@given(first=transcripts(), more=transcripts(4), window=windows)
def test_notes_are_folded_and_never_doubled(
    first: tuple[Message, ...], more: tuple[Message, ...], window: int
) -> None:
    state, _ = summarized(state_with(first), TEMPLATE, window=window)
    renamed = tuple(map(_renamed, more))
    grown = evolve(state, messages=state.messages + renamed)
    keys = {**result_keys(state, state.messages), **{each: f"late-{each}" for each in keys_for(renamed)}}
    steps = tuple(
        ReasoningStep(
            id=f"k-{call_id}",  # type: ignore[arg-type]
            type="observation",
            content="",
            timestamp=START,
            metadata=StepMetadata(call_id=call_id, result_key=key),
        )
        for call_id, key in keys.items()
    )
    grown = evolve(grown, steps=steps)
    after, _ = summarized(grown, TEMPLATE, window=window)
    assert_sound(grown, after)
    assert sum(map(is_summary, after.messages)) <= 1


def _renamed(message: Message) -> Message:
    match message:
        case AssistantMessage(content, calls):
            return AssistantMessage(content, tuple(evolve(each, id=CallId(f"{each.id}b")) for each in calls))
        case ToolMessage(call_id, tool_name, content, is_error):
            return ToolMessage(CallId(f"{call_id}b"), tool_name, content, is_error)
    return message


answers = st.builds(
    lambda text, reason: say(text, finish_reason=reason),
    texts | st.text(max_size=2_000),
    st.sampled_from(list[FinishReason](["stop", "length", "content_filter", "other"])),
) | st.just(fail(ModelUnavailable("It is down.", "m")))


@examples(20)
@given(messages=transcripts(), window=windows, answer=st.none() | answers)
def test_whatever_a_model_says_the_transcript_is_sound(
    messages: tuple[Message, ...], window: int, answer: Turn | None
) -> None:
    state = state_with(messages)
    after, bench = summarized(state, BY_MODEL, window=window, script=(answer,) if answer else ())
    told = bench.recorder.of(ContextCompacted)
    event(f"{told[0].method} {bool(told[0].problem)}" if told else "unchanged")
    assert_sound(state, after)
    assert after.tokens - state.tokens == bench.meter.usage.tokens
    assert len(bench.llm.requests) <= 1


@examples(15)
@given(messages=transcripts(), window=windows, made=texts | st.none() | st.integers())
def test_whatever_a_function_gives_the_transcript_is_sound(
    messages: tuple[Message, ...], window: int, made: Any
) -> None:
    state = state_with(messages)
    settings = CompactionSettings("custom", function=lambda material: made)
    after, _ = summarized(state, settings, window=window)
    assert_sound(state, after)


@given(messages=transcripts(), room=st.integers(0, 5_000))
def test_a_division_loses_nothing(messages: tuple[Message, ...], room: int) -> None:
    divided = divide(messages, room)
    parts = divided.foreign + divided.dropped + divided.kept
    assert sorted(map(repr, parts)) == sorted(map(repr, messages))
    assert_valid_transcript(divided.dropped)
    assert_valid_transcript(divided.kept)


@given(
    messages=transcripts(),
    budget=st.integers(0, 5_000),
    records=st.lists(texts.map("- ".__add__), max_size=3),
)
def test_records_hold_the_budget_and_survive_the_way_there_and_back(
    messages: tuple[Message, ...], budget: int, records: list[str]
) -> None:
    known = read_records(write_summary(records, (), ()))
    material = CompactionMaterial("Task", known, messages, (), keys_for(messages), (), budget)
    made = template_records(material)
    assert sum(map(len, made)) + len(made) <= max(budget, 60)
    back = read_records(write_summary(made, ("x: failed",), ("look-1", "late-2")))
    assert read_records(write_summary(back, (), ())) == back
    assert len(back) in (len(made), len(made) - 1)


# --- summaries and dropped results ----------------------------------------------------------------------

usages = st.just(Usage(reported=False)) | st.integers(0, 4_000).map(
    lambda tokens: Usage(tokens, 9, tokens + 9)
)
read = st.tuples(st.integers(0, 1_500) | st.integers(0, 9_000), usages, st.integers(0, 9))


@examples(15)
@given(turns=st.lists(read, min_size=1, max_size=14), window=st.integers(5_000, 9_000))
def test_no_figure_is_of_other_messages_than_there_are(
    turns: list[tuple[int, Usage, int]], window: int
) -> None:
    """Also when a summary, dropped results or a hook that leaves the number as it was change them."""
    script = [call("read", at=at, usage=usage) for at, (_, usage, _) in enumerate(turns)]
    bench = kernel_bench(*script, answer("done"), tools={"read": lambda at: "x€"[at % 2] * turns[at][0]})

    def watched(state: KernelState, context: KernelContext) -> Effect[KernelState, KernelErrors]:
        assert sized(state.transcript.estimate, state.messages)[0] == sum(map(message_size, state.messages))
        assert state.transcript.estimate.counted <= len(state.messages)
        return react_kernel(state, context)

    def meddled(state: KernelState, context: KernelContext) -> Effect[KernelState, KernelErrors]:
        if state.status == "thinking" and state.messages and turns[state.iteration - 1][2] == 0:
            *before, last = state.messages
            others = (*before, evolve(last, content="A hook was here. " * 20))
            state = transition_state(state, messages=others).unwrap()
            assert state.transcript.estimate.tokens == 0
        return watched(state, context)

    async def run() -> KernelState:
        profile = ContextProfileOverrides(window_tokens=window, tool_result_chars=50_000)
        settings = CompactionSettings("auto")
        return await bench.run(meddled, max_iterations=20, context_profile=profile, compaction=settings)

    state = anyio.run(run)
    assert state.output == "done"
    for request in bench.llm.requests:
        assert_valid_transcript(request.messages)
    event(f"{sorted({each.reason for each in bench.recorder.of(ContextCompacted)})}")


@examples(15)
@given(
    lengths=st.lists(st.integers(0, 900) | st.integers(500, 900), min_size=1, max_size=30),
    window=st.integers(6_000, 20_000),
    reserved=st.none() | st.integers(1, 1_000),
)
def test_where_no_turn_is_large_nothing_has_to_be_dropped(
    lengths: list[int], window: int, reserved: int | None
) -> None:
    script = [call("read", at=at, usage=Usage(reported=False)) for at in range(len(lengths))]
    bench = kernel_bench(*script, answer("done"), tools={"read": lambda at: "x" * lengths[at]})

    async def run() -> KernelState:
        profile = ContextProfileOverrides(window_tokens=window, tool_result_chars=50_000)
        how: Any = {"context_profile": profile, "max_tokens": reserved, "max_iterations": 40}
        return await bench.run(react_kernel, **how, compaction=CompactionSettings("auto"))

    assert anyio.run(run).output == "done"
    told = bench.recorder.of(ContextCompacted)
    assert {each.reason for each in told} <= {"growth"}
    event(f"summarized {len(told)}")
