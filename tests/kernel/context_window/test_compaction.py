"""Compaction over whole kernel runs: when, by which method, what the model is shown, what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from reactive_agents.core.config import CompactionMethod, ContextProfileOverrides, ContextTier
from reactive_agents.core.errors import ContextOverflow, ModelUnavailable
from reactive_agents.core.events import ContextCompacted, ModelCallCompleted
from reactive_agents.core.messages import Message, ToolMessage, UserMessage
from reactive_agents.core.models import Usage
from reactive_agents.core.settings import BudgetConfig, ToolNeeds, ToolRequirement
from reactive_agents.kernel import (
    CompactionMaterial,
    CompactionSettings,
    KernelState,
    deserialize_kernel_state,
    react_kernel,
    serialize_kernel_state,
)
from reactive_agents.kernel.context_window.compaction import Filling, method_for
from reactive_agents.kernel.context_window.summary import is_summary, read_records
from reactive_agents.kernel.context_window.token_estimate import Transcript
from reactive_agents.testing import Turn, answer, call, calls, fail, say
from tests.support.kernels import KernelBench, assert_valid_transcript, kernel_bench, new_state

pytestmark = pytest.mark.anyio

AUTO = CompactionSettings("auto")
WINDOW = 8_000  # tokens, each a byte while nobody has counted
PROFILE = ContextProfileOverrides(window_tokens=WINDOW, tool_result_chars=1_000)
LARGE = evolve(PROFILE, tier="large")


def page(at: int) -> str:
    """A page of 900 characters."""
    return f"Page {at} says: " + f"word{at} " * 130


def reading(pages: int, *end: Turn) -> list[Turn]:
    """Turns that read one page each, and then what is given."""
    return [evolve(call("page", at=at), text=f"I read page {at}.") for at in range(pages)] + list(end)


async def run(
    script: list[Turn], settings: CompactionSettings, **how: Any
) -> tuple[KernelBench, KernelState]:
    """A run of the ReAct kernel under these settings."""
    bench = kernel_bench(*script, tools={"page": page})
    how = {"max_iterations": 50, "context_profile": PROFILE, "compaction": settings, **how}
    state = await bench.run(react_kernel, **how)
    for request in bench.llm.requests:
        if request.purpose == "think":
            assert_valid_transcript(request.messages)
    return bench, state


def told(bench: KernelBench) -> list[ContextCompacted]:
    """The events."""
    return bench.recorder.of(ContextCompacted)


def notes_in(messages: tuple[Message, ...]) -> list[UserMessage]:
    """The messages that stand for earlier turns."""
    return [each for each in messages if isinstance(each, UserMessage) and is_summary(each)]


def length(messages: tuple[Message, ...]) -> int:
    """Characters of a request."""
    return sum(len(message.content) for message in messages)


# --- when -----------------------------------------------------------------------------------------------


async def test_a_short_run_is_the_same_with_and_without() -> None:
    with_it, state = await run(reading(3, say("Read.")), AUTO)
    without, other = await run(reading(3, say("Read.")), CompactionSettings("drop"))
    assert with_it.llm.requests == without.llm.requests
    assert with_it.recorder.events == without.recorder.events
    assert state == other


async def test_auto_summarizes_a_long_transcript_and_lets_it_grow_again() -> None:
    bench, state = await run(reading(14, answer("Read.")), AUTO)
    events = told(bench)
    assert [event.iteration for event in events] == sorted({event.iteration for event in events})
    assert len(events) >= 2
    for event in events:
        assert (event.method, event.configured, event.problem) == ("template", "auto", "")
        assert event.window_share >= 0.5
        assert event.size_after < 0.8 * event.size_before
        assert event.window_share == event.tokens_before / WINDOW
        assert event.tokens_before > event.size_before
        assert event.tokens_after < event.tokens_before
        assert event.turns >= 1
        assert event.reason == "growth"
    assert max(length(request.messages) for request in bench.llm.requests) < 6_500
    assert state.output == "Read."
    assert state.iteration == 15


async def test_notes_are_folded_into_the_next_ones() -> None:
    bench, state = await run(reading(14, say("Read.")), AUTO)
    (notes,) = notes_in(bench.sent())
    shown = sum(isinstance(message, ToolMessage) for message in bench.sent())
    gone = list(state.scratchpad)[:-shown]
    assert len(gone) > 8
    assert [key for key in gone if f"[{key}]" not in notes.content] == []
    assert len(notes.content) < 1_200
    assert all(len(notes_in(request.messages)) <= 1 for request in bench.llm.requests)


async def test_the_last_turn_stays_word_for_word_and_the_prefix_too() -> None:
    bench, _ = await run(reading(8, say("Read.")), CompactionSettings("template"))
    iterations = [event.iteration for event in told(bench)]
    assert iterations
    first = bench.llm.requests[0].messages
    for iteration in iterations:
        before, after = bench.llm.requests[iteration - 1].messages, bench.llm.requests[iteration].messages
        assert after[: len(first)] == first
        assert after[-1].content.startswith(f"Page {iteration - 1} says: ")
        assert after[-2] not in before
        assert is_summary(after[len(first)])


async def test_what_the_provider_counted_is_a_signal() -> None:
    turns = reading(20, say("Read."))
    counted = [evolve(turn, usage=Usage(170 + 240 * n, 20, 190 + 240 * n)) for n, turn in enumerate(turns)]
    (uncounted, *_) = told((await run(turns, AUTO))[0])
    (event, *_) = told((await run(counted, AUTO))[0])
    assert uncounted.iteration == 5
    assert event.iteration == 13
    added = event.tokens_before - (190 + 240 * 12)
    assert 800 < added < 1_000, "the last result is in no count yet"
    assert 0.5 <= event.window_share == event.tokens_before / WINDOW < 0.53
    assert event.size_before > 2.5 * event.tokens_before


async def test_a_count_that_cannot_be_is_not_believed() -> None:
    usages = (Usage(20, 5, 25), Usage(reported=False))
    scripts = [[evolve(turn, usage=usage) for turn in reading(6, say("Read."))] for usage in usages]
    (low, *_), (none, *_) = [told((await run(script, AUTO))[0]) for script in scripts]
    assert (low.iteration, low.tokens_before) == (none.iteration, none.tokens_before)
    assert low.iteration == 5


async def test_the_window_that_a_provider_names_counts_and_not_that_of_the_profile() -> None:
    roomy = evolve(PROFILE, window_tokens=10 * WINDOW)
    refused = fail(ContextOverflow("Too long.", "m", WINDOW))
    script = [*reading(4), refused, *reading(13, say("Read."))[4:]]
    bench, _ = await run(script, AUTO, context_profile=roomy)
    refusal, event, *_ = told(bench)
    assert (refusal.reason, event.reason) == ("refused", "growth")
    assert 0.5 <= event.window_share == event.tokens_before / WINDOW < 0.75


async def test_an_answer_that_may_be_long_makes_it_begin_sooner() -> None:
    bench, _ = await run(reading(9, say("Read.")), AUTO, max_tokens=WINDOW // 2)
    (event, *_) = told(bench)
    assert event.tokens_before < WINDOW // 2
    assert {each.method for each in told(bench)} == {"template"}


# --- full results stay in reach -------------------------------------------------------------------------


async def test_a_result_that_is_gone_can_be_recalled() -> None:
    recall = call("recall", key="page-1", when="earlier-turns")
    bench, state = await run([*reading(6), recall, answer("Read.")], CompactionSettings("template"))
    offered = [[tool.name for tool in request.tools] for request in bench.llm.requests]
    assert "recall" not in offered[0]
    assert "recall" in offered[-1]
    assert bench.shown().startswith("Page 0 says: word0 ")
    assert len(state.scratchpad) == 6


async def test_failures_that_are_open_are_told_again_each_time() -> None:
    script = [call("page", at="x"), *reading(12, say("Read."))]
    bench = kernel_bench(*script, tools={"page": lambda at: 1 / 0 if at == "x" else page(at)})
    settings = CompactionSettings("template")
    await bench.run(react_kernel, max_iterations=50, context_profile=PROFILE, compaction=settings)
    assert len(told(bench)) >= 2
    (notes,) = notes_in(bench.sent())
    assert (
        notes.content.count(
            'Calls that failed and have not worked since:\n- {"tool": "page", "arguments": {"at": "x"}}: '
        )
        == 1
    )


async def test_a_failure_that_worked_after_a_summary_is_told_no_more() -> None:
    asked: list[str] = []

    def read(at: int | str) -> str:
        asked.append(str(at))
        return page(0) if at != "x" else f"{1 / (asked.count('x') - 1)}"

    x = call("page", at="x")
    bench = kernel_bench(x, *reading(9), x, *reading(20, say("Read.")), tools={"page": read})
    settings = CompactionSettings("template")
    await bench.run(react_kernel, max_iterations=50, context_profile=PROFILE, compaction=settings)
    assert len(told(bench)) >= 2
    shown = [note.content for request in bench.llm.requests for note in notes_in(request.messages)]
    assert "have not worked since" in shown[0]
    assert "have not worked since" not in shown[-1]


async def test_the_last_words_of_a_run_survive() -> None:
    silent = [call("page", at=at) for at in range(1, 9)]
    _, state = await run(
        [evolve(call("page", at=0), text="I begin."), *silent],
        CompactionSettings("template"),
        max_iterations=9,
    )
    assert (state.outcome, state.output) == ("partial", "I begin.")


async def test_an_answer_that_was_turned_down_survives_too() -> None:
    answered = call("final-answer", answer="Perhaps 3.")
    needs = ToolNeeds((ToolRequirement("page", 20),))
    script = [answered, *(call("page", at=at) for at in range(1, 9))]
    _, state = await run(script, CompactionSettings("template"), max_iterations=9, needs=needs)
    assert state.transcript.taken_out > 0
    assert (state.outcome, state.output) == ("partial", "Perhaps 3.")


async def test_the_state_can_be_written_and_read_back() -> None:
    _, state = await run(reading(8, say("Read.")), CompactionSettings("template"))
    assert state.transcript.taken_out > 0
    assert deserialize_kernel_state(serialize_kernel_state(state)).unwrap() == state


# --- model -----------------------------------------------------------------------------------------------

BY_MODEL = CompactionSettings("model", model="cheap/model", temperature=0.25)


def with_answers(pages: int, *answers: Turn) -> list[Turn]:
    """A script in which the answers are for the questions to put in short."""
    asked = [evolve(each, when="Summarize the earlier turns") for each in answers]
    return [*asked, *reading(pages, answer("Read."))]


async def test_a_model_is_asked_and_its_cost_is_on_the_account() -> None:
    answer = say("- Page 0 is about word0 [page-1].", usage=Usage(200, 30, 230), cost_usd=0.5)
    bench, state = await run(with_answers(3, answer), BY_MODEL)
    (event,) = told(bench)
    assert (event.method, event.problem, event.turns) == ("model", "", 2)
    (asked,) = [request for request in bench.llm.requests if request.purpose == "synthesize-context"]
    assert (asked.model, asked.temperature, asked.tools) == ("cheap/model", 0.25, ())
    assert "Page 0 says: word0" in asked.messages[-1].content
    assert "Page 2 says" not in asked.messages[-1].content
    (notes,) = notes_in(bench.sent())
    assert read_records(notes) == ("- Page 0 is about word0 [page-1].",)
    completed = bench.recorder.of(ModelCallCompleted)
    assert [each.purpose for each in completed] == ["think", "think", "think", "synthesize-context", "think"]
    assert state.tokens == sum(each.usage.total_tokens for each in completed) == 4 * 15 + 230
    assert state.cost == bench.meter.usage.cost_usd == 0.5
    assert state.iteration == 4


async def test_the_model_of_the_run_is_asked_when_none_is_named() -> None:
    bench, _ = await run(with_answers(3, say("- seen")), CompactionSettings("model"), model="run/model")
    assert {request.model for request in bench.llm.requests} == {"run/model"}


async def test_a_key_that_the_model_forgot_is_named_all_the_same() -> None:
    bench, _ = await run(with_answers(3, say("- Nothing of note.")), BY_MODEL)
    assert notes_in(bench.sent())[0].content.count("[page-1]") == 1


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (fail(ModelUnavailable("It is down.", "m")), "It is down."),
        (say(""), "The model gave no text."),
        (say("half", finish_reason="length"), "The model's text was cut off."),
    ],
)
async def test_templates_stand_in_for_a_model_that_fails(answer: Turn, problem: str) -> None:
    bench, state = await run(with_answers(3, answer), BY_MODEL)
    (event,) = told(bench)
    assert (event.method, event.configured, event.problem) == ("template", "model", problem)
    assert read_records(notes_in(bench.sent())[0])[0] == "- said: I read page 0."
    assert state.output == "Read."
    assert state.tokens == bench.meter.usage.tokens


async def test_an_unknown_price_and_usage_are_said() -> None:
    answer = say("- seen", usage=Usage(reported=False), cost_usd=None)
    _, state = await run(with_answers(3, answer), BY_MODEL)
    assert (state.usage.unreported_calls, state.usage.unpriced_calls) == (1, 1)


async def test_auto_asks_a_large_model_once_the_run_is_long() -> None:
    script = [
        evolve(say("- seen"), when="Summarize the earlier turns", endless=True),
        *reading(14, say("Read.")),
    ]
    bench, _ = await run(script, AUTO, context_profile=LARGE)
    modes = [event.method for event in told(bench)]
    first = modes.index("model")
    assert modes == ["template"] * first + ["model"] * (len(modes) - first)
    assert 1 <= first < len(modes) - 1


async def test_what_a_deep_call_spends_counts_against_the_budget() -> None:
    answer = say("- seen", usage=Usage(9_000, 0, 9_000))
    _, state = await run(with_answers(5, answer), BY_MODEL, budget=BudgetConfig(tokens=5_000))
    assert (state.outcome, state.terminated_by) == ("partial", "budget")
    assert state.iteration == 4


# --- custom ---------------------------------------------------------------------------------------------


async def test_a_function_gets_the_material_and_gives_the_text() -> None:
    seen: list[CompactionMaterial] = []

    def mine(material: CompactionMaterial) -> str:
        seen.append(material)
        return "All pages are alike.\nGo on."

    bench, _ = await run(reading(3, say("Read.")), CompactionSettings("custom", function=mine))
    (event,) = told(bench)
    assert (event.method, event.configured, event.problem) == ("custom", "custom", "")
    assert read_records(notes_in(bench.sent())[0]) == ("- All pages are alike.", "- Go on.")
    (material,) = seen
    assert (material.task, material.records, len(material.dropped)) == ("What is 1 + 2?", (), 4)
    assert list(material.keys.values()) == ["page-1", "page-2", "page-3"]


async def test_a_summary_has_sixteen_thousand_characters_at_most() -> None:
    budgets: list[int] = []

    def condensed(material: CompactionMaterial) -> str:
        budgets.append(material.budget)
        return "Pages were read."

    bench = kernel_bench(*reading(30, say("Read.")), tools={"page": lambda at: f"page {at} " * 1_000})
    profile = ContextProfileOverrides(window_tokens=500_000, tool_result_chars=10_000)
    settings = CompactionSettings("custom", function=condensed)
    await bench.run(react_kernel, max_iterations=50, context_profile=profile, compaction=settings)
    assert set(budgets) == {16_000}


async def test_it_may_be_async_and_sees_its_earlier_records() -> None:
    seen: list[tuple[str, ...]] = []

    async def mine(material: CompactionMaterial) -> str:
        seen.append(material.records)
        return f"text {len(seen)}"

    await run(reading(6, say("Read.")), CompactionSettings("custom", function=mine))
    assert seen[:2] == [(), ("- text 1",)]


def broken(material: CompactionMaterial) -> str:
    raise ValueError("it blew up")


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (broken, "ValueError: it blew up"),
        (lambda material: None, "The function gave NoneType, expected a text."),
        (lambda material: " \n", "The function gave a blank text."),
        (None, "There is no function."),
    ],
)
async def test_templates_stand_in_for_a_function_that_fails(
    function: Callable[[CompactionMaterial], str] | None, problem: str
) -> None:
    bench, state = await run(reading(3, answer("Read.")), CompactionSettings("custom", function=function))
    (event,) = told(bench)
    assert (event.method, event.problem) == ("template", problem)
    assert state.output == "Read."


# --- what is not done -----------------------------------------------------------------------------------


async def test_a_giant_last_turn_is_left_alone_until_it_is_not_the_last() -> None:
    several = calls(*(call("page", at=at) for at in range(6)))
    bench, _ = await run([several, call("page", at=7), say("Read.")], AUTO)
    (event,) = told(bench)
    assert (event.iteration, event.turns) == (2, 1)


@pytest.mark.parametrize(("summary", "turns"), [("Two were read.", [2]), ("word " * 1_000, [])])
async def test_a_summary_that_saves_less_than_a_fifth_does_not_take_the_place_of_the_turns(
    summary: str, turns: list[int]
) -> None:
    sizes = [call("page", size=size) for size in (300, 300, 1_300)]
    bench = kernel_bench(*sizes, say("Read."), tools={"page": lambda size: "word " * (size // 5)})
    profile = evolve(PROFILE, tool_result_chars=4_000)
    settings = CompactionSettings("custom", function=lambda material: summary)
    state = await bench.run(react_kernel, context_profile=profile, compaction=settings)
    assert [event.turns for event in told(bench)] == turns
    assert len(notes_in(state.messages)) == len(turns)


# --- which method ---------------------------------------------------------------------------------------


def chosen(
    method: CompactionMethod,
    size: int,
    *,
    tier: ContextTier = "mid",
    tokens: int | None = None,
    shortened_to: int = 0,
    history: int | None = None,
) -> CompactionMethod | None:
    """Return the choice for a transcript of four bytes a token in a window of 2000 tokens."""
    profile = ContextProfileOverrides(tier=tier, window_tokens=2_000)
    context = kernel_bench().context(context_profile=profile, compaction=CompactionSettings(method))
    account = Transcript(shortened_to=shortened_to, taken_out=(history or size) - size)
    filling = Filling(size, size // 4 if tokens is None else tokens, size // 4, 2_000)
    return method_for(evolve(new_state(), transcript=account), context, filling)


@pytest.mark.parametrize("tier", ["local", "mid", "large", "frontier"])
def test_auto_leaves_a_small_transcript_alone(tier: ContextTier) -> None:
    assert chosen("auto", 3_996, tier=tier) is None
    assert chosen("auto", 4_000, tier=tier) == "template"


@pytest.mark.parametrize(
    ("tier", "expected"),
    [("local", "template"), ("mid", "template"), ("large", "model"), ("frontier", "model")],
)
def test_auto_asks_a_model_for_long_runs_of_large_models_only(
    tier: ContextTier, expected: CompactionMethod
) -> None:
    assert chosen("auto", 6_000, tier=tier) == expected
    assert chosen("auto", 4_000, tier=tier, history=6_000) == expected
    assert chosen("auto", 4_000, tier=tier, history=5_999) == "template"


def test_what_the_provider_counted_goes_before_the_bytes() -> None:
    assert chosen("auto", 2_000, tokens=1_000) == "template"
    assert chosen("auto", 1_996, tokens=1_800) is None, "little of it is the transcript"


@pytest.mark.parametrize("method", ["template", "model", "custom"])
def test_a_named_method_begins_at_a_quarter_of_the_window(method: CompactionMethod) -> None:
    assert chosen(method, 1_996) is None
    assert chosen(method, 2_000) == method


@pytest.mark.parametrize("method", ["auto", "template", "model", "custom"])
def test_not_again_before_the_transcript_has_grown_by_half(method: CompactionMethod) -> None:
    assert chosen(method, 4_796, shortened_to=3_200) is None
    assert chosen(method, 4_800, shortened_to=3_200) is not None


@pytest.mark.parametrize("method", ["auto", "template", "model", "custom"])
def test_sooner_when_results_would_have_to_be_dropped_soon(method: CompactionMethod) -> None:
    assert chosen(method, 6_000, shortened_to=5_400) is not None
    assert chosen(method, 6_000, shortened_to=5_600) is None


def test_drop_never_summarizes() -> None:
    assert chosen("drop", 1_000_000) is None
