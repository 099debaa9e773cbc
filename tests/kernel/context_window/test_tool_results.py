"""The full text is kept; what the prompt shows of it fits the budget and says how to read the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reactive_agents.core.config import ContextProfile, ResultCompressionConfig
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import Json
from reactive_agents.core.tools import ToolResult
from reactive_agents.kernel.context_window.previews import preview
from reactive_agents.kernel.context_window.tool_results import (
    ResultView,
    result_budget,
    result_key,
    result_text,
    shown_of,
    view_of,
)

PROFILE = ContextProfile(tool_result_chars=300)
LINES = "\n".join(f"line {number} says something" for number in range(200))
MATCHES: dict[str, Any] = {
    "matches": [{"path": f"docs/{n}.md", "line": n, "text": f"text number {n}"} for n in range(60)],
    "total": 60,
}
FOUND = json.dumps(MATCHES)


def view(result: Json = None, *, tool: str = "look", error: str = "", **compression: Any) -> ResultView:
    outcome = ToolResult(CallId("c1"), tool, result, error)
    return view_of(outcome, {"a-1": ""}, PROFILE, ResultCompressionConfig(**compression))


# --- what is kept ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "text"),
    [("as it is", "as it is"), ({"ü": [1, None]}, '{"ü": [1, null]}'), (None, "null"), ("", "")],
)
def test_a_string_is_shown_as_it_is_and_anything_else_as_json(result: Json, text: str) -> None:
    assert result_text(result) == text
    assert view(result) == ResultView(text, "look-2", text, in_part=False)


def test_keys_count_the_results_of_a_run() -> None:
    assert result_key("add", {}) == "add-1"
    assert result_key("add", {"add-1": "", "web-search-2": ""}) == "add-3"


def test_a_result_that_is_shown_in_part_is_kept_in_full() -> None:
    kept = view(MATCHES)
    assert (kept.key, kept.full, kept.in_part) == ("look-2", FOUND, True)
    assert len(kept.shown) <= 300


def test_an_error_is_kept_nowhere_and_its_view_promises_nothing() -> None:
    kept = view(error=LINES)
    assert (kept.key, kept.full, kept.in_part) == (None, None, False)
    assert f"of {len(LINES)} characters left out …" in kept.shown
    assert "recall" not in kept.shown


def test_what_recall_gave_is_not_kept_again() -> None:
    assert view(LINES[:300], tool="recall") == ResultView(LINES[:300])


@pytest.mark.parametrize(
    ("profile", "budget", "characters"),
    [
        (ContextProfile(), None, 8_000),
        (ContextProfile(), 500, 500),
        (ContextProfile(window_tokens=2_048), None, 2_048),
        (ContextProfile(tool_result_chars=200, window_tokens=2_048), None, 200),
    ],
)
def test_the_budget_is_the_configurations_or_the_profiles(
    profile: ContextProfile, budget: int | None, characters: int
) -> None:
    assert result_budget(profile, ResultCompressionConfig(budget)) == characters


# --- texts ----------------------------------------------------------------------------------------------


def test_a_text_within_the_budget_is_shown_whole() -> None:
    assert preview("x" * 200, "add-1", 200) == "x" * 200


def test_of_a_longer_one_whole_lines_of_head_and_tail_are_shown_and_how_to_read_the_rest() -> None:
    shown = preview(LINES, "web-1", 400, head_share=0.5)
    head, _, rest = shown.partition("[… ")
    note, _, tail = rest.partition(" …]\n")
    assert LINES.startswith(head)
    assert head.endswith("something\n")
    assert LINES.endswith("\n" + tail)
    left_out = len(LINES) - len(head) - len(tail)
    assert note == (
        f'{left_out} of {len(LINES)} characters left out; more: recall(key="web-1", start={len(head)})'
    )


def test_the_share_of_the_head_may_be_all_or_nothing() -> None:
    assert preview(LINES, "a-1", 300, head_share=1.0).endswith(" …]\n")
    assert preview(LINES, "a-1", 300, head_share=0.0).startswith("\n[… ")


# --- JSON -----------------------------------------------------------------------------------------------


def test_of_an_object_the_keys_are_shown_and_of_lists_the_first_items_with_their_count() -> None:
    assert preview(FOUND, "file-search-1", 400) == (
        "{\n"
        ' "matches": [\n'
        '  {"path": "docs/0.md", "line": 0, "text": "text number 0"},\n'
        '  {"path": "docs/1.md", "line": 1, "text": "text number 1"},\n'
        '  {"path": "docs/2.md", "line": 2, "text": "text number 2"},\n'
        "  … 57 more of 60 items\n"
        " ],\n"
        ' "total": 60\n'
        "}\n"
        f"[… shortened view of {len(FOUND)} characters; more: "
        'recall(key="file-search-1", path, items, search or start) …]'
    )


def test_where_there_is_little_room_there_is_at_least_the_shape() -> None:
    assert preview(FOUND, "a-1", 200).startswith('{"matches": [… 60 items], "total": 60}\n[… ')


@pytest.mark.parametrize(("length", "lines"), [(100, 1), (101, 6)])
def test_a_line_holds_a_hundred_characters_where_it_holds_several_things(length: int, lines: int) -> None:
    shape = '"matches": [… 60 items], "a": "", "b": "", "c": ""'
    told = {"a": "x" * 16, "b": "x" * 16, "c": "x" * (length - len(shape) - 32)}
    shown = preview(json.dumps({"matches": MATCHES["matches"], **told}), "a-1", 260)
    assert len(shown.partition("\n[… ")[0].splitlines()) == lines


def test_a_long_text_within_an_object_is_cut_and_says_by_how_much() -> None:
    shown = preview(json.dumps({"path": "a.md", "text": LINES}), "file-read-1", 400)
    assert '"path": "a.md"' in shown
    assert '"text": "line 0 says something\\nline 1 says something\\n' in shown
    assert " …" in shown
    assert "more characters" in shown


def test_a_list_of_numbers_fills_its_lines() -> None:
    shown = preview(json.dumps(list(range(1_000))), "n-1", 500)
    assert "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10," in shown
    assert "of 1000 items" in shown


def test_a_text_that_holds_json_is_outlined_too_and_one_that_only_looks_so_is_not() -> None:
    assert view(FOUND).shown == view(MATCHES).shown
    assert "left out" in view("[INFO] started\n" * 100).shown


def test_the_profile_limits_the_items_of_a_list() -> None:
    assert "… 57 more of 60 items" in preview(FOUND, "a-1", 3_000, list_items=3)


# --- transforms -----------------------------------------------------------------------------------------


def transformed(expression: str, text: str = FOUND, budget: int = 2_000) -> str:
    compression = ResultCompressionConfig(budget, transform={"look": expression})
    return shown_of(text, "look-1", "look", PROFILE, compression)


def test_a_transform_takes_the_part_to_show_and_the_full_result_stays() -> None:
    kept = view(MATCHES, transform={"look": "matches[:2].path"}, budget=2_000)
    assert kept.shown == (
        '["docs/0.md", "docs/1.md"]\n'
        f"[… matches[:2].path of a result of {len(FOUND)} characters; "
        'all of it: recall(key="look-2") …]'
    )
    assert (kept.full, kept.in_part) == (FOUND, True)


def test_other_tools_are_not_transformed() -> None:
    kept = view(MATCHES, transform={"other": "matches[:2].path"})
    assert kept == view(MATCHES)


def test_what_a_transform_takes_is_shortened_as_well() -> None:
    shown = transformed("matches[*].text", budget=300)
    assert len(shown) <= 300
    assert "of 60 items" in shown
    assert 'recall(key="look-1")' in shown


@pytest.mark.parametrize("expression", ["matches[*].nope || nope", "abs(matches)", "sum(matches[*].path)"])
def test_a_transform_that_fails_leaves_the_result_as_it_is_and_says_so(expression: str) -> None:
    small = json.dumps({"matches": [{"path": "a"}], "n": 1})
    note = f"\n[… shown as it is: the transform {expression} failed …]"
    assert transformed(expression, small) == small + note
    assert transformed(expression, FOUND, 300).endswith(note)
    assert len(transformed(expression, FOUND, 300)) <= 300
    assert not view(json.loads(small), transform={"look": expression}).in_part


def test_a_transform_of_a_text_fails_and_one_that_finds_nothing_too() -> None:
    assert "failed" in transformed("matches", LINES)
    assert "failed" in transformed("nope", FOUND)


def test_a_transform_that_does_not_make_it_shorter_is_not_used() -> None:
    assert transformed("[@, @]", '{"a": 1}') == '{"a": 1}'


def test_a_long_expression_is_told_in_part() -> None:
    expression = "matches[:1].{" + ", ".join(f"a{n}: path" for n in range(20)) + "}"
    assert expression[:40] + "… of a result of" in transformed(expression)
