"""Names of tools as models write them."""

from __future__ import annotations

import pytest

from reactive_agents.kernel.call_parsing.tool_names import find_tool, index_names, squash, words


@pytest.mark.parametrize(
    ("written", "known", "found"),
    [
        ("clock", ["clock"], "clock"),
        ("web_search", ["web-search"], "web-search"),
        ("WEB-SEARCH", ["web_search"], "web_search"),
        ("webSearch", ["web-search"], "web-search"),
        ("functions.clock", ["clock"], "clock"),
        ("functions.clock:12", ["clock"], "clock"),
        ("functions/clock", ["clock"], "clock"),
        ("default_api:clock", ["clock"], "clock"),
        ("malfunctions.clock", ["clock"], None),
        ("a_b", ["a-b", "a_b"], "a_b"),
        ("A_B", ["a-b", "a_b"], None),
        ("A_B", ["a-b", "ab"], "a-b"),
        ("clocks", ["clock"], None),
        ("", ["clock"], None),
        ("-", ["_"], "_"),
        ("x" * 500, ["clock"], None),
    ],
)
def test_resolving(written: str, known: list[str], found: str | None) -> None:
    assert index_names(known).resolve(written) == found


@pytest.mark.parametrize(
    ("written", "known", "found"),
    [
        ("search", ["web-search", "clock"], "web-search"),
        ("search", ["web-search", "file-search"], None),
        ("search", ["web-search", "image-search"], None),
        ("search", ["search", "web-search"], "search"),
        ("google_search", ["web-search"], "web-search"),
        ("calculate", ["calculator"], "calculator"),
        ("calculater", ["calculator"], "calculator"),
        ("weather_tool", ["weather"], "weather"),
        ("orders.get_order", ["get_order", "delete"], "get_order"),
        ("files.delete", ["get_order", "delete"], None),
        ("billing.get_order", ["get_order", "billing-get_order"], "billing-get_order"),
        ("billing.get_order", ["get_order", "billing-get_invoice"], None),
        ("order.get_item", ["get_item", "orders-list"], "get_item"),
        ("get_user", ["set_user"], None),
        ("enable_notifications", ["disable_notifications"], None),
        ("run_step_1", ["run_step_2"], None),
        ("calculator1", ["calculator2"], None),
        ("search_xilename", ["search_filename"], None),
        ("vebsearching", ["web-searching"], None),
        ("websearchng", ["web-searching"], "web-searching"),
        ("big_search_file", ["bog_search_file"], None),
        ("xalculator", ["calculator"], None),
        ("calculator1", ["calculater1"], "calculater1"),
        ("delete_files", ["delete_all_files"], None),
        ("weather_forcast", ["weather_forecast"], "weather_forecast"),
        ("weather_forcast", ["weather_forecast", "weather_forecasts"], None),
        ("", ["clock"], None),
        ("x" * 10_000, ["x" * 64], None),
    ],
)
def test_finding_a_tool_that_is_not_there_by_that_name(
    written: str, known: list[str], found: str | None
) -> None:
    assert find_tool(written, known) == found


def test_words_are_split_and_squashed() -> None:
    assert words("startLine2-of_file") == ("start", "line2", "of", "file")
    assert squash("Start-Line") == squash("start_line") == squash("startLine")
