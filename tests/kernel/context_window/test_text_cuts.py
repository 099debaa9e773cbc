"""Where texts are cut, and how counts are written."""

from __future__ import annotations

import pytest

from reactive_agents.kernel.context_window.previews import cut_before, outline


def test_a_text_is_cut_at_the_end_of_a_line_or_word() -> None:
    assert cut_before("short", 10) == 5
    assert cut_before("one two three four", 15) == len("one two three")
    assert cut_before("one\ntwo three four five six", 26) == len("one\ntwo three four five")
    assert cut_before("x" * 100, 50) == 50
    assert cut_before("a\n" + "b" * 3, 3) in (2, 3)


@pytest.mark.parametrize(("items", "said"), [(1, "[… 1 item]"), (2, "[… 2 items]")])
def test_one_is_counted_in_the_singular(items: int, said: str) -> None:
    assert outline({"a": ["deep" * 50] * items}, 30, 2) == f'{{"a": {said}}}'
