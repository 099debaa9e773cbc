"""The laws of the codec, for every public type of core."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Result, Success

from property_tests.strategies import (
    accepts,
    check_each,
    fields_of,
    public_aliases,
    public_classes,
    union_members,
    values_of,
    values_of_field,
    wild_json,
    wild_texts,
)
from reactive_agents.core.codec import decode, encode, from_json, to_json
from reactive_agents.core.errors import DecodeError, FieldProblem
from reactive_agents.core.json import Json
from reactive_agents.core.model_settings import Unset
from reactive_agents.core.persistent import PersistentList, PersistentSet
from reactive_agents.core.values import OMITTED
from reactive_agents.kernel.state import KernelState
from tests.support.profiles import examples

CLASSES = (*public_classes(), KernelState)
ALIASES = public_aliases()
CLASSES_BY_NAME = {kind.__name__: kind for kind in CLASSES}
KINDS = CLASSES_BY_NAME | ALIASES
UNIONS = {name: kind for name, kind in ALIASES.items() if all(map(attrs.has, union_members(kind) or (str,)))}


def problems(outcome: Result[Any, DecodeError]) -> tuple[FieldProblem, ...]:
    match outcome:
        case Failure(error):
            assert isinstance(error, DecodeError)
            assert error.problems
            assert all(problem.path.startswith("$") and problem.problem for problem in error.problems)
            error.message.encode()
            return error.problems
        case Success(value):
            raise AssertionError(f"decoded {value!r}")
    raise AssertionError(outcome)


# --- what is covered ------------------------------------------------------------------------------------


def test_the_walk_finds_the_vocabulary() -> None:
    assert len(set(CLASSES)) == len(CLASSES) > 90
    assert {"AgentEvent", "Message", "ModelChunk", "RuntimeErrors", "PhaseCause", "Stamp"} <= ALIASES.keys()
    assert {"AgentEvent", "Message", "LLMErrors", "ConfigErrors", "PhaseCause"} <= UNIONS.keys()


def test_every_class_is_frozen_and_comparable_and_has_a_strategy_for_each_field(
    subtests: pytest.Subtests,
) -> None:
    def law(kind: type) -> None:
        assert "__setattr__" in vars(kind)
        assert kind.__eq__ is not object.__eq__
        assert "tag" not in [field.name for field in fields_of(kind)], "the tag of a union would hide it"
        for field in fields_of(kind):
            values_of_field(field).validate()

    check_each(subtests, CLASSES_BY_NAME, law)


def test_what_no_strategy_is_known_for_is_refused() -> None:
    with pytest.raises(TypeError, match="complex"):
        values_of(complex)


# --- there and back -------------------------------------------------------------------------------------


def test_what_is_written_is_json_and_is_read_back_equal_and_written_the_same_again(
    subtests: pytest.Subtests,
) -> None:
    def law(kind: Any) -> None:
        @examples(3)
        @given(values_of(kind))
        def check(value: Any) -> None:
            data, text = encode(value, kind), to_json(value, kind)
            assert json.loads(text) == data
            assert_json(data)
            again = from_json(text, kind).unwrap()
            assert again == value
            assert type(again) is type(value)
            assert to_json(again, kind) == text
            assert from_json(text.encode(), kind) == Success(value)
            assert decode(data, kind) == Success(value)

        check()

    check_each(subtests, KINDS, law)


def assert_json(data: object) -> None:
    match data:
        case dict():
            for key, item in data.items():
                assert type(key) is str
                assert_json(item)
        case list():
            for item in data:
                assert_json(item)
        case _:
            assert data is None or type(data) in (bool, int, float, str)


def test_a_value_of_a_union_carries_the_name_of_its_class(subtests: pytest.Subtests) -> None:
    def law(kind: Any) -> None:
        members = union_members(kind)
        assert len({member.__name__ for member in members}) == len(members), "two members of one name"

        def law_of_member(member: Any) -> None:
            @examples(3)
            @given(values_of(member))
            def check(value: Any) -> None:
                written = encode(value, kind)
                assert isinstance(written, dict)
                assert next(iter(written)) == "tag"
                assert written["tag"] == member.__name__
                assert {"tag": member.__name__, **encode(value)} == written  # type: ignore[dict-item]
                untagged = {name: item for name, item in written.items() if name != "tag"}
                assert [each.path for each in problems(decode(untagged, kind))] == ["$.tag"]
                assert [each.path for each in problems(decode({**written, "tag": "No"}, kind))] == ["$.tag"]

            check()

        for member in members:
            law_of_member(member)

    check_each(subtests, UNIONS, law)


# --- what is refused, and where -------------------------------------------------------------------------


class Spot(NamedTuple):
    """One field of one object inside of encoded data: where it is, and what it should be."""

    path: str
    holder: dict[str, Any]
    owner: type
    field: attrs.Attribute[Any]


def spots(data: Any, kind: Any, path: str = "$") -> Iterator[Spot]:
    """Every field of every attrs class in ``data``, which is an encoded ``kind``."""
    members = tuple(member for member in union_members(kind) if member not in (type(None), Unset))
    if data is None or kind is Json:
        return
    if len(members) > 1:
        kind = next(member for member in members if member.__name__ == data["tag"])
    elif members:
        (kind,) = members
    if attrs.has(kind):
        for field in fields_of(kind):
            here = f"{path}.{field.name}"
            if field.name in data or field.metadata == OMITTED:  # else a setting about which nothing is said
                yield Spot(here, data, kind, field)
            if field.name in data:
                yield from spots(data[field.name], field.type, here)
    elif get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        for index, item in enumerate(data):
            yield from spots(item, get_args(kind)[0], f"{path}[{index}]")


PROBES = (None, True, 7, 1.5, "no", ["no"], {"no": 1})
ARRAYS = (tuple, frozenset, PersistentList, PersistentSet)


def fits(data: Any, kind: Any) -> bool:
    """Whether JSON data is of a JSON type that an encoded ``kind`` may be of."""
    if kind is Json:
        return True
    if members := union_members(kind):
        return any(fits(data, member) for member in members)
    if supertype := getattr(kind, "__supertype__", None):
        return fits(data, supertype)
    if attrs.has(kind) or get_origin(kind) not in (None, *ARRAYS, Literal):
        return isinstance(data, dict)
    if get_origin(kind) is Literal:
        return data in get_args(kind)
    if get_origin(kind) in ARRAYS:
        return isinstance(data, list) and fits("no", get_args(kind)[0])
    if kind is float:
        return type(data) in (int, float)
    return type(data) is (str if kind in (str, Path) else kind) and kind is not datetime


def test_what_is_unknown_missing_or_of_a_wrong_type_is_named_with_its_path(
    subtests: pytest.Subtests,
) -> None:
    def law(kind: type) -> None:
        @examples(3)
        @given(values_of(kind), st.data())
        def check(value: Any, choice: st.DataObject) -> None:
            check_unknown_field(value, kind, choice)
            check_missing_field(value, kind, choice)
            check_wrong_type(value, kind, choice)

        check()
        if all(field.default is not attrs.NOTHING for field in fields_of(kind)):
            assert decode({}, kind) == Success(kind())

    check_each(subtests, CLASSES_BY_NAME, law)


def encoded(value: Any, kind: Any) -> tuple[dict[str, Any], list[Spot]]:
    """A copy of the encoded value that may be changed, and its fields."""
    data = copy.deepcopy(encode(value))
    assert isinstance(data, dict)
    return data, list(spots(data, kind))


def check_unknown_field(value: Any, kind: type, choice: st.DataObject) -> None:
    data, fields = encoded(value, kind)
    path, holder = choice.draw(
        st.sampled_from([("$", data), *((spot.path.rpartition(".")[0], spot.holder) for spot in fields)])
    )
    holder["surprise"] = 1
    (problem,) = problems(decode(data, kind))
    assert problem.path == f"{path}.surprise"
    assert "unknown field" in problem.problem


def check_missing_field(value: Any, kind: type, choice: st.DataObject) -> None:
    data, fields = encoded(value, kind)
    if required := [spot for spot in fields if spot.field.default is attrs.NOTHING]:
        spot = choice.draw(st.sampled_from(required))
        del spot.holder[spot.field.name]
        assert problems(decode(data, kind)) == (FieldProblem(spot.path, "required field missing"),)


def check_wrong_type(value: Any, kind: type, choice: st.DataObject) -> None:
    data, fields = encoded(value, kind)
    wrong = [(spot, probe) for spot in fields for probe in PROBES if not fits(probe, spot.field.type)]
    if wrong:
        spot, probe = choice.draw(st.sampled_from(wrong))
        spot.holder[spot.field.name] = probe
        (first, *_) = problems(decode(data, kind))
        assert first.path.startswith(spot.path)


def test_a_value_out_of_its_range_is_named_with_its_path(subtests: pytest.Subtests) -> None:
    for kind in CLASSES:
        for field in fields_of(kind):
            if field.validator is not None and out_of_range(field):
                with subtests.test(f"{kind.__name__}.{field.name}"):
                    check_out_of_range(kind, field)


def check_out_of_range(kind: type, field: attrs.Attribute[Any]) -> None:
    @examples(3)
    @given(values_of(kind), st.sampled_from(out_of_range(field)))
    def check(value: Any, wrong: Any) -> None:
        data = encode(value)
        assert isinstance(data, dict)
        (problem,) = problems(decode({**data, field.name: wrong}, kind))
        assert problem.path == f"$.{field.name}"
        told = rf"(?:Length of )?'{field.name}' must be|{field.name}: got .*, expected"
        assert re.search(told, problem.problem)

    check()


def out_of_range(field: attrs.Attribute[Any]) -> list[Any]:
    """Values of the field's kind that its validator refuses."""
    kind: Any = field.type
    if str in (union_members(kind) or (kind,)):
        return [""]
    if kind is datetime:
        return ["2026-01-01T00:00:00"]
    if get_origin(kind) is tuple:
        return [["", "x"], ["x"]] if get_args(kind)[0] is str else [[-1], [0.5, 10**6]]
    if Unset in union_members(kind) and not {int, float} & set(union_members(kind)):
        return []
    if get_origin(kind) is Mapping:
        return []
    return [number for number in (-1, 0, 3, 10**6) if not accepts(field, number)]


