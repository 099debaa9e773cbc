"""Reading on fills the room that there is: never more, and nothing is left out that would fit."""

from __future__ import annotations

import pytest

from reactive_agents.core.json import Json
from reactive_agents.kernel.context_window.recall import items_of, search, slice_of, value_at

ITEMS: list[Json] = [f"item number {number}" for number in range(15)]
TEXT = "".join(f"{number:04}" for number in range(100))


@pytest.mark.parametrize("first", [0, 8, 14])
def test_as_many_items_are_given_as_fit(first: int) -> None:
    before = ""
    for room in range(80, 500):
        shown = items_of(ITEMS, (first, 15), room, "a").unwrap()
        assert len(shown) <= room
        assert len(shown) >= len(before)
        before = shown
    assert shown.count("item number") == 15 - first


def test_an_item_more_is_given_as_soon_as_it_fits_beside_the_longest_note() -> None:
    reserved = len(items_of(ITEMS, (13, 14), 500, "a").unwrap()) - len("[13] item number 13")
    for count in range(1, 5):
        room = reserved + sum(len(f"[{n}] item number {n}") + 1 for n in range(count))
        assert items_of(ITEMS, (0, 15), room, "a").unwrap().count("item number") == count
        assert items_of(ITEMS, (0, 15), room - 1, "a").unwrap().count("item number") <= max(1, count - 1)


@pytest.mark.parametrize("start", [0, 1, 399])
def test_a_slice_is_as_long_as_fits(start: int) -> None:
    for room in range(70, 400):
        shown = slice_of(TEXT, start, None, room, "a").unwrap()
        body, note = shown.rsplit("\n[…", 1)
        assert TEXT.startswith(body, start)
        assert len(shown) <= room
        reached_end = start + len(body) == len(TEXT)
        assert reached_end or len(shown) > room - 8, "the note is reserved at its longest"
        assert ("the end" in note) == reached_end


def test_a_whole_text_that_fits_has_no_note() -> None:
    assert slice_of(TEXT, 0, None, 400, "a").unwrap() == TEXT
    assert "\n[…" in slice_of(TEXT, 0, None, 399, "a").unwrap()
    assert slice_of(TEXT, 0, 4, 400, "a").unwrap().startswith("0000\n[…")


@pytest.mark.parametrize("length", [1, 255, 256, 257, 1_000])
def test_a_path_may_be_long(length: int) -> None:
    assert value_at({"k" * length: {"b": [5]}}, f"{'k' * length}.b[0]").unwrap() == 5


def test_twelve_keys_are_named_and_the_rest_counted() -> None:
    value: Json = {f"k{number:02}": number for number in range(20)}
    said = value_at(value, "other").failure()
    assert "'k11' and 8 more" in said
    assert "k12" not in said
    few: Json = {f"k{number:02}": number for number in range(12)}
    assert value_at(few, "other").failure().endswith("'k11'.")


def test_a_hit_is_cut_to_the_room() -> None:
    text = "before " * 100 + "needle" + " after" * 100
    for room in range(250, 400):
        shown = search(text, "needle", room, hits=1).unwrap()
        assert "needle" in shown
        assert len(shown) <= room
