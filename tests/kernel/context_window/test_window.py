"""Requests that do not fit the model's window: measured, compacted, refused, and asked once more."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from attrs import evolve
from returns.maybe import Some
from returns.result import Failure

from reactive_agents.core.config import ContextProfileOverrides
from reactive_agents.core.errors import ContextOverflow, ModelCallFailed, ModelUnavailable
from reactive_agents.core.events import ContextCompacted, ModelCallAbandoned
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.effects import attempt
from reactive_agents.kernel import KernelState, one_shot_kernel, react_kernel
from reactive_agents.kernel.context_window.drop import compact
from reactive_agents.kernel.context_window.token_estimate import (
    FRAME,
    TokenEstimate,
    answered,
    at_most,
    call_size,
    fixed_size,
    message_size,
    sized,
    text_size,
    transcript_size,
    with_fixed_parts,
)
from reactive_agents.kernel.context_window.window import Window, budget_of, usual_window, window_of
from reactive_agents.testing import FakeTools, Turn, answer, call, calls, fail, say
from tests.support.kernels import (
    KernelBench,
    assert_balanced,
    assert_valid_transcript,
    kernel_bench,
    new_state,
)

pytestmark = pytest.mark.anyio

WINDOW = 4_096
SMALL = ContextProfileOverrides(window_tokens=WINDOW)
UNREPORTED = Usage(reported=False)
SPENT = RunUsage("m", Usage(4, 3, 7), 0.5)


class WordCounter:
    """Counts a token for each word; knows one window, or none."""

    def __init__(self, window: int | None = None) -> None:
        self.tokens = window
        self.counted = 0

    def count(self, request: ModelRequest) -> int | None:
        """The words of the request."""
        self.counted += 1
        words = sum(1 + len(message.content.split()) for message in request.messages)
        return words + sum(len(tool.description.split()) for tool in request.tools)

    def window(self, model: str | None) -> int | None:
        """The one window."""
        return self.tokens


def counting(bench: KernelBench, counter: WordCounter) -> KernelBench:
    """The bench with a counter."""
    return evolve(bench, services=evolve(bench.services, counter=Some(counter)))


def turn(number: int, result: str, **arguments: Any) -> list[Message]:
    """A turn that makes one call."""
    made = ToolCall(f"c{number}", "read", arguments or {"n": number})
    return [AssistantMessage(f"Turn {number}.", (made,)), ToolMessage(f"c{number}", "read", result)]


def total(messages: tuple[Message, ...]) -> int:
    """The bound of the messages."""
    return sum(map(message_size, messages))


# --- how large things are -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"), [("", 0), ("abc", 3), ("é", 2), ("漢", 3), ("🙂", 4), ("\ud800", 3)]
)
def test_a_text_has_as_many_tokens_as_bytes_at_most(text: str, size: int) -> None:
    assert text_size(text) == size


@pytest.mark.parametrize(
    "value",
    ['"' * 50, "\\" * 50, "\n\t\r" * 20, "\x01\x1f" * 20, "'\"", "漢字", "\u200b\x85\x7f", None, [True, 1.5]],
)
def test_arguments_are_never_smaller_than_their_json(value: Any) -> None:
    made = ToolCall("c", "f", {"value": value})
    assert call_size(made) >= len(json.dumps(made.arguments, ensure_ascii=False).encode())


@pytest.mark.parametrize("value", ["a", "ab", "abcdefgh", "漢" * 7])
def test_a_call_has_its_name_its_id_and_its_arguments(value: str) -> None:
    made = ToolCall("call-1", "find", {"value": value})
    assert call_size(made) == FRAME + len("find") + len("call-1") + text_size(made.arguments_text)


def test_the_answer_has_its_share_of_the_window() -> None:
    assert budget_of(8_000, None) == 7_000
    assert budget_of(8_000, 1_000) == 7_000
    assert budget_of(8_000, 100_000) == 4_000


def test_a_message_is_sized_once_and_what_a_count_is_of_is_not_added() -> None:
    messages = (*turn(1, "x" * 100), *turn(2, "y" * 200))
    size, added = sized(TokenEstimate(), messages)
    assert size == added == total(messages)
    after_first = answered(TokenEstimate(fixed=100), 0, 0, 0, Usage(90, 10, 100))
    assert (after_first.counted, after_first.tokens, after_first.fixed_tokens) == (1, 100, 90)
    size, added = sized(after_first, messages)
    assert (size, added) == (total(messages), total(messages[1:]))
    assert sized(TokenEstimate(sized=9, bytes=9_999, counted=9, tokens=5), messages)[0] == total(messages)


def test_tools_that_change_count_with_all_their_bytes_also_at_the_same_size() -> None:
    first, other, more = (ToolDefinition("t", text * 100, {"type": "object"}) for text in ("a", "é", "b"))
    asked, added = with_fixed_parts(TokenEstimate(), (), (first, other))
    assert (asked.fixed, added) == (fixed_size((), (first, other)), 0)
    counted = answered(asked, 0, 0, 0, Usage(60, 10, 70))
    assert with_fixed_parts(counted, (), (first, other)) == (counted, 0)
    changed, added = with_fixed_parts(counted, (), (more, other))
    assert more.prompt_bytes == first.prompt_bytes
    assert added == FRAME + more.prompt_bytes
    assert at_most(changed, 0, added) == 60 + added
    assert changed.fixed_tokens == 60 + added


def test_a_count_that_is_too_small_for_the_text_is_not_believed() -> None:
    extent = answered(TokenEstimate(), 2, 10_000, 10_000, Usage(10, 5, 15))
    assert (extent.tokens, extent.counted) == (0, 0)
    assert at_most(extent, 10_000, 0) == 10_000
    known = answered(TokenEstimate(tokens=3_000), 2, 10_000, 50, UNREPORTED)
    assert (known.tokens, known.counted) == (3_050, 2)


def test_the_providers_count_says_that_much_text_fits() -> None:
    extent = TokenEstimate(sized=2, bytes=20_000, counted=3, tokens=5_000, fixed=1_000)
    assert at_most(extent, 21_000, 1_000) == 6_000
    assert at_most(extent, 21_000, 30_000) == 22_000, "by its bytes alone"


@pytest.mark.parametrize(("max_tokens", "usual"), [(None, 4_096), (100, 4_096), (512, 4_096), (3_000, 2_340)])
def test_a_long_answer_makes_the_usual_window_smaller(max_tokens: int | None, usual: int) -> None:
    context = kernel_bench().context(context_profile=SMALL, max_tokens=max_tokens)
    assert usual_window(context, window_of(context, TokenEstimate())) == usual


def test_the_window_is_the_configured_one_then_the_listed_then_the_presumed() -> None:
    bench = counting(kernel_bench(), WordCounter(50_000))
    assert window_of(bench.context(context_profile=SMALL), TokenEstimate()) == Window(WINDOW, True)
    assert window_of(bench.context(), TokenEstimate()) == Window(50_000, True)
    assert window_of(counting(bench, WordCounter()).context(), TokenEstimate()) == Window(32_768, False)
    assert window_of(bench.context(), TokenEstimate(limit=9_000)) == Window(9_000, True)


# --- compaction -----------------------------------------------------------------------------------------


def test_the_oldest_results_become_stubs_that_name_their_keys() -> None:
    messages = (*turn(1, "a" * 3_000), *turn(2, "b" * 3_000), *turn(3, "c" * 3_000))
    kept = compact(messages, 7_000, message_size, keys={"c1": "read-1"}, scratchpad={"read-1": "a" * 8_312})
    assert kept.messages[1].content == "[compacted: 8312 characters, stored as read-1; recall it]"
    assert kept.messages[2:] == messages[2:]
    assert kept.stored == {}
    assert kept.cost == total(kept.messages) <= 7_000


def test_what_is_stored_nowhere_is_stored() -> None:
    messages = (*turn(1, "error " * 500), *turn(2, "fine"))
    kept = compact(messages, 1_000, message_size, scratchpad={"a-1": "x"})
    assert kept.messages[1].content == "[compacted: 3000 characters, stored as result:2; recall it]"
    assert kept.stored == {"result:2": "error " * 500}


def test_a_stub_of_what_was_recalled_names_the_result_that_it_is_from() -> None:
    recalled = ToolCall("r", "recall", {"key": "read-1"})
    messages = (AssistantMessage("", (recalled,)), ToolMessage("r", "recall", "z" * 900), *turn(2, "fine"))
    kept = compact(messages, 500, message_size, scratchpad={"read-1": "z" * 5_000})
    assert kept.messages[1].content == "[compacted: 5000 characters, stored as read-1; recall it]"
    assert kept.stored == {}


def test_arguments_of_old_calls_stay_json_objects() -> None:
    long = "w" * 1_000_000
    messages = (*turn(1, "written", path="a.txt", content=long), *turn(2, "fine"))
    kept = compact(messages, 2_000, message_size)
    made = kept.messages[0]
    assert isinstance(made, AssistantMessage)
    assert made.tool_calls[0].arguments == {
        "path": "a.txt",
        "content": "[compacted: 1000000 characters, stored as arguments:1; recall it]",
    }
    assert json.loads(kept.stored["arguments:1"]) == {"path": "a.txt", "content": long}


def test_many_small_arguments_and_malformed_ones_are_given_up_as_a_whole() -> None:
    many = {f"name-{n}": n for n in range(5_000)}
    broken = ToolCall("m", "read", malformed="{" * 9_000)
    messages = (
        *turn(1, "one", **many),
        AssistantMessage("", (broken,)),
        ToolMessage("m", "read", "no", is_error=True),
        *turn(3, "fine"),
    )
    kept = compact(messages, 1_500, message_size)
    assert_valid_transcript(kept.messages)
    arguments = [
        made.arguments for m in kept.messages if isinstance(m, AssistantMessage) for made in m.tool_calls
    ]
    assert list(arguments[0]) == list(arguments[1]) == ["compacted"]
    assert json.loads(kept.stored["arguments:1"]) == many
    assert kept.stored["arguments:2"] == broken.malformed


def test_no_more_old_texts_are_shortened_than_is_necessary() -> None:
    messages = tuple(AssistantMessage(letter * 3_000) for letter in "abcd")
    kept = compact(messages, 10_000, message_size)
    assert len(kept.messages[0].content) < 3_000
    assert kept.messages[1:] == messages[1:]


def test_a_last_answer_of_a_megabyte_is_shown_in_part() -> None:
    messages = (AssistantMessage("start " + "x" * 1_000_000 + " end"),)
    kept = compact(messages, 3_000, message_size)
    assert len(kept.messages) == 1
    assert kept.messages[0].content.startswith("start ")
    assert kept.messages[0].content.endswith(" end")
    assert 'recall(key="said:1"' in kept.messages[0].content
    assert kept.stored["said:1"] == messages[0].content
    assert kept.cost <= 3_000


def test_large_arguments_are_put_aside_before_the_text_beside_them_is_cut() -> None:
    made = ToolCall("c", "write", {"path": "a.txt", "content": "w" * 1_500})
    messages = (AssistantMessage("said " * 300, (made,)), ToolMessage("c", "write", "written"))
    kept = compact(messages, 2_200, message_size).messages[0]
    assert isinstance(kept, AssistantMessage)
    assert kept.content == messages[0].content
    assert kept.tool_calls[0].arguments["path"] == "a.txt"
    assert str(kept.tool_calls[0].arguments["content"]).startswith("[compacted: 1500 characters")


def test_the_newest_message_is_clamped_last() -> None:
    messages = (*turn(1, "a" * 200), *turn(2, "b" * 5_000), ToolMessage("x", "read", "c" * 900))
    kept = compact(messages[2:], 3_000, message_size)
    assert len(kept.messages[1].content) < 3_000
    assert kept.messages[2] == messages[-1]


def test_a_large_old_message_is_clamped_so_far_that_the_next_turns_fit() -> None:
    """Otherwise each turn would clamp it once more, and change what the provider has cached."""
    small = tuple(message for number in range(30) for message in turn(number, f"result {number}"))
    messages = (UserMessage("summary " * 1_000), *small)
    size = sum(map(message_size, messages))
    kept = compact(messages, size - 100, message_size, goal=size * 3 // 4)
    assert kept.cost <= size * 3 // 4
    assert kept.messages[1:] == small
    assert compact(kept.messages, size - 100, message_size, goal=size * 3 // 4).messages == kept.messages


def test_when_nothing_else_helps_the_oldest_turns_are_put_aside_together() -> None:
    messages = tuple(message for number in range(300) for message in turn(number, f"result {number}"))
    kept = compact(messages, 2_000, message_size)
    note = kept.messages[0]
    assert isinstance(note, UserMessage)
    assert note.content.startswith("[compacted: what came before, ")
    assert note.content.endswith("stored as turns:1; recall it]")
    assert "result of read: result 0\n" in kept.stored["turns:1"]
    assert kept.messages[-2:] == messages[-2:]
    assert_valid_transcript(kept.messages)
    again = compact((*kept.messages, *messages[:60]), 2_000, message_size, scratchpad=kept.stored)
    assert sum(isinstance(message, UserMessage) for message in again.messages) == 1
    assert again.messages[0].content.endswith("stored as turns:2; recall it]")


def test_of_a_turn_with_too_many_calls_the_oldest_go_with_their_results() -> None:
    made = tuple(ToolCall(f"c{n}", "read", {"n": n}) for n in range(200))
    results = tuple(ToolMessage(one.id, "read", "seen") for one in made)
    kept = compact((AssistantMessage("All of them.", made), *results), 1_500, message_size)
    assert kept.cost <= 1_500
    assert_valid_transcript(kept.messages)
    assert kept.messages[-1] == results[-1]


def test_no_room_at_all_leaves_nothing() -> None:
    kept = compact(tuple(turn(1, "x" * 500)), 0, message_size)
    assert kept.messages == ()
    assert list(kept.stored) != []


# --- runs -----------------------------------------------------------------------------------------------


def assert_fits(bench: KernelBench, window: int = WINDOW) -> None:
    """Every request fits, by its bytes."""
    for request in bench.llm.requests:
        size = total(request.messages) + sum(
            len(tool.description) + len(json.dumps(tool.parameters)) for tool in request.tools
        )
        assert size <= window


async def test_a_long_run_stays_within_a_small_window() -> None:
    turns = [call("read", n=n, usage=UNREPORTED) for n in range(30)]
    bench = kernel_bench(*turns, answer("done", usage=UNREPORTED), tools={"read": "word " * 200})
    state = await bench.run(max_iterations=40, context_profile=SMALL)
    assert state.output == "done"
    assert_fits(bench)
    for request in bench.llm.requests:
        assert_valid_transcript(request.messages)
        assert request.messages[:2] == bench.llm.requests[0].messages[:2]
    compacted = bench.recorder.of(ContextCompacted)
    assert 0 < len(compacted) < 30
    assert all(event.size_before > event.size_after for event in compacted)
    assert {(event.reason, event.window_tokens) for event in compacted} == {("window", WINDOW)}
    assert state.scratchpad["read-1"] == "word " * 200
    assert len([step for step in state.steps if step.type == "observation"]) == 30


async def test_what_was_compacted_is_on_the_account_and_no_count_of_it_is_left() -> None:
    def script() -> list[Turn]:
        return [*(call("read", n=n, usage=UNREPORTED) for n in range(12)), say("done", usage=UNREPORTED)]

    narrow, roomy = (kernel_bench(*script(), tools={"read": "word " * 200}) for _ in range(2))
    state = await narrow.run(max_iterations=20, context_profile=SMALL)
    whole = await roomy.run(max_iterations=20, context_profile=ContextProfileOverrides(window_tokens=90_000))
    assert narrow.recorder.of(ContextCompacted)
    account = state.transcript
    assert account.shortened_to == 0
    assert transcript_size(state.messages) + account.taken_out == transcript_size(whole.messages)
    assert sized(state.transcript.estimate, state.messages)[0] == total(state.messages)


async def test_what_was_compacted_can_be_recalled() -> None:
    turns = [call("read", n=n) for n in range(6)]
    bench = kernel_bench(
        *turns,
        call("recall", key="read-1", start=0, length=30),
        answer("done"),
        tools={"read": "It was the best of times. " * 40},
    )
    state = await bench.run(max_iterations=20, context_profile=SMALL)
    assert "recall" not in [tool.name for tool in bench.llm.requests[0].tools]
    assert "recall" in [tool.name for tool in bench.llm.requests[6].tools]
    stubs = [m.content for m in bench.sent(6) if m.content.startswith("[compacted: ")]
    assert stubs[0] == "[compacted: 1040 characters, stored as read-1; recall it]"
    assert bench.shown().startswith("It was the best of times. It w")
    assert state.output == "done"


async def test_the_providers_count_keeps_a_transcript_whole_that_has_more_bytes_than_the_window() -> None:
    def used(tokens: int) -> Usage:
        return Usage(tokens - 10, 10, tokens)

    turns = [call("read", n=n, usage=used(700 + 300 * n)) for n in range(8)]
    bench = kernel_bench(*turns, say("done", usage=used(3_500)), tools={"read": "word " * 200})
    await bench.run(max_iterations=20, context_profile=ContextProfileOverrides(window_tokens=6_000))
    assert bench.recorder.of(ContextCompacted) == []
    assert total(bench.sent()) > 6_000


async def test_a_counter_is_asked_only_when_the_bytes_do_not_fit() -> None:
    counter = WordCounter(WINDOW)
    turns = [call("read", n=n, usage=UNREPORTED) for n in range(8)]
    bench = counting(kernel_bench(*turns, say("done"), tools={"read": "word " * 200}), counter)
    await bench.run(max_iterations=20)
    assert total(bench.sent()) > WINDOW
    assert bench.recorder.of(ContextCompacted) == []
    assert counter.counted > 0
    small = counting(kernel_bench(call("read"), say("done"), tools={"read": "x"}), WordCounter(WINDOW))
    await small.run()
    assert small.services.counter.unwrap().counted == 0


async def test_a_system_prompt_that_cannot_fit_is_refused_before_any_call() -> None:
    bench = kernel_bench(say("never"))
    state = await bench.run(system_prompt="word " * 10_000, context_profile=SMALL)
    assert bench.llm.requests == []
    assert isinstance(state.error, ModelCallFailed)
    assert isinstance(state.error.cause, ContextOverflow)
    assert state.error.cause.limit == WINDOW * 7 // 8
    assert re.search(r"The system prompt, the task and the tools take \d+ bytes; the window", state.reason)


async def test_tools_that_cannot_fit_are_refused_before_any_call() -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [f"value {n}" for n in range(300)]}}}
    names = [f"read-{n}" for n in range(20)]
    definitions = tuple(ToolDefinition(name, f"Read by {name}.", schema) for name in names)
    tools = FakeTools(dict.fromkeys(names, "x"), definitions=definitions)
    bench = kernel_bench(say("never"), tools=tools)
    state = await bench.run(context_profile=SMALL)
    assert bench.llm.requests == []
    assert "The system prompt, the task and the tools take" in state.reason


async def test_a_counted_prompt_is_refused_as_soon_as_it_is_too_large() -> None:
    bench = counting(kernel_bench(say("never")), WordCounter(1_024))
    state = await bench.run(system_prompt="word " * 1_000)
    assert isinstance(state.error, ModelCallFailed)
    assert re.search(r"The system prompt, the task and the tools take \d+ tokens; the window", state.reason)
    assert bench.llm.requests == []


async def test_a_prompt_that_may_fit_is_the_providers_to_judge() -> None:
    bench = kernel_bench(call("read"), answer("yes"), tools={"read": "x"})
    state = await bench.run(system_prompt="word " * 1_000, context_profile=SMALL)
    assert state.output == "yes"


async def test_an_overflow_is_compacted_to_half_and_asked_once_more() -> None:
    overflow = ContextOverflow("too long", "scripted/test", refused=(SPENT,), limit=1_800)
    turns = [call("read", n=n) for n in range(4)]
    bench = kernel_bench(*turns, fail(overflow), answer("done"), tools={"read": "word " * 200})
    state = await bench.run(max_iterations=20)
    assert state.output == "done"
    assert total(bench.sent()) * 2 <= total(bench.sent(-2)) + 200
    assert_balanced(bench, state)
    (event,) = bench.recorder.of(ContextCompacted)
    assert (event.reason, event.method) == ("refused", "drop")
    assert state.transcript.estimate.limit == 1_800
    assert len(bench.recorder.of(ModelCallAbandoned)) == 1


async def test_a_second_overflow_ends_the_run() -> None:
    overflow = ContextOverflow("too long", "scripted/test", refused=(SPENT,))
    bench = kernel_bench(
        call("read"), fail(overflow), fail(overflow), say("no"), tools={"read": "word " * 99}
    )
    state = await bench.run()
    assert isinstance(state.error, ModelCallFailed)
    assert state.error.cause == evolve(overflow, refused=(SPENT, SPENT))
    assert_balanced(bench, state)
    assert len(bench.llm.requests) == 3


async def test_an_overflow_without_anything_to_leave_out_is_not_asked_again() -> None:
    overflow = ContextOverflow("too long", "scripted/test", refused=(SPENT,))
    bench = kernel_bench(fail(overflow), say("no"))
    state = await bench.run()
    assert isinstance(state.error, ModelCallFailed)
    assert_balanced(bench, state)
    assert len(bench.llm.requests) == 1


async def test_the_models_own_runaway_answer_is_clamped() -> None:
    bench = kernel_bench(
        calls(call("read"), text="blah " * 200_000, usage=UNREPORTED),
        answer("done"),
        tools={"read": "the result"},
    )
    state = await bench.run(context_profile=SMALL)
    assert state.output == "done"
    assert_fits(bench)
    assert bench.shown() == "the result"
    assert state.scratchpad["said:2"] == "blah " * 200_000


async def test_one_shot_is_asked_within_the_window_too() -> None:
    bench = kernel_bench(say("never"))
    failed = await attempt(
        one_shot_kernel(new_state(), bench.context(system_prompt="word " * 10_000, context_profile=SMALL))
    )
    assert isinstance(failed, Failure)
    assert bench.llm.requests == []


async def test_a_step_of_a_run_that_is_compacted_costs_no_more_the_longer_it_is() -> None:
    async def compactions(steps: int) -> int:
        turns = [call("read", n=n) for n in range(steps)]
        bench = kernel_bench(*turns, say("done"), tools={"read": "seen"})
        await bench.run(max_iterations=steps + 1, context_profile=SMALL)
        assert_fits(bench)
        return len(bench.recorder.of(ContextCompacted))

    assert 0 < await compactions(400) <= 400 / 8


async def test_a_compacted_state_is_the_state_that_the_run_goes_on_from() -> None:
    bench = kernel_bench(*(call("read", n=n) for n in range(6)), say("done"), tools={"read": "word " * 200})
    states: list[KernelState] = []

    def watched(state: KernelState, context: Any) -> Any:
        states.append(state)
        return react_kernel(state, context)

    final = await bench.run(watched, max_iterations=20, context_profile=SMALL)
    assert any(message.content.startswith("[compacted: ") for message in final.messages)
    assert final.transcript.shown_in_part
    assert max(total(state.messages) for state in states) < WINDOW + 1_500


CUT = say("Hello!", usage=Usage(4_096, 5, 4_101))  # of a prompt of 50,000 characters


@pytest.mark.parametrize(
    ("turns", "again"),
    [((CUT, say("Hello again!")), 0), ((call("read"), CUT, fail(ModelUnavailable("Down.", "m"))), 1)],
)
async def test_a_lost_context_is_known_where_nothing_can_be_left_out_and_where_less_fails_too(
    turns: tuple[Turn, ...], again: int
) -> None:
    bench = kernel_bench(*turns, tools={"read": "word " * 200})
    state = await bench.run(system_prompt="word " * 10_000)
    assert "read only 4096 tokens of a longer prompt" in state.transcript.lost
    assert len(bench.recorder.of(ModelCallAbandoned)) == again