# --- no input raises ------------------------------------------------------------------------------------


def test_any_json_decodes_or_says_why_not(subtests: pytest.Subtests) -> None:
    def law(kind: Any) -> None:
        @examples(3)
        @given(wild_json)
        def check(data: Any) -> None:
            check_total(data, kind)

        check()

    check_each(subtests, KINDS, law)


def test_any_json_in_the_place_of_any_field_decodes_or_says_why_not(subtests: pytest.Subtests) -> None:
    def law(kind: type) -> None:
        @examples(3)
        @given(values_of(kind), wild_json, st.data())
        def check(value: Any, wild: Any, choice: st.DataObject) -> None:
            data, fields = encoded(value, kind)
            spot = choice.draw(st.sampled_from(fields))
            spot.holder[spot.field.name] = wild
            check_total(data, kind)

        check()

    check_each(subtests, {name: kind for name, kind in CLASSES_BY_NAME.items() if fields_of(kind)}, law)


def check_total(data: Any, kind: Any) -> None:
    outcome = decode(data, kind)
    match outcome:
        case Success(value):
            text = to_json(value, kind)
            text.encode()
            assert to_json(from_json(text, kind).unwrap(), kind) == text
        case Failure(_):
            problems(outcome)


@examples(25)
@given(st.text(max_size=40) | wild_json.map(json.dumps), st.sampled_from(list(KINDS.values())))
def test_any_text_decodes_or_says_why_not(text: str, kind: Any) -> None:
    outcome: Result[Any, DecodeError] = from_json(text, kind)
    if isinstance(outcome, Failure):
        problems(outcome)


@examples(25)
@given(st.binary(max_size=40), st.sampled_from(list(KINDS.values())))
def test_any_bytes_decode_or_say_why_not(text: bytes, kind: Any) -> None:
    outcome: Result[Any, DecodeError] = from_json(text, kind)
    if isinstance(outcome, Failure):
        problems(outcome)


@examples(20)
@given(wild_texts)
def test_half_of_a_surrogate_pair_survives_as_an_escape(text: str) -> None:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    written = to_json(whole, str)
    written.encode()
    assert from_json(written, str) == Success(whole)
