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
    ("<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Yes.", "Yes.", "Hm."),
    ("<think></think>Yes.", "Yes.", ""),
    ("<|im_start|>assistant\nYes.", "Yes.", ""),
    ("<|start_header_id|>assistant<|end_header_id|>\n\nYes.", "Yes.", ""),
    ("<|im_start|>assistant\n<think>Hm.</think>Yes.", "Yes.", "Hm."),
    ("<|channel|>final<|message|>Yes.", "Yes.", ""),
    (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
        "Yes.",
        "Hm.",
    ),
    ("<|channel|>analysis<|message|>never closed", "", "never closed"),
    ("Yes.<|im_end|>", "Yes.", ""),
    ("<|im_end|>", "", ""),
    ("<think>Hm.</think>Yes.<|end|>", "Yes.", "Hm."),
    ("<s>old</s>", "<s>old</s>", ""),
    ("a < b [1] <b>c</b", "a < b [1] <b>c</b", ""),
    ("<|from|>assistant\n<|recipient|>all\n<|content|>Yes.", "Yes.", ""),
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


@pytest.mark.parametrize(
    "end",
    [
        "<|im_end|>",
        "<|eot_id|>",
        "</s>",
        "<end_of_turn>\n",
        "<|end|>",
        "<|return|>",
        "<｜end▁of▁sentence｜>",
        "[|endofturn|]",
        "<|im_end|>\n<|im_start|>user\nThanks!<|im_end|>\n<|im_start|>assistant\nMy pleasure.",
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAnd then?",
        "<end_of_turn>\n<start_of_turn>user\nAnd then?",
        "</s>[INST] And then? [/INST]",
        "<|user|>",
        "<|endoftext|>Question: What is 2 + 2?",
    ],
)
def test_an_answer_ends_with_its_turn(end: str) -> None:
    assert split_thinking(f"It is so.{end}") == ("It is so.", "")
    assert split_thinking(f"<think>Hm.</think>It is so.{end}") == ("It is so.", "Hm.")


@pytest.mark.parametrize(
    "text",
    [
        "The token `<|im_end|>` ends a turn.",
        'The token "<|im_end|>" ends it.',
        "The token is `<|im_end|>`",
        "A turn:\n```\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n```",
        "Write <s>old</s>",
    ],
)
def test_marks_of_a_template_that_are_spoken_of_stay(text: str) -> None:
    assert split_thinking(text) == (text, "")


@pytest.mark.parametrize(
    ("text", "answer", "thinking"),
    [
        ("analysisThe user asks.assistantfinalYes.", "Yes.", "The user asks."),
        ("Thought: I know it.\nFinal Answer: Yes.", "Yes.", "I know it."),
        ("Here is my thought process:\nHm.\n\nHere is my response:\nYes.", "Yes.", "Hm."),
        ("analysis of it: fine", "analysis of it: fine", ""),
        ("Thought: hm", "Thought: hm", ""),
    ],
)
def test_thinking_is_marked_by_words_too(text: str, answer: str, thinking: str) -> None:
    assert split_thinking(text) == (answer, thinking)


def test_thinking_before_a_call_in_the_form_of_react_is_left_to_its_reader() -> None:
    text = "Thought: look\nAction: clock\nAction Input: {}\nObservation: 3\nFinal Answer: 3"
    assert split_thinking(text) == (text, "")


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
