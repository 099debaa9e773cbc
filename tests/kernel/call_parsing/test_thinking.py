"""Thinking that a model writes before its answer."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_agents.kernel.call_parsing.parser import ThinkingFilter, split_thinking

WRITTEN = [
    ("<think>Hm.</think>Yes.", "Yes.", "Hm."),
    ("\n <think>\nHm.\n</think>\n\nYes.", "Yes.", "Hm."),
    ("<thinking>Hm.</thinking> Yes.", "Yes.", "Hm."),
    ("<think>Hm.</thinking> Yes.", "Yes.", "Hm."),
    ("<thought>Hm.</thought>Yes.", "Yes.", "Hm."),
    ("<reasoning>Hm.</reasoning>Yes.", "Yes.", "Hm."),
    ("<seed:think>Hm.</seed:think>Yes.", "Yes.", "Hm."),
    ("[THINK]Hm.[/THINK]Yes.", "Yes.", "Hm."),
    ("◁think▷Hm.◁/think▷Yes.", "Yes.", "Hm."),
    ("<|begin_of_thought|>Hm.<|end_of_thought|>Yes.", "Yes.", "Hm."),
    ("<think></think>Yes.", "Yes.", ""),
    ("<think>Hm.</think><think>So.</think>Yes.", "Yes.", "Hm.So."),
    ("<think>never closed", "", "never closed"),
    ("<think>a < b </thin", "", "a < b </thin"),
    ("<thinker>Hm.</thinker>", "<thinker>Hm.</thinker>", ""),
    ("<think", "<think", ""),
    ("[1, 2]", "[1, 2]", ""),
    ("Yes. <think>Hm.</think>", "Yes. <think>Hm.</think>", ""),
    ("`<think>` begins it.", "`<think>` begins it.", ""),
    ("`</think>` ends it.", "`</think>` ends it.", ""),
    (" Yes. ", " Yes. ", ""),
    ("", "", ""),
]


@pytest.mark.parametrize(("text", "answer", "thinking"), WRITTEN)
def test_thinking_is_kept_apart_from_the_answer(text: str, answer: str, thinking: str) -> None:
    assert split_thinking(text) == (answer, thinking)


@pytest.mark.parametrize(("text", "answer", "thinking"), WRITTEN)
def test_every_way_to_cut_a_stream_gives_the_same(text: str, answer: str, thinking: str) -> None:
    for cut in range(len(text) + 1):
        assert streamed(text[:cut], text[cut:]) == (answer, thinking)
    assert streamed(*text) == (answer, thinking)


def test_thinking_whose_opening_tag_stands_in_the_prompt_ends_at_its_closing_tag() -> None:
    assert split_thinking("So it is.\n</think>\n\nNoon.") == ("Noon.", "So it is.")
    assert split_thinking("The tag `</think>` ends it.") == ("The tag `</think>` ends it.", "")


def test_thinking_streams_as_it_comes() -> None:
    filtered = ThinkingFilter()
    assert filtered.feed("<think>It may") == ("", "It may")
    assert filtered.feed(" be</th") == ("", " be")
    assert filtered.feed("ink> Yes") == ("Yes", "")
    assert filtered.feed(" it is.") == (" it is.", "")


MARKS = [
    "<think>",
    "</think>",
    "<thinking>",
    "</thinking>",
    "[THINK]",
    "[/THINK]",
    "</th",
    "<",
    " ",
    "\n",
    "ab",
]


@given(st.lists(st.sampled_from(MARKS), max_size=8).map("".join), st.lists(st.integers(0, 60), max_size=5))
def test_no_cut_of_any_text_changes_what_is_read(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    chunks = [text[begin:end] for begin, end in pairwise(places)]
    assert streamed(*chunks) == streamed(text)


def streamed(*chunks: str) -> tuple[str, str]:
    filtered = ThinkingFilter()
    parts = [*map(filtered.feed, chunks), filtered.finish()]
    return "".join(text for text, _ in parts), "".join(thinking for _, thinking in parts).strip()
