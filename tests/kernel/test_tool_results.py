"""The full text is kept; what the prompt shows of it fits the budget and names what is missing."""

from __future__ import annotations

import pytest

from reactive_agents.core.config import ContextProfile, ResultCompressionConfig
from reactive_agents.core.json import Json
from reactive_agents.kernel.tool_results import preview, result_key, result_text

PROFILE = ContextProfile(tool_result_chars=200)
LONG = "".join(chr(ord("a") + index % 26) for index in range(1_000))


@pytest.mark.parametrize(
    ("result", "text"),
    [("as it is", "as it is"), ({"ü": [1, None]}, '{"ü": [1, null]}'), (None, "null"), ("", "")],
)
def test_a_string_is_shown_as_it_is_and_anything_else_as_json(result: Json, text: str) -> None:
    assert result_text(result) == text


def test_keys_count_the_results_of_a_run() -> None:
    assert result_key("add", {}) == "add-1"
    assert result_key("add", {"add-1": "", "web-search-2": ""}) == "add-3"


def test_a_text_within_the_budget_is_shown_whole() -> None:
    assert preview("x" * 200, "add-1", PROFILE, ResultCompressionConfig()) == "x" * 200


def test_of_a_longer_one_head_and_tail_are_shown_with_what_is_missing_and_where_it_is() -> None:
    shown = preview(LONG, "add-1", PROFILE, ResultCompressionConfig(head_share=0.75))
    assert shown.startswith(LONG[:150] + "\n")
    assert shown.endswith("\n" + LONG[-50:])
    assert "800 of 1000 characters left out; the full result is stored as add-1" in shown


def test_the_runs_own_budget_overrides_the_profiles() -> None:
    shown = preview(LONG, "add-1", PROFILE, ResultCompressionConfig(budget=900, head_share=1.0))
    assert shown.startswith(LONG[:900] + "\n")
    assert "100 of 1000 characters" in shown


def test_an_error_is_stored_nowhere_and_its_preview_promises_nothing() -> None:
    shown = preview(LONG, None, PROFILE, ResultCompressionConfig())
    assert "800 of 1000 characters left out …" in shown
    assert "stored" not in shown
