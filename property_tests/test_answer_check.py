"""Laws of telling answers from announcements and found figures from invented ones, and of the runs around."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import anyio
from hypothesis import assume, given
from hypothesis import strategies as st

from reactive_agents.kernel.answer_check import (
    Seen,
    ends_with_evidence,
    judge_text,
    unmade_call,
    unsupported_figures,
)
from reactive_agents.kernel.policies.answers import MOST_TEXTS
from reactive_agents.testing import call, forever, say
from tests.support.kernels import add, kernel_bench
from tests.support.profiles import examples

numbers = st.one_of(
    st.integers(0, 10**6).map(str),
    st.decimals(0, 10**4, places=2).map(str),
    st.builds("{}-{}".format, st.text("ABCXYZ", min_size=1, max_size=3), st.integers(1, 9999)),
)
pieces = st.one_of(
    numbers,
    st.text(max_size=12),
    st.sampled_from(
        [
            "I will",
            "Let me",
            "now",
            "not",
            "checking",
            "?",
            ":",
            "…",
            "\n",
            "- ",
            "1. ",
            "{",
            '"name": "x"',
            "<tool_call>",
            "get_price",
            "}",
        ]
    ),
)
texts = st.lists(pieces, max_size=25).map(" ".join)
seens = st.builds(Seen, texts, st.lists(texts, max_size=4).map(tuple))
TOOLS = {"get_price": "Get the price of an item.", "search": "Search the web.", "final-answer": ""}


@given(texts, seens)
@examples(400)
def test_every_text_is_judged_without_an_error(text: str, seen: Seen) -> None:
    figures = unsupported_figures(text, seen)
    assert len(set(figures)) == len(figures)
    assert all(figure in text for figure in figures)
    unmade_call(text)
    assert judge_text(text, TOOLS, seen) in ("answer", "announcement", "unclear")


@given(st.lists(numbers, min_size=1, max_size=5), texts, seens)
@examples(200)
def test_a_figure_that_stands_in_a_result_is_supported(figures: list[str], around: str, seen: Seen) -> None:
    result = f"{around} | {' | '.join(figures)} |"
    assert unsupported_figures(" and ".join(figures), Seen(seen.task, (*seen.results, result))) == ()


@given(texts, seens, texts)
@examples(300)
def test_more_results_never_make_a_figure_unsupported(text: str, seen: Seen, more: str) -> None:
    before = unsupported_figures(text, seen)
    after = unsupported_figures(text, Seen(seen.task, (*seen.results, more)))
    assert set(after) <= set(before)


@given(st.sampled_from(["?", ":", "…", "..."]), texts, seens)
@examples(200)
def test_what_ends_open_is_never_an_answer_at_once(end: str, text: str, seen: Seen) -> None:
    assert judge_text(text + end, TOOLS, seen) == "announcement"
    assert not ends_with_evidence(text + end, seen)


def _calls_during(text: str, seen: Seen) -> int:
    """Return how many functions are called while a text is judged."""
    count = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        unsupported_figures(text, seen)
        judge_text(text, TOOLS, seen)
        unmade_call(text)
    finally:
        sys.setprofile(before)
    return count


@given(st.lists(pieces, min_size=10, max_size=25), st.lists(pieces, min_size=1, max_size=25))
@examples(20)
def test_the_work_grows_no_faster_than_the_texts(answer: list[str], result: list[str]) -> None:
    few, many = 20, 200
    once = _calls_during(" ".join(answer * few), Seen("", (" ".join(result * few),)))
    often = _calls_during(" ".join(answer * many), Seen("", (" ".join(result * many),)))
    assert often <= 12 * once + 20_000


# --- runs -----------------------------------------------------------------------------------------------


@given(texts.filter(str.strip), st.booleans(), st.integers(2, 10))
@examples(60)
def test_a_model_that_goes_on_answering_by_text_has_a_bounded_number_of_turns(
    text: str, looks_first: bool, turns: int
) -> None:
    assume("add" not in text)
    first = (call("add", a=1, b=2),) if looks_first else ()
    bench = kernel_bench(*first, forever(say(text)), tools={"add": add})
    state = anyio.run(lambda: bench.run(max_iterations=turns))
    assert state.status == "done"
    assert len(bench.llm.requests) <= min(turns, len(first) + MOST_TEXTS + 1)
    if state.outcome == "completed":
        assert state.output == text
