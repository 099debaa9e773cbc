"""The laws of the context window: it always fits, pairs stay together, and nothing is lost."""

from __future__ import annotations

import json
import re

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from property_tests.strategies import json_values, wild_texts
from reactive_agents.core.ids import CallId, StepId
from reactive_agents.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.results import ReasoningStep, StepMetadata
from reactive_agents.core.usage import Usage
from reactive_agents.kernel import KernelState
from reactive_agents.kernel.context_window.drop import compact
from reactive_agents.kernel.context_window.token_estimate import (
    TokenEstimate,
    answered,
    at_most,
    call_size,
    fixed_size,
    message_size,
    sized,
)
from reactive_agents.kernel.context_window.window import RequestFrame, fit_request
from reactive_agents.kernel.toolset import RECALL_TOOL
from reactive_agents.testing.core import START
from tests.support.kernels import assert_valid_transcript, new_state
from tests.support.profiles import examples

KEY = re.compile(r"stored as ([\w:-]+); recall it\]|recall\(key=\"([\w:-]+)\"")
sizes = st.sampled_from([0, 1, 30, 250, 2_000, 2_000, 20_000, 1_000_000])
pieces = st.sampled_from(["word ", "a", "é", "漢", "🙂", "\n", '{"a": 1}, ', '"\\'])
texts = wild_texts | st.builds(lambda piece, size: piece * (size // len(piece)), pieces, sizes)
arguments = st.dictionaries(wild_texts, json_values | texts, max_size=4)


@st.composite
def transcripts(draw: st.DrawFn) -> tuple[KernelState, tuple[Message, ...]]:
    """A state whose transcript is of any size, with its results stored as the kernel stores them."""
    messages: list[Message] = []
    steps: list[ReasoningStep] = []
    scratchpad: dict[str, str] = {}
    for number in range(draw(st.integers(0, 8))):
        made = tuple(
            ToolCall(CallId(f"c{number}.{index}"), "read", draw(arguments))
            for index in range(draw(st.integers(0, 3)))
        )
        messages.append(AssistantMessage(draw(texts), made))
        for one in made:
            text = draw(texts)
            failed = draw(st.booleans())
            messages.append(ToolMessage(one.id, "read", text, failed))
            if not failed:
                key = f"read-{len(scratchpad) + 1}"
                scratchpad[key] = text
                told = StepMetadata(call_id=one.id, result_key=key)
                steps.append(ReasoningStep(StepId(f"s{len(steps)}"), "observation", text, START, told))
    state = evolve(new_state(), messages=tuple(messages), steps=tuple(steps), scratchpad=scratchpad)
    return state, state.messages


PREFIX: tuple[Message, ...] = (SystemMessage("You are careful."), UserMessage("What is the task?"))
FIXED = fixed_size(PREFIX, (RECALL_TOOL,))
budgets = st.integers(1, 600) | st.integers(600, 20_000) | st.integers(20_000, 3_000_000)


def tokens_of(request: ModelRequest) -> int:
    """A tokenizer with a token for every third character, and one for each message and tool."""
    texts = sum(1 + (len(message.content) + 2) // 3 for message in request.messages)
    made = sum(
        len(json.dumps(one.arguments)) // 3 + 1
        for message in request.messages
        if isinstance(message, AssistantMessage)
        for one in message.tool_calls
    )
    return texts + made + sum(1 + len(json.dumps(tool.parameters)) // 3 for tool in request.tools)


@examples(15)
@given(transcripts(), budgets, st.booleans())
def test_a_request_fits_or_is_refused_because_of_what_it_begins_with(
    drawn: tuple[KernelState, tuple[Message, ...]], budget: int, counted: bool
) -> None:
    state, messages = drawn
    guidance = UserMessage("Before you go on: think.")
    request = ModelRequest((*PREFIX, *messages, guidance), (RECALL_TOOL,))
    count = tokens_of if counted else lambda request: None
    fixed = evolve(request, messages=(*PREFIX, guidance))
    least = tokens_of(fixed) if counted else FIXED + message_size(guidance)
    match fit_request(request, budget, count, frame=RequestFrame(len(PREFIX), 1), state=state):
        case Success(fitted):
            sent = fitted.request.messages
            taken = tokens_of(fitted.request) if counted else least + sum(map(message_size, fitted.messages))
            assert taken <= budget or (not counted and taken <= least + budget // 4)
            assert sent[: len(PREFIX)] == PREFIX
            assert sent == (*PREFIX, *fitted.messages, guidance)
            assert_valid_transcript(sent)
            again = fit_request(
                fitted.request, budget, count, frame=RequestFrame(len(PREFIX), 1), state=state
            )
            assert again.unwrap().request == fitted.request
        case Failure(error):
            assert least > budget
            assert error.limit == budget


@examples(15)
@given(transcripts(), st.integers(0, 5_000) | st.integers(0, 2_000_000))
def test_compaction_always_fits_and_loses_nothing(
    drawn: tuple[KernelState, tuple[Message, ...]], room: int
) -> None:
    state, messages = drawn
    keys = {
        step.metadata.call_id: step.metadata.result_key
        for step in state.steps
        if step.metadata and step.metadata.call_id and step.metadata.result_key
    }
    kept = compact(messages, room, message_size, keys=keys, scratchpad=state.scratchpad)
    assert kept.cost == sum(map(message_size, kept.messages)) <= room
    assert_valid_transcript(kept.messages)
    assert compact(kept.messages, room, message_size).messages == kept.messages
    if sum(map(message_size, messages)) <= room:
        assert kept.messages == messages
    stored = {**state.scratchpad, **kept.stored}
    assert len(stored) == len(state.scratchpad) + len(kept.stored)
    assert_recoverable(messages, kept.messages, stored)


def assert_recoverable(
    before: tuple[Message, ...], after: tuple[Message, ...], stored: dict[str, str]
) -> None:
    """Every text that is not shown any more is in a stored text."""
    shown = {message.content for message in after}
    everything = "\0".join(stored.values())
    for message in before:
        assert message.content in shown or message.content in everything
        for one in message.tool_calls if isinstance(message, AssistantMessage) else ():
            same = [
                made
                for kept in after
                if isinstance(kept, AssistantMessage)
                for made in kept.tool_calls
                if made.id == one.id and made.arguments == one.arguments
            ]
            assert same or json.dumps(one.arguments, ensure_ascii=False) in everything
    for message in after:
        if message not in before:
            for found in KEY.finditer(message.content):
                assert (found[1] or found[2]) in stored or message.content in everything


@given(arguments)
def test_a_call_is_never_smaller_than_its_json(drawn: dict[str, object]) -> None:
    made = ToolCall(CallId("c"), "read", drawn)  # type: ignore[arg-type]
    written = json.dumps(drawn, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert call_size(made) >= len(written)


@given(transcripts(), st.lists(st.integers(0, 20), max_size=5), st.integers(0, 10**7))
def test_an_extent_that_grows_comes_to_what_is_there(
    drawn: tuple[KernelState, tuple[Message, ...]], cuts: list[int], reported: int
) -> None:
    _, messages = drawn
    extent = TokenEstimate(fixed=100)
    for cut in sorted(cuts):
        sent = min(cut, len(messages))
        size, added = sized(extent, messages[:sent])
        assert size == sum(map(message_size, messages[:sent]))
        assert added <= size
        extent = answered(extent, sent, size, added, Usage(reported, 0, reported))
        believed = reported * 16 >= 100 + size
        assert (extent.sized, extent.bytes) == (sent, size)
        assert extent.tokens == reported if believed else extent.tokens >= 0
        assert at_most(extent, size, 0) == min(
            extent.tokens or size + 10**9, (extent.fixed_tokens or 100) + size
        )
