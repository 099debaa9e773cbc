"""Persistent collections are what tuples, dictionaries and frozen sets with the same members are."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_agents.core.codec import decode, encode
from reactive_agents.core.persistent import PersistentList, PersistentMap, PersistentSet

texts = st.text("abcd", max_size=2)
parts = st.lists(texts, max_size=4)
changes = st.dictionaries(texts, st.integers(), max_size=3)
growth = st.tuples(st.integers(0, 99), parts)
"""Which of the collections so far grows, and what by."""


@given(parts, st.lists(growth, max_size=8))
def test_a_list_grows_as_tuples_do_and_those_that_it_grew_out_of_stay(
    first: list[str], steps: list[tuple[int, list[str]]]
) -> None:
    pairs = [(PersistentList(first), tuple(first))]
    for which, more in steps:
        grown, plain = pairs[which % len(pairs)]
        pairs.append((grown.extended(more), (*plain, *more)))
    for grown, plain in pairs:
        assert grown == plain
        assert plain == grown
        assert hash(grown) == hash(plain)
        assert (repr(grown), len(grown)) == (repr(plain), len(plain))
        assert (list(grown), list(reversed(grown))) == (list(plain), list(reversed(plain)))
        assert ("a", *plain) == operator.add(("a",), grown) == operator.add(PersistentList("a"), plain)
        assert copy.deepcopy(grown) == pickle.loads(pickle.dumps(grown)) == PersistentList(grown) == plain
        for other, other_plain in pairs:
            assert (grown == other) == (plain == other_plain)
            starts = plain[: len(other_plain)] == other_plain
            assert grown.starts_with(other) == grown.starts_with(other_plain) == starts


@given(parts, st.integers(-6, 6), st.integers(-6, 6), st.sampled_from([-2, -1, 1, 2]))
def test_items_and_slices_of_a_list_are_those_of_a_tuple(
    items: list[str], start: int, stop: int, step: int
) -> None:
    older, plain = PersistentList(items), tuple(items)
    _newer = older.extended("xy")
    assert older[start:stop:step] == plain[start:stop:step]
    assert older[start:] == plain[start:]
    for place in range(-6, 6):
        if -len(plain) <= place < len(plain):
            assert older[place] == plain[place]
        else:
            with pytest.raises(IndexError):
                older[place]


@given(changes, st.lists(st.tuples(st.integers(0, 99), changes), max_size=8))
def test_a_map_grows_as_dictionaries_do(
    first: dict[str, int], steps: list[tuple[int, dict[str, int]]]
) -> None:
    pairs = [(PersistentMap(first), first)]
    for which, more in steps:
        grown, plain = pairs[which % len(pairs)]
        pairs.append((grown | more, {**plain, **more}))
    for grown, plain in pairs:
        assert grown == plain
        assert plain == grown
        assert list(grown.items()) == list(plain.items())
        assert list(grown.values()) == list(plain.values())
        assert (len(grown), repr(grown)) == (len(plain), repr(plain))
        assert copy.deepcopy(grown) == pickle.loads(pickle.dumps(grown)) == PersistentMap(grown) == plain
        for key in "abcdefg":
            assert (grown.get(key), key in grown) == (plain.get(key), key in plain)


@given(parts, st.lists(growth, max_size=8))
def test_a_set_grows_as_frozen_sets_do(first: list[str], steps: list[tuple[int, list[str]]]) -> None:
    pairs = [(PersistentSet(first), frozenset(first))]
    for which, more in steps:
        grown, plain = pairs[which % len(pairs)]
        pairs.append((grown | more, plain | set(more)))
    for grown, plain in pairs:
        assert grown == plain
        assert plain == grown
        assert hash(grown) == hash(plain)
        assert len(grown) == len(plain)
        assert copy.deepcopy(grown) == pickle.loads(pickle.dumps(grown)) == PersistentSet(grown) == plain
        assert all((key in grown) == (key in plain) for key in ["", *"abcdefg"])
        assert grown.lacking("abcdefg") == [key for key in "abcdefg" if key not in plain]


@given(parts, changes)
def test_they_have_the_json_of_arrays_and_objects(items: list[str], entries: dict[str, int]) -> None:
    for value, kind, data in (
        (PersistentList(items), PersistentList[str], items),
        (PersistentMap(entries), PersistentMap[str, int], entries),
        (PersistentSet(items), PersistentSet[str], sorted(set(items))),
    ):
        assert encode(value, kind) == data
        assert type(encode(value, kind)) is type(data)
        decoded = decode(data, kind).unwrap()
        assert decoded == value
        assert type(decoded) is type(value)


@pytest.mark.parametrize("changed", [PersistentList(["a"]), PersistentMap({"a": 1}), PersistentSet(["a"])])
def test_nothing_changes_them(changed: Any) -> None:
    with pytest.raises(TypeError):
        changed["a"] = 2
    with pytest.raises(AttributeError):
        changed.other = 2


def test_an_empty_default_is_shared_by_nobody() -> None:
    items, entries = PersistentList[str](), PersistentMap[str, int]()
    assert items.extended("a") == ("a",)
    assert entries | {"a": 1} == {"a": 1}
    assert (items._items, entries._items) == ([], {})


def test_what_was_added_to_a_map_is_known_of_one_that_grew_out_of_it() -> None:
    one = PersistentMap({"a": 1, "b": 2})
    two = one | {"c": 3}
    three = two | {"d": 4, "e": 5}
    assert three.added_to(two) == {"d": 4, "e": 5}
    assert two.added_to(one) == {"c": 3}
    assert one.added_to(one) == {}
    for other in (PersistentMap({"a": 1}), {"a": 1}):
        assert two.added_to(other) == two
    assert (one | {"a": 9}).added_to(one) == {"a": 9, "b": 2}
