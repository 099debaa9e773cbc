"""Halves of surrogate pairs are without_surrogates, and nothing else is touched."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from property_tests.strategies import texts
from reactive_agents.core.json import SurrogateFilter, json_without_surrogates, without_surrogates

fragments = st.sampled_from(["a", "é", "🙂", '"', "\\", "\\ud83d", "\ud83d", "\ude42", "\udfff", "\ufffd"])
broken = st.lists(fragments, max_size=8).map("".join)
json_values = st.recursive(
    broken, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(broken, inner, max_size=3)
)


def mended_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {without_surrogates(name): mended_value(part) for name, part in value.items()}
    return [mended_value(part) for part in value] if isinstance(value, list) else without_surrogates(value)


@given(broken)
def test_what_is_mended_can_be_written_and_nothing_else_is_touched(text: str) -> None:
    expected = "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in pairs_joined(text))
    assert without_surrogates(text) == expected
    without_surrogates(text).encode()


def pairs_joined(text: str) -> str:
    return text.replace("\ud83d\ude42", "🙂").replace("\ud83d\udfff", "\U0001f7ff")


@given(texts)
def test_a_text_without_halves_stays_as_it_is(text: str) -> None:
    assert without_surrogates(text) is text


@given(json_values, st.booleans())
def test_json_text_is_mended_whether_escaped_or_not(value: Any, escaped: bool) -> None:
    text = json_without_surrogates(json.dumps(value, ensure_ascii=escaped))
    assert json.loads(text) == mended_value(value)


@given(st.lists(broken))
def test_pieces_make_the_same_text_wherever_it_is_cut(pieces: list[str]) -> None:
    stream = SurrogateFilter()
    assert "".join([*map(stream.take, pieces), stream.end()]) == without_surrogates("".join(pieces))
